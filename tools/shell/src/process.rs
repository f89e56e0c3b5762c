//! Child processes with a time limit, so that no check can hang.

use std::fs;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::text;

/// Limit for short commands: the version of a program, one round of a bench.
pub const MINUTES_2: Duration = Duration::from_secs(120);
/// Limit for one peer, or one part of a bench.
pub const MINUTES_15: Duration = Duration::from_secs(15 * 60);
/// Limit for builds and whole test suites.
pub const HOUR: Duration = Duration::from_secs(60 * 60);

/// A child process that is killed, with everything it started, when its time is up or when the value is dropped.
///
/// A watchdog thread enforces the limit, so that a caller that blocks on the child's output continues as well.
#[derive(Debug)]
pub struct Process {
    child: Child,
    text: String,
    limit: Duration,
    watchdog: Option<Sender<()>>,
    is_killed: Arc<AtomicBool>,
}

impl Process {
    /// Starts a process that may run for `limit`.
    ///
    /// # Errors
    ///
    /// Fails if the program cannot be started.
    pub fn spawn(command: &mut Command, limit: Duration) -> Result<Process> {
        let text = text(command);
        let child = command.spawn().with_context(|| format!("cannot start {text}"))?;
        let (watchdog, over) = channel();
        let is_killed = Arc::new(AtomicBool::new(false));
        let (flag, id) = (Arc::clone(&is_killed), child.id());
        thread::spawn(move || {
            // The sender is dropped after the process was waited for.
            if over.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                flag.store(true, SeqCst);
                kill_tree(id);
            }
        });
        Ok(Process { child, text, limit, watchdog: Some(watchdog), is_killed })
    }

    /// Whether the process has ended.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot tell.
    pub fn has_ended(&mut self) -> Result<bool> {
        let has_ended = self.child.try_wait()?.is_some();
        if has_ended {
            self.watchdog = None;
        }
        Ok(has_ended)
    }

    /// Waits until the process ends.
    ///
    /// # Errors
    ///
    /// Fails if the process was killed because its time was up.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        let status = self.child.wait().with_context(|| format!("cannot wait for {}", self.text))?;
        self.watchdog = None;
        if self.is_killed.load(SeqCst) {
            bail!("{} was killed after {} s", self.text, self.limit.as_secs());
        }
        Ok(status)
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Takes the pipe to the process's input, if it has one.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Takes the pipe from the process's output, if it has one.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Without a watchdog, the process was waited for, and its id may have been reused.
        if self.watchdog.is_some() {
            kill_tree(self.child.id());
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Kills a process and its descendants. It is stopped first, so that it starts no more children.
fn kill_tree(id: u32) {
    #[cfg(target_os = "linux")]
    let signal = |signal| {
        let id = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw);
        // It may have ended.
        let _ = id.map(|id| rustix::process::kill_process(id, signal));
    };
    #[cfg(target_os = "linux")]
    signal(rustix::process::Signal::STOP);
    children(id).into_iter().for_each(kill_tree);
    #[cfg(target_os = "linux")]
    signal(rustix::process::Signal::KILL);
}

/// Returns the ids of a process's children; empty without `/proc`.
fn children(id: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split(' ').filter_map(|id| id.trim().parse().ok()).collect::<Vec<_>>())
        .collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Read;
    use std::process::Stdio;
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_outlives_its_time_is_killed_with_what_it_started() {
        let start = Instant::now();
        let mut command = Command::new("sh");
        // The pipe stays open as long as any of the three processes lives.
        command.args(["-c", "(sleep 1000; true) & sleep 1000; true"]).stdout(Stdio::piped());
        let mut process = Process::spawn(&mut command, Duration::from_millis(300)).unwrap();
        let mut printed = String::new();
        process.take_stdout().unwrap().read_to_string(&mut printed).unwrap();
        let error = process.wait().unwrap_err().to_string();
        assert!(error.starts_with("sh -c") && error.ends_with("was killed after 0 s"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(500));
    }

    #[test]
    fn what_ends_in_time_is_left_alone() {
        let mut process = Process::spawn(&mut Command::new("true"), MINUTES_2).unwrap();
        assert!(process.wait().unwrap().success());
    }
}
