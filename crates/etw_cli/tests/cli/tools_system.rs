//! What recordings of the system by `xperf` and `wpr` have in them: all that other machines need to read them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::json_lines;
use crate::kernel::{field, kind};
use crate::kernel_images::number;
use crate::tools::User;

/// Where the kernel's half of the addresses begins.
const KERNEL: u64 = 0xFFFF_8000_0000_0000;

/// Works for some tenths of a second, now and then in the kernel.
const WORK: &str = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); read -r line < /proc/self/stat; done";

fn events(user: &User, file: &str) -> Vec<Value> {
    json_lines(&user.ok(&["dump", file, "--format", "json"]))
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

fn run(program: &str, arguments: &[&str]) {
    assert!(Command::new(program).args(arguments).status().unwrap().success());
}

/// Asserts that the kernel's functions in stacks have their names in the file.
fn functions_are_named(events: &[Value]) {
    let mut functions = BTreeMap::new();
    for event in events.iter().filter(|event| kind(event) == "KernelFunction") {
        let (address, name) = (hex(field(event, "Address")), field(event, "Name"));
        assert!(!name.is_empty(), "{event}");
        functions.insert(address, address + event["EventData"]["LengthInBytes"].as_u64().unwrap());
    }
    let stacks = events.iter().filter(|event| kind(event) == "StackWalk/Stack");
    let frames = stacks.filter_map(|event| event["EventData"]["Stack"].as_array()).flatten();
    let addresses: BTreeSet<u64> =
        frames.map(|frame| hex(frame.as_str().unwrap())).filter(|address| *address >= KERNEL).collect();
    let is_named =
        |address: &&u64| functions.range(..=**address).next_back().is_some_and(|(_, end)| *address < end);
    let named = addresses.iter().filter(is_named).count();
    // Programs that were loaded into the kernel meanwhile may be gone.
    assert!(addresses.len() > 10 && named * 100 >= addresses.len() * 95, "{named} of {}", addresses.len());
}

#[test]
fn the_sampling_interval_of_a_session_is_shown() {
    let user = User::new();
    if !user.starts(&["xperf", "-on", "PROFILE", "-setprofint", "20000", "-f", "kernel.etl"]) {
        return;
    }
    let shown = user.ok(&["session", "query", "NT Kernel Logger"]);
    assert!(shown.contains("sampling interval        2000 us\n"), "{shown}");
    user.ok(&["xperf", "-stop"]);
}

#[test]
fn names_of_the_kernels_functions_are_in_what_xperf_merges() {
    let user = User::new();
    let flags = "PROC_THREAD+LOADER+PROFILE+CSWITCH";
    if !user.starts(&["xperf", "-on", flags, "-stackwalk", "Profile+CSwitch", "-f", "kernel.etl"]) {
        return;
    }
    run("sh", &["-c", WORK]);
    user.ok(&["xperf", "-d", "merged.etl"]);
    let merged = events(&user, "merged.etl");
    functions_are_named(&merged);
    user.ok(&["xperf", "-start", "User", "-on", "Tools.System", "-f", "user.etl"]);
    user.write("Tools.System", 1);
    user.ok(&["xperf", "-stop", "User"]);
    // Merged once more, with another recording.
    for (words, file) in [(&["xperf", "-merge"][..], "x.etl"), (&["wpr", "-merge"], "w.etl")] {
        user.ok(&[words, &["merged.etl", "user.etl", file]].concat());
        let again = events(&user, file);
        functions_are_named(&again);
        let count =
            |events: &[Value], wanted: &str| events.iter().filter(|event| kind(event) == wanted).count();
        assert_eq!(count(&again, "Number"), 1);
        for wanted in ["Thread/CSwitch", "Process/Start", "Process/DCStart", "Image/DCEnd", "StackWalk/Stack"]
        {
            assert_eq!(count(&again, wanted), count(&merged, wanted), "{file}: {wanted}");
        }
    }
}

#[test]
fn names_of_the_kernels_functions_are_in_what_wpr_saves() {
    let user = User::new();
    for mode in [&["-filemode"][..], &[]] {
        if !user.starts(&[&["wpr", "-start", "CPU"], mode].concat()) {
            return;
        }
        run("sh", &["-c", WORK]);
        user.ok(&["wpr", "-stop", "cpu.etl", "-force"]);
        functions_are_named(&events(&user, "cpu.etl"));
    }
}

/// Keeps the newest MiB of processes and images.
const RING: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<WindowsPerformanceRecorder Version="1.0">
  <Profiles>
    <SystemCollector Id="C" Name="Small"><BufferSize Value="64"/><Buffers Value="16"/></SystemCollector>
    <SystemProvider Id="P">
      <Keywords><Keyword Value="ProcessThread"/><Keyword Value="Loader"/></Keywords>
    </SystemProvider>
    <Profile Id="Ring.Verbose.Memory" Name="Ring" DetailLevel="Verbose" LoggingMode="Memory">
      <Collectors>
        <SystemCollectorId Value="C"><SystemProviderId Value="P"/></SystemCollectorId>
      </Collectors>
    </Profile>
  </Profiles>
</WindowsPerformanceRecorder>"#;

#[test]
fn a_ring_that_has_come_round_has_the_state_at_its_end() {
    let user = User::new();
    let profile = user.etw.path("ring.wprp");
    std::fs::write(&profile, RING).unwrap();
    if !user.starts(&["wpr", "-start", &profile]) {
        return;
    }
    // One program that stays, and so many that come and go on each processor that there is no room for all of them.
    let stays = user.etw.path("stays");
    std::fs::copy("/bin/sleep", &stays).unwrap();
    let mut program = Command::new(&stays).arg("600").spawn().unwrap();
    let processors = std::thread::available_parallelism().unwrap().get();
    for processor in 0..processors {
        let (first, end) = (processor * 2000, (processor + 1) * 2000);
        let work = format!("i={first}; while [ $i -lt {end} ]; do /bin/true number $i; i=$((i+1)); done");
        run("taskset", &["-c", &processor.to_string(), "sh", "-c", &work]);
    }
    let last_command = format!("/bin/true number {}", processors * 2000 - 1);
    user.ok(&["wpr", "-stop", "ring.etl"]);
    program.kill().unwrap();
    program.wait().unwrap();
    let events = events(&user, "ring.etl");
    let all = |wanted: &str| -> Vec<usize> {
        (0..events.len()).filter(|place| kind(&events[*place]) == wanted).collect()
    };
    assert_eq!(all("Process/DCStart"), [0; 0], "the ring has not come round");
    let commands: BTreeSet<&str> = events.iter().map(|event| field(event, "CommandLine")).collect();
    assert!(!commands.contains("/bin/true number 0") && commands.contains(last_command.as_str()));
    // Each processor's oldest buffers made room; from here on there is everything of all of them.
    let processor = |event: &Value| event["System"]["Execution"]["ProcessorID"].as_u64();
    let processors: BTreeSet<_> = events.iter().map(processor).collect();
    let is_of = |event: &Value, wanted: &Option<u64>| {
        processor(event) == *wanted && !kind(event).starts_with("EventTrace/")
    };
    let first = |wanted: &Option<u64>| events.iter().position(|event| is_of(event, wanted));
    let whole = &events[processors.iter().filter_map(first).max().unwrap()..];
    // The file has an event of each process: at its start, its end, or the end of the recording.
    let of_processes = events.iter().filter(|event| kind(event).starts_with("Process/"));
    let known: BTreeSet<u64> = of_processes.map(|event| number(event, "ProcessId")).collect();
    for wanted in ["Thread/Start", "Thread/End", "Thread/DCEnd", "Image/Load", "Image/Unload", "Image/DCEnd"]
    {
        let of_kind = |event: &&Value| kind(event) == wanted;
        let is_unknown = |event: &&Value| !known.contains(&number(event, "ProcessId"));
        let unknown: Vec<&Value> = whole.iter().filter(of_kind).filter(is_unknown).collect();
        assert!(
            whole.iter().any(|event| of_kind(&event)) && unknown.is_empty(),
            "{wanted}: {unknown:?} of {}",
            whole.len()
        );
    }
    // The rundown of processes, threads and images follows the programs' events.
    let ends = ["Process/DCEnd", "Thread/DCEnd", "Image/DCEnd"];
    let state = ends.map(|wanted| all(wanted)[0]).into_iter().min().unwrap();
    let last = events.iter().rposition(|event| field(event, "CommandLine") == last_command).unwrap();
    assert!(last < state, "{last} {state}");
    let at = |wanted: &str| {
        let is_it = |place: &usize| {
            let event = &events[*place];
            number(event, "ProcessId") == u64::from(program.id())
                && (wanted != "Image/DCEnd" || field(event, "FileName") == stays)
        };
        all(wanted).into_iter().find(is_it).unwrap_or_else(|| panic!("no {wanted} of the program"))
    };
    let places = ends.map(at);
    assert!(places[0] < places[1] && places[0] < places[2], "{places:?}");
    assert_eq!(field(&events[places[0]], "CommandLine"), format!("{stays} 600"));
    // A reader that goes by processes finds its thread by the program's name.
    let text = user.ok(&["dump", "ring.etl", "--process", "stays", "--format", "json"]);
    assert!(json_lines(&text).iter().any(|event| kind(event) == "Thread/DCEnd"), "{text}");
}
