//! A program for .NET, run by Microsoft's own runtime for Windows: an EventSource, and functions called from C#.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use zip::ZipArchive;

use super::place::{Host, Place};
use shell::process::MINUTES_2;
use shell::{output, output_within, root, target_dir};

/// The compiler of C#.
const COMPILER: &str = "mcs";
/// What the runtime has to know of a program.
const CONFIGURATION: &str =
    r#"{"runtimeOptions":{"framework":{"name":"Microsoft.NETCore.App","version":"3.1.0"}}}"#;

/// Runs a program that records itself; then records it from Linux, with the events of the runtime.
pub(super) fn run(place: &Place) -> Result<String> {
    let directory = target_dir().join("wine/dotnet");
    let Some(package) = package(&directory) else { return skipped("the runtime is not there") };
    if !shell::succeeds(Command::new(COMPILER).arg("--version")) {
        return skipped("mcs is not installed");
    }
    let runtime = directory.join("runtime");
    if !runtime.exists() {
        ZipArchive::new(File::open(package)?)?.extract(&runtime)?;
    }
    let program = directory.join("program.exe");
    let mut compiler = Command::new(COMPILER);
    compiler.arg(format!("-out:{}", program.display())).arg(root().join("bindings/wine/dotnet/program.cs"));
    output(&mut compiler)?;
    fs::write(program.with_extension("runtimeconfig.json"), CONFIGURATION)?;
    let host_program = runtime.join("dotnetcore2/bin/dotnet.exe");
    let host = place.host()?;
    let path = program.display().to_string();
    let printed = output_within(&mut host.program(&host_program, &[&path]), MINUTES_2)?;
    ensure!(printed.trim_end().ends_with("done"), "{printed}");
    let (written, of_runtime) = record(&place.without_daemon()?, &host_program, &program)?;
    Ok(format!("200 events in real time; {written} and {of_runtime} of the runtime in a file"))
}

/// Records the program from Linux. Returns how many events of its source and of the runtime there are.
fn record(host: &Host<'_>, runtime: &Path, program: &Path) -> Result<(usize, usize)> {
    let mut record = host.etw(&["record", "-p", "OpenETW-Wine-DotNet", "-o", &host.path("dotnet.etl")]);
    record.args(["-p", "Microsoft-Windows-DotNETRuntime:4::0x8", "--", "wine"]).arg(runtime);
    record.arg(program).arg("wait");
    record.env("WINEPREFIX", &host.place.prefix).env("WINEDEBUG", "-all");
    output(&mut record)?;
    let events = host.events("dotnet.etl")?;
    let of = |provider: &str, id: u64| -> Vec<&Value> {
        let is_it = |event: &&Value| {
            event["System"]["Provider"]["Name"] == provider && event["System"]["EventID"] == id
        };
        events.iter().filter(is_it).collect()
    };
    let values = of("OpenETW-Wine-DotNet", 1);
    for (number, event) in values.iter().enumerate() {
        let data = &event["EventData"];
        let is_right = data["number"] == number
            && data["large"].as_i64() == Some(-(number as i64))
            && data["real"].as_f64() == Some(number as f64 / 2.0)
            && data["flag"] == (number % 2 == 1)
            && data["text"] == format!("text {number}")
            && data["id"].as_str().context("no id")?.starts_with(&format!("{{{number:08x}-0002-0003-"));
        ensure!(is_right, "the event {number} has other values: {event}");
    }
    let texts = of("OpenETW-Wine-DotNet", 2);
    ensure!(texts.iter().all(|event| event["EventData"]["text"] == "\u{e9}\u{4e2d}"), "other texts");
    let details = of("OpenETW-Wine-DotNet", 3);
    ensure!([values.len(), texts.len(), details.len()] == [100; 3], "{} events", events.len());
    // The runtime tells which modules it loads (ModuleLoad_V2 and its relatives).
    let modules = of("Microsoft-Windows-DotNETRuntime", 152);
    let is_core = |event: &&Value| {
        event["EventData"]["ModuleILPath"]
            .as_str()
            .is_some_and(|path| path.ends_with("System.Private.CoreLib.dll"))
    };
    ensure!(modules.iter().any(is_core), "no module of the runtime in {} events", modules.len());
    Ok((values.len() + texts.len() + details.len(), modules.len()))
}

/// Returns the package of the runtime, which `scripts/install.sh` downloads.
fn package(directory: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "whl"))
}

/// In CI everything is installed.
fn skipped(why: &str) -> Result<String> {
    if shell::is_ci() {
        bail!("{why}: ./test.sh installs it");
    }
    Ok(format!("skipped: {why} (./test.sh installs it)"))
}
