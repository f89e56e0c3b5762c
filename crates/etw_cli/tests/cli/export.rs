//! `etw export`.

use etw_testkit::traces::{self, Kind, Recipe};

use crate::{Etw, json_lines};

/// A trace that another test has no part in.
fn generated(etw: &Etw, kind: Kind) -> String {
    let (bytes, _) = traces::bytes(&Recipe { processors: 2, ..Recipe::new(kind, 500) }).unwrap();
    let path = etw.path("trace.etl");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Standard error of a run that succeeds.
pub(crate) fn says(etw: &Etw, args: &[&str]) -> String {
    let output = etw.run(args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{args:?}: {said}");
    said
}

#[test]
fn ndjson_is_what_dump_writes() {
    let etw = Etw::new();
    let trace = generated(&etw, Kind::Headers);
    let out = etw.path("events.jsonl");
    says(&etw, &["export", &trace, "-o", &out]);
    let written = std::fs::read_to_string(&out).unwrap();
    assert!(json_lines(&written).len() >= 500);
    assert_eq!(written, etw.ok(&["dump", &trace, "--format", "json"]));
    let other = etw.path("other");
    says(&etw, &["export", &trace, "--format", "ndjson", "-o", &other, "--limit", "7"]);
    assert_eq!(std::fs::read_to_string(&other).unwrap().lines().count(), 7);
}

#[test]
fn packets_of_a_real_capture() {
    let Some(directory) = etw_testkit::data::data_dir() else { return };
    let etw = Etw::new();
    let trace = directory.join("etl/microsoft-demikernel/PktMon.etl");
    let out = etw.path("packets.pcapng");
    let said = says(&etw, &["export", trace.to_str().unwrap(), "-o", &out]);
    assert!(
        said.contains("packets.pcapng: 114 packets, 114 events with packets, 353 events without packets\n"),
        "{said}"
    );
    // Each is a ping of 98 bytes: a block of 28 bytes, the packet, and its options.
    let bytes = std::fs::read(&out).unwrap();
    assert_eq!(bytes[..4], [0x0A, 0x0D, 0x0D, 0x0A]);
    let pings = bytes.windows(8).filter(|window| *window == [98, 0, 0, 0, 98, 0, 0, 0]).count();
    assert_eq!(pings, 114);
}

#[test]
fn bad_input_is_one_line() {
    let etw = Etw::new();
    let trace = generated(&etw, Kind::Headers);
    let fails = |args: &[&str], status: i32, expected: &str| {
        let (code, said) = etw.fails(args);
        assert_eq!(code, status, "{said}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{said}");
    };
    let formats = "unknown extension; use --format perfetto|";
    fails(&["export", &trace, "-o", "x.bin"], 2, formats);
    fails(&["export", &trace, "--to", "pcapng", "-o", "x"], 2, "use --format pcapng for the format");
    fails(&["export", &trace, "-o", "no/such/x.pcapng"], 1, "no/such/x.pcapng: cannot be written");
    fails(&["export", "absent.etl", "-o", "x.pcapng"], 1, "absent.etl");
    let said = says(&etw, &["export", &trace, "-o", &etw.path("x.pcapng")]);
    assert!(said.contains("x.pcapng: 0 packets") && said.contains("no event contains a packet"), "{said}");
}

/// The counts in what the command says: each event is in one.
fn counts(said: &str) -> (u64, Vec<(u64, String)>) {
    let line = said.lines().find(|line| line.contains(" events") && !line.starts_with("etw: ")).unwrap();
    let (_, counts) = line.split_once(": ").unwrap();
    let mut counts = counts.split(", ").map(|count| {
        let (number, what) = count.split_once(' ').unwrap();
        (number.parse().unwrap(), what.to_owned())
    });
    (counts.next().unwrap().0, counts.collect())
}

/// The number of what is counted by these words.
fn count(counts: &[(u64, String)], what: &str) -> u64 {
    counts.iter().find(|(_, known)| known == what).map_or(0, |(count, _)| *count)
}

/// Exports a trace of Windows that has samples with stacks, switches and events of all kinds.
fn export(etw: &Etw, name: &str, more: &[&str]) -> Option<(Vec<u8>, Vec<(u64, String)>)> {
    let directory = etw_testkit::data::data_dir()?;
    let trace = directory.join("etl/microsoft-perfview/net.4.5.2.x64.etl");
    let out = etw.path(name);
    let args = [&["export", trace.to_str().unwrap(), "-o", &out], more].concat();
    let (events, counts) = counts(&says(etw, &args));
    assert_eq!(counts.iter().map(|(count, _)| count).sum::<u64>(), events, "{counts:?}");
    assert_eq!(events, 179_474);
    Some((std::fs::read(out).unwrap(), counts))
}

#[test]
fn speedscope_has_every_sample() {
    let etw = Etw::new();
    let Some((bytes, counts)) = export(&etw, "x.speedscope.json", &[]) else { return };
    let profile: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let frames = profile["shared"]["frames"].as_array().unwrap().len() as u64;
    let mut samples = 0;
    for profile in profile["profiles"].as_array().unwrap() {
        let stacks = profile["samples"].as_array().unwrap();
        assert_eq!(stacks.len(), profile["weights"].as_array().unwrap().len());
        samples += stacks.len() as u64;
        let indices = stacks.iter().flat_map(|stack| stack.as_array().unwrap());
        assert!(indices.clone().all(|index| index.as_u64().unwrap() < frames));
        assert!(indices.count() >= stacks.len(), "each has a frame at least");
    }
    assert!(samples > 1000);
    assert_eq!(samples, count(&counts, "samples"));
}

#[test]
fn pprof_has_the_samples_of_speedscope() {
    let etw = Etw::new();
    let Some((bytes, counts)) = export(&etw, "x.pb.gz", &[]) else { return };
    assert_eq!(bytes[..3], [0x1F, 0x8B, 8], "gzip");
    let (_, other) = export(&etw, "x.speedscope.json", &[]).unwrap();
    assert_eq!(counts, other);
}

#[test]
fn chrome_has_every_event() {
    let etw = Etw::new();
    let Some((bytes, counts)) = export(&etw, "x.chrome.json", &[]) else { return };
    let trace: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |phases: &'static str| {
        events.iter().filter(move |event| phases.contains(event["ph"].as_str().unwrap()))
    };
    let (instants, ready) = (count(&counts, "shown as single events"), count(&counts, "threads made ready"));
    assert_eq!(of("i").count() as u64, instants + ready);
    let disk = of("X").filter(|event| event["cat"] == "Disk").count();
    let edges = counts.iter().find(|(_, what)| what.starts_with("of ")).map_or(0, |(count, _)| *count);
    assert_eq!((of("BEbe").count() + disk) as u64, edges);
    // Overlapping slices are separate: in each thread every start has its own end, or none.
    let mut depth = std::collections::HashMap::new();
    for event in of("BE") {
        let open: &mut i32 = depth.entry((event["pid"].to_string(), event["tid"].to_string())).or_default();
        *open += if event["ph"] == "B" { 1 } else { -1 };
        assert!((0..=1).contains(open), "{event}");
    }
    assert_eq!(trace["samples"].as_array().unwrap().len() as u64, count(&counts, "samples"));
    assert!(disk > 1000);
}

#[test]
fn switches_are_slices_of_processors() {
    let etw = Etw::new();
    let trace = generated(&etw, Kind::Switches);
    let export = |name: &str| {
        let out = etw.path(name);
        let (_, counts) = counts(&says(&etw, &["export", &trace, "-o", &out]));
        (std::fs::read(out).unwrap(), counts)
    };
    let (bytes, of_chrome) = export("x.chrome.json");
    let switches = count(&of_chrome, "context switches");
    assert_eq!(switches, 500);
    let chrome: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let events = chrome["traceEvents"].as_array().unwrap();
    // The idle thread is no slice.
    let running: Vec<_> = events.iter().filter(|event| event["cat"] == "Running").collect();
    assert!(running.len() > 100 && running.len() <= 500);
    assert!(running.iter().all(|event| event["ph"] == "X" && event["dur"].as_f64().unwrap() >= 0.0));
    for processor in ["Processor 0", "Processor 1"] {
        assert_eq!(events.iter().filter(|event| event["args"]["name"] == processor).count(), 1);
    }
    assert_eq!(count(&export("x.firefox.json").1, "that the format cannot represent"), switches);
    let (bytes, of_perfetto) = export("x.pftrace");
    assert_eq!((packets(&bytes)[&1], count(&of_perfetto, "context switches")), (2, switches));
}

#[test]
fn firefox_has_samples_and_markers() {
    let etw = Etw::new();
    let Some((bytes, counts)) = export(&etw, "x.firefox.json", &[]) else { return };
    let profile: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let threads = profile["threads"].as_array().unwrap();
    let sum =
        |table: &str| -> u64 { threads.iter().map(|thread| thread[table]["length"].as_u64().unwrap()).sum() };
    assert_eq!(sum("samples"), count(&counts, "samples"));
    let edges = counts.iter().find(|(_, what)| what.starts_with("of ")).map_or(0, |(count, _)| *count);
    assert_eq!(sum("markers"), count(&counts, "shown as single events") + edges);
}

#[test]
fn a_timeline_of_one_process() {
    let etw = Etw::new();
    let process = ["--pid", "6000000"];
    let Some((_, counts)) = export(&etw, "none.speedscope.json", &process) else { return };
    assert_eq!(count(&counts, "samples"), 0);
    let all = export(&etw, "all.speedscope.json", &[]).unwrap();
    let profile: serde_json::Value = serde_json::from_slice(&all.0).unwrap();
    // The name of a profile is `name (id) thread id`.
    let name = |profile: &serde_json::Value| profile["name"].as_str().unwrap().to_owned();
    let busiest = name(&profile["profiles"][0]);
    let (id, _) = busiest.split_once('(').unwrap().1.split_once(')').unwrap();
    let (one, _) = export(&etw, "one.speedscope.json", &["--pid", id]).unwrap();
    let one: serde_json::Value = serde_json::from_slice(&one).unwrap();
    let profiles = one["profiles"].as_array().unwrap();
    assert!(
        !profiles.is_empty() && profiles.iter().all(|profile| name(profile).contains(&format!("({id})")))
    );
    assert_eq!(one["profiles"][0]["samples"].as_array().unwrap().len(), {
        profile["profiles"][0]["samples"].as_array().unwrap().len()
    });
}

#[test]
fn perfetto_is_a_list_of_packets() {
    let etw = Etw::new();
    let Some((bytes, counts)) = export(&etw, "x.pftrace", &[]) else { return };
    let found = packets(&bytes);
    let edges = counts.iter().find(|(_, what)| what.starts_with("of ")).map_or(0, |(count, _)| *count);
    assert_eq!(found[&66], count(&counts, "samples"));
    assert!(found[&11] >= count(&counts, "shown as single events") + edges);
    assert!(found[&60] > 10 && found[&6] == 1);
}

/// How many packets of a trace have each field.
fn packets(bytes: &[u8]) -> std::collections::BTreeMap<u64, u64> {
    // Each packet is field 1 of the trace; the number of its data field is its type.
    let mut found = std::collections::BTreeMap::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (field, packet) = message_field(&mut rest);
        assert_eq!(field, 1);
        let mut packet = packet.unwrap();
        while !packet.is_empty() {
            let (field, _) = message_field(&mut packet);
            *found.entry(field).or_insert(0_u64) += 1;
        }
    }
    found
}

/// The number of the next field of a protobuf message, and its bytes, if it has a length.
fn message_field<'b>(rest: &mut &'b [u8]) -> (u64, Option<&'b [u8]>) {
    let varint = |rest: &mut &[u8]| {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = rest[0];
            *rest = &rest[1..];
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return value;
            }
        }
        value
    };
    let key = varint(rest);
    match key & 7 {
        0 => {
            varint(rest);
            (key >> 3, None)
        }
        2 => {
            let len = varint(rest) as usize;
            let (field, behind) = rest.split_at(len);
            *rest = behind;
            (key >> 3, Some(field))
        }
        other => panic!("wire type {other}"),
    }
}

#[test]
fn tables_have_every_event() {
    let Some(directory) = etw_testkit::data::data_dir() else { return };
    let etw = Etw::new();
    let trace = directory.join("etl/microsoft-perfview/net.4.5.2.x64.etl");
    let trace = trace.to_str().unwrap();
    for (name, begin, end) in [("x.parquet", &b"PAR1"[..], &b"PAR1"[..]), ("x.arrow", b"ARROW1", b"ARROW1")] {
        let out = etw.path(name);
        let (events, counts) = counts(&says(&etw, &["export", trace, "-o", &out]));
        assert_eq!(events, 179_474);
        let mut files = Vec::new();
        for provider in std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()) {
            match provider.is_dir() {
                true => files.extend(std::fs::read_dir(provider).unwrap().map(|entry| entry.unwrap().path())),
                false => files.push(provider),
            }
        }
        assert_eq!(files.len() as u64, count(&counts, "files"));
        assert!(files.len() > 50);
        for file in files {
            let bytes = std::fs::read(&file).unwrap();
            assert!(bytes.starts_with(begin) && bytes.ends_with(end), "{}", file.display());
        }
        let (code, said) = etw.fails(&["export", trace, "-o", &out]);
        assert!(
            code == 1 && said.contains("the output directory is not empty") && said.lines().count() == 1,
            "{said}"
        );
    }
}
