//! The archive of `cargo xtask dist --windows`, unpacked and used in the prefix.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use zip::ZipArchive;

use super::cases::{PROVIDER, Wrote, numbers};
use super::place::{Host, Place, json_lines};
use shell::process::MINUTES_2;
use shell::{built, output, output_within};

/// Where the archive is unpacked: a directory with a space, as users have.
const DIRECTORY: &str = "drive_c/Program Files/OpenETW";

/// Packs the program that the other cases use, unpacks it, and records with it and with the names of the tools.
pub(super) fn run(place: &Place) -> Result<String> {
    let host = place.host()?;
    let directory = host.directory.path().join("dist");
    let mut pack = Command::new(built("xtask")?);
    pack.args(["dist", "--windows", "--programs"]).arg(&place.windows).arg("--out").arg(&directory);
    output(&mut pack)?;
    let archive = fs::read_dir(&directory)?.next().context("no archive")??.path();
    let to = place.prefix.join(DIRECTORY);
    if to.exists() {
        fs::remove_dir_all(&to)?;
    }
    ZipArchive::new(File::open(&archive)?)?.extract(&to)?;
    let name = archive.file_stem().context("no name")?;
    let unpacked = to.join(name);
    let files: Vec<_> = fs::read_dir(&unpacked)?.collect::<Result<_, _>>()?;
    let run = |program: &str, arguments: &[&str]| run_program(&host, &unpacked.join(program), arguments);
    let version = run("etw.exe", &["--version"])?;
    ensure!(version.trim() == format!("etw {}", env!("CARGO_PKG_VERSION")), "{version}");
    let (logman, xperf, tracelog) =
        (host.windows_path("logman.etl"), host.windows_path("xperf.etl"), host.windows_path("tracelog.etl"));
    let guid = format!("{{{PROVIDER}}}");
    run("logman.cmd", &["start", "Of Logman", "-p", &guid, "0x1", "4", "-o", &logman, "-ets"])?;
    run("xperf.cmd", &["-start", "OfXperf", "-on", &format!("{guid}:0x1:4"), "-f", &xperf])?;
    let of_tracelog =
        ["-start", "OfTracelog", "-f", &tracelog, "-guid", &format!("#{PROVIDER}"), "-level", "4"];
    run("tracelog.cmd", &of_tracelog)?;
    let wrote = Wrote::parse(&host.run_client(&["provide", PROVIDER, "100", "0"])?)?;
    ensure!(wrote.lost == 0, "{} events were not written", wrote.lost);
    let listed = run("logman.cmd", &["query", "-ets"])?;
    for session in ["Of Logman", "OfXperf", "OfTracelog"] {
        ensure!(listed.contains(session), "`logman` does not list {session}:\n{listed}");
    }
    run("logman.cmd", &["stop", "Of Logman", "-ets"])?;
    run("xperf.cmd", &["-stop", "OfXperf"])?;
    run("tracelog.cmd", &["-stop", "OfTracelog"])?;
    for (file, path) in [("logman.etl", logman), ("xperf.etl", xperf), ("tracelog.etl", tracelog)] {
        let dumped = run("etw.exe", &["dump", "--format", "json", &path])?;
        let linux = host.events(file)?;
        ensure!(json_lines(&dumped)? == linux, "{file} is shown differently");
        ensure!(numbers(&linux)?.values().flatten().copied().eq(0..100), "{file} has other events");
    }
    let fails = run("logman.cmd", &["stop", "Of Logman", "-ets"]);
    ensure!(fails.is_err(), "the exit status of a tool is lost");
    fs::remove_dir_all(&to)?;
    Ok(format!("{} files; etw.exe, logman, xperf and tracelog recorded 100 events each", files.len()))
}

/// Runs a program of the archive, in a directory that is not its own.
fn run_program(host: &Host<'_>, program: &Path, arguments: &[&str]) -> Result<String> {
    output_within(host.program(program, arguments).current_dir(host.directory.path()), MINUTES_2)
}
