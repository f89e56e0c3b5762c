//! The build suite: packages and processor time to compile programs that depend on `openetw`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::row::Row;
use shell::cost::processor_seconds_of_children;
use shell::{root, target_dir};

/// A program: the features of `openetw` that it needs, and its source.
struct Program {
    what: &'static str,
    feature: &'static str,
    main: &'static str,
}

const PROGRAMS: [Program; 2] = [
    Program {
        what: "a program that writes events",
        feature: "provider",
        main: r#"
openetw::provider!(static APP: "MyCompany.MyApp");

fn main() {
    APP.register();
    openetw::event!(APP, "ItemDone", u32("number", 7), str8("text", "seven"));
}
"#,
    },
    Program {
        what: "a program that reads traces",
        feature: "read",
        main: r#"
fn main() -> Result<(), openetw::TraceError> {
    for path in std::env::args().skip(1) {
        openetw::Trace::open_file(path)?.for_each_event(|event| println!("{}", event.record.time()))?;
    }
    Ok(())
}
"#,
    },
];

/// Builds each program from scratch, in debug and release. A smoke run only creates and resolves the programs.
pub(crate) fn rows(is_smoke: bool) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for program in &PROGRAMS {
        let directory = target_dir().join("bench").join("build").join(program.feature);
        // Left over from an interrupted run.
        let _ = fs::remove_dir_all(&directory);
        let measured = program.measure(&directory, is_smoke);
        let _ = fs::remove_dir_all(&directory);
        rows.extend(measured?);
    }
    Ok(rows)
}

impl Program {
    fn measure(&self, directory: &Path, is_smoke: bool) -> Result<Vec<Row>> {
        self.write(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let packages = packages(directory)?;
        let mut rows = vec![Row::new(format!("{}: packages", self.what), packages as f64, "packages")];
        if is_smoke {
            return Ok(rows);
        }
        for (profile, arguments) in [("debug", &[][..]), ("release", &["--release"])] {
            let before = processor_seconds_of_children()?;
            shell::run(cargo(directory, "build").arg("--quiet").args(arguments))?;
            let seconds = processor_seconds_of_children()? - before;
            rows.push(Row::new(format!("{}: {profile}", self.what), seconds, "s of CPU"));
        }
        Ok(rows)
    }

    /// Creates the program, with the dependency versions of the workspace.
    fn write(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory.join("src"))?;
        fs::copy(root().join("Cargo.lock"), directory.join("Cargo.lock"))?;
        fs::write(directory.join("src").join("main.rs"), self.main)?;
        let path = root().join("crates").join("openetw");
        let manifest = format!(
            "[package]\nname = \"built\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
             openetw = {{ path = {path:?}, default-features = false, features = [{:?}] }}\n",
            self.feature
        );
        Ok(fs::write(directory.join("Cargo.toml"), manifest)?)
    }
}

/// Returns the packages that are compiled for the program, without itself and `openetw`.
fn packages(directory: &Path) -> Result<usize> {
    let mut tree = cargo(directory, "tree");
    let tree = shell::output(tree.args(["--edges", "normal,build", "--prefix", "none", "--format", "{p}"]))?;
    // Packages that are in the tree already end in " (*)".
    let packages: BTreeSet<&str> =
        tree.lines().filter_map(|line| line.strip_suffix(" (*)").or(Some(line))).collect();
    let is_counted =
        |line: &&&str| !line.is_empty() && !line.starts_with("built ") && !line.starts_with("openetw ");
    Ok(packages.iter().filter(is_counted).count())
}

/// Returns an offline `cargo` command in the program's directory, with its own target directory.
fn cargo(directory: &Path, command: &str) -> Command {
    let mut cargo = shell::cargo([command, "--offline"]);
    cargo.current_dir(directory).env("CARGO_TARGET_DIR", directory.join("target"));
    cargo
}
