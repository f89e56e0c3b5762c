//! Processes that write while they fork, exec, start and end threads, handle signals or die.

#![expect(unsafe_code, reason = "forks, and installs a signal handler")]

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use openetw::provider::Outcome;
use openetw::{Schemas, event, provider};

use crate::{Seen, TestHost, enable, ends_well, hears, read};

provider!(static APP: "OpenETW.Test.Process");

/// An event with the process id as the process itself knows it.
fn write(number: u32) -> Outcome {
    event!(APP, "E", u32("n", number), pid("pid", std::process::id()))
}

impl Seen {
    fn number(&self) -> u32 {
        self.number_at(0)
    }

    fn number_at(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.payload[offset..offset + 4].try_into().unwrap())
    }
}

fn numbers(seen: &[Seen]) -> Vec<u32> {
    for event in seen {
        assert_eq!(event.pid, event.number_at(4), "the process is the one that wrote");
    }
    seen.iter().map(Seen::number).collect()
}

pub(crate) fn fork() {
    APP.register();
    assert_eq!(write(1), Outcome::Written);
    // SAFETY: the child only does what is allowed after a fork, and ends without exit handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let written = (2..5).all(|number| write(number) == Outcome::Written);
        // SAFETY: as above, for a child of the child.
        let grandchild = unsafe { libc::fork() };
        if grandchild == 0 {
            let written = written && write(5) == Outcome::Written;
            // SAFETY: ends the process.
            unsafe { libc::_exit(if written { 0 } else { 1 }) };
        }
        let ended = ends_with_zero(grandchild);
        // SAFETY: ends the process.
        unsafe { libc::_exit(if written && ended { 0 } else { 1 }) };
    }
    assert!(ends_with_zero(child));
    assert_eq!(write(6), Outcome::Written);
}

fn ends_with_zero(child: libc::pid_t) -> bool {
    let mut status = 0;
    // SAFETY: waits for our own child, with memory for its status.
    unsafe { libc::waitpid(child, &raw mut status, 0) == child && status == 0 }
}

#[test]
fn children_of_forks_write_for_themselves() {
    let host = TestHost::new();
    host.start("Fork", &[enable("OpenETW.Test.Process")]);
    let pid = host.run_role("fork");
    let seen = host.stop("Fork");
    assert_eq!(numbers(&seen), [1, 2, 3, 4, 5, 6]);
    let pids: Vec<u32> = seen.iter().map(|event| event.pid).collect();
    assert_eq!((pids[0], pids[5]), (pid, pid));
    assert!(pids[1] == pids[3] && pids[1] != pid && pids[4] != pids[1] && pids[4] != pid);
}

pub(crate) fn exec() {
    APP.register();
    assert_eq!(write(1), Outcome::Written);
    let arguments = ["--exact", "role", "--nocapture", "--test-threads=1"];
    let error = Command::new(std::env::current_exe().unwrap())
        .args(arguments)
        .env("ETW_TEST_ROLE", "executed")
        .exec();
    panic!("{error}");
}

pub(crate) fn executed() {
    APP.register();
    assert_eq!(write(2), Outcome::Written);
    // No handle of the previous program is left open.
    let names = std::fs::read_dir("/proc/self/fd").unwrap();
    let memory = names.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    let memory = memory.filter(|target| target.to_string_lossy().contains("memfd:")).count();
    assert!(memory <= 1, "{memory} regions are open");
}

#[test]
fn a_program_that_a_process_changes_to_writes_on() {
    let host = TestHost::new();
    host.start("Exec", &[enable("OpenETW.Test.Process")]);
    let pid = host.run_role("exec");
    let seen = host.stop("Exec");
    assert_eq!(numbers(&seen), [1, 2]);
    assert!(seen.iter().all(|event| event.pid == pid));
}

const THREADS: u32 = 1000;
const EVENTS: u32 = 20;

/// A thousand threads at once, then a thousand one after the other.
pub(crate) fn thousands_of_threads() {
    APP.register();
    let (all_there, done) = (Barrier::new(THREADS as usize), Barrier::new(THREADS as usize));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (all_there, done) = (&all_there, &done);
            let body = move || {
                all_there.wait();
                for number in 0..EVENTS {
                    assert_eq!(write(thread * EVENTS + number), Outcome::Written);
                }
                done.wait();
            };
            std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, body).unwrap();
        }
    });
    for thread in THREADS..2 * THREADS {
        std::thread::spawn(move || assert_eq!(write(thread * EVENTS), Outcome::Written)).join().unwrap();
    }
}

#[test]
fn threads_by_the_thousand() {
    let host = TestHost::new();
    host.start("Threads", &[enable("OpenETW.Test.Process")]);
    host.run_role("threads");
    let seen = host.stop("Threads");
    let mut found = numbers(&seen);
    // In the file each thread's events are in its order.
    let mut last: HashMap<u32, u32> = HashMap::new();
    let together: Vec<&Seen> = seen.iter().filter(|event| event.number() < THREADS * EVENTS).collect();
    for event in &together {
        if let Some(before) = last.insert(event.number() / EVENTS, event.number()) {
            assert_eq!(event.number(), before + 1);
        }
    }
    assert_eq!(together.iter().map(|event| event.tid).collect::<HashSet<u32>>().len(), THREADS as usize);
    found.sort_unstable();
    let expected = (0..THREADS * EVENTS).chain((THREADS..2 * THREADS).map(|thread| thread * EVENTS));
    assert_eq!(found, expected.collect::<Vec<u32>>());
}

pub(crate) fn write_from_handlers() {
    static WRITTEN: AtomicU32 = AtomicU32::new(0);
    extern "C" fn handler(_: libc::c_int) {
        if write(1_000_000 + WRITTEN.load(Ordering::Relaxed)) == Outcome::Written {
            WRITTEN.fetch_add(1, Ordering::Relaxed);
        }
    }
    APP.register();
    // SAFETY: the handler only writes events, which is async-signal-safe.
    unsafe { libc::signal(libc::SIGALRM, handler as *const () as libc::sighandler_t) };
    // For this very thread: a timer of the process would interrupt any, several at one time.
    // SAFETY: all zeros is a valid event description; what matters is filled in.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = libc::SIGALRM;
    // SAFETY: asks for a number.
    event.sigev_notify_thread_id = unsafe { libc::gettid() };
    let mut timer: libc::timer_t = std::ptr::null_mut();
    let every = libc::timespec { tv_sec: 0, tv_nsec: 100_000 };
    let every = libc::itimerspec { it_interval: every, it_value: every };
    // SAFETY: the places are this function's; the signal has a handler.
    unsafe {
        assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer), 0);
        assert_eq!(libc::timer_settime(timer, 0, &raw const every, std::ptr::null_mut()), 0);
    }
    let mut number = 0;
    while WRITTEN.load(Ordering::Relaxed) < 500 {
        for _ in 0..100 {
            assert_eq!(write(number), Outcome::Written);
            number += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: the timer is this function's.
    assert_eq!(unsafe { libc::timer_delete(timer) }, 0);
    println!("written {number} {}.", WRITTEN.load(Ordering::Relaxed));
}

#[test]
fn signal_handlers_write_in_between() {
    let host = TestHost::new();
    host.start("Signals", &[enable("OpenETW.Test.Process")]);
    let mut child = host.start_role("signals");
    hears(&mut child, "written ");
    ends_well(child);
    let found = numbers(&host.stop("Signals"));
    let (handler, own): (Vec<u32>, Vec<u32>) = found.iter().partition(|number| **number >= 1_000_000);
    assert_eq!(own, (0..own.len() as u32).collect::<Vec<u32>>());
    assert_eq!(handler, (1_000_000..1_000_000 + handler.len() as u32).collect::<Vec<u32>>());
    assert!(handler.len() >= 500);
}

/// Number of events that a line of the output reports.
const A_LINE: u32 = 500;

pub(crate) fn write_until_killed() {
    APP.register();
    let mut out = std::io::stdout();
    for line in 0.. {
        for number in 0..A_LINE {
            assert_eq!(write(line * A_LINE + number), Outcome::Written);
        }
        out.write_all(b"line\n").unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn what_was_written_before_a_kill_is_in_the_file() {
    for lines in 1..8 {
        let host = TestHost::new();
        host.start("Killed", &[enable("OpenETW.Test.Process")]);
        let mut child = host.start_role("killed");
        for _ in 0..lines {
            hears(&mut child, "line\n");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let status = host.controller().stop("Killed").unwrap();
        let found = numbers(&read(&host.file("Killed"), &Schemas::new()));
        assert!(found.len() as u32 >= lines * A_LINE, "{} events of {lines} lines", found.len());
        assert_eq!(found, (0..found.len() as u32).collect::<Vec<u32>>());
        assert!(status.events_lost <= 1, "at most the one that was being written");
    }
}
