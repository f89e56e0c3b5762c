//! Rounds with whole sessions: provider processes write at full speed and are killed, as are consumers and hosts; files
//! are deleted, disks fill up. Every event must be in a file, delivered, or counted as lost.

mod children;

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering::Acquire;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use etw_sys::SharedWords;
use openetw::Trace;
use openetw::session::{
    Controller, EnableBuilder, Host, HostOptions, HostThread, Instance, LogFileMode, SessionBuilder,
    SessionStatus,
};

use super::ledger::{Losses, Total, settle, words};
pub(super) use children::{Consumer, Writer, host};
use children::{PROVIDER, Running, spawn_consumer, spawn_writer, take_events};
use shell::random::Random;

const SESSION: &str = "torture";
const PROCESSES: u64 = 3;
const THREADS: u64 = 3;
/// Maximum lifetime of processes in microseconds.
const LIFE_MICROS: u64 = 6000;

/// Cases: the destination of events, and what happens to the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Case {
    /// A file; with few buffers, so that events are lost, or many.
    File,
    /// A file whose buffers belong to all processors.
    SingleFile,
    /// A file with another clock type.
    SystemTime,
    /// A file appended to that of an earlier session.
    Append,
    /// Sequential files, some of them started manually.
    NewFile,
    /// A circular file.
    Circular,
    /// A ring in memory, written to a file at the end.
    Ring,
    /// A consumer.
    RealTime,
    /// A file and a consumer.
    Both,
    /// A slow consumer.
    SlowConsumer,
    /// A file, and a consumer that is killed.
    KilledConsumer,
    /// A file on a disk that fills up.
    FullDisk,
    /// A file that is deleted and followed by another one; the events of the first are lost.
    Deleted,
    /// A file, and a host that is replaced by another one while processes write.
    Restart,
    /// A file and a host that is killed, and another host.
    KilledHost,
}

/// Runs rounds of one case, or of all cases in turn.
pub(super) fn torture(rounds: u32, only: Option<Case>, random: &mut Random) -> Result<Total> {
    let mut total = Total::default();
    let mut skipped = 0;
    for number in 0..rounds {
        let cases = Case::value_variants();
        let case = only.unwrap_or(cases[number as usize % cases.len()]);
        let done = Round::new(case, random)?.run(random);
        match done.with_context(|| format!("round {number}, {case:?}"))? {
            Some(done) => total.add(&done),
            None => skipped += 1,
        }
    }
    if skipped > 0 {
        eprintln!("skipped: {skipped} rounds with full disks need root to create a small disk");
    }
    Ok(total)
}

/// A round, in a temporary directory.
struct Round {
    case: Case,
    directory: PathBuf,
    threads: usize,
    has_few_buffers: bool,
}

impl Drop for Round {
    fn drop(&mut self) {
        if self.case == Case::FullDisk {
            let _ = Command::new("umount").arg(self.directory.join("disk")).output();
        }
        // In memory, and gone with the next start of the machine at the latest.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Round {
    fn new(case: Case, random: &mut Random) -> Result<Round> {
        let parent = Path::new("/dev/shm");
        let parent = if parent.is_dir() { parent.to_owned() } else { std::env::temp_dir() };
        let directory =
            parent.join(format!("openetw-torture-{}-{}", std::process::id(), random.below(1 << 40)));
        fs::create_dir(&directory)?;
        Ok(Round { case, directory, threads: 0, has_few_buffers: random.below(3) == 0 })
    }

    fn path(&self) -> PathBuf {
        match self.case {
            Case::FullDisk => self.directory.join("disk/trace.etl"),
            Case::NewFile => self.directory.join("trace%d.etl"),
            _ => self.directory.join("trace.etl"),
        }
    }

    /// `None` if the round cannot be run here.
    fn run(mut self, random: &mut Random) -> Result<Option<Total>> {
        if self.case == Case::FullDisk && !self.mount_small_disk()? {
            return Ok(None);
        }
        let mut host = Some(HostOf::start(&self)?);
        let mut controller = self.start_session()?;
        let consumer = match self.case {
            Case::RealTime | Case::Both | Case::SlowConsumer | Case::KilledConsumer => {
                Some(spawn_consumer(&self.directory, SESSION, self.case == Case::SlowConsumer)?)
            }
            _ => None,
        };
        let processes = 1 + random.below(PROCESSES);
        let by_process: Vec<usize> = (0..processes).map(|_| 1 + random.below(THREADS) as usize).collect();
        self.threads = by_process.iter().sum();
        let (ledger, ledger_file) = SharedWords::create("torture", 1 + words(self.threads))?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), ledger_file.as_raw_fd());
        let mut first = 0;
        let mut writers = Vec::new();
        for threads in by_process {
            writers.push(spawn_writer(&self.directory, &path, first, threads)?);
            first += threads;
        }
        wait_until("the writers begin", || ledger[0].load(Acquire) == processes)?;
        // Losses of a session that stops before the writers do.
        let mut earlier: Option<(Vec<PathBuf>, Option<SessionStatus>)> = None;
        let life = Duration::from_micros(random.below(LIFE_MICROS));
        match self.case {
            Case::Restart | Case::KilledHost => {
                thread::sleep(life);
                drop(controller);
                host.take().into_iter().for_each(|host| host.end(self.case == Case::KilledHost));
                let first = self.directory.join("first.etl");
                fs::rename(self.path(), &first)?;
                earlier = Some((vec![first], None));
                thread::sleep(Duration::from_micros(random.below(LIFE_MICROS)));
                host = Some(HostOf::start(&self)?);
                controller = self.start_session()?;
                wait_until("the writers are back", || {
                    controller.query(SESSION).is_ok_and(|status| u64::from(status.processes) == processes)
                })?;
                thread::sleep(life);
            }
            Case::Append => {
                thread::sleep(life);
                let status = controller.stop(SESSION)?;
                earlier = Some((Vec::new(), Some(status)));
                controller = self.start_session()?;
                thread::sleep(life);
            }
            Case::NewFile => {
                for _ in 0..random.below(4) {
                    thread::sleep(life / 4);
                    controller.increment_file(SESSION)?;
                }
            }
            Case::Deleted => {
                thread::sleep(life / 2);
                fs::remove_file(self.path())?;
                thread::sleep(life / 2);
            }
            _ => thread::sleep(life),
        }
        let mut consumer = consumer;
        if self.case == Case::KilledConsumer {
            consumer.take().into_iter().for_each(drop);
        }
        // Some are killed before the session stops, some after.
        let count = random.below(writers.len() as u64 + 1) as usize;
        writers.truncate(count);
        if random.below(2) == 0 {
            writers.clear();
        }
        if self.case == Case::Ring {
            controller.dump(SESSION, &self.path())?;
        }
        let status = controller.stop(SESSION)?;
        drop(writers);
        let mut read = Vec::new();
        let files = self.files(earlier.as_ref().map(|(files, _)| files.as_slice()).unwrap_or_default())?;
        let mut of_last_session = 0;
        let mut lost = status.events_lost;
        for file in &files {
            let before = read.len();
            let lost_before = self.read(file, &mut read)?;
            let is_last_session = *file != self.directory.join("first.etl");
            match is_last_session {
                true => of_last_session += (read.len() - before) as u64,
                // The file of a session that stopped with its host reports the losses.
                false => lost += u64::from(lost_before),
            }
        }
        let mut written = status.events_written;
        if let Some((_, Some(status))) = &earlier {
            written += status.events_written;
            lost += status.events_lost;
        }
        let mut later = 0;
        let has_file = !matches!(self.case, Case::RealTime | Case::SlowConsumer);
        if has_file && !matches!(self.case, Case::Circular | Case::Ring) {
            later = status.log_events_lost;
            ensure!(
                of_last_session + later == written,
                "{of_last_session} events in {files:?}, but {written} written; {status:?}"
            );
        }
        let mut delivered = Vec::new();
        if let Some(consumer) = consumer {
            delivered = consumer.events()?;
            ensure!(
                delivered.len() as u64 + status.real_time_events_lost == status.events_written,
                "{} events delivered; {status:?}",
                delivered.len()
            );
            if !has_file {
                (read, later) = (std::mem::take(&mut delivered), status.real_time_events_lost);
            }
        }
        drop(controller);
        host.take().into_iter().for_each(|host| host.end(false));
        let kept = match self.case {
            Case::Circular | Case::Ring => Losses { before: lost, after: written - read.len() as u64 },
            _ => Losses { before: lost, after: later },
        };
        settle(&ledger[1..], self.threads, &delivered, None)?;
        let is_accounted = self.case != Case::KilledHost;
        settle(&ledger[1..], self.threads, &read, is_accounted.then_some(kept)).map(Some)
    }

    fn start_session(&self) -> Result<Controller> {
        let mut controller = connect(&self.directory)?;
        let session = SessionBuilder::new(SESSION).buffer_size_kib(16);
        let buffers = if self.has_few_buffers { 8 } else { 4000 };
        let session = session.buffers(2, buffers).flush_timer_millis(1000);
        let path = self.path();
        let session = match self.case {
            Case::RealTime | Case::SlowConsumer => session.real_time(),
            Case::Both | Case::KilledConsumer => session.file(&path).real_time(),
            Case::SingleFile => session.file(&path).mode(LogFileMode::NO_PER_PROCESSOR_BUFFERING),
            Case::SystemTime => session.file(&path).clock(openetw::session::SessionClock::SystemTime),
            Case::Append => session
                .file(&path)
                .mode(LogFileMode::APPEND)
                .clock(openetw::session::SessionClock::SystemTime),
            Case::NewFile => session.file(&path).mode(LogFileMode::NEW_FILE).maximum_file_size_mib(1),
            Case::Circular => session.file(&path).mode(LogFileMode::CIRCULAR).maximum_file_size_mib(2),
            Case::Ring => session.ring(2048),
            _ => session.file(&path),
        };
        session.start(&mut controller)?;
        controller.enable(SESSION, &EnableBuilder::new(PROVIDER.parse()?))?;
        Ok(controller)
    }

    /// Returns the files that sessions have written.
    fn files(&self, earlier: &[PathBuf]) -> Result<Vec<PathBuf>> {
        let mut files = earlier.to_vec();
        if self.case == Case::NewFile {
            let path = |number: u32| self.directory.join(format!("trace{number}.etl"));
            files.extend((1..).map(path).take_while(|path| path.exists()));
        } else if self.path().exists() {
            files.push(self.path());
        }
        Ok(files)
    }

    /// Reads a file; returns the lost events in its header.
    fn read(&self, file: &Path, events: &mut Vec<(u32, u64)>) -> Result<u32> {
        if fs::metadata(file)?.len() == 0 {
            return Ok(0);
        }
        let mut trace = Trace::open_file(file)?;
        take_events(&mut trace, |thread, number| events.push((thread, number)))?;
        let damage = &trace.statistics().damage;
        // A killed host may leave half a buffer in the file.
        let may_be_cut = self.case == Case::KilledHost;
        ensure!(damage.is_empty() || may_be_cut, "{}: {damage:?}", file.display());
        Ok(trace.headers().first().map_or(0, |header| header.events_lost))
    }

    fn mount_small_disk(&self) -> Result<bool> {
        let disk = self.directory.join("disk");
        fs::create_dir(&disk)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(&disk);
        Ok(mount.output().is_ok_and(|output| output.status.success()))
    }
}

/// The host of a round: a thread of this process, or a process that can be killed.
enum HostOf {
    Thread(HostThread),
    Process(Running),
}

impl HostOf {
    fn start(round: &Round) -> Result<HostOf> {
        if round.case == Case::KilledHost {
            return Ok(HostOf::Process(children::spawn_host(&round.directory)?));
        }
        let options = HostOptions::new(Instance::at(&round.directory));
        Ok(HostOf::Thread(Host::bind(options, |_| {})?.spawn()?))
    }

    fn end(self, is_killed: bool) {
        match self {
            HostOf::Thread(host) => host.stop(),
            HostOf::Process(process) if is_killed => drop(process),
            HostOf::Process(process) => process.end(),
        }
    }
}

fn connect(directory: &Path) -> Result<Controller> {
    let mut controller = None;
    wait_until("the host replies", || {
        controller = Controller::connect_to(&Instance::at(directory)).ok();
        controller.is_some()
    })?;
    controller.context("no host")
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let begun = Instant::now();
    while !is_so() {
        ensure!(begun.elapsed() < Duration::from_secs(30), "waited for too long until {what}");
        thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}
