//! The prefix, the programs, and how they run.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::TARGET;
use crate::process::{MINUTES_2, Process};
use crate::shell::{self, cargo, output, output_within, root, target_dir};

/// Where programs run: a prefix with OpenETW, and a directory for the host of the sessions.
pub(super) struct Place {
    pub(super) prefix: PathBuf,
    /// The program `etw`.
    pub(super) etw: PathBuf,
    /// The programs for Windows.
    pub(super) programs: PathBuf,
}

/// A directory with a host of sessions, for one case.
pub(super) struct Host<'a> {
    pub(super) place: &'a Place,
    pub(super) directory: tempfile::TempDir,
    _daemon: Option<Process>,
}

impl Place {
    /// Builds the programs, makes the prefix if there is none, and installs OpenETW in it.
    pub(super) fn new() -> Result<Place> {
        let base = std::path::absolute(target_dir().join("wine"))?;
        fs::create_dir_all(&base)?;
        shell::run(&mut cargo(["build", "--quiet", "--workspace", "--all-targets"]))?;
        let etw = std::path::absolute(target_dir().join("debug/etw"))?;
        let programs = build(&base, &root().join("bindings/wine/Cargo.toml"), &["--bins"])?;
        let prefix = base.join("prefix");
        if !prefix.join("system.reg").exists() {
            let mut boot = Command::new("wineboot");
            // Neither .NET nor HTML is offered for installation.
            boot.arg("-i")
                .env("WINEPREFIX", &prefix)
                .env("WINEDLLOVERRIDES", "mscoree,mshtml=")
                .env("WINEDEBUG", "-all");
            output_within(&mut boot, MINUTES_2)?;
            // Wine's server writes the registry when it ends, some seconds after its last program.
            let mut server = Command::new("wineserver");
            output_within(server.arg("-w").env("WINEPREFIX", &prefix), MINUTES_2)?;
        }
        let place = Place { prefix, etw, programs };
        output(Command::new(&place.etw).args(["wine", "install"]).arg(&place.prefix))?;
        Ok(place)
    }

    /// Returns a command that runs a program for Windows.
    pub(super) fn wine(&self, program: &Path) -> Command {
        let mut command = Command::new("wine");
        command.arg(program).env("WINEPREFIX", &self.prefix).env("WINEDEBUG", "-all");
        command
    }

    /// Returns the system directory of the prefix.
    pub(super) fn system(&self) -> PathBuf {
        self.prefix.join("drive_c/windows/system32")
    }

    /// Starts a host for a case.
    pub(super) fn host(&self) -> Result<Host<'_>> {
        let mut host = self.without_daemon()?;
        let mut command = host.etw(&["daemon"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        host._daemon = Some(Process::spawn(&mut command, Duration::from_secs(15 * 60))?);
        for _ in 0..500 {
            if host.directory.path().join("etwd.sock").exists() {
                return Ok(host);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("the daemon does not start");
    }

    /// Makes a directory for a case, without a host.
    pub(super) fn without_daemon(&self) -> Result<Host<'_>> {
        Ok(Host { place: self, directory: tempfile::tempdir()?, _daemon: None })
    }
}

impl Host<'_> {
    /// Returns a command of `etw`.
    pub(super) fn etw(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.place.etw);
        command.args(arguments).env("OPENETW_RUNTIME_DIR", self.directory.path());
        command
    }

    /// Runs a command of `etw`, and returns what it printed.
    pub(super) fn run_etw(&self, arguments: &[&str]) -> Result<String> {
        output_within(&mut self.etw(arguments), MINUTES_2)
    }

    /// Returns a command that runs the program of the tests.
    pub(super) fn client(&self, arguments: &[&str]) -> Command {
        self.program(&self.place.programs.join("client.exe"), arguments)
    }

    /// Returns a command that runs a program for Windows.
    pub(super) fn program(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = self.place.wine(program);
        command.args(arguments).env("OPENETW_RUNTIME_DIR", self.directory.path());
        command
    }

    /// Runs the program of the tests, and returns what it printed.
    pub(super) fn run_client(&self, arguments: &[&str]) -> Result<String> {
        output_within(&mut self.client(arguments), MINUTES_2)
    }

    /// Returns the path of a file in the directory of the case.
    pub(super) fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Returns the name that Windows programs have for the directory of the case.
    pub(super) fn windows_directory(&self) -> String {
        format!("Z:{}", self.directory.path().display()).replace('/', "\\")
    }

    /// Returns the events in a file, as JSON.
    pub(super) fn events(&self, file: &str) -> Result<Vec<serde_json::Value>> {
        let printed = self.run_etw(&["dump", "--format", "json", &self.path(file)])?;
        printed.lines().map(|line| serde_json::from_str(line).context("not JSON")).collect()
    }
}

/// Builds programs of another workspace for Windows, and returns their directory.
pub(super) fn build(base: &Path, manifest: &Path, what: &[&str]) -> Result<PathBuf> {
    // The crates of TraceLogging name a library that MinGW does not have. What they need of it is in this one.
    let libraries = base.join("lib");
    fs::create_dir_all(&libraries)?;
    let link = libraries.join("libOneCore_apiset.a");
    let archive = output(Command::new("x86_64-w64-mingw32-gcc").arg("-print-file-name=libadvapi32.a"))?;
    let _ = fs::remove_file(&link);
    symlink(archive.trim(), &link)?;
    let target = base.join("programs");
    let mut command = cargo(["build", "--quiet", "--locked", "--target", TARGET, "--manifest-path"]);
    command.arg(manifest).args(what).env("CARGO_TARGET_DIR", &target);
    command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUSTFLAGS", format!("-L native={}", libraries.display()));
    command.env_remove("RUSTFLAGS");
    shell::run(&mut command)?;
    Ok(target.join(TARGET).join("debug"))
}
