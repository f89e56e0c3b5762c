//! The kernel's manifest providers: `etw record -p Microsoft-Windows-Kernel-Process` and its like.

use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::{Etw, json_lines};

const PROCESS: &str = "Microsoft-Windows-Kernel-Process";
const DISK: &str = "Microsoft-Windows-Kernel-Disk";
const FILE: &str = "Microsoft-Windows-Kernel-File";
const NETWORK: &str = "Microsoft-Windows-Kernel-Network";
const MEMORY: &str = "Microsoft-Windows-Kernel-Memory";

/// Number of recordings of what a busy machine may lose events of.
const ATTEMPTS: usize = 10;

/// Records while a program runs; nothing where that is not allowed.
fn record(etw: &Etw, args: &[&str], program: &[&str]) -> Option<Output> {
    let output = etw.record(&[&["-o", "k.etl"], args].concat(), program);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if is_impossible(&text) {
        return None;
    }
    assert!(text.contains(": complete"), "{text}");
    Some(output)
}

pub(crate) fn is_impossible(text: &str) -> bool {
    let is_impossible = text.contains("which this process lacks") || text.contains("/sys/kernel/btf/vmlinux");
    if is_impossible {
        etw_testkit::skip!("{text}");
    }
    is_impossible
}

fn events(etw: &Etw, provider: &str) -> Vec<Value> {
    let events = json_lines(&etw.ok(&["dump", "k.etl", "--provider", provider, "--format", "json"]));
    assert!(events.iter().all(|event| event["EventData"].is_object()), "each is decoded");
    events
}

fn id(event: &Value) -> u64 {
    event["System"]["EventID"].as_u64().unwrap()
}

fn number(event: &Value, name: &str) -> u64 {
    event["EventData"][name].as_u64().unwrap_or_else(|| panic!("{name} of {event}"))
}

fn text<'e>(event: &'e Value, name: &str) -> &'e str {
    event["EventData"][name].as_str().unwrap_or_default()
}

fn by(event: &Value) -> u64 {
    event["System"]["Execution"]["ProcessID"].as_u64().unwrap()
}

pub(crate) fn time(event: &Value) -> &str {
    event["System"]["TimeCreated"]["SystemTime"].as_str().unwrap()
}

/// Seconds of a day.
pub(crate) fn seconds(time: &str) -> f64 {
    let clock = time.split('T').nth(1).unwrap().trim_end_matches('Z').split(':');
    clock.fold(0.0, |all, part| all * 60.0 + part.parse::<f64>().unwrap())
}

#[test]
fn every_process_starts_and_stops_once() {
    let etw = Etw::new();
    let script = "echo $$; i=0; while [ $i -lt 50 ]; do /bin/true $i; i=$((i+1)); done; (exit 5); exit 3";
    let Some(output) = record(&etw, &["-p", PROCESS], &["sh", "-c", script]) else { return };
    assert_eq!(output.status.code(), Some(3));
    let shell: u64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    let all = events(&etw, PROCESS);
    assert!(all.is_sorted_by(|one, next| time(one) <= time(next)));
    let of = |wanted: u64, process: u64| {
        let is_it = move |event: &&Value| id(event) == wanted && number(event, "ProcessID") == process;
        all.iter().filter(is_it).collect::<Vec<_>>()
    };
    let [shell_start] = of(1, shell)[..] else { panic!("the shell starts once") };
    let is_child = |event: &&Value| id(event) == 1 && number(event, "ParentProcessID") == shell;
    let children: Vec<&Value> = all.iter().filter(is_child).collect();
    assert_eq!(children.len(), 51);
    for (child, at) in children.iter().zip(0..) {
        let process = number(child, "ProcessID");
        let [stop] = of(2, process)[..] else { panic!("{process} stops once") };
        let (name, code) = if at == 50 { ("sh", 5) } else { ("true", 0) };
        assert!(text(child, "ImageName").ends_with(&format!("/{name}")), "{child}");
        assert_eq!((text(stop, "ImageName"), number(stop, "ExitCode")), (name, code));
        for same in ["ProcessSequenceNumber", "CreateTime"] {
            assert_eq!(child["EventData"][same], stop["EventData"][same]);
        }
        let parent = number(child, "ParentProcessSequenceNumber");
        assert_eq!(parent, number(shell_start, "ProcessSequenceNumber"));
        assert!(seconds(text(child, "CreateTime")) < seconds(time(child)) + 0.001);
        assert!((seconds(text(stop, "ExitTime")) - seconds(time(stop))).abs() < 0.001, "{stop}");
        assert_eq!((of(3, process).len(), of(4, process).len()), (1, 1), "its one thread");
        let system = &child["System"];
        assert_eq!((&system["Version"], &system["Level"]["Value"]), (&3.into(), &4.into()));
        assert_eq!(system["Keywords"]["Mask"], "0x8000000000000010");
        assert_eq!((by(child), system["Task"]["Name"].as_str()), (process, Some("ProcessStart")));
        let (image, session) = (text(child, "ImageName"), number(child, "SessionID"));
        let message =
            format!("Process {process} started: {image}, child of process {shell}, session {session}");
        assert_eq!(child["Message"], message);
    }
    assert_eq!(number(of(2, shell)[0], "ExitCode"), 3);
    // Only processes that started before the session have rundown events.
    let [test] = of(15, std::process::id().into())[..] else { panic!("the test is told of once") };
    assert_eq!(text(test, "ImageName"), std::env::current_exe().unwrap().to_str().unwrap());
    assert!(of(15, shell).is_empty());
}

#[test]
fn conditions_on_payloads_and_ids_to_leave_out() {
    let etw = Etw::new();
    let of = |condition: &str| format!("{PROCESS}{condition}");
    let script = "/bin/true; /bin/echo x; (exit 1)";
    let echo = of("::1 where ImageName icontains \"ECHO\"");
    if record(&etw, &["-p", &echo], &["sh", "-c", script]).is_none() {
        return;
    }
    let found = events(&etw, PROCESS);
    assert!(found.iter().any(|event| text(event, "ImageName") == "/bin/echo"), "{found:?}");
    assert!(
        found.iter().all(|event| id(event) == 1 && text(event, "ImageName").contains("echo")),
        "{found:?}"
    );
    record(&etw, &["-p", &of("::!1,3,4,15:0x30 where ExitCode == 1")], &["sh", "-c", "(exit 1); exit 2"])
        .unwrap();
    let found = events(&etw, PROCESS);
    assert!(
        !found.is_empty() && found.iter().all(|event| id(event) == 2 && number(event, "ExitCode") == 1),
        "{found:?}"
    );
}

#[test]
fn filters_filter() {
    let etw = Etw::new();
    let script = "/bin/true; /bin/echo x; (exit 1)";
    let by_all = format!("{PROCESS}:Information:1,4:0x30");
    let Some(output) = record(&etw, &["-p", &by_all, "--exe", "echo"], &["sh", "-c", script]) else { return };
    assert!(output.status.code() == Some(1));
    let found = events(&etw, PROCESS);
    assert!(found.iter().all(|event| [1, 4].contains(&id(event))), "{found:?}");
    let start = found.iter().find(|event| id(event) == 1).unwrap();
    assert_eq!(text(start, "ImageName"), "/bin/echo");
    let stops = found.iter().filter(|event| number(event, "ProcessID") == number(start, "ProcessID"));
    assert_eq!(stops.count(), 2);
    for nothing in [format!("{PROCESS}:Error"), format!("{PROCESS}:::0x80"), format!("{PROCESS}::7")] {
        record(&etw, &["-p", &nothing], &["true"]).unwrap();
        assert_eq!(events(&etw, PROCESS), [] as [Value; 0], "{nothing}");
    }
    let pid = std::process::id().to_string();
    let mut recording = etw.session_command(&[
        "record",
        "-o",
        "k.etl",
        "-p",
        &format!("{PROCESS}:::0x20"),
        "--pid",
        &pid,
        "--for",
        "1s",
    ]);
    let mut recording = recording.stderr(Stdio::null()).spawn().unwrap();
    // It begins some time after its start, and takes a second from then on.
    while recording.try_wait().unwrap().is_none() {
        std::thread::spawn(|| {}).join().unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(recording.wait_with_output().unwrap().status.success());
    let found = events(&etw, PROCESS);
    let ours = |wanted: u64| found.iter().filter(|event| id(event) == wanted).count();
    assert!(found.iter().all(|event| by(event) == u64::from(std::process::id())));
    assert!(ours(3) >= 10 && ours(4) >= 10, "{found:?}");
}

#[test]
fn both_vocabularies_tell_the_same() {
    let etw = Etw::new();
    let script = "dd if=/dev/zero of=x bs=64k count=4 conv=fsync 2>/dev/null; /bin/true; sh -c 'exit 7'";
    let args = ["-k", "PROC_THREAD+LOADER+DISK_IO", "-p", PROCESS, "-p", DISK];
    if record(&etw, &args, &["sh", "-c", script]).is_none() {
        return;
    }
    let all = json_lines(&etw.ok(&["dump", "k.etl", "--format", "json"]));
    assert!(all.is_sorted_by(|one, next| time(one) <= time(next)));
    // Classic events by their name, those of the manifests by provider and id, with what both say.
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // The providers are enabled a little later than the session begins.
    let begin = all.iter().find(|event| text(event, "ImageName").ends_with("/dd")).map(time).unwrap();
    for event in all.iter().filter(|event| time(event) > begin) {
        let hex = |name: &str| u64::from_str_radix(text(event, name).trim_start_matches("0x"), 16).unwrap();
        let name = event["System"]["EventType"].as_str().unwrap_or_default();
        let provider = event["System"]["Provider"]["Name"].as_str().unwrap_or_default();
        let (key, value) = match (name, provider) {
            ("Process/Start" | "Process/End", _) => (name.to_owned(), hex("ProcessId").to_string()),
            ("Thread/Start" | "Thread/End", _) => (name.to_owned(), hex("TThreadId").to_string()),
            ("DiskIo/Read" | "DiskIo/Write", _) => {
                let fields = ["TransferSize", "ByteOffset", "HighResResponseTime"];
                (name.to_owned(), format!("{} {:?}", hex("Irp"), fields.map(|field| number(event, field))))
            }
            ("Image/Load" | "Image/Unload", _) => {
                let fields = ["ImageBase", "ImageSize", "FileName"].map(|field| text(event, field));
                (name.to_owned(), format!("{} {fields:?}", number(event, "ProcessId")))
            }
            (_, PROCESS) => match id(event) {
                id @ (5 | 6) => {
                    let fields = ["ImageBase", "ImageSize", "ImageName"].map(|field| text(event, field));
                    (format!("{PROCESS} {id}"), format!("{} {fields:?}", number(event, "ProcessID")))
                }
                id @ (1 | 2) => (format!("{PROCESS} {id}"), number(event, "ProcessID").to_string()),
                id => (format!("{PROCESS} {id}"), event["EventData"]["ThreadID"].to_string()),
            },
            (_, DISK) if id(event) < 14 => {
                let fields = ["TransferSize", "ByteOffset", "HighResResponseTime"];
                let fields = fields.map(|field| number(event, field));
                (format!("{DISK} {}", id(event)), format!("{} {fields:?}", hex("IORequestPacket")))
            }
            _ => continue,
        };
        told.entry(key).or_default().push(format!("{} {value}", time(event)));
    }
    told.values_mut().for_each(|events| events.sort_unstable());
    for (classic, manifest) in [
        ("Process/Start", format!("{PROCESS} 1")),
        ("Process/End", format!("{PROCESS} 2")),
        ("Thread/Start", format!("{PROCESS} 3")),
        ("Thread/End", format!("{PROCESS} 4")),
        ("Image/Load", format!("{PROCESS} 5")),
        ("Image/Unload", format!("{PROCESS} 6")),
        ("DiskIo/Read", format!("{DISK} 10")),
        ("DiskIo/Write", format!("{DISK} 11")),
    ] {
        assert_eq!(told.get(classic), told.get(&manifest), "{classic}");
    }
    assert!(told["Process/Start"].len() >= 2 && told["Thread/End"].len() >= 3);
    assert!(told["Image/Load"].len() >= 4, "programs and their libraries");
}

#[test]
fn the_network_is_told_in_both_vocabularies() {
    let etw = Etw::new();
    let program = crate::record::example("network_acts");
    let args = ["-k", "NETWORKTRACE", "-p", NETWORK];
    let Some(output) = record(&etw, &args, &[&program]) else { return };
    let said = String::from_utf8(output.stdout).unwrap();
    let process = said.lines().find_map(|line| line.strip_prefix("process ")).unwrap();
    let process: u64 = process.trim().parse().unwrap();
    let all = json_lines(&etw.ok(&["dump", "k.etl", "--format", "json"]));
    assert!(all.is_sorted_by(|one, next| time(one) <= time(next)));
    let told = |provider: &str| {
        // Failures say more in the classic form.
        let is_ours = |event: &&Value| {
            let data = &event["EventData"];
            event["System"]["Provider"]["Name"] == provider
                && data["PID"] == process
                && data["FailureCode"].is_null()
        };
        let what = |event: &Value| format!("{} {}", time(event), event["EventData"]);
        let mut told: Vec<String> = all.iter().filter(is_ours).map(what).collect();
        told.sort_unstable();
        told
    };
    let manifest = told(NETWORK);
    assert_eq!(told("Windows Kernel Trace"), manifest);
    assert!(manifest.len() > 20, "{manifest:?}");
    // Only the requested events of the requested process are recorded.
    let args = ["-p", &format!("{NETWORK}:4:10,11:0x10"), "--exe", "network_acts"];
    record(&etw, &args, &[&program]).unwrap();
    let found = events(&etw, NETWORK);
    let is_right = |event: &Value| [10, 11].contains(&id(event)) && by(event) == number(event, "PID");
    assert!(!found.is_empty() && found.iter().all(is_right), "{found:?}");
}

#[test]
fn providers_of_a_session_come_and_go() {
    let etw = Etw::new();
    let _daemon = etw.start(&["daemon"]);
    let run = |args: &[&str]| etw.session_command(&[&["session"], args].concat()).output().unwrap();
    assert!(run(&["start", "S", "-o", "k.etl"]).status.success());
    let act =
        |name: &str| drop(Command::new("sh").args(["-c", &format!("exec -a {name} /bin/true")]).status());
    act("before");
    assert!(run(&["enable", "S", &format!("{PROCESS}:4::0x10"), "--exe", "true"]).status.success());
    let shown = String::from_utf8(run(&["query", "S"]).stdout).unwrap();
    if is_impossible(&shown) {
        return;
    }
    assert!(shown.contains(&format!("{PROCESS}: level 4")) && !shown.contains("missing"), "{shown}");
    let registered = etw.session_command(&["provider", "list", "--registered"]).output().unwrap();
    let registered = String::from_utf8(registered.stdout).unwrap();
    assert!(registered.contains(&format!("{PROCESS} (of the system; enabled by S)")), "{registered}");
    std::process::Command::new("/bin/true").status().unwrap();
    assert!(
        run(&["enable", "S", &format!("{PROCESS}:4:15:0x10"), "--pid", &std::process::id().to_string()])
            .status
            .success()
    );
    std::process::Command::new("/bin/true").status().unwrap();
    assert!(run(&["capture-state", "S", PROCESS]).status.success());
    assert!(run(&["disable", "S", PROCESS]).status.success());
    assert!(run(&["stop", "S"]).status.success());
    let found = events(&etw, PROCESS);
    let is_of = |wanted: u64| found.iter().filter(move |event| id(event) == wanted);
    let parent = u64::from(std::process::id());
    let ours = is_of(1).filter(|event| number(event, "ParentProcessID") == parent).count();
    assert_eq!(ours, 1, "what ran while it was enabled, and wanted");
    let rundown: Vec<u64> = is_of(15).map(|event| number(event, "ProcessID")).collect();
    assert_eq!(rundown, [parent], "it was asked for once");
}

#[test]
fn what_linux_has_nothing_for_is_said() {
    let etw = Etw::new();
    for (provider, said) in [
        ("Microsoft-Windows-Kernel-Registry", Some("Linux has no registry")),
        ("{70eb4f03-c1de-4f73-a051-33d13d5413bd}", Some("Kernel-Registry has no events here")),
        ("Microsoft-Windows-Kernel-Power", Some("Linux has no counterpart")),
        ("Microsoft-Windows-DotNETRuntime", None),
    ] {
        let output = etw.record(&["-p", provider], &["true"]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{text}");
        match said {
            Some(said) => assert!(text.contains(said), "{provider}: {text}"),
            None => assert!(!text.contains("no events here"), "{text}"),
        }
    }
}

#[test]
fn memory_is_told_of_twice_a_second() {
    let etw = Etw::new();
    if record(&etw, &["-p", MEMORY], &["sleep", "1.2"]).is_none() {
        return;
    }
    let found = events(&etw, MEMORY);
    assert!((2..=4).contains(&found.len()), "{found:?}");
    let pages = |event: &Value, name: &str| {
        u64::from_str_radix(text(event, name).trim_start_matches("0x"), 16).unwrap()
    };
    assert!(found.iter().all(|event| id(event) == 1 && pages(event, "FreePageCount") > 0));
}

#[test]
fn without_rights_the_rest_of_the_session_works() {
    use std::os::unix::process::CommandExt;
    let etw = Etw::new();
    let program = crate::record::program();
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|metadata| {
        use std::os::unix::fs::MetadataExt;
        metadata.uid() == 0
    });
    if !is_root {
        etw_testkit::skip!("only root can become somebody else");
        return;
    }
    std::os::unix::fs::chown(etw.dir.path(), Some(65_534), Some(65_534)).unwrap();
    let mut command = etw.session_command(&[
        "record",
        "-o",
        "n.etl",
        "-p",
        PROCESS,
        "-p",
        "Example.Numbers",
        "--",
        &program,
        "100",
        "10",
    ]);
    let Ok(output) = command.uid(65_534).gid(65_534).output() else {
        etw_testkit::skip!("others may not run what is built here");
        return;
    };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("missing: ") && text.contains("CAP_BPF and CAP_PERFMON"), "{text}");
    let numbers = etw.ok(&["dump", "n.etl", "--provider", "Example.Numbers", "--format", "json"]);
    assert_eq!(json_lines(&numbers).len(), 100, "{text}");
}

/// The kernel's events about processes: kind, id and command line.
fn described(etw: &Etw) -> Vec<(String, u64, String)> {
    let all = json_lines(&etw.ok(&["dump", "k.etl", "--where", "class == Process", "--format", "json"]));
    let of = |event: &Value| {
        let kind = event["System"]["EventType"].as_str().unwrap().to_owned();
        let process = &event["EventData"]["ProcessId"];
        let id = u64::from_str_radix(process.as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
        (kind, id, text(event, "CommandLine").to_owned())
    };
    all.iter().map(of).collect()
}

#[test]
fn processes_that_events_name_are_in_the_file() {
    let etw = Etw::new();
    // The shell's child ends before the recording does; the test itself is still there at its end.
    let script = "/bin/cat /proc/self/stat; read line < /dev/null; true";
    let filter = format!("{FILE}:Information:12,14,15");
    let Some(output) = record(&etw, &["-p", &filter, "--exe", "cat"], &["sh", "-c", script]) else { return };
    let said = String::from_utf8(output.stdout).unwrap();
    let cat: u64 = said.split(' ').next().unwrap().parse().unwrap();
    let found = events(&etw, FILE);
    assert!(found.iter().any(|event| by(event) == cat), "{found:?}");
    let processes = described(&etw);
    let of_cat: Vec<_> = processes.iter().filter(|(_, id, _)| *id == cat).collect();
    let [(kind, _, command_line)] = of_cat[..] else { panic!("{processes:?}") };
    assert_eq!((kind.as_str(), command_line.as_str()), ("Process/DCEnd", "/bin/cat /proc/self/stat"));
    // Nobody else is in the file.
    let is_named = |id: u64| found.iter().any(|event| by(event) == id);
    assert!(processes.iter().all(|(_, id, _)| is_named(*id)), "{processes:?}");
    let shown = etw.ok(&["dump", "k.etl", "--provider", FILE, "--where", &format!("pid == {cat}")]);
    assert!(shown.lines().all(|line| line.contains(" cat ")), "{shown}");
}

#[test]
fn processes_that_go_on_are_in_the_file() {
    let etw = Etw::new();
    let mut reader = Command::new("sh")
        .args(["-c", "for i in $(seq 1000); do read line < /proc/self/stat; sleep 0.01; done"])
        .spawn()
        .unwrap();
    let pid = reader.id().to_string();
    let recorded = record(&etw, &["-p", FILE, "--pid", &pid], &["sleep", "0.3"]);
    reader.kill().unwrap();
    reader.wait().unwrap();
    if recorded.is_none() {
        return;
    }
    let processes = described(&etw);
    let of_reader: Vec<_> = processes.iter().filter(|(_, id, _)| id.to_string() == pid).collect();
    let [(kind, _, command_line)] = of_reader[..] else { panic!("{processes:?}") };
    assert_eq!(kind, "Process/DCEnd");
    assert!(command_line.contains("do read line"), "{command_line}");
}

#[test]
fn events_have_stacks_users_and_start_keys() {
    let etw = Etw::new();
    let args = [
        "-o",
        "k.etl",
        "-p",
        FILE,
        "-p",
        PROCESS,
        "--stacks",
        "--sid",
        "--process-start-key",
        "--exe",
        "cat",
    ];
    // The stacks of all programs that are busy with files pass through the kernel's rings, which may lose some then.
    let recorded = (0..ATTEMPTS).map(|_| etw.record(&args, &["sh", "-c", "/bin/cat /proc/self/stat; true"]));
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let mut recorded = recorded.skip_while(|output| said(output).contains("INCOMPLETE"));
    let output = recorded.next().unwrap();
    if is_impossible(&said(&output)) {
        return;
    }
    let warnings = said(&output);
    let printed = String::from_utf8(output.stdout).unwrap();
    let cat: u64 = printed.split(' ').next().unwrap().parse().unwrap();
    let is_refusal = |line: &str| line.contains("missing") && !line.contains("are cut");
    assert!(!warnings.lines().any(is_refusal), "{warnings}");
    let of_files = events(&etw, FILE);
    let of_cat: Vec<_> = of_files.iter().filter(|event| by(event) == cat && id(event) != 10).collect();
    let item = |event: &Value, name: &str| event["ExtendedData"][name].clone();
    let mut keys = Vec::new();
    let mut with_stack = 0;
    for event in &of_cat {
        assert_eq!(item(event, "Sid"), "S-1-22-1-0", "{event}");
        keys.push(item(event, "ProcessStartKey").as_u64().unwrap());
        with_stack += u64::from(item(event, "StackTrace").as_array().is_some_and(|stack| stack.len() > 2));
    }
    keys.dedup();
    assert_eq!(keys.len(), 1, "one process has one key");
    assert!(with_stack * 10 >= of_cat.len() as u64 * 9, "{with_stack} of {}", of_cat.len());
    // Process events too: the start of a program, and the end of its process.
    let of_processes = events(&etw, PROCESS);
    for wanted in [1, 2] {
        let event = of_processes.iter().find(|event| by(event) == cat && id(event) == wanted).unwrap();
        assert_eq!(item(event, "ProcessStartKey"), keys[0], "{event}");
        assert!(item(event, "StackTrace").as_array().is_some_and(|stack| !stack.is_empty()), "{event}");
    }
    // What names the addresses is in the file: the images with their build ids, the kernel's functions.
    let shown = etw.ok(&["report", "k.etl", "--stacks", "events", "--format", "folded"]);
    assert!(shown.lines().any(|line| line.starts_with("cat;") && line.contains(";do_syscall_64")), "{shown}");
    let all =
        json_lines(&etw.ok(&["dump", "k.etl", "--where", "FileName icontains 'libc'", "--format", "json"]));
    let is_image = |event: &&Value| !event["EventData"]["ProcessId"].is_null();
    assert!(all.iter().filter(is_image).any(|event| number(event, "ProcessId") == cat), "{all:?}");
    assert!(
        etw.ok(&["dump", "k.etl", "--process", "cat", "--provider", FILE]).lines().count() >= of_cat.len()
    );
}

#[test]
fn providers_without_threads_of_their_own_have_no_stacks() {
    let etw = Etw::new();
    let Some(output) = record(&etw, &["-p", DISK, "--stacks"], &["true"]) else { return };
    let warnings = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(warnings.contains("Microsoft-Windows-Kernel-Disk: its events have no stacks"), "{warnings}");
}

#[test]
fn system_providers_are_enabled_by_keyword() {
    let etw = Etw::new();
    let keywords = "SystemProcessProvider:::SYSTEM_PROCESS_KW_GENERAL,SYSTEM_PROCESS_KW_JOB";
    let Some(output) = record(&etw, &["-p", keywords], &["/bin/true", "by keyword"]) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("missing: SystemProcessProvider keyword JOB: Linux has no job objects"), "{said}");
    let processes = described(&etw);
    let of_true: Vec<_> =
        processes.iter().filter(|(_, _, line)| line == "/bin/true \"by keyword\"").collect();
    let kinds: Vec<&str> = of_true.iter().map(|(kind, ..)| kind.as_str()).collect();
    assert_eq!(kinds, ["Process/Start", "Process/End"], "{processes:?}");
    let stats = etw.ok(&["stats", "k.etl", "--by", "event"]);
    assert!(stats.contains("Process/DCStart") && !stats.contains("Thread/"), "{stats}");

    // Two providers of one session, one of them a GUID without keywords.
    let syscalls = "{434286f7-6f1b-45bb-b37e-95f623046c7c}";
    record(&etw, &["-p", "SystemSchedulerProvider:::0x200", "-p", syscalls], &["true"]).unwrap();
    let stats = etw.ok(&["stats", "k.etl", "--by", "event"]);
    assert!(stats.contains("Thread/CSwitch") && !stats.contains("Thread/ReadyThread"), "{stats}");
    assert!(stats.contains("PerfInfo/SysClExit") || said.contains("system calls"), "{stats}");

    let output = etw.record(&["-o", "k.etl", "-p", "SystemRegistryProvider"], &["true"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("SystemRegistryProvider has no events here"), "{said}");
}

#[test]
fn disks_have_names_and_events_no_cpu_times() {
    let etw = Etw::new();
    let script =
        "dd if=/dev/zero of=disk.bin bs=4096 count=4 oflag=direct conv=fsync 2>/dev/null; rm disk.bin";
    if record(&etw, &["-p", DISK], &["sh", "-c", script]).is_none() {
        return;
    }
    let all = json_lines(&etw.ok(&[
        "dump",
        "k.etl",
        "--where",
        "event == 'SystemConfig/PhyDisk'",
        "--format",
        "json",
    ]));
    let block: Vec<String> = std::fs::read_dir("/sys/block")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    for disk in &all {
        let name = text(disk, "Manufacturer").split(' ').next().unwrap().to_owned();
        assert!(block.contains(&name), "{disk}");
    }
    for event in events(&etw, DISK) {
        let number = number(&event, "DiskNumber");
        assert!(all.iter().any(|disk| disk["EventData"]["DiskNumber"] == number), "{event} {all:?}");
        assert!(event["System"]["Execution"].get("KernelTime").is_none(), "{event}");
    }
}
