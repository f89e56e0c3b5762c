//! A PDB of some hundred megabytes: the time to its first name, and the memory that names from all of it take.

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use etw_symbols::memory::pe_identity;
use openetw::symbols::{Module, SymbolPath, Symbolizer};
use serde_json::{Value, json};

use super::Effort;
use super::row::Row;
use shell::process::{MINUTES_15, Process};
use shell::{output, succeeds};

/// Different modules, functions in each, and copies of each in the program.
const SOURCES: usize = 8;
const FUNCTIONS: usize = 4000;
const COPIES: usize = 14;
/// Addresses in all of the program's code that are looked up at once.
const ADDRESSES: u64 = 10_000;

/// The process whose memory is measured.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Directory with the program and its PDB.
    directory: PathBuf,
}

/// Measures in a process of its own, for its memory; no rows if the program cannot be built here.
pub(super) fn rows(effort: &Effort) -> Result<Vec<Row>> {
    if !succeeds(Command::new("clang").arg("--version"))
        || !succeeds(Command::new("lld-link").arg("--version"))
    {
        eprintln!("without a large PDB: clang and lld-link are missing (apt-get install clang lld)");
        return Ok(Vec::new());
    }
    let directory = tempfile::Builder::new().prefix("openetw-pdb-").tempdir_in(shell::target_dir())?;
    build(effort, directory.path())?;
    let megabytes = fs::metadata(directory.path().join("large.pdb"))?.len() as f64 / 1e6;
    // A shell between the processes keeps this one's peak memory out of that of the other.
    let mut command = Command::new("sh");
    command.args(["-c", "\"$@\"; exit $?", "sh"]).arg(std::env::current_exe()?);
    command.args(["part", "large-pdb"]).arg(directory.path());
    let measured: Value = serde_json::from_str(&output(&mut command)?)?;
    let value = |name: &str| measured[name].as_f64().with_context(|| format!("no {name}"));
    let name = |what: &str| format!("PDB of {megabytes:.0} MB: {what}");
    Ok(vec![
        Row::new(name("first name"), value("first")? * 1e3, "ms"),
        Row::new(name("10,000 addresses in all modules"), value("all")?, "s"),
        Row::new(name("their peak memory, by 100 MB"), value("anonymous")? / megabytes * 100.0, "MB"),
        Row::new(
            name("the same with pages of the mapped file"),
            value("resident")? / megabytes * 100.0,
            "MB",
        ),
    ])
}

/// Compiles different modules and links each several times, which takes seconds for a file of this size.
fn build(effort: &Effort, directory: &Path) -> Result<()> {
    let (sources, functions, copies) =
        if effort.is_smoke() { (1, 20, 1) } else { (SOURCES, FUNCTIONS, COPIES) };
    let mut link = Command::new("lld-link");
    link.current_dir(directory);
    link.args(["/nologo", "/debug", "/entry:start", "/subsystem:console", "/nodefaultlib"]);
    link.args(["/out:large.exe", "start.obj"]);
    let start = "extern \"C\" int _fltused = 0; extern \"C\" int start() { return 0; }\n";
    compile(directory, "start", start)?;
    for module in 0..sources {
        let name = format!("module{module}");
        compile(directory, &name, &source(module, functions)?)?;
        for copy in 0..copies {
            let object = format!("{name}_{copy}.obj");
            fs::copy(directory.join(format!("{name}.obj")), directory.join(&object))?;
            link.arg(object);
        }
    }
    run(&mut link)
}

fn compile(directory: &Path, name: &str, text: &str) -> Result<()> {
    fs::write(directory.join(format!("{name}.cpp")), text)?;
    let mut command = Command::new("clang");
    command.current_dir(directory);
    command.args(["--target=x86_64-pc-windows-msvc", "-O1", "-g", "-gcodeview", "-c", "-ffreestanding"]);
    command.args([format!("{name}.cpp"), "-o".to_owned(), format!("{name}.obj")]);
    run(&mut command)
}

fn run(command: &mut Command) -> Result<()> {
    let status = Process::spawn(command, MINUTES_15)?.wait()?;
    ensure!(status.success(), "{} failed: {status}", command.get_program().to_string_lossy());
    Ok(())
}

/// Returns functions with a type, an inlined function and local variables each. They are local to their module, so that
/// copies of it can be linked together.
fn source(module: usize, functions: usize) -> Result<String> {
    let mut text = String::from("namespace {\n");
    for number in 0..functions {
        let name = format!("{module}_{number}");
        writeln!(
            text,
            "struct Type{name} {{ int value; Type{name} *next; double parts[4]; \
             int get(int by) const {{ return value * by + {number}; }} }};\n\
             inline int mixed{name}(const Type{name} *from, int by) {{ return from->get(by) ^ (by << {}); }}\n\
             __attribute__((used, noinline)) int function{name}(Type{name} *first, int count) {{\n\
             int sum = {number};\n\
             for (int turn = 0; turn < count; turn++) {{\n\
             int part = mixed{name}(first, sum + turn);\n\
             if (part > sum) {{ sum += part; first = first->next; }}\n\
             else {{ sum ^= turn; first->value = sum; }}\n\
             }}\n\
             return sum;\n\
             }}",
            number % 7
        )?;
    }
    text.push_str("}\n");
    Ok(text)
}

/// Looks up one address, then many, and prints times in seconds and memory in megabytes as JSON.
pub(crate) fn part(options: &Options) -> Result<()> {
    let image = fs::read(options.directory.join("large.exe"))?;
    let size_of_code = size_of_code(&image).context("the program has no header")?;
    let windows = pe_identity(&image).map_err(|reason| anyhow::anyhow!(reason))?;
    drop(image);
    let path: SymbolPath = options.directory.to_str().context("the path is not text")?.parse()?;
    let symbolizer = Symbolizer::new().search(path);
    let module = Module { path: "large.exe", windows: Some(&windows), ..Module::default() };
    // The code starts at the second page of the image.
    let offset = |number: u64| 0x1000 + number * u64::from(size_of_code) / ADDRESSES;
    let start = Instant::now();
    let one = symbolizer.resolve(&module, &[offset(ADDRESSES / 2)])?;
    let first = start.elapsed().as_secs_f64();
    ensure!(one.iter().flatten().count() == 1, "the first address has no name");
    let offsets: Vec<u64> = (0..ADDRESSES).map(offset).collect();
    let (before, peak, is_done) = (anonymous_bytes(), AtomicU64::new(0), AtomicBool::new(false));
    let (all, named) = std::thread::scope(|scope| -> Result<(f64, usize)> {
        scope.spawn(|| {
            while !is_done.load(Relaxed) {
                peak.fetch_max(anonymous_bytes(), Relaxed);
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        let start = Instant::now();
        let found = symbolizer.resolve(&module, &offsets);
        let seconds = start.elapsed().as_secs_f64();
        is_done.store(true, Relaxed);
        Ok((seconds, black_box(found?).iter().flatten().count()))
    })?;
    // The rest lies between functions; in a small program that is a third.
    ensure!(named as u64 > ADDRESSES / 2, "{named} of {ADDRESSES} addresses have names");
    let anonymous = peak.into_inner().saturating_sub(before);
    let resident = status_bytes("VmHWM:");
    println!(
        "{}",
        json!({
            "first": first,
            "all": all,
            "anonymous": anonymous as f64 / 1e6,
            "resident": resident as f64 / 1e6,
        })
    );
    Ok(())
}

/// Returns `SizeOfCode` of a PE file.
fn size_of_code(image: &[u8]) -> Option<u32> {
    let word = |at: usize| Some(u32::from_le_bytes(*image.get(at..)?.first_chunk()?));
    word(word(0x3C)? as usize + 4 + 20 + 4)
}

/// Returns the resident memory that belongs to no file.
fn anonymous_bytes() -> u64 {
    status_bytes("RssAnon:")
}

fn status_bytes(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib =
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
