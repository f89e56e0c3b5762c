//! Traced loads: programs that repeat one operation on one processor.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use shell::{cargo, output};

/// What it does.
#[derive(Args)]
pub(crate) struct Options {
    load: Load,
    /// How often; for `busy`, how many milliseconds.
    count: u64,
    /// A directory for files.
    #[arg(long, default_value = "/tmp")]
    directory: PathBuf,
}

/// Operations of a load.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Load {
    /// Two threads wake each other through pipes: two switches each time.
    Switches,
    /// `getppid`.
    SystemCalls,
    /// Opens a small file, reads it, and closes it.
    Files,
    /// Sends some bytes over loopback and gets them back.
    Network,
    /// Computes, eight calls deep.
    Computing,
    /// Builds a crate of this workspace, on all processors.
    Build,
    /// All of it but the build, and new processes, on all processors.
    Busy,
}

impl Load {
    /// Returns the name on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Runs the load, and prints its duration in nanoseconds.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !matches!(options.load, Load::Build | Load::Busy) {
        pin_to_last_processor()?;
    }
    let count = options.count;
    let nanos = match options.load {
        Load::Switches => switches(count)?,
        Load::SystemCalls => system_calls(count),
        Load::Files => files(count, &options.directory)?,
        Load::Network => network(count)?,
        Load::Computing => computing(count),
        Load::Build => build(&options.directory)?,
        Load::Busy => busy(Duration::from_millis(count), &options.directory)?,
    };
    println!("{}", nanos.as_nanos());
    Ok(())
}

/// Moves this thread, and those that it makes, to the last processor that it may use: unpinned, wake-ups across
/// processors cost so much that tracing is not seen.
fn pin_to_last_processor() -> Result<()> {
    let allowed = sched_getaffinity(None)?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu));
    let mut one = CpuSet::new();
    one.set(last.ok_or_else(|| anyhow!("no processor may be used"))?);
    sched_setaffinity(None, &one)?;
    Ok(())
}

fn switches(count: u64) -> Result<Duration> {
    let (mut ping, mut to_other) = std::io::pipe()?;
    let (mut from_other, mut pong) = std::io::pipe()?;
    let other = thread::spawn(move || {
        let mut byte = [0];
        while ping.read_exact(&mut byte).and_then(|()| pong.write_all(&byte)).is_ok() {}
    });
    let start = Instant::now();
    for _ in 0..count {
        let mut byte = [1];
        to_other.write_all(&byte)?;
        from_other.read_exact(&mut byte)?;
    }
    let taken = start.elapsed();
    drop(to_other);
    other.join().map_err(|_| anyhow!("the other thread panicked"))?;
    Ok(taken)
}

fn system_calls(count: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..count {
        std::hint::black_box(rustix::process::getppid());
    }
    start.elapsed()
}

/// Files that exist.
const FILES: u64 = 500;

fn files(count: u64, directory: &Path) -> Result<Duration> {
    let directory = directory.join(format!("load-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let paths: Vec<PathBuf> = (0..FILES).map(|number| directory.join(number.to_string())).collect();
    paths.iter().try_for_each(|path| fs::write(path, "a small file"))?;
    let start = Instant::now();
    let mut bytes = [0; 64];
    for path in paths.iter().cycle().take(count as usize) {
        std::hint::black_box(File::open(path)?.read(&mut bytes)?);
    }
    let taken = start.elapsed();
    fs::remove_dir_all(&directory)?;
    Ok(taken)
}

fn network(count: u64) -> Result<Duration> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut one = TcpStream::connect(listener.local_addr()?)?;
    let (mut other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    let mut bytes = [1; 100];
    let start = Instant::now();
    for _ in 0..count {
        one.write_all(&bytes)?;
        other.read_exact(&mut bytes)?;
        other.write_all(&bytes)?;
        one.read_exact(&mut bytes)?;
    }
    Ok(start.elapsed())
}

fn computing(count: u64) -> Duration {
    #[inline(never)]
    fn call(depth: u32, count: u64) -> u64 {
        if depth > 0 {
            return std::hint::black_box(call(depth - 1, count)) + 1;
        }
        (0..count).fold(1, |number: u64, _| std::hint::black_box(number.wrapping_mul(0x5851_F42D_4C95_7F2D)))
    }
    let start = Instant::now();
    std::hint::black_box(call(6, count));
    start.elapsed()
}

fn build(directory: &Path) -> Result<Duration> {
    let directory = directory.join(format!("build-{}", std::process::id()));
    let start = Instant::now();
    output(
        cargo(["build", "--quiet", "--offline", "--package", "etw_schema", "--target-dir"]).arg(&directory),
    )?;
    let taken = start.elapsed();
    fs::remove_dir_all(&directory)?;
    Ok(taken)
}

fn busy(time: Duration, directory: &Path) -> Result<Duration> {
    let start = Instant::now();
    while start.elapsed() < time {
        switches(2000)?;
        system_calls(20_000);
        files(FILES * 4, directory)?;
        network(1000)?;
        for _ in 0..5 {
            Command::new("true").status()?;
        }
    }
    Ok(start.elapsed())
}
