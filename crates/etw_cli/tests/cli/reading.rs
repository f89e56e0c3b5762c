//! Reading of traces that are damaged, truncated, or come through pipes.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use openetw::etl::{EtlFile, EtlWriter, Records, WriterOptions};
use openetw::{Clock, ClockType, FileTime, Ticks};

use super::generated::write_trace;
use super::{Etw, csv_rows, json_lines};

/// Returns the offset in the file of each event's record, in the order of the file.
fn offsets(bytes: &[u8]) -> Vec<usize> {
    const BUFFER_HEADER_BYTES: usize = 72;
    let file = EtlFile::open(bytes).unwrap();
    let mut offsets = Vec::new();
    for buffer in file.buffers().flatten().skip(1) {
        let (mut scratch, origin) = (Vec::new(), buffer.origin(file.clock(), 0));
        let data = buffer.data(&mut scratch);
        let mut records = Records::new(data.bytes, &origin, buffer.place());
        while let Some(Ok(_)) = records.next() {
            offsets.push(buffer.offset as usize + BUFFER_HEADER_BYTES + records.cursor().last);
        }
    }
    offsets
}

fn numbers(text: &str) -> Vec<u64> {
    json_lines(text).iter().filter_map(|event| event["EventData"]["Number"].as_u64()).collect()
}

#[test]
fn one_damaged_time_ends_nothing() {
    let etw = Etw::new();
    let trace = etw.path("a.etl");
    write_trace(&trace, 4000, 0);
    let mut bytes = std::fs::read(&trace).unwrap();
    // The fifth record of processor 0 is event 8.
    let damaged = offsets(&bytes)[4];
    bytes[damaged + 16..][..8].copy_from_slice(&i64::MAX.to_le_bytes());
    std::fs::write(&trace, bytes).unwrap();
    let output = etw.run(&["dump", &trace, "--to", "3.5", "--format", "json"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    // The event of number N is N + 1 ms after the start.
    let expected: Vec<u64> = (0..3499).filter(|number| *number != 8).collect();
    assert_eq!(numbers(&String::from_utf8(output.stdout).unwrap()), expected);
    let reported = format!(
        "offset {damaged:#x}: times out of order, outside of the requested range; records dropped: 1\n"
    );
    assert!(errors.ends_with(&reported) && errors.lines().count() == 1, "{errors}");
}

#[test]
fn losses_and_damage_are_reported_without_look_ahead_too() {
    let etw = Etw::new();
    let trace = etw.path("a.etl");
    write_trace(&trace, 4000, 7);
    let mut bytes = std::fs::read(&trace).unwrap();
    for offset in offsets(&bytes).into_iter().skip(10).step_by(20).take(12) {
        bytes[offset..offset + 4].fill(0xDD);
    }
    std::fs::write(&trace, bytes).unwrap();
    let warnings = |more: &[&str]| {
        let output = etw.run(&[&["dump", &trace, "--format", "json"], more].concat());
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let expected = warnings(&[]);
    assert!(expected.contains("12 damaged places in total"), "{expected}");
    assert!(expected.contains("the session lost 7 events"), "{expected}");
    assert_eq!(warnings(&["--no-look-ahead"]), expected);
    let none = warnings(&["--no-look-ahead", "--pid", "1"]);
    assert!(none.contains("no event meets the filters"), "{none}");
}

#[test]
fn a_truncated_trace_of_linux_is_not_of_windows() {
    let etw = Etw::new();
    let clock = Clock::new(ClockType::Qpc, Ticks(0), FileTime(133_000_000_000_000_000), 10_000_000);
    let check = |log_file_name: &str, expected: &str, system: serde_json::Value| {
        let trace = etw.path("a.etl");
        let mut options = WriterOptions::new(clock, 0x10000, 2);
        options.header.log_file_name = log_file_name.to_owned();
        let writer = EtlWriter::new(File::create(&trace).unwrap(), options).unwrap();
        writer.finish(clock.to_filetime(Ticks(1))).unwrap();
        let text = etw.ok(&["info", &trace]);
        let machine = text.lines().find(|line| line.starts_with("  machine")).unwrap();
        assert!(machine.contains(expected), "{machine}");
        let json = json_lines(&etw.ok(&["info", &trace, "--format", "json"]));
        assert_eq!(json[0]["machine"]["system"], system);
    };
    check("/var/log/a.etl", "  Linux, 2 processors", "Linux".into());
    check("C:\\logs\\a.etl", "  Windows 10.0 build 19045", serde_json::Value::Null);
}

#[test]
fn header_fields_are_columns() {
    let etw = Etw::new();
    let trace = etw.path("a.etl");
    write_trace(&trace, 3, 0);
    let fields =
        "System.TimeCreated,system.level,Number,System.Execution.ProcessID,System.Keywords,System.Provider";
    let text =
        etw.ok(&["dump", &trace, "--format", "csv", "--event", "0", "--fields", fields, "-p", "Contoso"]);
    let rows = csv_rows(&text);
    let start = "2022-06-18T04:26:40.00";
    assert_eq!(rows[0].join(","), fields);
    assert_eq!(rows[1].join(","), format!("{start}10000Z,Error,0,100,0x10,Contoso"));
    assert_eq!(rows[2].join(","), format!("{start}20000Z,Information,1,101,0x10,Contoso"));
    assert_eq!(rows.len(), 4);
    let command = ["dump", &trace, "--format", "csv", "-p", "Contoso", "--fields"];
    let with = |more: &[&str]| etw.ok(&[&command, more].concat());
    let tabs = with(&["System.Task,System.Level.Value,Name", "--separator", "tab", "--limit", "1"]);
    let name = format!("\"text \"\"0\"\" <{}>\"", "x".repeat(80));
    assert_eq!(tabs, format!("\"System.Task\"\t\"System.Level.Value\"\t\"Name\"\r\n0\t2\t{name}\r\n"));
    let raw = with(&["System.TimeCreated,System.TimeCreated.RawTime", "--raw-time", "--limit", "1"]);
    assert_eq!(csv_rows(&raw)[1], ["11000", "11000"]);
    // Without fields of the header, tracerpt's columns stay.
    let whole = with(&["Number", "--separator", ";"]);
    assert_eq!(whole.lines().next().unwrap().split(';').count(), 20);
    assert!(whole.lines().nth(1).unwrap().ends_with(";\"0\""), "{whole}");
}

#[test]
fn unknown_fields_are_refused_or_warned_of() {
    let etw = Etw::new();
    let trace = etw.path("a.etl");
    write_trace(&trace, 30, 0);
    let refused = |args: &[&str], expected: &str| {
        let (status, errors) = etw.fails(&[&["dump", &trace], args].concat());
        assert_eq!((status, errors.as_str()), (2, expected));
    };
    refused(
        &["--format", "csv", "--fields", "System.TimeCraeted"],
        "etw: the header has no field 'System.TimeCraeted'; did you mean 'System.TimeCreated'?\n",
    );
    refused(
        &["--fields", "System.Task"],
        "etw: 'System.Task' is a field of the header, which --fields shows with --format csv\n",
    );
    refused(&["--separator", "tab"], "etw: --separator needs --format csv\n");
    let warned = |args: &[&str], expected: &str| {
        for more in [&["--threads", "1"][..], &["--threads", "3"], &["--no-look-ahead"]] {
            let output = etw.run(&[&["dump", &trace, "--format", "json"], args, more].concat());
            assert!(output.status.success());
            assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
        }
    };
    warned(&["--fields", "number,Nmae"], "etw: warning: no event has a field 'Nmae'; did you mean 'Name'?\n");
    warned(
        &["--fields", "TimeCreated"],
        "etw: warning: no event has a field 'TimeCreated'; did you mean 'System.TimeCreated'?\n",
    );
    warned(&["--fields", "Elsewhere"], "etw: warning: no event has a field 'Elsewhere'\n");
    warned(&["--fields", "Name,Number"], "");
    // The same for fields in filters; a field that no event was asked for may exist.
    let text = "etw: warning: no event that meets the rest of the filter has the field 'Nmae'; \
                `etw provider search --field Nmae` searches all fields\n";
    warned(&["--where", "Number >= 0 and not Nmae == 'x'"], text);
    warned(&["--where", "Nmae or Number >= 0"], text);
    warned(&["--where", "level >= 0 or Nmae == 'x'"], "");
    warned(&["--where", "System.EventID >= 0 and System.Execution.ProcessorID < 1000"], "");
}

/// What `--fields` knows of the header is in the documentation of JSON, whose names it has, and in the list of its fields.
#[test]
fn fields_of_the_header_are_documented() {
    let docs = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let (json, list) = (docs("json.md"), docs("header.md"));
    for name in openetw::export::HeaderPath::names() {
        let key = name.rsplit('.').next().unwrap();
        assert!(json.contains(&format!("`{key}`")) || json.contains(&format!("\"{key}\"")), "json.md: {key}");
        assert!(list.contains(&format!("`{name}`")), "header.md: {name}");
    }
}

#[cfg(unix)]
#[test]
fn standard_input_and_pipes_are_read_by_every_command() {
    let etw = Etw::new();
    let trace = etw.path("a.etl");
    write_trace(&trace, 3000, 0);
    let packed = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&std::fs::read(&trace).unwrap()).unwrap();
        encoder.finish().unwrap()
    };
    let fifo = etw.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    /// Runs a command, and writes bytes to its standard input or to a FIFO.
    fn run(etw: &Etw, args: &[&str], bytes: &[u8], fifo: Option<&str>) -> Output {
        let stdin = if fifo.is_some() { Stdio::null() } else { Stdio::piped() };
        let mut command = etw.command(args);
        let mut child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pipe: Option<Box<dyn Write + Send>> = match (child.stdin.take(), fifo) {
            (Some(stdin), _) => Some(Box::new(stdin)),
            (None, Some(fifo)) => Some(Box::new(File::options().write(true).open(fifo).unwrap())),
            (None, None) => None,
        };
        let bytes = bytes.to_vec();
        // A command that refuses its input closes the pipe.
        let writer = std::thread::spawn(move || pipe.map(|mut pipe| pipe.write_all(&bytes).is_ok()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        output
    }
    let plain = std::fs::read(&trace).unwrap();
    let commands: [&[&str]; 10] = [
        &["dump", "FILE", "--format", "json"],
        // These read the trace twice.
        &["dump", "FILE", "--format", "csv", "--pid", "100"],
        &["dump", "FILE", "--no-look-ahead"],
        &["stats", "FILE", "--by", "process"],
        &["info", "FILE", "--format", "json"],
        &["report", "FILE"],
        &["relog", "FILE", "-o", "out.etl", "--limit", "5"],
        &["export", "FILE", "-o", "out.ndjson", "--force"],
        &["export", "FILE", "-o", "out.chrome.json", "--force"],
        &["tracefmt", "FILE", "-o", "out.txt"],
    ];
    for command in commands {
        let with = |file: &str| {
            command
                .iter()
                .map(|word| if *word == "FILE" { file.to_owned() } else { (*word).to_owned() })
                .collect::<Vec<_>>()
        };
        let text = |output: Output, name: &str| {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{command:?} from {name}: {errors}");
            let shown = String::from_utf8(output.stdout)
                .unwrap()
                .replace("Setting log file to: -", "Setting log file to: FILE");
            (shown.replace(name, "FILE"), errors.replace(name, "FILE"))
        };
        let run = |file: &str, bytes: &[u8], fifo: Option<&str>| {
            let _ = std::fs::remove_file(etw.dir.path().join("out.etl"));
            let args = with(file);
            run(&etw, &args.iter().map(String::as_str).collect::<Vec<_>>(), bytes, fifo)
        };
        let expected = text(etw.run(&with(&trace).iter().map(String::as_str).collect::<Vec<_>>()), &trace);
        assert_eq!(text(run("-", &plain, None), "standard input"), expected, "{command:?}");
        assert_eq!(text(run("-", &packed, None), "standard input"), expected, "{command:?}");
        assert_eq!(text(run(&fifo, &plain, Some(&fifo)), &fifo), expected, "{command:?}");
    }
    let refused = |bytes: &[u8], expected: &str| {
        let output = run(&etw, &["dump", "-"], bytes, None);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.starts_with(expected) && errors.lines().count() == 1, "{errors}");
    };
    refused(b"", "etw: 'standard input' is not a trace file");
    refused(&vec![7; 4 << 20], "etw: 'standard input' is not a trace file");
    // Without a directory for the copy.
    let mut command = etw.command(&["dump", "-"]);
    let child = command.env("TMPDIR", etw.path("none")).stdin(Stdio::piped()).stderr(Stdio::piped());
    let output = child.spawn().unwrap().wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("a trace from a pipe takes as much disk space as it has bytes"), "{errors}");
}

#[test]
fn no_output_replaces_a_trace() {
    let etw = Etw::new();
    let trace = etw.path("a.etl");
    write_trace(&trace, 400, 0);
    let bytes = std::fs::read(&trace).unwrap();
    // Whatever its name is, and through a link.
    let renamed = etw.path("a.out");
    std::fs::copy(&trace, &renamed).unwrap();
    let link = etw.path("link.txt");
    std::os::unix::fs::symlink(&trace, &link).unwrap();
    for output in [&trace, &renamed, &link] {
        for words in [
            &["dump", &trace, "-o", output][..],
            &["dump", &trace, "--format", "csv", "-o", output],
            &["report", &trace, "-o", output],
            &[
                "report",
                &trace,
                "--table",
                "processes",
                "--columns",
                "process",
                "--format",
                "csv",
                "-o",
                output,
            ],
            &["compare", &trace, &trace, "-o", output],
            &["export", &trace, "--format", "perfetto", "-o", output],
            &["export", &trace, "--format", "speedscope", "-o", output],
            &["export", &trace, "--format", "ndjson", "-o", output],
            &["export", &trace, "--format", "pcapng", "-o", output],
            &["export", &trace, "--format", "parquet", "--table", "processes", "-o", output],
            &["tracerpt", &trace, "-y", "-of", "CSV", "-o", output],
            &["tracerpt", &trace, "-y", "-summary", output],
            &["xperf", "-i", &trace, "-o", output, "-a", "process"],
        ] {
            let run = etw.run(words);
            let error = String::from_utf8_lossy(&run.stderr);
            assert!(!run.status.success(), "{words:?}");
            assert!(
                error.lines().count() == 1 && error.contains("name another output file"),
                "{words:?}: {error}"
            );
            for file in [&trace, &renamed] {
                assert!(std::fs::read(file).unwrap() == bytes, "{words:?}");
            }
        }
    }
}
