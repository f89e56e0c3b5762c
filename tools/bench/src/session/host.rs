//! The host's process, and the others around it.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use openetw::session::{Controller, Host, HostOptions, Instance};

use shell::process::{HOUR, Process};

/// Serves the instance of the environment until the input ends.
pub(crate) fn run() -> Result<()> {
    let mut options = HostOptions::new(Instance::default_of_user());
    options.system = Some(openetw::kernel::provider());
    let host = Host::bind(options, |line| eprintln!("host: {line}"))?.spawn()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    host.stop();
    Ok(())
}

/// A host in a separate process, with its own directory.
pub(crate) struct Hosted {
    process: Process,
    directory: PathBuf,
}

impl Hosted {
    /// Starts the host. Its directory is in memory if possible.
    pub(crate) fn start() -> Result<Hosted> {
        let parent = Path::new("/dev/shm");
        let parent = if parent.is_dir() { parent.to_owned() } else { std::env::temp_dir() };
        let directory = parent.join(format!("openetw-bench-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let process = Process::spawn(part(&directory, "host").stdin(Stdio::piped()), HOUR)?;
        Ok(Hosted { process, directory })
    }

    /// A file in its directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn controller(&self) -> Result<Controller> {
        let begun = Instant::now();
        loop {
            match Controller::connect_to(&Instance::at(&self.directory)) {
                Ok(controller) => return Ok(controller),
                Err(error) if begun.elapsed() > Duration::from_secs(20) => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Returns the processor time of its threads in seconds.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        let stat = self.proc("stat")?;
        // Ticks in user and kernel mode, the 12th and 13th fields after the name.
        let fields = stat.rsplit_once(')').context("the line of /proc/PID/stat")?.1.split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Returns the peak memory in MiB.
    pub(crate) fn most_memory_mib(&self) -> Result<f64> {
        let status = self.proc("status")?;
        let line =
            status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("the memory of the host")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
    }

    /// Returns the number of voluntary context switches of the existing threads.
    pub(crate) fn waits(&self) -> Result<f64> {
        let mut waits = 0.0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            let status = std::fs::read_to_string(thread?.path().join("status"))?;
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            waits += line.context("a thread's switches")?.trim().parse::<f64>()?;
        }
        Ok(waits)
    }

    fn proc(&self, name: &str) -> Result<String> {
        Ok(std::fs::read_to_string(format!("/proc/{}/{name}", self.process.id()))?)
    }

    /// A command that is one of the bench's other processes.
    pub(crate) fn part(&self, name: &str) -> Command {
        part(&self.directory, name)
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        drop(self.process.take_stdin());
        // The bench is over, and its remaining files are in memory.
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn part(directory: &Path, name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| "bench".into()));
    command.args(["part", name]).env("OPENETW_RUNTIME_DIR", directory);
    command
}

/// What a process printed, line by line as it comes.
pub(super) struct Lines(std::io::Lines<BufReader<ChildStdout>>);

impl Lines {
    pub(super) fn from_process(process: &mut Process) -> Result<Lines> {
        let output = process.take_stdout().context("the output of a process of the bench")?;
        Ok(Lines(BufReader::new(output).lines()))
    }

    /// The numbers of the next line.
    pub(super) fn numbers<const N: usize>(&mut self) -> Result<[u64; N]> {
        let line = self.next()?.context("a process of the bench ended")?;
        let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        numbers.try_into().ok().with_context(|| format!("a process of the bench says `{line}`"))
    }

    /// The next line.
    pub(super) fn next(&mut self) -> Result<Option<String>> {
        Ok(self.0.next().transpose()?)
    }
}
