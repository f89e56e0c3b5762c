//! `wpr`, and `etw record --profile`.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::Value;

use crate::json_lines;
use crate::record::example;
use crate::tools::{User, wait_until};

const PROVIDER: &str = "Wpr.Test";

/// A profile of a provider for both modes, and a second collector with another one.
const SHOP: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<WindowsPerformanceRecorder Version="1.0">
  <Profiles>
    <EventCollector Id="A" Name="Shop Collector"><BufferSize Value="64"/><Buffers Value="64"/></EventCollector>
    <EventCollector Id="B" Name="Other Collector"><BufferSize Value="128"/><Buffers Value="16"/></EventCollector>
    <EventProvider Id="P" Name="*Wpr.Test" Level="4"><Keywords><Keyword Value="0x0"/></Keywords></EventProvider>
    <EventProvider Id="O" Name="*Wpr.Other" Stack="true"/>
    <EventProvider Id="S" Name="*Wpr.State" CaptureStateOnly="true">
      <CaptureStateOnSave><Keyword Value="0x1"/></CaptureStateOnSave>
    </EventProvider>
    <SystemProvider Id="Sys"><Keywords><Keyword Value="Registry"/></Keywords></SystemProvider>
    <SystemCollector Id="SC" Name="NT Kernel Logger"/>
    <Profile Id="Shop.Verbose.File" Name="Shop" Description="The shop" DetailLevel="Verbose" LoggingMode="File">
      <Collectors>
        <SystemCollectorId Value="SC"><SystemProviderId Value="Sys"/></SystemCollectorId>
        <EventCollectorId Value="A">
          <EventProviders><EventProviderId Value="P"/><EventProviderId Value="S"/></EventProviders>
        </EventCollectorId>
        <EventCollectorId Value="B"><EventProviders><EventProviderId Value="O"/></EventProviders></EventCollectorId>
      </Collectors>
    </Profile>
    <Profile Id="Shop.Verbose.Memory" Base="Shop.Verbose.File" LoggingMode="Memory"/>
    <Profile Id="File.Light.File" Base="Shop.Verbose.File" Name="File" DetailLevel="Light"/>
  </Profiles>
</WindowsPerformanceRecorder>"#;

fn shop() -> (User, String) {
    let user = User::new();
    let file = user.etw.path("shop.wprp");
    std::fs::write(&file, SHOP).unwrap();
    (user, file)
}

fn marks(user: &User, file: &str) -> Vec<String> {
    let events = json_lines(&user.ok(&["dump", file, "--format", "json"]));
    let marks = events.iter().filter(|event| event["System"]["EventType"] == "PerfInfo/Mark");
    marks.map(|event| event["EventData"]["Message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_recording_in_memory() {
    let (user, file) = shop();
    assert_eq!(user.ok(&["wpr", "-status"]).trim(), "WPR is not recording");
    let started = user.run(&["wpr", "-start", &format!("{file}!shop")]);
    let told = String::from_utf8_lossy(&started.stderr).into_owned();
    assert!(started.status.success() && told.contains("keyword Registry: Linux has no registry"), "{told}");
    user.write(PROVIDER, 1);
    user.write("Wpr.Other", 2);
    user.ok(&["wpr", "-marker", "the button"]);
    let shown = user.ok(&["wpr", "-status", "profiles", "collectors", "-details"]);
    for line in [
        "WPR recording is in progress...\n",
        "Dropped event           : 0\n",
        "Logging mode            : Memory\n",
        "Profile                 : Shop.Verbose.Memory\n",
        "Collector Name          : WPR_initiated_WprApp_Shop Collector\n",
        "Buffer Size (KB)        : 64\n",
        "Buffer Size (KB)        : 128\n",
        ": 0x0: 0xff: Stack\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    user.ok(&["wpr", "-flush"]);
    let (status, line) = user.fails(&["wpr", "-start", &format!("{file}!shop")]);
    assert!(status == 1 && line.contains("already running") && line.contains("0xc5583001"), "{line}");
    std::fs::write(user.etw.path("there.etl"), "x").unwrap();
    let (status, line) = user.fails(&["wpr", "-stop", "there.etl"]);
    assert!(status == 80 && line.contains("-force replaces it; the recording continues"), "{line}");
    let done = user.ok(&["wpr", "-stop", "there.etl", "it is slow", "-force", "-compress"]);
    assert!(done.contains("The trace was successfully saved."), "{done}");
    assert_eq!(
        (user.numbers("there.etl", PROVIDER), user.numbers("there.etl", "Wpr.Other")),
        (vec![1], vec![2])
    );
    assert_eq!(marks(&user, "there.etl"), ["the button", "it is slow"]);
    wait_until("the host goes on without sessions", || !user.has_host());
    let (status, line) = user.fails(&["wpr", "-cancel"]);
    assert!(
        status == 1 && line.contains("no trace profiles running") && line.contains("0xc5583000"),
        "{line}"
    );
    assert_eq!(user.ok(&["wpr", "-status"]).trim(), "WPR is not recording");
}

#[test]
fn a_recording_to_a_file_beside_another() {
    let (user, file) = shop();
    let folder = user.etw.path("parts");
    std::fs::create_dir(&folder).unwrap();
    let profile = format!("{file}!Shop.Verbose");
    user.ok(&["wpr", "-start", &profile, "-filemode", "-recordtempto", &folder]);
    user.ok(&["wpr", "-start", &profile, "-instancename", "second"]);
    user.write(PROVIDER, 7);
    let shown = user.ok(&["wpr", "-status"]);
    assert!(shown.contains("Logging mode            : File\n") && shown.contains(&folder), "{shown}");
    let parts = || std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(parts(), 1);
    user.ok(&["wpr", "-stop", "file.etl"]);
    assert_eq!((user.numbers("file.etl", PROVIDER), parts()), (vec![7], 0));
    user.ok(&["wpr", "-cancel", "-instancename", "second"]);
    wait_until("the host goes on without sessions", || !user.has_host());
    let (_, line) = user.fails(&["wpr", "-stop", "none.etl", "-instancename", "second"]);
    assert!(
        line.contains("0xc5583000") && !std::path::Path::new(&user.etw.path("none.etl")).exists(),
        "{line}"
    );
}

#[test]
fn a_recording_that_was_not_saved_is_not_in_progress() {
    let (user, file) = shop();
    let folder = user.etw.path("parts");
    std::fs::create_dir(&folder).unwrap();
    user.ok(&["wpr", "-start", &format!("{file}!Shop.Verbose"), "-filemode", "-recordtempto", &folder]);
    user.write(PROVIDER, 7);
    // In place of what its sessions write there is something that cannot be merged.
    let part = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let sessions: Vec<_> = std::fs::read_dir(&part).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!sessions.is_empty());
    for session in &sessions {
        std::fs::rename(session, session.with_extension("moved")).unwrap();
        std::fs::write(session, "no trace").unwrap();
    }
    let (_, line) = user.fails(&["wpr", "-stop", "file.etl"]);
    assert!(line.contains("the recording is not lost: its files are in"), "{line}");
    let shown = user.ok(&["wpr", "-status"]);
    assert!(shown.starts_with("WPR recording has ended but is not saved yet:"), "{shown}");
    assert!(!shown.contains("Time since start") && shown.contains(part.to_str().unwrap()), "{shown}");
    for session in &sessions {
        std::fs::rename(session.with_extension("moved"), session).unwrap();
    }
    user.ok(&["wpr", "-stop", "file.etl"]);
    assert_eq!(user.numbers("file.etl", PROVIDER), [7]);
}

/// The state of `examples/state_provider.rs`: in one session beside its events, in the other one alone.
const STATE: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<WindowsPerformanceRecorder Version="1.0">
  <Profiles>
    <EventCollector Id="A" Name="Events"><BufferSize Value="64"/><Buffers Value="64"/></EventCollector>
    <EventCollector Id="B" Name="State"><BufferSize Value="64"/><Buffers Value="64"/></EventCollector>
    <EventProvider Id="P" Name="*Example.State">
      <CaptureStateOnStart><Keyword Value="0x10"/></CaptureStateOnStart>
      <CaptureStateOnDemand><Keyword Value="0x20"/></CaptureStateOnDemand>
      <CaptureStateOnSave><Keyword Value="0x40"/></CaptureStateOnSave>
    </EventProvider>
    <EventProvider Id="S" Name="*Example.State" CaptureStateOnly="true">
      <CaptureStateOnDemand><Keyword Value="0x100"/></CaptureStateOnDemand>
      <CaptureStateOnSave><Keyword Value="0x200"/></CaptureStateOnSave>
    </EventProvider>
    <Profile Id="State.Verbose.File" Name="State" Description="State" DetailLevel="Verbose" LoggingMode="File">
      <Collectors>
        <EventCollectorId Value="A"><EventProviders><EventProviderId Value="P"/></EventProviders></EventCollectorId>
        <EventCollectorId Value="B"><EventProviders><EventProviderId Value="S"/></EventProviders></EventCollectorId>
      </Collectors>
    </Profile>
    <Profile Id="State.Verbose.Memory" Base="State.Verbose.File" LoggingMode="Memory"/>
  </Profiles>
</WindowsPerformanceRecorder>"#;

/// Returns what a program with a provider writes from start to stop: the lines that it receives, and its state.
fn state(user: &User, mode: &[&str]) -> (Vec<String>, Vec<u64>) {
    let profile = user.etw.path("state.wprp");
    std::fs::write(&profile, STATE).unwrap();
    let mut program = std::process::Command::new(example("state_provider"))
        .env("OPENETW_RUNTIME_DIR", user.etw.path("run"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut told, mut says) =
        (program.stdin.take().unwrap(), BufReader::new(program.stdout.take().unwrap()).lines());
    assert_eq!(says.next().unwrap().unwrap(), "registered");
    let mut tell = |line: &str| {
        writeln!(told, "{line}").unwrap();
        assert_eq!(says.next().unwrap().unwrap(), "written");
    };
    // A program that there is before the sessions are.
    tell("before");
    user.ok(&[&["wpr", "-start", &profile][..], mode].concat());
    tell("one");
    user.ok(&["wpr", "-capturestateondemand"]);
    tell("two");
    user.ok(&["wpr", "-stop", "state.etl", "-force"]);
    drop(told);
    assert!(program.wait().unwrap().success());
    let events =
        json_lines(&user.ok(&["dump", "state.etl", "--provider", "Example.State", "--format", "json"]));
    let lines = events.iter().filter_map(|event| event["EventData"]["line"].as_str());
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    // The session that captures the state has the provider enabled until the program is notified of the disable.
    if lines.iter().filter(|line| *line == "two").count() == 2 {
        lines.pop();
    }
    (lines, events.iter().filter_map(|event| event["EventData"]["keywords"].as_u64()).collect())
}

#[test]
fn providers_tell_their_state_when_profiles_say_so() {
    let user = User::new();
    for mode in [&["-filemode"][..], &[]] {
        let (lines, mut state) = state(&user, mode);
        state.sort_unstable();
        assert_eq!(lines, ["one", "two"], "{mode:?}");
        assert_eq!(state, [0x10, 0x20, 0x40, 0x100, 0x200], "{mode:?}");
    }
    let (user, file) = shop();
    user.ok(&["wpr", "-start", &format!("{file}!Shop")]);
    let (status, line) = user.fails(&["wpr", "-capturestateondemand"]);
    assert!(
        status == 87 && line.contains("no provider of this recording has CaptureStateOnDemand"),
        "{line}"
    );
    user.ok(&["wpr", "-cancel"]);
}

#[test]
fn files_are_merged_with_descriptions_or_without() {
    let user = User::new();
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/numbers.man");
    let hundreds = "{7d1e9f66-3c52-4b0a-8f43-5a0c8b6f2e11}";
    user.ok(&["xperf", "-start", "A", "-on", hundreds, "-f", "A.etl"]);
    user.ok(&["xperf", "-start", "B", "-on", PROVIDER, "-f", "B.etl"]);
    let program = std::process::Command::new(example("numbered_events"))
        .arg("500")
        .env("OPENETW_RUNTIME_DIR", user.etw.path("run"))
        .output();
    assert_eq!(program.unwrap().stdout, b"written 5 lost 0\n");
    user.write(PROVIDER, 1);
    // This leaves the files as they are.
    user.ok(&["session", "stop", "A", "B"]);
    user.ok(&["schema", "add", manifest]);
    user.ok(&["wpr", "-merge", "A.etl", "B.etl", "with.etl", "-compress"]);
    user.ok(&["wpr", "-merge", "A.etl", "B.etl", "without.etl", "-mergeonly"]);
    std::fs::remove_dir_all(user.etw.path("schemas")).unwrap();
    for (file, are_described) in [("with.etl", true), ("without.etl", false)] {
        let text = user.ok(&["dump", file, "--format", "json"]);
        let events = json_lines(&text);
        let of = |name: &str| events.iter().filter(|event| event["EventData"][name].is_number()).count();
        assert_eq!(of("number"), 1, "{file}: {text}");
        assert_eq!(of("hundreds"), if are_described { 5 } else { 0 }, "{file}: {text}");
    }
    let (_, line) = user.fails(&["wpr", "-merge", "nowhere.etl", "A.etl", "m.etl"]);
    assert!(line.contains("nowhere.etl"), "{line}");
}

#[test]
fn the_system_by_built_in_profiles() {
    let user = User::new();
    let started = user.run(&["wpr", "-start", "CPU", "-start", "FileIO.Light", "-filemode"]);
    let told = String::from_utf8_lossy(&started.stderr).into_owned();
    if !started.status.success() || told.contains("missing: ") {
        assert!(told.contains("missing: ") || told.contains("CAP_BPF"), "{told}");
        etw_testkit::skip!("{told}");
        return;
    }
    user.ok(&["wpr", "-start", "FileIO.Light", "-instancename", "memory"]);
    let shown = user.ok(&["wpr", "-status", "collectors"]);
    for line in ["        CSwitch\n", "        FileIO\n", "        SampledProfile\n", "System Stacks\n"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let program = user.etw.path("recorded");
    std::fs::copy("/bin/true", &program).unwrap();
    assert!(std::process::Command::new(&program).status().unwrap().success());
    user.ok(&["wpr", "-stop", "system.etl"]);
    user.ok(&["wpr", "-stop", "memory.etl", "-instancename", "memory"]);
    // Whatever made room in memory, there is the state at the end.
    let stats = user.ok(&["stats", "memory.etl", "--by", "event", "--format", "json"]);
    for kind in ["FileIo/Create", "Process/Start", "Thread/DCEnd", "Image/DCEnd"] {
        assert!(stats.contains(kind), "{kind}: {stats}");
    }
    let stats = user.ok(&["stats", "system.etl", "--by", "event", "--format", "json"]);
    for kind in ["Thread/CSwitch", "Thread/ReadyThread", "FileIo/Create", "StackWalk/Stack", "Process/Start"]
    {
        assert!(stats.contains(kind), "{kind}: {stats}");
    }
    let events =
        user.ok(&["dump", "system.etl", "--where", &format!("FileName == '{program}'"), "--format", "json"]);
    let is_load = |event: &Value| event["System"]["EventType"] == "Image/Load";
    assert!(json_lines(&events).iter().any(is_load), "{events}");
}

#[test]
fn profiles_are_listed_told_and_exported() {
    let (user, file) = shop();
    let list = user.ok(&["wpr", "-profiles"]);
    for name in ["GeneralProfile", "CPU", "DiskIO", "FileIO", "Network", "VirtualAllocation"] {
        assert!(list.lines().any(|line| line.split_whitespace().next() == Some(name)), "{name}: {list}");
    }
    let list = user.ok(&["wpr", "-profiles", &file]);
    assert!(list.lines().any(|line| line.split_whitespace().eq(["Shop", "The", "shop"])), "{list}");
    let details = user.ok(&["wpr", "-profiledetails", &format!("{file}!Shop"), "-filemode"]);
    for line in [
        "Profile                 : Shop.Verbose.File\n",
        "        *Wpr.Test: 0x0: 0x04\n",
        "        *Wpr.Other: 0x0: 0xff: Stack\n",
        "CaptureState Providers\n        *Wpr.State: ",
        "Not recorded here\n        keyword Registry: Linux has no registry\n",
    ] {
        assert!(details.contains(line), "{line}: {details}");
    }
    user.ok(&["wpr", "-exportprofile", "CPU+Network.Light", "own.wprp", "-filemode"]);
    let own = user.ok(&["wpr", "-profiledetails", "own.wprp!CPU", "-filemode"]);
    assert_eq!(own, user.ok(&["wpr", "-profiledetails", "CPU", "-filemode"]));
    let (status, line) = user.fails(&["wpr", "-exportprofile", "CPU", "own.wprp", "-filemode"]);
    assert!(status == 80 && line.contains("already exists"), "{line}");
    assert!(user.ok(&["wpr", "-providers"]).contains("        CSwitch\n"));
    assert!(user.ok(&["wpr", "-help", "start"]).contains("-recordtempto DIR"));
}

#[test]
fn what_cannot_be_is_told_in_one_line() {
    let (user, file) = shop();
    let check = |words: &[&str], status: i32, said: &str| {
        let (found, line) = user.fails(&[&["wpr"][..], words].concat());
        assert!(found == status && line.contains(said), "{words:?}: {found} {line}");
    };
    check(&["-start", "Registry"], 50, "profile Registry: Linux has no registry");
    check(&["-start", "Nothing"], 144, "no profile 'Nothing'; available: GeneralProfile");
    check(&["-start", &format!("{file}!Nothing")], 144, "available: Shop, File");
    check(&["-start", &format!("{file}!File")], 144, "-filemode records it to a file");
    check(&["-start", "nowhere.wprp!Shop"], 2, "nowhere.wprp: cannot be read");
    check(&["-start", r"C:\x.wprp!Shop"], 3, "is a Windows path");
    check(&["-boottrace", "-addboot", "CPU"], 50, "use an autologger of the daemon");
    check(&["-start"], 87, "-start needs");
    check(&["-frobnicate"], 87, "unknown option -frobnicate");
    check(&["-marker", "x"], 1, "0xc5583000");
    check(&["-status", "nonsense"], 87, "unknown 'nonsense'; expected profiles");
    std::fs::write(&file, SHOP.replace("Level=\"4\"", "Level=\"400\"")).unwrap();
    check(&["-start", &format!("{file}!Shop")], 1, "line 6: <EventProvider Level=\"400\">");
    std::fs::write(&file, SHOP.replace("Value=\"P\"", "Value=\"Q\"")).unwrap();
    check(&["-start", &format!("{file}!Shop")], 1, "line 17: no <EventProvider> has the id 'Q' (0xc5580701)");
    assert!(!user.has_host(), "a host was started for nothing");
}

#[test]
fn published_profiles_can_be_told() {
    let Some(directory) = etw_testkit::data::data_dir() else { return };
    let user = User::new();
    let mut count = 0;
    for folder in std::fs::read_dir(directory.join("wprp")).unwrap().map(|entry| entry.unwrap().path()) {
        for file in std::fs::read_dir(&folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
            let file = file.to_str().unwrap();
            let output = user.run(&["wpr", "-profiles", file]);
            assert!(output.status.success() && output.stderr.is_empty(), "{file}");
            let list = String::from_utf8(output.stdout).unwrap();
            let name = list.split_whitespace().next().unwrap_or_else(|| panic!("{file}: {list}"));
            let profile = format!("{file}!{name}");
            let told = user.run(&["wpr", "-profiledetails", &profile, "-filemode"]);
            let told =
                if told.status.success() { told } else { user.run(&["wpr", "-profiledetails", &profile]) };
            assert!(told.status.success(), "{profile}: {}", String::from_utf8_lossy(&told.stderr));
            count += 1;
        }
    }
    assert_eq!(count, 31);
}

#[test]
fn etw_record_takes_profiles() {
    let (user, file) = shop();
    let profile = format!("{file}!Shop");
    let program = ["--", env!("CARGO_BIN_EXE_etw"), "write", PROVIDER, "Number", "number=5"];
    user.ok(&[&["record", "--profile", profile.as_str(), "-o", "r.etl"][..], &program].concat());
    assert_eq!(user.numbers("r.etl", PROVIDER), [5]);
}
