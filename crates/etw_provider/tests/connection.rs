//! The connection to hosts, with the test acting as the host. Tests that need another environment run in a child
//! process: the test executable starts itself again.

#![allow(clippy::unwrap_used, missing_docs)]
#![expect(unsafe_code, reason = "forks, and installs a signal handler")]

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use etw_buffer::{Geometry, RegionReader};
use etw_event::{Keyword, Level};
use etw_protocol::{Channel, Enable, FromProvider, Hello, PacketBuffer, Role, ToProvider, VERSION};
use etw_provider::{ControlCode, Outcome, event, provider};
use etw_sys::clock::ClockSource;
use etw_sys::socket::Listener;
use etw_sys::{EventFd, SharedWords};

const PATIENCE: Duration = Duration::from_secs(20);

/// A host played by the test.
struct Host {
    listener: Listener,
    directory: PathBuf,
    is_killed: bool,
}

/// One process's connection, seen from the host.
struct Peer {
    channel: Channel,
    doorbell: EventFd,
    buffer: PacketBuffer,
    reader: Option<RegionReader<SharedWords>>,
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("etw_provider-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

impl Host {
    fn new(directory: &Path) -> Host {
        let _ = std::fs::remove_file(directory.join("etwd.sock"));
        let listener = Listener::bind(&directory.join("etwd.sock")).unwrap();
        Host { listener, directory: directory.to_owned(), is_killed: false }
    }

    /// Starts this test again as a process with a role.
    fn start(directory: &Path, role: &str) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "role", "--nocapture", "--test-threads=1"])
            .env("ETW_TEST_ROLE", role)
            .env("OPENETW_RUNTIME_DIR", directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn accept(&self) -> Peer {
        let start = Instant::now();
        let connection = loop {
            if let Some(connection) = self.listener.accept().unwrap() {
                break connection;
            }
            assert!(start.elapsed() < PATIENCE, "nobody connects");
            std::thread::sleep(Duration::from_millis(1));
        };
        connection.set_nonblocking(false).unwrap();
        connection.set_receive_timeout(Some(PATIENCE)).unwrap();
        let channel = Channel::new(connection);
        let mut buffer = PacketBuffer::default();
        let (hello, _) = channel.receive::<Hello>(&mut buffer).unwrap().unwrap();
        assert_eq!(hello, Hello::new(Role::Provider));
        let doorbell = EventFd::new().unwrap();
        channel.send(&ToProvider::Welcome { version: VERSION }, &[doorbell.as_fd()]).unwrap();
        Peer { channel, doorbell, buffer, reader: None }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if !self.is_killed {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

impl Peer {
    /// Receives the next message; `None` at the end.
    fn receive(&mut self) -> Option<FromProvider> {
        self.channel.receive(&mut self.buffer).unwrap().map(|(message, _)| message)
    }

    fn send(&self, message: &ToProvider) {
        self.channel.send(message, &[]).unwrap();
    }

    /// Receives a registration and returns its number.
    fn registration(&mut self, expected: &str) -> u32 {
        let Some(FromProvider::Register { id, name, guid, traits }) = self.receive() else {
            panic!("no registration of {expected}")
        };
        assert_eq!(name, expected);
        assert_eq!(guid, etw_event::Guid::from_provider_name(expected));
        assert_eq!(usize::from(u16::from_le_bytes([traits[0], traits[1]])), traits.len());
        id
    }

    /// Opens a region in slot 3 and enables a registration there.
    fn enable(&mut self, id: u32, slot: u8) {
        let processors = etw_sys::cpu::possible() as u16;
        let geometry = Geometry { processors, buffers: 16, buffer_bytes: 65536 };
        let (words, file) = SharedWords::create("region", geometry.len_words()).unwrap();
        let clock = ClockSource::of_performance_counter();
        let mut reader =
            RegionReader::format(words, geometry, clock as u8, 9, 1, clock.now(), u64::MAX).unwrap();
        reader.grant(16);
        self.reader = Some(reader);
        self.channel.send(&ToProvider::Region { slot, epoch: 9 }, &[file.as_fd()]).unwrap();
        self.send(&ToProvider::Enable { id, slot, epoch: 9, enable: Enable::default() });
    }

    /// Registers a provider with a session that wants everything.
    fn welcome(&mut self, name: &str) -> u32 {
        let id = self.registration(name);
        self.enable(id, 3);
        self.send(&ToProvider::Registered { id });
        id
    }

    /// Waits for `count` events in the region, and returns the number of each.
    fn events(&mut self, count: usize) -> Vec<u32> {
        let (start, mut numbers) = (Instant::now(), Vec::new());
        while numbers.len() < count && start.elapsed() < PATIENCE {
            numbers.extend(self.read());
            std::thread::sleep(Duration::from_millis(1));
        }
        numbers.sort_unstable();
        numbers
    }

    /// Returns the last four payload bytes of every event.
    fn read(&mut self) -> Vec<u32> {
        let reader = self.reader.as_mut().unwrap();
        let mut numbers = Vec::new();
        for processor in 0..usize::from(reader.geometry().processors) {
            let mut out = Vec::new();
            reader.read(processor, u64::MAX / 2, u64::MAX, usize::MAX, &mut out);
            let bytes: Vec<u8> = out.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
            let mut rest = bytes.as_slice();
            while rest.len() >= 8 {
                let size = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
                numbers.push(u32::from_le_bytes(rest[size - 4..size].try_into().unwrap()));
                rest = &rest[size.next_multiple_of(8)..];
            }
        }
        numbers
    }
}

fn ends_well(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

provider!(static APP: "OpenETW.Test.Connection");

fn write(number: u32) -> Outcome {
    event!(APP, "E", u32("n", number))
}

/// Waits until the provider is enabled or disabled.
fn until(enabled: bool) {
    let start = Instant::now();
    while APP.is_enabled() != enabled {
        assert!(start.elapsed() < PATIENCE, "the provider is not {enabled}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until the test ends this process.
fn until_stdin_ends() {
    let _ = std::io::read_to_string(std::io::stdin());
}

fn threads() -> Vec<String> {
    let names = std::fs::read_dir("/proc/self/task").unwrap();
    names.map(|entry| std::fs::read_to_string(entry.unwrap().path().join("comm")).unwrap()).collect()
}

/// The code of the processes that the tests start.
#[test]
fn role() {
    match std::env::var("ETW_TEST_ROLE").unwrap_or_default().as_str() {
        "first" => {
            APP.register();
            assert_eq!(write(1), Outcome::Written);
            // A thread sets its name when it starts to run.
            let start = Instant::now();
            while threads().iter().filter(|name| name.starts_with("etw-provider")).count() != 1 {
                assert!(start.elapsed() < PATIENCE, "{:?}", threads());
                std::thread::sleep(Duration::from_millis(1));
            }
            until_stdin_ends();
        }
        "callback" => {
            static CALLS: AtomicU32 = AtomicU32::new(0);
            APP.register_with(|control| {
                let call = CALLS.fetch_add(1, Ordering::SeqCst);
                match call {
                    0 => assert_eq!((control.code, control.is_enabled), (ControlCode::Enable, true)),
                    1 => {
                        assert_eq!((control.level, control.any), (Level::ERROR, Keyword(0x30)));
                        assert_eq!(control.filter_data, [(0x8000_0000, vec![1, 2, 3])]);
                    }
                    2 => assert_eq!((control.level, control.any), (Level(0), Keyword(u64::MAX))),
                    3 => {
                        assert_eq!(control.code, ControlCode::CaptureState);
                        assert_eq!(write(77), Outcome::Written);
                    }
                    _ => assert_eq!((control.code, control.is_enabled), (ControlCode::Disable, false)),
                }
            });
            // The others may arrive at once.
            assert!(CALLS.load(Ordering::SeqCst) >= 1, "the first call is made before registering ends");
            until(false);
            let start = Instant::now();
            while CALLS.load(Ordering::SeqCst) < 5 {
                assert!(start.elapsed() < PATIENCE);
                std::thread::sleep(Duration::from_millis(1));
            }
            APP.unregister();
            until_stdin_ends();
        }
        "later" => {
            static ENDS: AtomicU32 = AtomicU32::new(0);
            APP.register_with(|control| {
                ENDS.fetch_add(u32::from(control.code == ControlCode::Disable), Ordering::SeqCst);
            });
            assert_eq!(write(1), Outcome::NotEnabled);
            let directory = PathBuf::from(std::env::var_os("OPENETW_RUNTIME_DIR").unwrap());
            std::fs::write(directory.join("ready"), "").unwrap();
            for number in 0..2 {
                until(true);
                assert_eq!(write(number), Outcome::Written);
                let start = Instant::now();
                // The next host may be there before the disable is observed.
                while ENDS.load(Ordering::SeqCst) <= number {
                    assert!(start.elapsed() < PATIENCE, "the host's end is not told");
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        "fork" => {
            APP.register();
            assert_eq!(write(1), Outcome::Written);
            // SAFETY: the child only does what is allowed after a fork, and ends without exit handlers.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // The parent's region is not written to; the first event reconnects and is not missed.
                let written = write(2) == Outcome::Written && write(3) == Outcome::Written;
                // SAFETY: ends the child.
                unsafe { libc::_exit(if written { 0 } else { 1 }) };
            }
            let mut status = 0;
            // SAFETY: waits for our own child, with memory for its status.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
            assert_eq!(write(4), Outcome::Written);
            until_stdin_ends();
        }
        "signals" => {
            extern "C" fn handler(_: libc::c_int) {
                static NUMBER: AtomicU32 = AtomicU32::new(1_000_000);
                write(NUMBER.fetch_add(1, Ordering::Relaxed));
            }
            APP.register();
            // SAFETY: the handler only writes events, which is async-signal-safe.
            unsafe { libc::signal(libc::SIGALRM, handler as *const () as libc::sighandler_t) };
            let every = libc::timeval { tv_sec: 0, tv_usec: 200 };
            let timer = libc::itimerval { it_interval: every, it_value: every };
            // SAFETY: starts a timer whose signal this process handles.
            unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
            for number in 0..3000 {
                assert_eq!(write(number), Outcome::Written);
                std::thread::sleep(Duration::from_micros(20));
            }
            // SAFETY: stops the timer.
            unsafe { libc::signal(libc::SIGALRM, libc::SIG_IGN) };
        }
        "threads" => {
            APP.register();
            for round in 0..20u32 {
                let write = |number| (write(number) == Outcome::Written) as u32;
                let written: u32 = std::thread::scope(|scope| {
                    let spawn = |thread| scope.spawn(move || write(round * 100 + thread));
                    let threads: Vec<_> = (0..100).map(spawn).collect();
                    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
                });
                assert_eq!(written, 100);
            }
        }
        "hostile" => {
            APP.register();
            assert!(!APP.is_enabled());
            // The process continues, whatever the host does.
            until_stdin_ends();
        }
        _ => {}
    }
}

#[test]
fn the_first_event_is_not_missed() {
    let host = Host::new(&directory("first"));
    let child = Host::start(&host.directory, "first");
    let mut peer = host.accept();
    peer.welcome("OpenETW.Test.Connection");
    assert_eq!(peer.events(1), [1]);
    ends_well(child);
    assert_eq!(peer.receive(), None, "the end of the process ends the connection");
    assert_eq!(peer.doorbell.drain(), 0, "nobody asked to be woken");
}

#[test]
fn callbacks_see_every_change_and_state_goes_to_one_session() {
    let host = Host::new(&directory("callback"));
    let child = Host::start(&host.directory, "callback");
    let mut peer = host.accept();
    let id = peer.registration("OpenETW.Test.Connection");
    peer.enable(id, 3);
    peer.send(&ToProvider::Registered { id });
    let filter = etw_protocol::Filter::Data { kind: 0x8000_0000, data: vec![1, 2, 3] };
    let (level, any) = (Level::ERROR, Keyword(0x30));
    let enable = Enable { level, any, filters: vec![filter], ..Enable::default() };
    peer.send(&ToProvider::Enable { id, slot: 3, epoch: 9, enable });
    // An unknown registration, such as one removed meanwhile, is harmless.
    peer.send(&ToProvider::Enable { id: id + 1, slot: 3, epoch: 9, enable: Enable::default() });
    let (level, any, source) = (Level(0), Keyword(0), etw_event::Guid::ZERO);
    peer.send(&ToProvider::Enable { id, slot: 3, epoch: 9, enable: Enable::default() });
    peer.send(&ToProvider::CaptureState { id, slot: 3, level, any, source });
    assert_eq!(peer.events(1), [77]);
    peer.send(&ToProvider::CloseRegion { slot: 3 });
    assert!(matches!(peer.receive(), Some(FromProvider::Unregister { .. }) | None));
    ends_well(child);
}

#[test]
fn a_host_that_starts_later_or_again_is_found() {
    let path = directory("later");
    let child = Host::start(&path, "later");
    let start = Instant::now();
    while !path.join("ready").exists() {
        assert!(start.elapsed() < PATIENCE, "the program is not ready");
        std::thread::sleep(Duration::from_millis(1));
    }
    for number in 0..2 {
        let mut host = Host::new(&path);
        let mut peer = host.accept();
        peer.welcome("OpenETW.Test.Connection");
        assert_eq!(peer.events(1), [number]);
        // The directory stays, with a socket that nobody listens on.
        host.is_killed = true;
    }
    ends_well(child);
    let _ = std::fs::remove_dir_all(path);
}

#[test]
fn a_child_of_a_fork_connects_for_itself() {
    let host = Host::new(&directory("fork"));
    let child = Host::start(&host.directory, "fork");
    let mut parent = host.accept();
    parent.welcome("OpenETW.Test.Connection");
    let mut forked = host.accept();
    forked.welcome("OpenETW.Test.Connection");
    assert_eq!(forked.events(2), [2, 3]);
    assert_eq!(forked.receive(), None, "the child's end is seen");
    assert_eq!(parent.events(2), [1, 4], "the child's events are its own");
    ends_well(child);
    assert_eq!(parent.receive(), None);
}

#[test]
fn signal_handlers_write() {
    let host = Host::new(&directory("signals"));
    let child = Host::start(&host.directory, "signals");
    let mut peer = host.accept();
    peer.welcome("OpenETW.Test.Connection");
    ends_well(child);
    let events = peer.events(3000);
    let (own, handler): (Vec<u32>, Vec<u32>) = events.iter().partition(|number| **number < 1_000_000);
    assert_eq!(own, (0..3000).collect::<Vec<u32>>());
    assert!(handler.len() > 10, "the handler wrote {} events", handler.len());
    assert!(handler.iter().enumerate().all(|(index, number)| *number == 1_000_000 + index as u32));
}

#[test]
fn thousands_of_threads_write_and_end() {
    let host = Host::new(&directory("threads"));
    let child = Host::start(&host.directory, "threads");
    let mut peer = host.accept();
    peer.welcome("OpenETW.Test.Connection");
    ends_well(child);
    assert_eq!(peer.events(2000), (0..2000).collect::<Vec<u32>>());
}

#[test]
fn hosts_that_send_garbage_are_disconnected() {
    let attacks: [fn(&Peer, u32); 7] = [
        |peer, _| peer.channel.connection().send(&[0xFF; 100], &[]).unwrap(),
        |peer, id| peer.send(&ToProvider::Enable { id, slot: 5, epoch: 1, enable: Enable::default() }),
        |peer, _| peer.send(&ToProvider::Region { slot: 0, epoch: 1 }),
        |peer, _| {
            let file = tempfile::tempfile().unwrap();
            peer.channel.send(&ToProvider::Region { slot: 0, epoch: 1 }, &[file.as_fd()]).unwrap();
        },
        |peer, _| {
            let (words, file) = SharedWords::create("bad", 1000).unwrap();
            // A region that claims to be larger than its memory.
            words[1].store(0xFFFF | 4000 << 16 | 0x10000 << 32, Ordering::Relaxed);
            words[0].store(u64::from_le_bytes(*b"ETWREGN1"), Ordering::Relaxed);
            peer.channel.send(&ToProvider::Region { slot: 0, epoch: 1 }, &[file.as_fd()]).unwrap();
        },
        |peer, _| {
            let doorbell = EventFd::new().unwrap();
            peer.channel.send(&ToProvider::Welcome { version: 99 }, &[doorbell.as_fd()]).unwrap();
        },
        |peer, _| peer.channel.connection().send(&[0; 65_536], &[]).unwrap_or(()),
    ];
    for attack in attacks {
        let directory = directory("hostile");
        let host = Host::new(&directory);
        let child = Host::start(&directory, "hostile");
        let mut peer = host.accept();
        let id = peer.registration("OpenETW.Test.Connection");
        attack(&peer, id);
        assert_eq!(peer.receive(), None, "the connection ends");
        drop(host);
        ends_well(child);
        // The process may have made it again, to wait there for the next host.
        let _ = std::fs::remove_dir_all(&directory);
    }
}

#[test]
fn a_host_that_does_not_answer_costs_a_second() {
    let host = Host::new(&directory("silent"));
    let start = Instant::now();
    let child = Host::start(&host.directory, "hostile");
    let _peer = host.accept();
    // The process gives up, and waits for its standard input to end.
    ends_well(child);
    assert!(start.elapsed() < PATIENCE);
}
