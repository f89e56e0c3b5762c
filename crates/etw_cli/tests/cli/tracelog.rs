//! `tracelog`.

use crate::tools::User;

const PROVIDER: &str = "Tracelog.Test";

#[test]
fn sessions_and_what_is_enabled_in_them() {
    let user = User::new();
    let name = format!("*{PROVIDER}");
    let started = user.ok(&[
        "tracelog",
        "-start",
        "T",
        "-guid",
        &name,
        "-f",
        "t.etl",
        "-b",
        "128",
        "-max",
        "64",
        "-level",
        "5",
        "-matchanykw",
        "0x3",
    ]);
    for line in [
        "Logger Started...\n",
        "Operation Status:       0L      The operation completed successfully.\n",
        "Logger Name:            T\n",
        "Buffer Size:            128 Kb\n",
        "Maximum Buffers:        64\n",
    ] {
        assert!(started.contains(line), "{line}: {started}");
    }
    user.write(PROVIDER, 1);
    let shown = user.ok(&["tracelog", "-q", "t", "-lp"]);
    assert!(shown.contains("Enabled Providers:\n") && shown.contains(":0x3:0x5"), "{shown}");
    user.ok(&["tracelog", "-disable", "T", "-guid", &name]);
    user.write(PROVIDER, 2);
    user.ok(&["tracelog", "/enable", "T", "/guid", &name]);
    user.write(PROVIDER, 3);
    user.ok(&["tracelog", "-capturestate", "T"]);
    let updated = user.ok(&["tracelog", "-update", "T", "-max", "32", "-ft", "2", "-rt"]);
    assert!(updated.contains("Flush Timer:            2\n") && updated.contains("RealTime"), "{updated}");
    user.ok(&["tracelog", "-flush", "T"]);
    let list = user.ok(&["tracelog", "-l"]);
    assert!(list.contains("Maximum Buffers:        32\n"), "{list}");
    let stopped = user.ok(&["tracelog", "-stop", "T"]);
    assert!(stopped.contains("Events Lost:            0\n"), "{stopped}");
    assert_eq!(user.numbers("t.etl", PROVIDER), [1, 3]);
}

#[test]
fn providers_that_programs_have_registered() {
    let user = User::new();
    user.ok(&["tracelog", "-start", "T", "-rt"]);
    let list = user.ok(&["tracelog", "-enumguid"]);
    // Those of the system are always there.
    let row = list.lines().find(|line| line.starts_with("{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}")).unwrap();
    assert!(row.contains("FALSE"), "{row}");
    let one = user.ok(&["tracelog", "-enumguidex", "#{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}"]);
    assert_eq!(one.lines().filter(|line| line.starts_with('{')).count(), 1, "{one}");
    user.ok(&["tracelog", "-x"]);
    assert!(!user.ok(&["tracelog", "-l"]).contains("Logger Name"));
}

#[test]
fn modes_and_files_of_providers() {
    let user = User::new();
    std::fs::write(user.etw.path("p.guid"), "; remark\n9ab8e1cd-3ab2-5bc5-8b32-4f2a26e0b6bb;0x1;4\n")
        .unwrap();
    user.ok(&[
        "tracelog",
        "-start",
        "Files",
        "-f",
        "part%d.etl",
        "-newfile",
        "1",
        "-guid",
        "p.guid",
        "-UseSystemTime",
    ]);
    let shown = user.ok(&["tracelog", "-q", "Files", "-lp"]);
    assert!(shown.contains("NewFile") && shown.contains(":0x1:0x4"), "{shown}");
    let name = format!("*{PROVIDER}");
    user.ok(&["tracelog", "-start", "Flight", "-buffering", "-guid", &name]);
    user.write(PROVIDER, 8);
    user.ok(&["tracelog", "-flush", "Flight", "-f", "flight.etl"]);
    assert_eq!(user.numbers("flight.etl", PROVIDER), [8]);
    for number in [1, 2] {
        user.ok(&["tracelog", "-start", "A", "-append", "-f", "append.etl", "-guid", &name]);
        user.write(PROVIDER, number);
        user.ok(&["tracelog", "-stop", "A"]);
    }
    assert_eq!(user.numbers("append.etl", PROVIDER), [1, 2]);
    // The default file, in this directory.
    user.ok(&["tracelog", "-start", "D", "-guid", &name]);
    user.write(PROVIDER, 9);
    user.ok(&["tracelog", "-stop", "D"]);
    assert_eq!(user.numbers("LogFile.etl", PROVIDER), [9]);
}

#[test]
fn autologgers_are_for_the_daemon() {
    let user = User::new();
    let name = format!("*{PROVIDER}");
    let file = user.etw.path("boot.etl");
    let said = user.ok(&[
        "tracelog",
        "-addautologger",
        "Boot",
        "-sessionguid",
        "#{12345678-1234-1234-1234-123456789abc}",
        "-f",
        &file,
        "-guid",
        &name,
        "-level",
        "4",
        "-PidFilter",
        "1",
        "4711",
        "-EventIdFilter",
        "-out",
        "1",
        "5",
    ]);
    let directory = user.etw.path("config/openetw/autologgers");
    let written = std::fs::read_to_string(format!("{directory}/Boot.toml")).unwrap();
    assert!(written.contains(":4:!5:0x0:0x0\""), "{written}");
    assert!(said.contains(&format!("{directory}/Boot.toml")), "{said}");
    let mut daemon = user.command(&["daemon", "--autologgers", &directory]).spawn().unwrap();
    crate::tools::wait_until("the daemon does not start", || user.has_host());
    let shown = user.ok(&["tracelog", "-q", "Boot", "-lp"]);
    user.ok(&["tracelog", "-stop", "Boot"]);
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert!(shown.contains(&file) && shown.contains(":0x0:0x4"), "{shown}");
    user.ok(&["tracelog", "-remove", "Boot"]);
    let (status, text) = user.fails(&["tracelog", "-remove", "Boot"]);
    assert!(status == 105 && text.contains("there is no autologger 'Boot'"), "{text}");
}

#[test]
fn the_kernels_session() {
    let user = User::new();
    if !user.starts(&["tracelog", "-start", "-nodisk", "-nonet", "-img", "-stackwalk", "ProcessCreate"]) {
        return;
    }
    let shown = user.ok(&["tracelog", "-q"]);
    assert!(
        shown.contains("Enabled tracing:        PROC_THREAD+LOADER\n") && shown.contains("/LogFile.etl\n"),
        "{shown}"
    );
    let program = user.etw.path("seen");
    std::fs::copy("/bin/true", &program).unwrap();
    assert!(std::process::Command::new(&program).status().unwrap().success());
    user.ok(&["tracelog", "-update", "-eflag", "1", "PROC_THREAD"]);
    let stopped = user.ok(&["tracelog", "-stop"]);
    assert!(stopped.contains("Enabled tracing:        PROC_THREAD\n"), "{stopped}");
    let text = user.ok(&["dump", "LogFile.etl", "--where", &format!("CommandLine == '{program}'")]);
    assert!(text.contains("Process/Start"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let user = User::new();
    user.ok(&["tracelog", "-start", "T", "-rt"]);
    for (words, status, expected) in [
        (&["-start", "t", "-f", "t.etl"][..], 183, "session 't' already exists (0xb7)"),
        (&["-stop", "U"], 105, "there is no session 'U'; `tracelog -l`"),
        (&["-stop"], 105, "there is no session 'NT Kernel Logger'"),
        (&["-q", "U"], 105, "there is no session 'U'"),
        (&["-enable", "T"], 87, "name the providers with -guid"),
        (&["-disable", "T", "-guid", "*Never.Enabled"], 105, "has not enabled"),
        (&["-start", "U", "-guid", "#{1234}"], 87, "-guid #{1234}"),
        (&["-start", "U", "-guid", "nowhere.guid"], 2, "nowhere.guid: cannot be read"),
        (&["-start", "U", "-guid", "c:\\my.guid"], 3, "is a Windows path"),
        (&["-start", "U", "-f", "u.etl", "-cir", "0"], 87, "maximum_file_size"),
        (&["-start", "U", "-eflag", "1", "REGISTRY"], 50, "Linux has no registry"),
        (&["-start", "U", "-cm"], 50, "Linux has no registry"),
        (&["-start", "U", "-gs"], 50, "-gs: only WPP messages have sequence numbers"),
        (&["-start", "U", "-ls"], 50, "-ls: only WPP messages have sequence numbers"),
        (&["-start", "U", "-kd"], 50, "-rt and `etw dump -s LOGGER`"),
        (&["-systemrundown", "T"], 50, "at its start and end"),
        (&["-start", "U", "-stop", "U"], 87, "one action at a time"),
        (&["-guid", "*A"], 87, "an action is needed"),
        (&["-update", "T", "-b", "4"], 87, "cannot be changed while a session runs"),
        (&["-colour"], 87, "unknown option -colour"),
        (&["-addautologger", "../x", "-rt"], 87, "is not a valid autologger name"),
        (&["-enumguidex", "#{12345678-1234-1234-1234-123456789abc}"], 104, "no program has registered"),
    ] {
        let found = user.fails(&[&["tracelog"][..], words].concat());
        assert!(found.0 == status && found.1.contains(expected), "{words:?}: {found:?}");
    }
}
