//! Examples of `openetw` on Linux and on Windows: the same sources print the same.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::place::{Host, Place, json_lines};
use shell::output_within;
use shell::process::{MINUTES_2, Process};

/// Seconds for which the examples of live sessions listen; enough for a writer to start, write for a second, and end.
const SECONDS: &str = "10";
/// Events of each kind that the writer writes in its second.
const WRITTEN: usize = 100;

/// What the examples printed on one system.
struct Printed {
    write_events: String,
    /// The written events, as `read_file` shows them.
    read_file: String,
    seven_steps: String,
    real_time: Vec<Value>,
}

/// Runs the examples on both systems, and compares what they print, but for ids and times.
pub(super) fn compare(place: &Place) -> Result<String> {
    let (linux, windows) = (place.host()?, place.host()?);
    let (of_linux, of_windows) = thread::scope(|scope| {
        let other = scope.spawn(|| run(&windows, true));
        let one = run(&linux, false);
        (one, other.join())
    });
    let of_linux = of_linux.context("on Linux")?;
    let of_windows = of_windows.map_err(|_| anyhow::anyhow!("a thread failed"))?.context("on Windows")?;
    let same = |example: &str, one: &str, other: &str| {
        ensure!(one == other, "`{example}` prints on Windows:\n{other}\nand on Linux:\n{one}");
        Ok(())
    };
    same("write_events", &of_linux.write_events, &of_windows.write_events)?;
    same("read_file", &of_linux.read_file, &of_windows.read_file)?;
    same("seven_steps", &of_linux.seven_steps, &of_windows.seven_steps)?;
    ensure!(of_linux.seven_steps == format!("listening\n{WRITTEN} files, 0 events lost\n"));
    ensure!(of_linux.real_time.len() == 2 * WRITTEN, "{} events in real time", of_linux.real_time.len());
    let pairs = of_linux.real_time.iter().zip(&of_windows.real_time);
    for (one, other) in pairs {
        same("real_time", &one.to_string(), &other.to_string())?;
    }
    ensure!(of_linux.real_time.len() == of_windows.real_time.len());
    // A file is shown the same on both systems, whichever wrote it.
    for host in [&linux, &windows] {
        let file = host.path("written.etl");
        let one = output_within(&mut example(host, false, "read_file", &[&file]), MINUTES_2)?;
        let name = host.windows_path("written.etl");
        let other = output_within(&mut example(host, true, "read_file", &[&name]), MINUTES_2)?;
        same("read_file", &one, &other)?;
    }
    Ok("seven_steps, real_time, read_file and write_events print the same".into())
}

/// Returns a command that runs an example.
fn example(host: &Host<'_>, is_windows: bool, name: &str, arguments: &[&str]) -> Command {
    if is_windows {
        return host.program(&host.place.windows.join(format!("examples/{name}.exe")), arguments);
    }
    let mut command = Command::new(host.place.linux.join("examples").join(name));
    command.args(arguments).env("OPENETW_RUNTIME_DIR", host.directory.path());
    command
}

fn run(host: &Host<'_>, is_windows: bool) -> Result<Printed> {
    let print = |name: &str, arguments: &[&str]| {
        output_within(&mut example(host, is_windows, name, arguments), MINUTES_2)
    };
    let file = if is_windows { host.windows_path("written.etl") } else { host.path("written.etl") };
    let write_events = print("write_events", &[&file])?;
    let read_file = requests(&print("read_file", &[&file])?);
    ensure!(!read_file.is_empty(), "no events in {file}");

    let (mut seven_steps, steps) = listen(host, is_windows, "seven_steps", &[SECONDS])?;
    let (mut real_time, lines) = listen(host, is_windows, "real_time", &["MyCompany.Demo", SECONDS])?;
    host.wait_for_consumer("SevenSteps")?;
    host.wait_for_consumer("MyRealtimeSession")?;
    print("demo_provider", &["1"])?;
    ensure!(seven_steps.wait()?.success() && real_time.wait()?.success(), "an example failed");
    let lines = fs::read_to_string(lines)?;
    let events = lines
        .strip_prefix("listening\n")
        .and_then(|lines| lines.strip_suffix("0 events lost\n"))
        .with_context(|| lines.clone())?;
    let mut events = json_lines(events)?;
    events.retain(|event| event["System"]["Provider"]["Name"] == "MyCompany.Demo");
    events.iter_mut().for_each(forget_ids_and_times);
    Ok(Printed { write_events, read_file, seven_steps: fs::read_to_string(steps)?, real_time: events })
}

/// Starts an example whose output goes to a file.
fn listen(host: &Host<'_>, is_windows: bool, name: &str, arguments: &[&str]) -> Result<(Process, PathBuf)> {
    let path = PathBuf::from(host.path(&format!("{name}.txt")));
    let mut command = example(host, is_windows, name, arguments);
    command.stdin(Stdio::null()).stdout(File::create(&path)?);
    Ok((Process::spawn(&mut command, MINUTES_2)?, path))
}

/// Returns the lines of `read_file` about events of `write_events`, without times and processes.
fn requests(printed: &str) -> String {
    let (mut kept, mut is_kept) = (String::new(), false);
    for line in printed.lines() {
        let is_header = !line.starts_with(' ');
        if is_header {
            is_kept = line.contains(" MyCompany.Requests ");
        }
        if is_kept {
            let line = line.split_once(' ').filter(|_| is_header).map_or(line, |(_time, rest)| rest);
            let line = line.rsplit_once(" process ").filter(|_| is_header).map_or(line, |(rest, _)| rest);
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// Removes what differs between two runs from an event.
fn forget_ids_and_times(event: &mut Value) {
    if let Some(system) = event["System"].as_object_mut() {
        system.remove("TimeCreated");
        system.remove("Execution");
    }
}
