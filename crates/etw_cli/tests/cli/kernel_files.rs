//! Files in recordings of the system: what known programs did with known files, in both vocabularies.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::Etw;
use crate::json_lines;
use crate::kernel::{events, field, kind, record, record_with};

const FILE: &str = "Microsoft-Windows-Kernel-File";

/// A directory on the disk that the tests are built on; temporary ones may be in memory.
fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn of_kind<'e>(events: &'e [Value], wanted: &'static str) -> impl Iterator<Item = &'e Value> {
    events.iter().filter(move |event| kind(event) == wanted)
}

#[test]
fn requests_of_disks_name_the_file_that_they_are_for() {
    let (etw, dir) = (Etw::new(), on_disk());
    let path = dir.path().join("known file");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("known file", &link).unwrap();
    // On the disk, and out of memory.
    let of = format!("of={}", path.display());
    let args = [&of[..], "oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"];
    assert!(Command::new("dd").args(args).status().unwrap().success());
    let held = fs::File::open("/etc/passwd").unwrap();
    let program = ["cat", link.to_str().unwrap()];
    if record(&etw, "DISK_IO+DISK_FILE_IO", &program).is_none() {
        return;
    }
    drop(held);
    let events = events(&etw);
    let named = |wanted, path: &PathBuf| {
        let path = path.to_str().unwrap();
        of_kind(&events, wanted).filter(|event| field(event, "FileName") == path).collect::<Vec<_>>()
    };
    let [name] = named("FileIo/FileCreate", &path)[..] else { panic!("one name") };
    let key = field(name, "FileObject");
    let reads: Vec<&Value> =
        of_kind(&events, "DiskIo/Read").filter(|event| field(event, "FileObject") == key).collect();
    let bytes: u64 = reads.iter().map(|event| event["EventData"]["TransferSize"].as_u64().unwrap()).sum();
    assert_eq!(bytes, 1 << 20, "{} requests", reads.len());
    let rundown = named("FileIo/FileRundown", &path);
    assert_eq!(rundown.iter().map(|event| field(event, "FileObject")).collect::<Vec<_>>(), [key]);
    // What processes had open when the session began is named too.
    let held = PathBuf::from("/etc/passwd");
    assert_eq!(named("FileIo/FileCreate", &held).len(), 1);
    assert_eq!(named("FileIo/FileRundown", &held).len(), 1);
}

#[test]
fn writes_have_bytes_and_flushes_are_flushes() {
    let (etw, dir) = (Etw::new(), on_disk());
    let of = format!("of={}", dir.path().join("synced").display());
    let program = ["dd", "if=/dev/zero", &of, "bs=64k", "count=8", "oflag=sync", "status=none"];
    if record(&etw, "DISK_IO+DISK_IO_INIT", &program).is_none() {
        return;
    }
    let events = events(&etw);
    let size = |event: &Value| event["EventData"]["TransferSize"].as_u64().unwrap();
    let written: u64 = of_kind(&events, "DiskIo/Write").map(size).sum();
    assert!(written >= 8 << 16, "{written}");
    // The end of a request that asked for a flush is no write.
    assert_eq!(of_kind(&events, "DiskIo/Write").filter(|event| size(event) == 0).count(), 0);
}

/// The program of `examples/file_acts.rs`, which is built with the tests.
fn acts() -> String {
    crate::record::program().replace("numbered_events", "file_acts")
}

/// The events of Microsoft-Windows-Kernel-File, each under the name and with the fields that class FileIo has for it.
fn as_class(etw: &Etw) -> Vec<Value> {
    let mut events = json_lines(&etw.ok(&["dump", "k.etl", "--provider", FILE, "--format", "json"]));
    for event in &mut events {
        assert_eq!(event["System"]["Level"]["Value"], 4);
        let id = event["System"]["EventID"].as_u64().unwrap();
        let (kind, path) = match id {
            10 => ("Name", "FileName"),
            12 => ("Create", "OpenPath"),
            13 => ("Cleanup", ""),
            14 => ("Close", ""),
            15 => ("Read", ""),
            16 => ("Write", ""),
            17 => ("SetInfo", ""),
            20 => ("DirEnum", ""),
            21 => ("Flush", ""),
            22 => ("QueryInfo", ""),
            24 => ("OperationEnd", ""),
            26 => ("FileIoDeletePath", ""),
            27 => ("FileIoRenamePath", ""),
            28 => ("FileIoSetLinkPath", ""),
            18 | 19 | 29 | 30 => ("", "FileName"),
            _ => panic!("{event}"),
        };
        event["System"]["EventType"] = format!("FileIo/{kind}").into();
        let fields = event["EventData"].as_object_mut().unwrap();
        for (name, in_class) in [
            ("Irp", "IrpPtr"),
            ("FileName", path),
            ("FilePath", "FileName"),
            ("ByteOffset", "Offset"),
            ("IOSize", "IoSize"),
            ("ExtraInformation", "ExtraInfo"),
            ("Status", "NtStatus"),
        ] {
            if let Some(value) = fields.remove(name) {
                fields.insert(in_class.to_owned(), value);
            }
        }
        if id == 10 {
            let key = fields.remove("FileKey").unwrap();
            fields.insert("FileObject".to_owned(), key);
        }
    }
    events
}

/// What a program did in this directory: each operation as one line, in order, with its end.
fn told(events: &[Value], dir: &str) -> Vec<String> {
    let is_inside = |path: &str| path.strip_prefix(dir).map(str::to_owned);
    let mut names: HashMap<String, String> = HashMap::new();
    let mut objects: HashMap<String, String> = HashMap::new();
    let mut lines: Vec<String> = Vec::new();
    let mut begun: HashMap<String, usize> = HashMap::new();
    for event in events {
        let Some(act) = kind(event).strip_prefix("FileIo/") else { continue };
        let irp = field(event, "IrpPtr").to_owned();
        let number = |name: &str| event["EventData"][name].as_u64().unwrap();
        let name = || names.get(field(event, "FileKey")).cloned();
        let object = || objects.get(field(event, "FileObject")).cloned();
        let line = match act {
            "FileCreate" | "Name" => {
                let key = field(event, "FileObject").to_owned();
                // The key of a file that is gone may be another's later.
                match is_inside(field(event, "FileName")) {
                    Some(name) => drop(names.insert(key, name)),
                    None => drop(names.remove(&key)),
                }
                continue;
            }
            "Create" => is_inside(field(event, "OpenPath")).map(|path| {
                objects.insert(field(event, "FileObject").to_owned(), path.clone());
                format!("Create {path} {:#x}", number("CreateOptions"))
            }),
            "Read" | "Write" => {
                name().map(|name| format!("{act} {name} {}+{}", number("Offset"), number("IoSize")))
            }
            "SetInfo" => name().map(|name| format!("{act} {name} {}", field(event, "ExtraInfo"))),
            "DirEnum" | "QueryInfo" | "Flush" => name().map(|name| format!("{act} {name}")),
            "Cleanup" | "Close" => object().map(|name| format!("{act} {name}")),
            "FileIoDeletePath" => is_inside(field(event, "FileName")).map(|path| format!("Delete {path}")),
            "FileIoRenamePath" => {
                is_inside(field(event, "FileName")).map(|path| format!("Rename {} {path}", name().unwrap()))
            }
            "OperationEnd" => {
                if let Some(at) = begun.remove(&irp) {
                    let (status, more) = (number("NtStatus"), field(event, "ExtraInfo"));
                    lines[at] += &format!(" -> {status:#x} {more}");
                }
                continue;
            }
            _ => None,
        };
        if let Some(line) = line {
            assert_eq!(begun.insert(irp, lines.len()), None, "{line}");
            lines.push(line);
        }
    }
    assert!(begun.is_empty(), "without an end: {begun:?}");
    lines
}

#[test]
fn every_act_on_a_file_is_told_once() {
    let etw = Etw::new();
    if record(&etw, "FILE_IO+FILE_IO_INIT", &[&acts()]).is_none() {
        return;
    }
    check_acts(&etw, &events(&etw));
}

/// Checks that each operation of the program is reported once, in order, with its end.
fn check_acts(etw: &Etw, events: &[Value]) {
    let dir = format!("{}/", etw.dir.path().canonicalize().unwrap().display());
    let lines = told(events, &dir);
    // What the standard library asks of a directory beside is its own affair.
    let ours =
        lines.iter().filter(|line| !line.contains("k.etl") && !line.starts_with("QueryInfo directory"));
    let expected = [
        "Create missing 0x1000040 -> 0xc0000034 0x0",
        "Create first 0x2000040 -> 0x0 0x2",
        "Write first 0+1000 -> 0x0 0x3e8",
        "Write first 1000+12 -> 0x0 0xc",
        "Read first 950+100 -> 0x0 0x3e",
        "Read first 0+77 -> 0x0 0x4d",
        "Write first 300+9 -> 0x0 0x9",
        "Flush first -> 0x0 0x0",
        "SetInfo first 0x1f4 -> 0x0 0x0",
        "QueryInfo first -> 0x0 0x0",
        "Create second 0x5000040 -> 0x0 0x2",
        "Read first 0+200 -> 0x0 0xc8",
        "Write second 0+200 -> 0x0 0xc8",
        "Read first 20+50 -> 0x0 0x32",
        "Write second 200+50 -> 0x0 0x32",
        "Cleanup first -> 0x0 0x0",
        "Close first -> 0x0 0x0",
        "Create directory 0x2000001 -> 0x0 0x0",
        "Create directory 0x1000001 -> 0x0 0x1",
        "Create directory/inner 0x3000040 -> 0x0 0x2",
        "Write directory/inner 0+3 -> 0x0 0x3",
        "Write directory/inner 3+2 -> 0x0 0x2",
        "Create directory 0x1000001 -> 0x0 0x1",
        "DirEnum directory",
        "DirEnum directory -> 0x0 0x0",
        "Cleanup directory -> 0x0 0x0",
        "Close directory -> 0x0 0x0",
        "Rename first third -> 0x0 0x0",
        "QueryInfo third -> 0x0 0x0",
        "Delete third -> 0x0 0x0",
        "Delete third -> 0xc0000034 0x0",
        "Cleanup directory -> 0x0 0x0",
        "Close directory -> 0x0 0x0",
        "Cleanup second -> 0x0 0x0",
        "Close second -> 0x0 0x0",
        "Cleanup directory/inner -> 0x0 0x0",
        "Close directory/inner -> 0x0 0x0",
    ];
    // How many bytes the entries of a directory take is the file system's affair.
    let whole = |line: &String| match line.starts_with("DirEnum") && !line.ends_with(" 0x0") {
        true => "DirEnum directory".to_owned(),
        false => line.clone(),
    };
    assert_eq!(ours.map(whole).collect::<Vec<_>>(), expected, "{lines:#?}");
}

#[test]
fn the_provider_tells_every_act_too() {
    let etw = Etw::new();
    // Other tests run the program by its own name at the same time.
    let program = etw.path("acts_of_mine");
    std::fs::copy(acts(), &program).unwrap();
    if record_with(&etw, &["-p", FILE, "--exe", "acts_of_mine"], &[&program]).is_none() {
        return;
    }
    let all = as_class(&etw);
    check_acts(&etw, &all);
    // Operations are filtered by process; names belong to no process.
    let by = |event: &Value| event["System"]["Execution"]["ProcessID"].as_u64().unwrap();
    let is_name = |event: &&Value| event["System"]["EventID"] == 10;
    let program = all.iter().find(|event| !is_name(event)).map(by).unwrap();
    assert!(all.iter().all(|event| is_name(&event) || by(event) == program));
    // What has no place in the class: files that were made, and the events beside operations on names.
    let dir = format!("{}/", etw.dir.path().canonicalize().unwrap().display());
    let of = |wanted: u64| all.iter().filter(move |event| event["System"]["EventID"] == wanted);
    let made: Vec<&str> = of(30).filter_map(|event| field(event, "FileName").strip_prefix(&dir)).collect();
    assert_eq!(made, ["first", "second", "directory", "directory/inner"]);
    let options: Vec<&Value> = of(30).map(|event| &event["EventData"]["CreateOptions"]).collect();
    assert_eq!(options, [0x200_0040, 0x500_0040, 0x200_0001, 0x300_0040]);
    let irps = |ids: [u64; 2]| ids.map(|id| of(id).map(|event| field(event, "IrpPtr")).collect::<Vec<_>>());
    for ids in [[18, 26], [19, 27]] {
        let [beside, on_path] = irps(ids);
        assert!(!beside.is_empty() && beside == on_path);
    }
    let creates: Vec<&str> = of(12).map(|event| field(event, "IrpPtr")).collect();
    assert!(of(30).all(|event| creates.contains(&field(event, "IrpPtr"))));
}

#[test]
fn keywords_levels_ids_and_processes_are_honoured() {
    let etw = Etw::new();
    for (provider, ids) in [
        (":::0x10", &[10][..]),
        (":4::0x100", &[15]),
        (":::0x300", &[15, 16]),
        (":::0x40", &[24]),
        (":::0xC00", &[26, 27]),
        (":::0x1000", &[30]),
        (":4:12,30", &[12, 30]),
        (":3", &[]),
    ] {
        let provider = format!("{FILE}{provider}");
        if record_with(&etw, &["-p", &provider, "--exe", "file_acts"], &[&acts()]).is_none() {
            return;
        }
        let events = json_lines(&etw.ok(&["dump", "k.etl", "--provider", FILE, "--format", "json"]));
        let told: BTreeSet<u64> =
            events.iter().map(|event| event["System"]["EventID"].as_u64().unwrap()).collect();
        assert!(told.iter().eq(ids), "{provider}: {told:?}");
        for made in ["first", "second", "directory"] {
            drop(fs::remove_file(etw.dir.path().join(made)));
            drop(fs::remove_dir_all(etw.dir.path().join(made)));
        }
    }
    let provider = format!("{FILE}:::0x20");
    record_with(&etw, &["-p", &provider, "--exe", "nobody"], &[&acts()]).unwrap();
    assert_eq!(json_lines(&etw.ok(&["dump", "k.etl", "--provider", FILE, "--format", "json"])).len(), 0);
}

/// Checks that both the classic and the manifest events of a program match the expected lines. Returns the directory
/// and the events.
fn check_lines(args: &[&str], expected: &[&str]) -> Option<(String, Vec<Value>)> {
    let etw = Etw::new();
    record_with(&etw, &["-k", "FILE_IO", "-p", FILE], args)?;
    let dir = format!("{}/", etw.dir.path().canonicalize().unwrap().display());
    let events = events(&etw);
    for events in [&events, &as_class(&etw)] {
        let lines = told(events, &dir);
        let ours = lines.iter().filter(|line| !line.contains("k.etl") && !line.starts_with("Create d"));
        assert_eq!(ours.collect::<Vec<_>>(), expected, "{lines:#?}");
    }
    Some((dir, events))
}

#[test]
fn rarer_calls_are_told_and_long_paths_are_marked() {
    let expected = [
        "Create second way 0x3000040 -> 0x0 0x2",
        "Write second way 0+30 -> 0x0 0x1e",
        "Read second way 10+20 -> 0x0 0x14",
        "Write second way 100+20 -> 0x0 0x14",
        "Create replaced 0x5000040 -> 0x0 0x2",
        "Cleanup replaced -> 0x0 0x0",
        "Close replaced -> 0x0 0x0",
        "Cleanup second way -> 0x0 0x0",
        "Close second way -> 0x0 0x0",
    ];
    let Some((_, events)) = check_lines(&[&acts(), "more"], &expected) else { return };
    let deep = |kind, name: &'static str| {
        let paths = of_kind(&events, kind).map(move |event| field(event, name));
        paths.filter(|path| path.ends_with("/d/deep")).collect::<BTreeSet<_>>()
    };
    // Whoever runs this test at the same time has the same.
    assert!(deep("FileIo/Create", "OpenPath").iter().eq([&format!("/…{}/deep", "/d".repeat(64))]));
    assert!(deep("FileIo/FileCreate", "FileName").iter().eq([&format!("/…{}/deep", "/d".repeat(63))]));
}

#[test]
fn many_open_files_keep_their_keys() {
    let lines = |act: &'static str, more: &'static str| {
        move |number: u32| format!("{act} file {number}{more} -> 0x0 0x{}", u8::from(!more.is_empty()))
    };
    let creates = (0..900).map(|number| format!("Create file {number} 0x5000040 -> 0x0 0x2"));
    let writes = (0..900).map(lines("Write", " 0+1"));
    let closes = (0..900).rev().flat_map(|number| [lines("Cleanup", "")(number), lines("Close", "")(number)]);
    let expected: Vec<String> = creates.chain(writes).chain(closes).collect();
    check_lines(&[&acts(), "together"], &expected.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn files_are_closed_by_exec_and_by_the_end() {
    let expected = [
        "Create left 0x5000040 -> 0x0 0x2",
        "Create twice 0x5000040 -> 0x0 0x2",
        "Create kept 0x3000040 -> 0x0 0x2",
        "Cleanup left -> 0x0 0x0",
        "Close left -> 0x0 0x0",
        "Cleanup twice -> 0x0 0x0",
        "Close twice -> 0x0 0x0",
        "Cleanup kept -> 0x0 0x0",
        "Close kept -> 0x0 0x0",
    ];
    let Some((dir, events)) = check_lines(&[&acts(), "exec"], &expected) else { return };
    // Files closed by exec are closed before the other program opens its library, the rest after.
    let opened = |name: &str| {
        let path = format!("{dir}{name}");
        of_kind(&events, "FileIo/Create").find(|event| field(event, "OpenPath") == path).unwrap()
    };
    let closed = |name: &str| {
        let object = field(opened(name), "FileObject");
        let is_it = |event: &Value| kind(event) == "FileIo/Close" && field(event, "FileObject") == object;
        events.iter().position(is_it).unwrap()
    };
    let thread = &opened("kept")["EventData"]["TTID"];
    let between = &events[closed("twice")..closed("kept")];
    let is_its = |event: &&Value| event["EventData"]["TTID"] == *thread;
    let mut libraries = of_kind(between, "FileIo/Create").filter(is_its);
    assert!(libraries.any(|event| field(event, "OpenPath").contains("/libc.so")));
}

#[test]
fn requests_by_io_uring_are_told_once() {
    let expected = [
        "Create ring missing 0x1000040 -> 0xc0000034 0x0",
        "Create ring 0x2000040 -> 0x0 0x2",
        "Write ring 0+1000 -> 0x0 0x3e8",
        "Write ring 1000+12 -> 0x0 0xc",
        "Read ring 950+100 -> 0x0 0x3e",
        "Read ring 0+77 -> 0x0 0x4d",
        "Flush ring -> 0x0 0x0",
        "SetInfo ring 0x2000 -> 0x0 0x0",
        "QueryInfo ring -> 0x0 0x0",
        "Create ring directory 0x2000001 -> 0x0 0x0",
        "Rename ring ring directory/renamed -> 0x0 0x0",
        "Delete ring directory/renamed -> 0x0 0x0",
        "Delete ring directory -> 0x0 0x0",
        "Cleanup ring -> 0x0 0x0",
        "Close ring -> 0x0 0x0",
        "Create one 0x5000040 -> 0x0 0x2",
        "Create other 0x5000040 -> 0x0 0x2",
        "Cleanup one -> 0x0 0x0",
        "Close one -> 0x0 0x0",
        "Cleanup other -> 0x0 0x0",
        "Close other -> 0x0 0x0",
    ];
    let may = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").is_ok_and(|text| text.trim() == "0");
    if !may {
        etw_testkit::skip!("io_uring is not allowed here");
        return;
    }
    check_lines(&[&crate::record::example("ring_acts")], &expected);
}

#[test]
fn many_small_reads_and_writes_are_counted_to_the_byte() {
    const COUNT: u64 = 20_000;
    let etw = Etw::new();
    if record(&etw, "FILE_IO", &[&acts(), &COUNT.to_string()]).is_none() {
        return;
    }
    let dir = format!("{}/", etw.dir.path().canonicalize().unwrap().display());
    let lines = told(&events(&etw), &dir);
    let bytes: u64 = (0..COUNT).map(|number| 1 + number % 64).sum();
    for act in ["Read many", "Write many"] {
        let ours: Vec<&String> = lines.iter().filter(|line| line.starts_with(act)).collect();
        let moved = |line: &&String| u64::from_str_radix(line.rsplit_once("0x").unwrap().1, 16).unwrap();
        assert_eq!(ours.len() as u64, COUNT, "{act}");
        assert_eq!(ours.iter().map(moved).sum::<u64>(), bytes, "{act}");
    }
    let names: Vec<String> = (0..2).map(|_| "Close many -> 0x0 0x0".to_owned()).collect();
    assert_eq!(
        lines.iter().filter(|line| line.starts_with("Close many")).cloned().collect::<Vec<_>>(),
        names
    );
}

#[test]
fn deletes_renames_and_links_count_by_their_files() {
    let (etw, dir) = (Etw::new(), on_disk());
    let path = |name: &str| dir.path().join(name).display().to_string();
    let lines = ["deleted", "renamed", "linked"].map(|name| format!("touch {}", path(name)));
    let acts = [
        format!("unlink {}", path("deleted")),
        format!("mv -T {} {}", path("renamed"), path("new-name")),
        format!("ln -T {} {}", path("linked"), path("other-name")),
        format!("mkdir {0}; rmdir {0}", path("directory")),
        // What is not there, or not empty.
        format!("unlink {}; rmdir {}; :", path("nothing"), dir.path().display()),
    ];
    let script = [&lines[..], &acts[..]].concat().join("\n");
    if record(&etw, "PROC_THREAD+FILE_IO+FILE_IO_INIT", &["sh", "-c", &script]).is_none() {
        return;
    }
    let report = json_lines(&etw.ok(&["report", "k.etl", "--table", "files", "--format", "json"])).remove(0);
    let rows = report["tables"]["files"]["rows"].as_array().unwrap();
    let sum = |name: &str, column: &str| -> u64 {
        let of_file = rows.iter().filter(|row| row["file"] == path(name));
        of_file.map(|row| row[column].as_u64().unwrap()).sum()
    };
    assert_eq!((sum("deleted", "deletes"), sum("deleted", "failed")), (1, 0));
    assert_eq!((sum("renamed", "renames"), sum("linked", "links"), sum("directory", "deletes")), (1, 1, 1));
    assert_eq!((sum("nothing", "deletes"), sum("nothing", "failed")), (1, 1));
    let inside = etw.ok(&[
        "report",
        "k.etl",
        "--table",
        "file_io",
        "--where",
        "failed == true and operation == Delete",
    ]);
    assert!(
        inside.contains(&path("nothing")) && inside.contains(&dir.path().display().to_string()),
        "{inside}"
    );
}
