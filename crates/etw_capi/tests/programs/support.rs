//! Compiling and running programs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Time limit of a program.
const PATIENCE: Duration = Duration::from_secs(60);

/// Compilers that check addresses and undefined behaviour: of C, of sources in C as C++, and of C++.
pub(crate) const SANITIZED_C: &[&str] =
    &["gcc", "-std=c11", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
pub(crate) const SANITIZED_C_AS_CPP: &[&str] =
    &["g++", "-std=c++17", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-x", "c++"];
/// Objects of the relogger have no types of C++.
pub(crate) const SANITIZED_CPP: &[&str] =
    &["g++", "-std=c++17", "-fsanitize=address,undefined", "-fno-sanitize=vptr", "-fno-sanitize-recover=all"];

/// A directory with the headers, the library under its installed names, programs, and the sockets of hosts.
pub(crate) struct Workshop {
    directory: tempfile::TempDir,
}

impl Workshop {
    pub(crate) fn new() -> Workshop {
        let directory = tempfile::tempdir().unwrap();
        let library = library();
        for name in ["libopenetw.so", "libopenetw.so.0"] {
            symlink(&library, directory.path().join(name)).unwrap();
        }
        fs::create_dir(directory.path().join("run")).unwrap();
        // The names of headers that `etw install-dev` adds.
        let headers = directory.path().join("include");
        fs::create_dir(&headers).unwrap();
        for (name, text) in etw_capi::development::headers() {
            fs::write(headers.join(name), text).unwrap();
        }
        Workshop { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The directory of the host that programs of this workshop find or start.
    pub(crate) fn runtime(&self) -> PathBuf {
        self.path("run")
    }

    /// Compiles a program. Warnings are errors.
    pub(crate) fn compile(&self, compiler: &[&str], source: &Path) -> PathBuf {
        let (program, arguments) = compiler.split_first().unwrap();
        let to = self.path(&format!(
            "{}-{}",
            source.file_stem().unwrap().display(),
            compiler.join("").replace('/', "_")
        ));
        let output = Command::new(program)
            .args(arguments)
            .args(["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(self.path("include"))
            .arg(source)
            .args(["-x", "none", "-L"])
            .arg(self.directory.path())
            .args(["-lopenetw", "-o"])
            .arg(&to)
            .output()
            .unwrap_or_else(|error| panic!("{program}: {error}; apt-get install gcc g++ clang"));
        assert!(output.status.success(), "{compiler:?}:\n{}", String::from_utf8_lossy(&output.stderr));
        to
    }

    /// Runs a program, which must succeed, and returns its output.
    pub(crate) fn run(&self, program: &Path, arguments: &[&Path]) -> String {
        let output = self.run_any(program, arguments);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}: {}\n{out}\n{err}", program.display(), output.status);
        out.into_owned()
    }

    /// Runs a program.
    pub(crate) fn run_any(&self, program: &Path, arguments: &[&Path]) -> Output {
        let mut child = Command::new(program)
            .args(arguments)
            .env("LD_LIBRARY_PATH", self.directory.path())
            .env("OPENETW_RUNTIME_DIR", self.runtime())
            .env("OPENETW_SCHEMAS", self.path("schemas"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if start.elapsed() > PATIENCE {
                let _ = child.kill();
                panic!("{}: no end within {PATIENCE:?}", program.display());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait_with_output().unwrap()
    }
}

/// Returns whether a tool is there, and says so if it is not.
pub(crate) fn has(tool: &str) -> bool {
    let found =
        Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        etw_testkit::skip!("{tool} is not installed");
    }
    found
}

/// Returns the compilers, each with its options, that are there.
pub(crate) fn available<'a>(compilers: &[&'a [&'a str]]) -> Vec<&'a [&'a str]> {
    compilers.iter().copied().filter(|compiler| has(compiler[0])).collect()
}

/// A source of the directory `tests/c`.
pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name)
}

/// The shared library, which cargo puts beside the tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let beside = test.parent().unwrap().join("libetw_capi.so");
    assert!(beside.is_file(), "no {}", beside.display());
    beside
}
