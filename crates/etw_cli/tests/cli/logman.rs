//! `logman`.

use serde_json::Value;

use crate::json_lines;
use crate::tools::User;

const PROVIDER: &str = "Logman.Test";

#[test]
fn sessions_are_controlled() {
    let user = User::new();
    let done = user
        .ok(&["logman", "start", "S", "-p", PROVIDER, "0xff", "5", "-o", "s.etl", "-nb", "16", "64", "-ets"]);
    assert!(done.contains("The command completed successfully."), "{done}");
    user.write(PROVIDER, 1);
    let list = user.ok(&["logman", "query", "-ets"]);
    assert!(list.lines().any(|line| line.split_whitespace().eq(["S", "Trace", "Running"])), "{list}");
    let shown = user.ok(&["logman", "query", "s", "-ets"]);
    for line in [
        "Name:                 S\n",
        "Status:               Running\n",
        "Maximum Buffers:      64\n",
        "Events:               1\n",
        "Level:                5\n",
        "KeywordsAny:          0xff\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    user.ok(&[
        "logman",
        "update",
        "trace",
        "S",
        "-p",
        "Logman.Other",
        "-ft",
        "0.1",
        "-nb",
        "16",
        "128",
        "-ets",
    ]);
    user.write("Logman.Other", 2);
    user.ok(&["logman", "update", "S", "--p", PROVIDER, "-ets"]);
    user.write(PROVIDER, 3);
    let shown = user.ok(&["logman", "query", "S", "-ets"]);
    assert!(
        shown.contains("Maximum Buffers:      128\n") && shown.contains("Buffer Flush Timer:   0.1\n"),
        "{shown}"
    );
    assert!(shown.matches("Provider:\n").count() == 1 && !shown.contains("0xff"), "{shown}");
    user.ok(&["logman", "stop", "S", "-ets"]);
    assert_eq!((user.numbers("s.etl", PROVIDER), user.numbers("s.etl", "Logman.Other")), (vec![1], vec![2]));
}

#[test]
fn the_command_lines_of_support_articles() {
    let user = User::new();
    // As they are pasted, with file names of this system.
    let options = [
        "0xffffffffffffffff",
        "0xff",
        "-nb",
        "16",
        "16",
        "-bs",
        "1024",
        "-mode",
        "Circular",
        "-f",
        "bincirc",
        "-max",
        "4096",
        "-ets",
    ];
    let create = [
        "logman",
        "create",
        "trace",
        "shop",
        "-ow",
        "-o",
        "shop.etl",
        "-p",
        "{22FB2CD6-0E7B-422B-A0C7-2FAD1FD0E716}",
    ];
    user.ok(&[&create[..], &options[..]].concat());
    let update = ["logman", "update", "trace", "shop", "-p", PROVIDER];
    user.ok(&[&update[..], &options[..]].concat());
    user.write(PROVIDER, 7);
    let shown = user.ok(&["logman", "query", "shop", "-ets"]);
    assert!(
        shown.contains("Circular:             On") && shown.contains("Segment Max Size:     4096 MB"),
        "{shown}"
    );
    user.ok(&["logman", "stop", "shop", "-ets"]);
    assert_eq!(user.numbers("shop.etl", PROVIDER), [7]);
}

#[test]
fn sets_are_saved_started_and_stopped() {
    let user = User::new();
    user.ok(&["logman", "create", "trace", "My Set", "-p", PROVIDER, "0x3", "-o", "set.etl", "-bs", "128"]);
    let list = user.ok(&["logman", "query"]);
    assert!(list.contains("My Set") && list.contains("Stopped"), "{list}");
    for number in [1, 2] {
        user.ok(&["logman", "start", "my set"]);
        user.write(PROVIDER, number);
        let shown = user.ok(&["logman", "query", "My Set"]);
        assert!(shown.contains("Status:               Running") && shown.contains("set.etl"), "{shown}");
        user.ok(&["logman", "stop", "My Set"]);
        assert_eq!(user.numbers(&format!("set_00000{number}.etl"), PROVIDER), [u64::from(number)]);
    }
    user.ok(&[
        "logman",
        "update",
        "trace",
        "My Set",
        "-f",
        "bincirc",
        "-max",
        "10",
        "--v",
        "-ow",
        "-p",
        "Logman.Other",
    ]);
    user.ok(&["logman", "export", "My Set", "-xml", "set.xml"]);
    let text = std::fs::read_to_string(user.etw.path("set.xml")).unwrap();
    assert!(
        text.contains("<SegmentMaxSize>10</SegmentMaxSize>")
            && text.contains("<LogCircular>-1</LogCircular>")
    );
    user.ok(&["logman", "delete", "My Set"]);
    assert!(!user.ok(&["logman", "query"]).contains("My Set"));
    user.ok(&["logman", "import", "Other", "-xml", "set.xml"]);
    for number in [3, 4] {
        user.ok(&["logman", "start", "Other"]);
        user.write("Logman.Other", number);
        user.ok(&["logman", "stop", "Other"]);
        assert_eq!(user.numbers("set.etl", "Logman.Other"), [u64::from(number)]);
    }
}

#[test]
fn providers_are_listed_and_shown() {
    let user = User::new();
    let list = user.ok(&["logman", "query", "providers"]);
    let row = "Microsoft-Windows-Kernel-Process         {22FB2CD6-0E7B-422B-A0C7-2FAD1FD0E716}";
    assert!(list.contains(row) && list.contains("The command completed successfully."), "{list}");
    assert!(!list.contains("DiskIo "), "classes are no providers");
    let shown = user.ok(&["logman", "query", "providers", "microsoft-windows-kernel-process"]);
    assert!(shown.contains(row) && shown.contains("0x0000000000000010  WINEVENT_KEYWORD_PROCESS"), "{shown}");
    let kernel = user.ok(&["logman", "query", "providers", "Windows Kernel Trace"]);
    assert!(kernel.contains("0x0000000000000001  process") && kernel.contains("registry"), "{kernel}");
    // One that a program has registered, by its process.
    user.ok(&["logman", "start", "S", "-rt", "-ets"]);
    let registered = user.ok(&["logman", "query", "providers", "-pid", "1"]);
    assert!(!registered.contains(row), "{registered}");
}

#[test]
fn the_kernels_events_by_logmans_names() {
    let user = User::new();
    let words = [
        "logman",
        "start",
        "NT Kernel Logger",
        "-p",
        "Windows Kernel Trace",
        "(process,img)",
        "-o",
        "k.etl",
        "-ets",
    ];
    if !user.starts(&words) {
        return;
    }
    let shown = user.ok(&["logman", "query", "NT Kernel Logger", "-ets"]);
    assert!(shown.contains("KeywordsAny:          0x5 (process,img)"), "{shown}");
    let program = user.etw.path("seen");
    std::fs::copy("/bin/true", &program).unwrap();
    assert!(std::process::Command::new(&program).status().unwrap().success());
    user.ok(&["logman", "update", "NT Kernel Logger", "-p", "Windows Kernel Trace", "(process)", "-ets"]);
    let other = user.etw.path("other");
    std::fs::copy("/bin/true", &other).unwrap();
    assert!(std::process::Command::new(&other).status().unwrap().success());
    user.ok(&["logman", "stop", "NT Kernel Logger", "-ets"]);
    let events = json_lines(&user.ok(&["dump", "k.etl", "--format", "json"]));
    let count = |kind: &str, field: &str, value: &str| {
        let is_it = |event: &&Value| {
            event["System"]["EventType"] == kind
                && event["EventData"][field].as_str().is_some_and(|text| text.ends_with(value))
        };
        events.iter().filter(is_it).count()
    };
    assert_eq!(
        (count("Process/Start", "CommandLine", "/seen"), count("Process/Start", "CommandLine", "/other")),
        (1, 1)
    );
    assert_eq!((count("Image/Load", "FileName", "/seen"), count("Image/Load", "FileName", "/other")), (1, 0));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let user = User::new();
    user.ok(&["logman", "start", "S", "-o", "s.etl", "-ets"]);
    user.ok(&["logman", "create", "trace", "Set", "-p", PROVIDER]);
    std::fs::write(user.etw.path("there.etl"), "x").unwrap();
    for (words, status, expected) in [
        (&["start", "s", "-o", "t.etl", "-ets"][..], 183, "session 's' already exists (0xb7)"),
        (&["start", "T", "-o", "there.etl", "-ets"], 80, "-ow replaces it, -a appends to it (0x50)"),
        (
            &["start", "T", "-o", r"c:\trace.etl", "-ets"],
            3,
            "is a Windows path; use a path of this system, such as trace.etl",
        ),
        (&["start", "T", "-o", "c:trace.etl", "-ets"], 3, "as trace.etl or /tmp/trace.etl"),
        (&["start", "T", "-colour", "red"], 87, "unknown option -colour (0x57)"),
        (&["start", "T", "-o"], 87, "-o needs FILE"),
        (&["start", "T", "-p", "{123}", "-ets"], 104, "'{123}' is not a provider name or GUID"),
        (
            &["start", "T", "-p", "Windows Kernel Trace", "(process,registry)", "-rt", "-ets"],
            50,
            "Linux has no registry",
        ),
        (&["start", "T"], 2, "there is no data collector set 'T'"),
        (&["start"], 87, "a name is needed"),
        (&["stop", "T"], 105, "there is no session 'T'"),
        (&["stop", "T", "-ets"], 105, "there is no session 'T'"),
        (&["stop", "Set"], 4, "is not running"),
        (&["query", "T"], 2, "there is no data collector set 'T'"),
        (&["query", "T", "-ets"], 105, "there is no session 'T'"),
        (&["query", "providers", "No-Such-Provider"], 104, "there is no provider 'No-Such-Provider'"),
        (&["create", "trace", "set", "-p", PROVIDER], 183, "data collector set 'set' already exists"),
        (&["create", "counter", "C"], 50, "`etw report`"),
        (&["create", "T"], 87, "create trace NAME"),
        (&["create", "trace", "T", "-s", "server"], 50, "`ssh COMPUTER logman …`"),
        (
            &["create", "trace", "T", "-rf", "10"],
            50,
            "`systemd-run --user --on-active=TIME logman stop NAME`",
        ),
        (&["create", "trace", "T", "-b", "12/1/2026", "8:00"], 50, "`systemd-run --user --on-calendar="),
        (&["create", "trace", "T", "-rc", "task"], 50, "`logman stop NAME && TASK`"),
        (
            &["create", "trace", "T", "-cnf", "1:00:00"],
            87,
            "systemd-run --user --on-active=TIME --on-unit-active=",
        ),
        (&["create", "trace", "T", "-f", "csv"], 87, "`tracerpt FILE -of CSV` converts one"),
        (&["start", "T", "-mode", "globalsequence", "-ets"], 50, "only WPP messages have sequence numbers"),
        (&["update", "S", "-bs", "4", "-ets"], 87, "cannot be changed while a session runs"),
        (&["update", "S", "-ets"], 87, "nothing to change"),
        (&["delete", "T"], 2, "there is no data collector set 'T'"),
        (&["import", "T"], 87, "-xml FILE"),
        (&["import", "T", "-xml", "there.etl"], 87, "there.etl: "),
        (&["import", "T", "-xml", "nowhere.xml"], 2, "nowhere.xml: cannot be read"),
        (&["export", "Set", "-xml", "there.etl"], 80, "-y replaces it"),
        (&["jump"], 87, "unknown verb 'jump'; expected create, query"),
    ] {
        let found = user.fails(&[&["logman"][..], words].concat());
        assert!(
            found.0 == status && found.1.starts_with("logman: ") && found.1.contains(expected),
            "{words:?}: {found:?}"
        );
    }
    assert_eq!(std::fs::read(user.etw.path("there.etl")).unwrap(), b"x");
    user.ok(&["logman", "start", "Set"]);
    let found = user.fails(&["logman", "start", "Set"]);
    assert!(found.0 == 0xAA && found.1.contains("is already running"), "{found:?}");
    let found = user.fails(&["logman", "delete", "Set"]);
    assert!(found.0 == 0xAA && found.1.contains("`logman stop Set` stops it"), "{found:?}");
}

#[test]
fn files_of_providers_and_modes() {
    let user = User::new();
    std::fs::write(user.etw.path("providers.txt"), format!("{PROVIDER} 0xff 5\n\"Logman.Other\"\n")).unwrap();
    user.ok(&[
        "logman",
        "start",
        "S",
        "/PF",
        "providers.txt",
        "/o",
        "part.etl",
        "/cnf",
        "/max",
        "1",
        "/ct",
        "system",
        "/ets",
    ]);
    user.write(PROVIDER, 1);
    user.write("Logman.Other", 2);
    user.ok(&["session", "increment-file", "S"]);
    user.write(PROVIDER, 3);
    user.ok(&["logman", "stop", "S", "/ets"]);
    assert_eq!(
        (user.numbers("part_1.etl", PROVIDER), user.numbers("part_2.etl", PROVIDER)),
        (vec![1], vec![3])
    );
    assert_eq!(user.numbers("part_1.etl", "Logman.Other"), [2]);
    for number in [4, 5] {
        user.ok(&["logman", "start", "A", "-p", PROVIDER, "-o", "append.etl", "-a", "-ets"]);
        user.write(PROVIDER, number);
        user.ok(&["logman", "stop", "A", "-ets"]);
    }
    assert_eq!(user.numbers("append.etl", PROVIDER), [4, 5]);
}
