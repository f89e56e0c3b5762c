//! The prefix, the programs, and how they run.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use super::{TARGET, ferrisetw};
use shell::process::{MINUTES_2, MINUTES_15, Process};
use shell::{cargo, output, output_within, root, target_dir};

/// Where programs run: a prefix with OpenETW, and a directory for the host of the sessions.
pub(super) struct Place {
    pub(super) prefix: PathBuf,
    /// The program `etw`.
    pub(super) etw: PathBuf,
    /// What is built of this workspace for Linux and for Windows.
    pub(super) linux: PathBuf,
    pub(super) windows: PathBuf,
    /// The programs of `bindings/wine`.
    pub(super) programs: PathBuf,
}

/// What of this workspace is built for Windows, by one command: `etw` without the formats that take long to compile, the
/// examples that run on both systems, and the tests of Windows' backend.
const OWN: &[&str] = &[
    "--package",
    "etw_cli",
    "--package",
    "openetw",
    "--no-default-features",
    "--bin",
    "etw",
    "--example",
    "seven_steps",
    "--example",
    "real_time",
    "--example",
    "read_file",
    "--example",
    "write_events",
    "--example",
    "demo_provider",
    "--test",
    "windows",
];

/// A directory with a host of sessions, for one case.
pub(super) struct Host<'a> {
    pub(super) place: &'a Place,
    pub(super) directory: tempfile::TempDir,
    _daemon: Option<Process>,
}

impl Place {
    /// Builds the programs, creates the prefix if it does not exist, and installs OpenETW in it. Programs of this workspace
    /// (`of_workspace`) and of `ferrisetw` are built only on request.
    pub(super) fn new(of_workspace: bool, of_ferrisetw: bool) -> Result<Place> {
        let base = std::path::absolute(target_dir().join("wine"))?;
        fs::create_dir_all(&base)?;
        let target = std::path::absolute(target_dir())?;
        let (linux, windows) = (target.join("debug"), target.join(TARGET).join("debug"));
        let prefix = base.join("prefix");
        // Each waits now and then for one crate or for the linker, while the others use the processors.
        let programs = thread::scope(|scope| {
            let own = scope.spawn(|| match of_workspace {
                true => timed("build of this workspace for Windows", || {
                    let mut build = cargo(["build", "--quiet", "--target", TARGET]);
                    shell::run(quick(build.args(OWN)))
                }),
                false => Ok(()),
            });
            let prefix =
                scope.spawn(|| timed("prefix with OpenETW", || Place::install(&prefix, &linux.join("etw"))));
            let programs = timed("build of other programs for Windows", || {
                if of_ferrisetw {
                    ferrisetw::build(&base)?;
                }
                build(&base, &root().join("bindings/wine/Cargo.toml"), &["--bins"])
            });
            for work in [own, prefix] {
                work.join().map_err(|_| anyhow!("a thread failed"))??;
            }
            programs
        })?;
        Ok(Place { prefix, etw: linux.join("etw"), linux, windows, programs })
    }

    /// Makes the prefix if there is none, and installs OpenETW in it.
    fn install(prefix: &Path, etw: &Path) -> Result<()> {
        if !prefix.join("system.reg").exists() {
            let mut boot = Command::new("wineboot");
            // Neither .NET nor HTML is offered for installation.
            boot.arg("-i")
                .env("WINEPREFIX", prefix)
                .env("WINEDLLOVERRIDES", "mscoree,mshtml=")
                .env("WINEDEBUG", "-all");
            output_within(&mut boot, MINUTES_2)?;
            // Wine's server writes the registry when it ends, some seconds after its last program.
            let mut server = Command::new("wineserver");
            output_within(server.arg("-w").env("WINEPREFIX", prefix), MINUTES_2)?;
        }
        output(Command::new(etw).args(["wine", "install"]).arg(prefix)).map(|_| ())
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
        self.host_within(MINUTES_15)
    }

    /// Starts a host for a case that takes at most this long.
    pub(super) fn host_within(&self, limit: Duration) -> Result<Host<'_>> {
        let mut host = self.without_daemon()?;
        let mut command = host.etw(&["daemon"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        host._daemon = Some(Process::spawn(&mut command, limit)?);
        for _ in 0..500 {
            if host.directory.path().join("etwd.sock").exists() {
                return Ok(host);
            }
            thread::sleep(Duration::from_millis(10));
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

    /// Returns a command of `etw.exe`.
    pub(super) fn etw_exe(&self, arguments: &[&str]) -> Command {
        self.program(&self.place.windows.join("etw.exe"), arguments)
    }

    /// Runs a command of `etw.exe`, and returns what it printed.
    pub(super) fn run_etw_exe(&self, arguments: &[&str]) -> Result<String> {
        output_within(&mut self.etw_exe(arguments), MINUTES_2)
    }

    /// Waits until there is a session that something reads.
    pub(super) fn wait_for_consumer(&self, session: &str) -> Result<()> {
        for _ in 0..500 {
            // It fails until the session has been started.
            let status = self.run_etw(&["session", "query", session, "--format", "json"]).unwrap_or_default();
            if json_lines(&status)?.iter().any(|one| one["Consumers"].as_u64() > Some(0)) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(20));
        }
        bail!("nothing reads the session '{session}'");
    }

    /// Returns the path of a file in the directory of the case.
    pub(super) fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Returns the name that Windows programs have for the directory of the case.
    pub(super) fn windows_directory(&self) -> String {
        windows_name(self.directory.path())
    }

    /// Returns the name that Windows programs have for a file in the directory of the case.
    pub(super) fn windows_path(&self, name: &str) -> String {
        windows_name(&self.directory.path().join(name))
    }

    /// Returns the events in a file, as JSON.
    pub(super) fn events(&self, file: &str) -> Result<Vec<Value>> {
        self.events_with(file, &[])
    }

    /// Returns the events in a file, as JSON, with further options of `etw dump`.
    pub(super) fn events_with(&self, file: &str, options: &[&str]) -> Result<Vec<Value>> {
        json_lines(&self.run_etw(&[&["dump", "--format", "json", &self.path(file)], options].concat())?)
    }
}

/// Parses each line.
pub(super) fn json_lines(text: &str) -> Result<Vec<Value>> {
    text.lines().map(|line| serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))).collect()
}

/// Returns the name that Windows programs have for a file.
pub(super) fn windows_name(path: &Path) -> String {
    format!("Z:{}", path.display()).replace('/', "\\")
}

/// Prints how long `work` takes.
pub(super) fn timed<R>(what: &str, work: impl FnOnce() -> Result<R>) -> Result<R> {
    let start = Instant::now();
    let done = work()?;
    eprintln!("{:>7.1} s  {what}", start.elapsed().as_secs_f64());
    Ok(done)
}

/// Returns the newest program with this name, before a number that Cargo may have added.
pub(super) fn find(directory: &Path, name: &str) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_it = stem == name || stem.rsplit_once('-').is_some_and(|(before, _)| before == name);
        if is_it && path.extension().is_some_and(|extension| extension == "exe") {
            found.push((fs::metadata(&path)?.modified()?, path));
        }
    }
    found.sort();
    match found.pop() {
        Some((_, path)) => Ok(path),
        None => bail!("no {name} in {}", directory.display()),
    }
}

/// Makes a build for Windows quick: the programs run for seconds.
fn quick(build: &mut Command) -> &mut Command {
    build.env_remove("RUSTFLAGS").env("CARGO_PROFILE_DEV_DEBUG", "false")
}

/// Returns the directory of a crate's published sources, which `bindings/wine/Cargo.toml` names.
pub(super) fn sources_of(name: &str) -> Result<PathBuf> {
    let mut metadata = cargo(["metadata", "--format-version", "1", "--locked", "--manifest-path"]);
    metadata.arg(root().join("bindings/wine/Cargo.toml"));
    let metadata: Value = serde_json::from_str(&output(&mut metadata)?)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let package = packages.iter().find(|package| package["name"] == name);
    let manifest =
        package.with_context(|| format!("no {name}"))?["manifest_path"].as_str().context("no path")?;
    Ok(Path::new(manifest).parent().context("no directory")?.to_owned())
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
    shell::run(quick(&mut command))?;
    Ok(target.join(TARGET).join("debug"))
}
