//! The processes of a cluster, with the connections between them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use shell::process::MINUTES_2;
use shell::{cargo, root, target_dir};

use super::Fault;
use super::link::Link;

pub(super) const EXECUTORS: usize = 2;
const TOKEN: &str = "only-for-this-torture-0123456789";
/// So little that queries use temporary files.
const MEMORY_MIB: &str = "64";
/// Time in which a process says what it is to say.
const SAID: Duration = Duration::from_secs(60);
const TEMPORARY: &str = "temporary";

/// `etw-sql`.
pub(super) struct Program(PathBuf);

impl Program {
    /// Finds the program beside this one, or builds it in its release profile.
    pub(super) fn find() -> Result<Program> {
        let beside = std::env::current_exe()?;
        if beside.parent().is_some_and(|directory| directory.ends_with("debug")) {
            return Ok(Program(shell::built("etw-sql")?));
        }
        let mut build = cargo(["build", "--release", "--locked", "-p", "etw_sql", "--bin", "etw-sql"]);
        shell::run(build.current_dir(root()))?;
        Ok(Program(std::path::absolute(target_dir())?.join("release/etw-sql")))
    }

    fn command(&self, directory: &Path) -> Result<Command> {
        let temporary = directory.join(TEMPORARY);
        fs::create_dir_all(&temporary)?;
        let mut command = Command::new(&self.0);
        command.current_dir(directory).env("OPENETW_INDEX", "beside").env("OPENETW_CLUSTER_TOKEN", TOKEN);
        command.env("TMPDIR", temporary).stdin(Stdio::null());
        Ok(command)
    }

    /// Returns the answer of one process.
    pub(super) fn answer(&self, directory: &Path, query: &str) -> Result<Answer> {
        let mut command = self.command(directory)?;
        let text = shell::output_within(command.args(["t*.etl", query, "--format", "csv"]), MINUTES_2)?;
        Ok(Answer { is_success: true, rows: sorted(&text), error: String::new() })
    }
}

/// Returns the temporary files that are left.
pub(super) fn temporary(directory: &Path) -> Result<Vec<PathBuf>> {
    fs::read_dir(directory.join(TEMPORARY))?.map(|entry| Ok(entry?.path())).collect()
}

fn sorted(text: &str) -> Vec<String> {
    let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
    rows.sort_unstable();
    rows
}

/// What a program has said.
pub(super) struct Answer {
    is_success: bool,
    /// Sorted, as not every query orders them.
    rows: Vec<String>,
    error: String,
}

impl Answer {
    /// Returns whether this is the whole answer. Fails if it is another one, or an error that does not say what was lost.
    pub(super) fn check(&self, expected: &Answer) -> Result<bool> {
        if self.is_success {
            let (got, wanted) = (self.rows.len(), expected.rows.len());
            ensure!(self.rows == expected.rows, "a wrong answer, with {got} rows instead of {wanted}");
            return Ok(true);
        }
        let says = ["executor", "connection"].iter().any(|word| self.error.contains(word));
        ensure!(says && self.error.lines().count() == 1, "an error that says nothing: {}", self.error);
        Ok(false)
    }

    pub(super) fn error(&self) -> &str {
        &self.error
    }
}

/// A query that runs.
pub(super) struct Asked {
    id: u32,
    within: Duration,
    done: JoinHandle<std::io::Result<std::process::Output>>,
}

impl Asked {
    /// Waits for the answer.
    pub(super) fn wait(self) -> Result<Answer> {
        let start = Instant::now();
        while !self.done.is_finished() {
            if start.elapsed() > self.within {
                signal(self.id, Signal::KILL)?;
                bail!("a query hangs");
            }
            thread::sleep(Duration::from_millis(1));
        }
        let output = self.done.join().map_err(|_| anyhow!("a thread failed"))??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Answer {
            is_success: output.status.success(),
            rows: sorted(&text(&output.stdout)),
            error: text(&output.stderr),
        })
    }
}

fn signal(id: u32, signal: Signal) -> Result<()> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw).context("a process has an id")?;
    Ok(kill_process(id, signal)?)
}

/// A process that is killed when this is dropped.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(mut command: Command) -> Result<Running> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let out = child.stdout.take().context("a process has an output")?;
        let (send, lines) = channel();
        thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| send.send(line)).ok()
        });
        Ok(Running { child, lines })
    }

    fn said(&self, wanted: &str) -> Result<String> {
        let start = Instant::now();
        loop {
            let line = self.lines.recv_timeout(SAID.saturating_sub(start.elapsed()));
            let line = line.with_context(|| format!("a process does not say '{wanted}'"))?;
            if line.contains(wanted) {
                return Ok(line);
            }
        }
    }

    fn port(&self) -> Result<u16> {
        let line = self.said("listening on ")?;
        Ok(line.rsplit_once(':').context("an address has a port")?.1.parse()?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An executor, and the places through which it is reached and reaches the scheduler.
struct Executor {
    process: Running,
    link: Link,
    to_scheduler: Link,
}

/// A scheduler and executors.
pub(super) struct Cluster<'p> {
    program: &'p Program,
    directory: PathBuf,
    /// Part of the addresses of this cluster.
    number: u8,
    scheduler: Running,
    /// Executors that have joined, as far as the scheduler was heard.
    joined: usize,
    port: u16,
    executors: Vec<Executor>,
    /// Times of the queries without faults.
    times: Vec<Duration>,
}

impl<'p> Cluster<'p> {
    pub(super) fn start(program: &'p Program, directory: &Path, number: u64) -> Result<Cluster<'p>> {
        let mut command = program.command(directory)?;
        command.args(["cluster", "scheduler", "--listen", "127.0.0.1:0", "--root", "."]);
        let scheduler = Running::start(command)?;
        let port = scheduler.port()?;
        let mut cluster = Cluster {
            program,
            directory: directory.to_owned(),
            number: u8::try_from(number)?,
            scheduler,
            joined: 0,
            port,
            executors: Vec::new(),
            times: vec![Duration::from_millis(200); super::QUERIES.len()],
        };
        for executor in 0..EXECUTORS {
            let executor = cluster.executor(executor)?;
            cluster.executors.push(executor);
        }
        cluster.wait_for_all()?;
        Ok(cluster)
    }

    fn executor(&self, executor: usize) -> Result<Executor> {
        let address = |group: u8| Ipv4Addr::new(127, group, self.number, 1 + executor as u8);
        let scheduler = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let to_scheduler = Link::new((address(2), self.port).into(), scheduler)?;
        let mut command = self.program.command(&self.directory)?;
        command.args(["cluster", "executor", "--listen", "127.0.0.1:0", "--threads", "2", "--root", "."]);
        command.args(["--memory", MEMORY_MIB, "--advertise", &address(1).to_string()]);
        command.args(["--scheduler", &format!("{}:{}", address(2), self.port)]);
        let process = Running::start(command)?;
        let port = process.port()?;
        let link = Link::new((address(1), port).into(), (Ipv4Addr::LOCALHOST, port).into())?;
        process.said("joined")?;
        Ok(Executor { process, link, to_scheduler })
    }

    /// Starts a query.
    pub(super) fn ask(&self, query: &str, within: Duration) -> Result<Asked> {
        let mut command = self.program.command(&self.directory)?;
        command.args(["--cluster", &format!("127.0.0.1:{}", self.port), "t*.etl", query, "--format", "csv"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let id = child.id();
        Ok(Asked { id, within, done: thread::spawn(move || child.wait_with_output()) })
    }

    /// Returns the time that a query usually takes.
    pub(super) fn time(&self, query: usize) -> Duration {
        self.times[query]
    }

    pub(super) fn took(&mut self, query: usize, time: Duration) {
        self.times[query] = time;
    }

    pub(super) fn strike(&mut self, executor: usize, fault: Fault) -> Result<()> {
        let Executor { process, link, to_scheduler } = &mut self.executors[executor];
        match fault {
            Fault::Kill => {
                process.child.kill()?;
                process.child.wait()?;
            }
            // One that was killed does nothing anyway.
            Fault::Pause(_) if process.child.try_wait()?.is_some() => {}
            Fault::Pause(millis) => {
                signal(process.child.id(), Signal::STOP)?;
                thread::sleep(Duration::from_millis(millis));
                signal(process.child.id(), Signal::CONT)?;
            }
            Fault::Cut { is_scheduler: true, bytes } => to_scheduler.cut(bytes),
            Fault::Cut { is_scheduler: false, bytes } => link.cut(bytes),
            Fault::Delay(micros) => link.delay(micros),
        }
        Ok(())
    }

    /// Lets everything pass again, starts executors in place of those that were killed, and waits until all have joined.
    pub(super) fn mend(&mut self) -> Result<()> {
        for number in 0..EXECUTORS {
            let executor = &mut self.executors[number];
            executor.link.mend();
            executor.to_scheduler.mend();
            if executor.process.child.try_wait()?.is_some() {
                // Its addresses are free after its links are gone.
                let gone = self.executors.remove(number);
                drop(gone);
                let executor = self.executor(number)?;
                self.executors.insert(number, executor);
            }
        }
        self.wait_for_all()
    }

    /// Waits until as many have joined as there are.
    fn wait_for_all(&mut self) -> Result<()> {
        let start = Instant::now();
        loop {
            for line in self.scheduler.lines.try_iter() {
                match line.ends_with("has joined") {
                    true => self.joined += 1,
                    false => self.joined -= usize::from(line.ends_with("has left")),
                }
            }
            if self.joined == EXECUTORS {
                return Ok(());
            }
            ensure!(start.elapsed() < SAID, "{} executors of {EXECUTORS} have joined", self.joined);
            thread::sleep(Duration::from_millis(1));
        }
    }
}
