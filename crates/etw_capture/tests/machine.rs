//! Captures this machine, and compares with what the tests themselves did. Where programs cannot be loaded into the
//! kernel, the tests say so and are left out.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use etw_capture::capture::{Capture, CaptureError, CaptureOptions};
use etw_capture::records::{Body, Disk, Event, File};
use etw_kernel_events::{Hook, Hooks};

/// An event that lives on, as far as the tests look at it.
#[derive(Debug, Clone, PartialEq)]
enum Seen {
    Fork { parent: u32, process: u32, thread: u32, group: u64 },
    Move { process: u32, group: u64, path: String },
    Exec { process: u32, parent: u32, path: String, argv: Vec<String> },
    Exit { process: u32, thread: u32, code: u32, process_code: Option<u32> },
    ThreadName { process: u32, thread: u32, name: String },
    Switch { processor: u32, old: u32, new: u32, state: u32, preempted: bool },
    Ready { by: u32, thread: u32, by_interrupt: bool },
    Sample { thread: u32, instruction: u64 },
    Stack { of: u64, thread: u32, kernel: usize, user: Vec<u64> },
    Call { thread: u32, number: u32, result: Option<i64> },
    Span { begun: u64 },
    Fault { process: u32, address: u64 },
    Disk { by: u32, bytes: u32, operation: u32, issued: Option<u64>, done: bool },
    Name { path: String },
}

fn disk_seen(disk: Disk, issued: Option<u64>, done: bool) -> Seen {
    let Disk { issuer_process_id: by, bytes, operation, .. } = disk;
    Seen::Disk { by, bytes, operation, issued, done }
}

fn seen(event: Event<'_>) -> Seen {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (process, thread) = (event.process_id, event.thread_id);
    match event.body {
        Body::Fork(fork) => {
            assert_eq!(fork.is_process(), fork.process_id == fork.thread_id);
            Seen::Fork {
                parent: fork.parent_id,
                process: fork.process_id,
                thread: fork.thread_id,
                group: fork.control_group,
            }
        }
        Body::Move(moved) => {
            Seen::Move { process: moved.process_id, group: moved.control_group, path: text(moved.path) }
        }
        Body::Exec(exec) => Seen::Exec {
            process,
            parent: exec.parent_id,
            path: text(exec.path),
            argv: exec.argv().map(text).collect(),
        },
        Body::Exit { code, process_code, .. } => Seen::Exit { process, thread, code, process_code },
        Body::ThreadName(named) => {
            Seen::ThreadName { process: named.process_id, thread: named.thread_id, name: text(named.name) }
        }
        Body::ContextSwitch(switch) => Seen::Switch {
            processor: event.processor,
            old: thread,
            new: switch.new_thread_id,
            state: switch.old_state,
            preempted: switch.preempted,
        },
        Body::ReadyThread { thread_id, by_interrupt, .. } => {
            Seen::Ready { by: thread, thread: thread_id, by_interrupt }
        }
        Body::Sample { instruction } => Seen::Sample { thread, instruction },
        Body::Stack(stack) => Seen::Stack {
            of: stack.event_time,
            thread,
            kernel: stack.kernel().len(),
            user: stack.user().collect(),
        },
        Body::SystemCallEnter { number } => Seen::Call { thread, number, result: None },
        Body::SystemCallExit { number, result } => Seen::Call { thread, number, result: Some(result) },
        Body::Interrupt { begun, .. } | Body::Dpc { begun, .. } => Seen::Span { begun },
        Body::DiskIssue(disk) => disk_seen(disk, None, false),
        Body::DiskComplete { disk, issued, .. } => disk_seen(disk, issued, true),
        Body::PageFault(fault) => Seen::Fault { process, address: fault.address },
        Body::File(File::Name(name)) => {
            let mut path = Vec::new();
            name.put_path(&mut path);
            Seen::Name { path: text(&path) }
        }
        other => panic!("an event of a new kind: {other:?}"),
    }
}

/// Starts a capture; nothing, with a line that says why, where that is not possible.
fn start(hooks: &[Hook], options: &CaptureOptions) -> Option<Capture> {
    let capture = match Capture::start(Hooks::from_list(hooks), options) {
        Ok(capture) => capture,
        Err(error @ (CaptureError::NotPermitted { .. } | CaptureError::NoTypes(_))) => {
            etw_testkit::skip!("{error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    if let Some((hook, reason)) = capture.missing().first() {
        etw_testkit::skip!("this kernel gives no {hook}: {reason}");
        return None;
    }
    Some(capture)
}

/// Reads all rings until they are empty, and checks the order of time of each.
fn drain(capture: &mut Capture, last: &mut BTreeMap<usize, u64>, to: &mut Vec<(u64, Seen)>) {
    for processor in 0..capture.processors() {
        let last = last.entry(processor).or_default();
        // An event of the very reading may always be there, so this ends by number.
        for _ in 0..64 {
            let count = capture.read(processor, u64::MAX, |event| {
                assert!(event.time >= *last, "{} after {last}", event.time);
                assert_eq!(event.processor as usize, processor);
                *last = event.time;
                to.push((event.time, seen(event)));
            });
            if count == 0 {
                break;
            }
        }
    }
}

fn lost(capture: &Capture) -> u64 {
    capture.lost().sum()
}

/// Captures while `act` runs, and returns its result and the events by time.
fn capture_while<T: Send>(
    hooks: &[Hook],
    options: &CaptureOptions,
    act: impl FnOnce() -> T + Send,
) -> Option<(T, Vec<(u64, Seen)>)> {
    let mut capture = start(hooks, options)?;
    let (mut last, mut events) = (BTreeMap::new(), Vec::new());
    let result = thread::scope(|scope| {
        let acting = scope.spawn(act);
        while !acting.is_finished() {
            drain(&mut capture, &mut last, &mut events);
            thread::sleep(Duration::from_millis(2));
        }
        acting.join().unwrap()
    });
    capture.set_hooks(Hooks::NONE);
    drain(&mut capture, &mut last, &mut events);
    assert_eq!(lost(&capture), 0);
    events.sort_by_key(|event| event.0);
    Some((result, events))
}

/// The id of the calling thread.
fn own_thread_id() -> u32 {
    let link = fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

#[test]
fn each_process_is_seen_once_with_its_arguments_and_its_end() {
    let count = if std::env::var_os("RUN_SLOW_TESTS").is_some() { 10_000 } else { 100 };
    // Long and short arguments, up to 20,000 bytes.
    let filler = |number: usize| "x".repeat(number % 400 * 50);
    let act = || {
        let start = |number: usize| {
            let code = number % 3;
            let mut command = Command::new("/bin/sh");
            command.args(["-c", &format!("exit {code}"), "name of it", &filler(number), ""]);
            let mut child = command.stdin(Stdio::null()).spawn().unwrap();
            let id = child.id();
            assert_eq!(child.wait().unwrap().code(), Some(code as i32));
            id
        };
        (0..count).map(start).collect::<Vec<_>>()
    };
    let Some((ids, events)) = capture_while(&[Hook::Process], &CaptureOptions::default(), act) else {
        return;
    };
    let own = std::process::id();
    for (number, id) in ids.iter().enumerate() {
        let of_process = events.iter().map(|event| &event.1).filter(|seen| match seen {
            Seen::Fork { process, .. }
            | Seen::Exec { process, .. }
            | Seen::Exit { process, .. }
            | Seen::ThreadName { process, .. } => process == id,
            _ => false,
        });
        let code = ((number % 3) << 8) as u32;
        let argv = ["/bin/sh", "-c", &format!("exit {}", number % 3), "name of it", &filler(number), ""];
        let expected = [
            Seen::Fork { parent: own, process: *id, thread: *id, group: 0 },
            Seen::ThreadName { process: *id, thread: *id, name: "sh".to_owned() },
            Seen::Exec {
                process: *id,
                parent: own,
                path: "/bin/sh".to_owned(),
                argv: argv.map(str::to_owned).to_vec(),
            },
            Seen::Exit { process: *id, thread: *id, code, process_code: Some(code) },
        ];
        let without_group = of_process.cloned().map(|seen| match seen {
            Seen::Fork { parent, process, thread, .. } => Seen::Fork { parent, process, thread, group: 0 },
            seen => seen,
        });
        assert_eq!(without_group.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn arguments_that_are_too_long_are_cut_off() {
    let act = || {
        let mut child = Command::new("/bin/true").arg("x".repeat(100_000)).spawn().unwrap();
        child.wait().unwrap();
        child.id()
    };
    let Some((id, events)) = capture_while(&[Hook::Process], &CaptureOptions::default(), act) else { return };
    let mut starts = events.iter().filter_map(|event| match &event.1 {
        Seen::Exec { process, argv, .. } if *process == id => Some(argv),
        _ => None,
    });
    let argv = starts.next().unwrap();
    assert_eq!(argv[0], "/bin/true");
    assert_eq!(argv[1], "x".repeat(24_576 - "/bin/true".len() - 1));
    assert_eq!(argv.len(), 2);
}

#[test]
fn a_process_that_is_killed_ends_with_the_signal() {
    let act = || {
        let mut child = Command::new("/bin/sleep").arg("100").spawn().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        child.id()
    };
    let Some((id, events)) = capture_while(&[Hook::Process], &CaptureOptions::default(), act) else { return };
    let ends =
        events.into_iter().filter(|(_, seen)| matches!(seen, Seen::Exit { process, .. } if *process == id));
    let expected = Seen::Exit { process: id, thread: id, code: 9, process_code: Some(9) };
    assert_eq!(ends.map(|event| event.1).collect::<Vec<_>>(), [expected]);
}

#[test]
fn threads_begin_and_end() {
    let act = || {
        let threads = (0..20).map(|_| thread::spawn(own_thread_id)).collect::<Vec<_>>();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    };
    let Some((ids, events)) = capture_while(&[Hook::Process], &CaptureOptions::default(), act) else {
        return;
    };
    let own = std::process::id();
    for id in ids {
        let mut of_thread = events.iter().map(|event| &event.1).filter(
            |seen| matches!(seen, Seen::Fork { thread, .. } | Seen::Exit { thread, .. } if *thread == id),
        );
        assert!(matches!(of_thread.next(), Some(Seen::Fork { process, .. }) if *process == own));
        let end = of_thread.next();
        // A joined thread has left memory, but may not have reached its end in the kernel when the capture stops.
        assert!(matches!(end, None | Some(Seen::Exit { process_code: None, .. })), "{end:?}");
        assert_eq!(of_thread.next(), None);
    }
}

#[test]
fn a_sleeping_thread_waits_and_is_woken() {
    let naps = 50;
    let act = || {
        let id = own_thread_id();
        for _ in 0..naps {
            thread::sleep(Duration::from_millis(1));
        }
        id
    };
    let hooks = [Hook::ContextSwitch, Hook::ReadyThread];
    let Some((id, events)) = capture_while(&hooks, &CaptureOptions::default(), act) else { return };
    let hidden = hidden_times(&events);
    let (mut since, mut woken, mut unseen) = (None, 0, 0);
    for (time, seen) in &events {
        match *seen {
            Seen::Switch { old, state, preempted: false, .. } if old == id && state & 3 == 1 => {
                // One that has not been seen to go on again was hidden then.
                unseen += usize::from(since.replace(*time).is_some());
            }
            Seen::Ready { thread, by_interrupt: true, .. } if thread == id => {
                woken += usize::from(since.take().is_some());
            }
            Seen::Switch { new, .. } if new == id => {
                let Some(since) = since.take() else { continue };
                let is_hidden = hidden.iter().any(|hidden| hidden.start < *time && since < hidden.end);
                assert!(is_hidden, "a nap from {since} to {time} without a wake; hidden: {hidden:?}");
                unseen += 1;
            }
            _ => {}
        }
    }
    let said = format!("{woken} naps with a wake, {unseen} without; hidden: {hidden:?}");
    assert!(woken + unseen >= naps || !hidden.is_empty(), "{said}");
    assert!(woken >= naps / 2 && unseen <= 2 * hidden.len(), "{said}");
    // A thread goes off as often as it comes on, but for the ends of the capture.
    let count = |of: &dyn Fn(&Seen) -> bool| events.iter().filter(|event| of(&event.1)).count();
    let on = count(&|seen| matches!(seen, Seen::Switch { new, .. } if *new == id));
    let off = count(&|seen| matches!(seen, Seen::Switch { old, .. } if *old == id));
    assert!(on.abs_diff(off) <= 1 + 2 * hidden.len(), "on {on}, off {off}; {said}");
}

/// Times in which a processor told nothing: its next thread to go off is not the one that came on. Some virtual machines
/// hide what runs while their first process does.
fn hidden_times(events: &[(u64, Seen)]) -> Vec<Range<u64>> {
    let (mut last, mut hidden) = (BTreeMap::new(), Vec::new());
    for (time, seen) in events {
        if let Seen::Switch { processor, old, new, .. } = *seen
            && let Some((since, on)) = last.insert(processor, (*time, new))
            && on != old
        {
            hidden.push(since..*time);
        }
    }
    hidden
}

/// Voluntary and other switches of the calling thread, as `/proc` counts them.
fn counted_switches() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
    lines.map(|line| line.split_whitespace().next_back().unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn switches_are_those_that_proc_counts() {
    let act = || {
        let before = counted_switches();
        for _ in 0..300 {
            thread::sleep(Duration::from_micros(200));
            thread::yield_now();
        }
        (own_thread_id(), counted_switches() - before)
    };
    let options = CaptureOptions::default();
    let Some(((id, counted), events)) = capture_while(&[Hook::ContextSwitch], &options, act) else { return };
    let off = |seen: &Seen| matches!(seen, Seen::Switch { old, .. } if *old == id);
    let captured = events.iter().filter(|event| off(&event.1)).count() as u64;
    // The thread's life before the first and after the second look at /proc has switches too: its start, its end, and
    // where other work took its processor meanwhile.
    assert!(captured >= counted, "{captured} captured, {counted} counted");
    assert!(captured <= counted + 20, "{captured} captured, {counted} counted");
}

/// Something that takes time, in a frame of its own.
#[inline(never)]
fn burn(until: Instant) -> u64 {
    let mut value = 1_u64;
    while Instant::now() < until {
        for _ in 0..10_000 {
            value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
    }
    value
}

#[test]
fn a_burning_thread_is_sampled() {
    let act = || {
        let id = own_thread_id();
        let ticks = || {
            let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
            stat.split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        let before = ticks();
        black_box(burn(Instant::now() + Duration::from_millis(300)));
        (id, ticks() - before)
    };
    let options = CaptureOptions::default();
    let Some(((id, nanos), events)) = capture_while(&[Hook::Sample], &options, act) else { return };
    let own = |event: &&(u64, Seen)| matches!(&event.1, Seen::Sample { thread, .. } | Seen::Stack { thread, .. } if *thread == id);
    let of_thread = events.iter().filter(own).collect::<Vec<_>>();
    let mut in_program = 0;
    for pair in of_thread.chunks(2) {
        let [(time, Seen::Sample { instruction, .. }), (_, Seen::Stack { of, kernel, user, .. })] = pair
        else {
            panic!("a stack behind each sample: {pair:?}");
        };
        assert_eq!(of, time);
        in_program += usize::from(*kernel == 0 && user.first() == Some(instruction));
    }
    // One sample for each millisecond of processor time; a host that takes the processor away swallows some.
    let expected = nanos / 1_000_000;
    let count = of_thread.len() as u64 / 2;
    assert!(
        count >= expected / 4 && count <= expected + expected / 4 + 5,
        "{count} samples in {expected} ms"
    );
    assert!(in_program as u64 * 2 > count, "{in_program} of {count} in the program");
}

#[test]
fn system_calls_begin_and_end_with_their_results() {
    let act = || {
        for _ in 0..50 {
            assert!(fs::metadata("/no such file").is_err());
        }
        own_thread_id()
    };
    let Some((id, events)) = capture_while(&[Hook::SystemCall], &CaptureOptions::default(), act) else {
        return;
    };
    let of_thread = events.iter().filter_map(|event| match event.1 {
        Seen::Call { thread, number, result } if thread == id => Some((number, result)),
        _ => None,
    });
    let of_thread = of_thread.collect::<Vec<_>>();
    let failed = of_thread.windows(2).filter(|pair| pair[0] == (pair[1].0, None) && pair[1].1 == Some(-2));
    assert_eq!(failed.count(), 50);
}

#[test]
fn a_process_can_be_left_out() {
    let left_out_processes = [Some(std::process::id()), None];
    let options = CaptureOptions { left_out_processes, ..CaptureOptions::default() };
    let act = || {
        let id = own_thread_id();
        let done = Command::new("/bin/true").status().unwrap();
        assert!(done.success());
        id
    };
    let hooks = [Hook::SystemCall, Hook::Process];
    let Some((id, events)) = capture_while(&hooks, &options, act) else { return };
    let own = std::process::id();
    assert!(!events.iter().any(|event| matches!(event.1, Seen::Call { thread, .. } if thread == id)));
    assert!(events.iter().any(|event| matches!(event.1, Seen::Call { .. })));
    assert!(events.iter().any(|event| matches!(event.1, Seen::Fork { parent, .. } if parent == own)));
}

#[test]
fn faults_tell_the_address() {
    const PAGES: usize = 256;
    let act = || {
        let mut memory = vec![0_u8; (PAGES + 1) * 4096];
        for page in memory.chunks_mut(4096) {
            page[0] = black_box(1);
        }
        memory.as_ptr() as u64
    };
    let Some((begin, events)) =
        capture_while(&[Hook::HardFault, Hook::SoftFault], &CaptureOptions::default(), act)
    else {
        return;
    };
    let own = std::process::id();
    let inside = begin..begin + (PAGES as u64) * 4096;
    let faults = events.iter().filter(
        |event| matches!(event.1, Seen::Fault { process, address } if process == own && inside.contains(&address)),
    );
    // Huge pages may take many at once.
    assert!(faults.count() > 0);
}

#[test]
fn interrupts_and_dpcs_have_a_begin_and_an_end() {
    let act = || {
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(5));
        }
    };
    let hooks = [Hook::Interrupt, Hook::Dpc];
    let Some(((), events)) = capture_while(&hooks, &CaptureOptions::default(), act) else { return };
    assert!(!events.is_empty());
    for (time, seen) in events {
        let Seen::Span { begun } = seen else { panic!("{seen:?}") };
        assert!(begun <= time && time - begun < 1_000_000_000, "{begun} to {time}");
    }
}

#[test]
fn disk_requests_are_sent_and_done() {
    let act = || {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("data");
        fs::write(&path, vec![7_u8; 1 << 20]).unwrap();
        fs::File::open(&path).unwrap().sync_all().unwrap();
        path
    };
    let Some((path, events)) = capture_while(&[Hook::Disk], &CaptureOptions::default(), act) else { return };
    let done = events.iter().filter_map(|(time, seen)| match seen {
        Seen::Disk { bytes, operation, issued: Some(issued), done: true, .. } => {
            assert!(issued <= time);
            Some((*operation & 0xff, u64::from(*bytes)))
        }
        _ => None,
    });
    let written = done.filter(|(operation, _)| *operation == 1).map(|(_, bytes)| bytes).sum::<u64>();
    if events.is_empty() {
        etw_testkit::skip!("the file system of the sources is on no disk");
        return;
    }
    assert!(written >= 1 << 20, "{written} bytes written");
    let is_its_name = |seen: &Seen| matches!(seen, Seen::Name { path: told } if path.to_str() == Some(told));
    assert_eq!(events.iter().filter(|(_, seen)| is_its_name(seen)).count(), 1);
}

#[test]
fn a_thread_that_wakes_another_is_no_interrupt() {
    let act = || {
        let (to_other, of_own) = std::sync::mpsc::sync_channel::<()>(0);
        let (to_own, of_other) = std::sync::mpsc::sync_channel(0);
        let other = thread::spawn(move || {
            to_own.send(own_thread_id()).unwrap();
            while of_own.recv().is_ok() {}
        });
        let id = of_other.recv().unwrap();
        for _ in 0..50 {
            to_other.send(()).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        drop(to_other);
        other.join().unwrap();
        (own_thread_id(), id)
    };
    let Some(((own, other), events)) = capture_while(&[Hook::ReadyThread], &CaptureOptions::default(), act)
    else {
        return;
    };
    let wakes = events.iter().filter_map(|(_, seen)| match seen {
        Seen::Ready { by, thread, by_interrupt } if (*by, *thread) == (own, other) => Some(*by_interrupt),
        _ => None,
    });
    let wakes: Vec<bool> = wakes.collect();
    // It may have been running still.
    assert!(wakes.len() >= 25 && !wakes.contains(&true), "{wakes:?}");
}

#[test]
fn what_is_read_is_of_the_process_that_reads() {
    const BYTES: u64 = 8 << 20;
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = directory.path().join("data");
    fs::write(&path, vec![7_u8; BYTES as usize]).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    // Takes the file out of the cache, and reads nothing.
    let mut input = std::ffi::OsString::from("if=");
    input.push(&path);
    let dd = Command::new("dd").arg(input).args(["iflag=nocache", "count=0", "status=none"]).status();
    assert!(dd.unwrap().success());
    let act = || fs::read(&path).unwrap();
    let Some((_, events)) = capture_while(&[Hook::Disk], &CaptureOptions::default(), act) else { return };
    let read = |own: bool| {
        let bytes = events.iter().filter_map(|(_, seen)| match seen {
            Seen::Disk { by, bytes, operation, done: true, .. } if operation & 0xff == 0 => {
                (!own || *by == std::process::id()).then_some(u64::from(*bytes))
            }
            _ => None,
        });
        bytes.sum::<u64>()
    };
    if read(false) < BYTES {
        eprintln!(
            "left out: the file system of the sources is on no disk, or keeps what it was told to let go"
        );
        return;
    }
    assert!(read(true) >= BYTES, "{} bytes of {BYTES}", read(true));
}

#[test]
fn hooks_come_and_go() {
    let Some(mut capture) = start(&[], &CaptureOptions::default()) else { return };
    let (mut last, mut events) = (BTreeMap::new(), Vec::new());
    let mut run = |capture: &mut Capture, hooks: &[Hook]| {
        capture.set_hooks(Hooks::from_list(hooks));
        assert_eq!(capture.missing(), &[]);
        let mut child = Command::new("/bin/true").spawn().unwrap();
        child.wait().unwrap();
        events.clear();
        drain(capture, &mut last, &mut events);
        let forks =
            events.iter().filter(|e| matches!(e.1, Seen::Fork { process, .. } if process == child.id()));
        let switches = events.iter().filter(|event| matches!(event.1, Seen::Switch { .. }));
        (forks.count(), switches.count() > 0)
    };
    assert_eq!(run(&mut capture, &[]), (0, false));
    assert_eq!(run(&mut capture, &[Hook::Process]), (1, false));
    assert_eq!(run(&mut capture, &[Hook::Process, Hook::ContextSwitch]), (1, true));
    capture.set_hooks(Hooks::NONE);
    drain(&mut capture, &mut BTreeMap::new(), &mut Vec::new());
    assert_eq!(run(&mut capture, &[Hook::Process]), (1, false));
}

#[test]
fn what_finds_no_room_is_counted() {
    let calls = 20_000_u64;
    let options = CaptureOptions { ring_bytes: 0, ..CaptureOptions::default() };
    let Some(mut capture) = start(&[], &options) else { return };
    capture.set_hooks(Hooks::from_list(&[Hook::SystemCall]));
    let own = own_thread_id();
    for _ in 0..calls {
        thread::yield_now();
    }
    capture.set_hooks(Hooks::NONE);
    let mut events = Vec::new();
    drain(&mut capture, &mut BTreeMap::new(), &mut events);
    let kept =
        events.iter().filter(|e| matches!(e.1, Seen::Call { thread, .. } if thread == own)).count() as u64;
    assert!(kept < 2 * calls);
    assert!(kept + lost(&capture) >= 2 * calls, "{kept} kept, {} lost", lost(&capture));
}

/// A control group of version 2 for a test, which is removed at its end.
struct TestGroup(PathBuf);

impl TestGroup {
    /// Creates the group; `None` if the test may not.
    fn new(name: &str) -> Option<TestGroup> {
        let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let mount = mounts.into_iter().find(|mount| mount.join("cgroup.procs").exists())?;
        let directory = mount.join(format!("openetw-{name}-{}", std::process::id()));
        match std::fs::create_dir(&directory) {
            Ok(()) => Some(TestGroup(directory)),
            Err(error) => {
                etw_testkit::skip!("{}: {error}", directory.display());
                None
            }
        }
    }
}

impl Drop for TestGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn moves_to_control_groups_are_seen_and_children_start_in_them() {
    let Some(group) = TestGroup::new("moves") else { return };
    let id = group.0.metadata().unwrap().ino();
    let act = || {
        let move_and_fork = format!("echo $$ >{}/cgroup.procs; sleep 0; :", group.0.display());
        let mut child = Command::new("/bin/sh").args(["-c", &move_and_fork]).spawn().unwrap();
        assert!(child.wait().unwrap().success());
        child.id()
    };
    let hooks = [Hook::Process, Hook::ControlGroup];
    let Some((child, events)) = capture_while(&hooks, &CaptureOptions::default(), act) else { return };
    let own = std::process::id();
    let seen = events.iter().filter_map(|event| match &event.1 {
        Seen::Move { process, group, path } if *process == child => Some((*group, path.as_str())),
        Seen::Fork { parent, group, .. } if [own, child].contains(parent) => Some((*group, "")),
        _ => None,
    });
    let seen: Vec<(u64, &str)> = seen.collect();
    let path = format!("/{}", group.0.file_name().unwrap().to_str().unwrap());
    let [first, ref after @ ..] = seen[..] else { panic!("nothing of {child}") };
    assert_ne!(first.0, id);
    assert_eq!(after, [(id, &*path), (id, "")]);
}
