//! The examples of this crate, run as users run them.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{TestHost, enable, hears, wait};

/// Returns the command of an example with its own instance.
fn command(name: &str, directory: &Path) -> Command {
    // Examples are built next to the tests.
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name);
    let mut command = Command::new(program);
    command.current_dir(directory).env("OPENETW_RUNTIME_DIR", directory.join("runtime"));
    command
}

/// Runs an example and returns its output.
fn example(name: &str, directory: &Path, arguments: &[&str]) -> String {
    let output = command(name, directory).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn a_program_records_itself_and_reads_what_it_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let text = example("write_events", directory.path(), &["trace.etl"]);
    assert_eq!(text, "300 events read; 0 events lost\n");
}

/// Starts an example that consumes events, and `demo_provider` once it listens; returns the lines of the example, and
/// the provider's id.
fn listens(name: &str, arguments: &[&str]) -> (Vec<String>, u32) {
    let directory = tempfile::tempdir().unwrap();
    let mut listener =
        command(name, directory.path()).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    hears(&mut listener, "listening\n");
    let mut provider = command("demo_provider", directory.path()).arg("1").spawn().unwrap();
    let mut text = String::new();
    listener.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(wait(&mut listener).success() && wait(&mut provider).success());
    (text.lines().map(str::to_owned).collect(), provider.id())
}

#[test]
fn events_are_shown_as_they_come() {
    let (mut lines, provider) = listens("real_time", &["MyCompany.Demo:5", "3"]);
    assert_eq!(lines.pop().unwrap(), "0 events lost");
    let events: Vec<serde_json::Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let demo: Vec<&serde_json::Value> =
        events.iter().filter(|event| event["System"]["Provider"]["Name"] == "MyCompany.Demo").collect();
    assert_eq!(demo.len(), 200);
    for (number, event) in demo.iter().enumerate() {
        let name = if number % 2 == 0 { "FileCreate" } else { "FileRead" };
        assert_eq!(event["System"]["EventType"], name);
        assert_eq!(event["System"]["Execution"]["ProcessID"], provider);
        assert_eq!(event["EventData"]["FileName"], format!("/tmp/file{}", number / 2));
    }
}

#[test]
fn a_session_wants_one_event_of_programs_of_one_name() {
    let (lines, provider) = listens("real_time_filtered", &["3"]);
    let expected = (0..100).map(|number| format!("process {provider} creates /tmp/file{number}"));
    assert_eq!(lines, expected.collect::<Vec<_>>());
}

#[test]
fn seven_steps() {
    let (lines, _) = listens("seven_steps", &["3"]);
    assert_eq!(lines, ["100 files; 0 events lost"]);
}

#[test]
fn a_session_with_its_providers_and_callbacks_is_one_object() {
    let (lines, _) = listens("user_trace", &["3"]);
    assert_eq!(lines[0], "100 files, 100 failed callbacks, 0 events lost");
    // The provider ended before the stop, so everything had been delivered and counted by then.
    let (before, all) = lines[1].strip_suffix(" events before the stop").unwrap().split_once(" of ").unwrap();
    assert_eq!(before, all);
    assert!(all.parse::<u32>().unwrap() > 200, "{all}");
}

#[test]
fn hello_is_recorded_and_read() {
    let host = TestHost::new();
    host.start("Hello", &[enable("MyCompany.MyProvider")]);
    assert!(
        command("hello_event", host.dir.path())
            .env("OPENETW_RUNTIME_DIR", host.dir.path())
            .status()
            .unwrap()
            .success()
    );
    let seen = host.stop("Hello");
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].text, "MyEvent Message=Hello from ETW");
    let text = example("read_file", host.dir.path(), &["Hello.etl"]);
    assert!(text.contains(" MyCompany.MyProvider MyEvent id 0 process "), "{text}");
    assert!(text.contains("    Message = Hello from ETW\n") && text.ends_with("\n0 events lost\n"), "{text}");
}
