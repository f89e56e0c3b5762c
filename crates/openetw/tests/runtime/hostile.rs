//! Hostile programs: what they do to their memory, connections and handles harms only themselves.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use etw_buffer::{Region, Reserve};
use etw_protocol::{
    Channel, FromConsumer, FromProvider, Message, PacketBuffer, Role, ToConsumer, ToProvider,
};
use etw_sys::SharedWords;
use openetw::session::{Controller, Instance, SessionBuilder};
use openetw::{Guid, Trace};

use crate::process::{PROVIDER, Process};
use crate::{TestHost, enable, eventually, numbers, written};

/// Duration of the attack.
const TIME: Duration = Duration::from_millis(1500);
/// Events of the honest process in each round.
const ROUND: u32 = 200;

/// A raw connection, driven by the test.
struct Client {
    channel: Channel,
    buffer: PacketBuffer,
}

impl Client {
    fn new(host: &TestHost, role: Role) -> Client {
        let channel = Channel::connect(&Instance::at(host.dir.path()), role).unwrap();
        channel.set_receive_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { channel, buffer: PacketBuffer::default() }
    }

    fn next<M: Message>(&mut self) -> (M, Vec<OwnedFd>) {
        self.channel.receive(&mut self.buffer).unwrap().unwrap()
    }

    /// A process with the tests' provider, enabled by one session: its region's file and epoch.
    fn provider(host: &TestHost) -> (Client, OwnedFd, u8) {
        let mut client = Client::new(host, Role::Provider);
        let (guid, name) = (Guid::from_provider_name(PROVIDER), PROVIDER.to_owned());
        client.channel.send(&FromProvider::Register { id: 1, guid, name, traits: Vec::new() }, &[]).unwrap();
        loop {
            if let (ToProvider::Region { epoch, .. }, files) = client.next() {
                return (client, files.into_iter().next().unwrap(), epoch);
            }
        }
    }
}

/// A pseudo-random sequence (xorshift).
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Stores over and over into every part of a memory: random values, and values that resemble records and their sizes.
fn scribble(words: &SharedWords, mut state: u64, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        let at = random(&mut state) as usize % words.len();
        let word = match random(&mut state) % 5 {
            0 => random(&mut state),
            1 => 0xC013_0000 | random(&mut state) & 0xFFFF,
            2 => random(&mut state) & 0xFFFF,
            3 => u64::MAX << (random(&mut state) % 64),
            _ => 0,
        };
        words[at].store(word, Relaxed);
        // The first words control all the others.
        words[at % 64].fetch_xor(1 << (word % 64), Relaxed);
    }
}

#[test]
fn a_process_that_scribbles_over_its_memory_spoils_its_own_events_only() {
    let host = TestHost::new();
    let mut controller = host.controller();
    SessionBuilder::new("S").file(host.path("s.etl")).flush_timer_millis(20).start(&mut controller).unwrap();
    controller.enable("S", &enable()).unwrap();
    let mut honest = Process::writer(host.dir.path());
    let (evil, file, epoch) = Client::provider(&host);
    // The size of the memory is sealed.
    for change in ["truncate -s 0", "truncate -s 4096", "truncate -s 1G"] {
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let status =
            Command::new("sh").args(["-c", &format!("{change} {path} 2>/dev/null")]).status().unwrap();
        assert!(!status.success(), "{change}");
    }
    let words = Arc::new(SharedWords::map(&file).unwrap());
    // First some that look right, so that the logger has started: with false sizes.
    let region = Region::attach(SharedWords::map(&file).unwrap()).unwrap();
    for lie in [0u64, 8, 79, 95, 97, 4096, 0xFFFF] {
        if let Reserve::Slot(slot) = region.reserve(epoch, 0, 96, || 1 << 40) {
            slot.commit(0xC013_0000 | lie);
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (1..=2)
        .map(|seed| {
            let (words, stop) = (words.clone(), stop.clone());
            thread::spawn(move || scribble(&words, seed << 32 | 0x9E37_79B9, &stop))
        })
        .collect();
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < TIME {
        honest.write_all(ROUND);
        count += ROUND;
        let _ = words.discard(0..words.len());
        // The session still handles requests.
        let status = controller.query("S").unwrap();
        assert!(status.last_error.is_empty(), "{}", status.last_error);
        thread::sleep(Duration::from_millis(10));
    }
    controller.flush("S").unwrap();
    stop.store(true, Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(evil);
    controller.stop("S").unwrap();
    let (mut events, mut foreign) = (Vec::new(), 0);
    let mut trace = Trace::open_file(host.path("s.etl")).unwrap();
    trace
        .for_each_event(|event| match event.record.process_id() {
            Some(id) if id == honest.id() => events.extend(written(event).unwrap()),
            // Forged events of the other one carry its own id.
            Some(id) if id == std::process::id() || id == 0 => foreign += 1,
            other => panic!("an event of process {other:?}"),
        })
        .unwrap();
    assert_eq!(trace.statistics().damage, [], "with {foreign} events of the other process");
    assert_eq!(trace.statistics().inversions, 0);
    assert_eq!(numbers(&events), (0..count).collect::<Vec<u32>>());
}

#[test]
fn a_consumer_that_scribbles_over_its_ring_harms_itself_only() {
    let host = TestHost::new();
    let mut controller = host.controller();
    SessionBuilder::new("S").file(host.path("s.etl")).real_time().start(&mut controller).unwrap();
    controller.enable("S", &enable()).unwrap();
    let mut honest = Process::writer(host.dir.path());
    let stop = Arc::new(AtomicBool::new(false));
    let mut evil = Client::new(&host, Role::Consumer);
    evil.channel.send(&FromConsumer::Open { session: "S".into() }, &[]).unwrap();
    let (opened, files) = evil.next::<ToConsumer>();
    assert!(matches!(opened, ToConsumer::Opened { .. }), "{opened:?}");
    let threads: Vec<_> = files
        .iter()
        .take(2)
        .map(|file| {
            let (words, stop) = (SharedWords::map(file).unwrap(), stop.clone());
            thread::spawn(move || scribble(&words, 0x9E37_79B9_7F4A_7C15, &stop))
        })
        .collect();
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < TIME {
        honest.write_all(ROUND);
        count += ROUND;
        thread::sleep(Duration::from_millis(5));
    }
    stop.store(true, Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let status = controller.stop("S").unwrap();
    assert_eq!((status.events_written, status.events_lost), (count.into(), 0));
    assert_eq!(numbers(&crate::events_of(&host.path("s.etl"))), (0..count).collect::<Vec<u32>>());
}

#[test]
fn a_host_with_few_handles_turns_away_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let inner = Process::command(dir.path(), "host");
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -n 700 && exec \"$@\"", "sh"])
        .arg(inner.get_program())
        .args(inner.get_args());
    for (name, value) in inner.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let _host = Process::start(command);
    let instance = Instance::at(dir.path());
    let mut controller = Controller::connect_to(&instance).unwrap();
    SessionBuilder::new("S").file(dir.path().join("s.etl")).start(&mut controller).unwrap();
    controller.enable("S", &enable()).unwrap();
    let mut honest = Process::writer(dir.path());
    // Providers use most handles; each of these sends additional handles.
    let mut kept = Vec::new();
    for _ in 0..300 {
        let Ok(channel) = Channel::connect(&instance, Role::Provider) else { continue };
        let handles = [channel.as_fd(); 8];
        for id in 0..4 {
            let (guid, name) = (Guid::from_provider_name(PROVIDER), String::new());
            let message = FromProvider::Register { id, guid, name, traits: Vec::new() };
            let _ = channel.send(&message, &handles);
        }
        kept.push(channel);
    }
    honest.write_all(1000);
    let status = controller.query("S").unwrap();
    assert!(status.processes < 100, "{} processes", status.processes);
    drop(kept);
    eventually("there is room again", || Controller::connect_to(&instance).is_ok());
    let status = controller.stop("S").unwrap();
    assert_eq!((status.events_written, status.events_lost), (1000, 0));
}

/// The first two words of a GUID in a record.
fn guid_words(provider: &str) -> [u64; 2] {
    let bytes = u128::from_le_bytes(Guid::from_provider_name(provider).to_bytes());
    [bytes as u64, (bytes >> 64) as u64]
}

#[test]
fn records_that_a_process_may_not_write_are_refused_and_counted() {
    let host = TestHost::new();
    let mut controller = host.controller();
    SessionBuilder::new("S").file(host.path("s.etl")).start(&mut controller).unwrap();
    let spec = format!("{PROVIDER}:Information::0xF0");
    controller.enable("S", &openetw::session::EnableBuilder::new(spec.parse().unwrap())).unwrap();
    let (evil, file, epoch) = Client::provider(&host);
    let region = Region::attach(SharedWords::map(&file).unwrap()).unwrap();
    let [ours, theirs] = [guid_words(PROVIDER), guid_words("Somebody-Else")];
    // First word, provider, level, keyword, and whether it is allowed.
    let records = [
        (0xC013_0060, ours, 4, 0x10, true),
        (0xC013_0060, ours, 0, 0, true),
        (0xC013_0060, ours, 5, 0x10, false),
        (0xC013_0060, ours, 4, 0x0F, false),
        (0xC013_0060, theirs, 4, 0x10, false),
        // Headers of the kernel: SYSTEM_TRACE, COMPACT, PERFINFO.
        (0x60_C002_0301, ours, 0, 0, false),
        (0x60_C004_0301, ours, 0, 0, false),
        (0x60_C011_0F2E, ours, 0, 0, false),
        // A classic event of the kernel's class of processes.
        (0xC014_0060, [0x11d0_fe05_3d6f_a8d0, 0x7cba_d74f_c000_da9d], 0, 0, false),
    ];
    for (first, provider, level, keyword, _) in records {
        let Reserve::Slot(slot) = region.reserve(epoch, 0, 96, || 1) else { panic!("no room") };
        slot.put(1, 1 << 32 | 1);
        slot.put(3, provider[0]);
        slot.put(4, provider[1]);
        slot.put(5, level << 32);
        slot.put(6, keyword);
        slot.commit(first);
    }
    controller.flush("S").unwrap();
    drop(evil);
    let allowed = records.iter().filter(|record| record.4).count() as u64;
    let status = controller.stop("S").unwrap();
    assert_eq!((status.events_written, status.events_lost), (allowed, 0));
    assert_eq!(status.events_refused, records.len() as u64 - allowed);
    let user = status.users.iter().find(|user| user.uid == etw_sys::credentials::effective_uid()).unwrap();
    assert_eq!((user.events_written, user.events_refused), (allowed, status.events_refused));
    assert_eq!(user.refused_by_process, [(std::process::id(), status.events_refused)]);
    let mut trace = Trace::open_file(host.path("s.etl")).unwrap();
    let mut found = 0;
    trace
        .for_each_record(|record| {
            if record.hook_id().is_none() {
                assert_eq!(record.process_id(), Some(std::process::id()));
                assert_eq!(record.provider_id(), Guid::from_provider_name(PROVIDER));
                found += 1;
            }
        })
        .unwrap();
    assert_eq!(found, allowed);
}

#[test]
fn what_is_no_longer_enabled_is_refused_but_nothing_that_was_written_before() {
    let host = TestHost::new();
    let mut controller = host.controller();
    SessionBuilder::new("S").file(host.path("s.etl")).start(&mut controller).unwrap();
    controller.enable("S", &enable()).unwrap();
    let (_evil, file, epoch) = Client::provider(&host);
    let region = Region::attach(SharedWords::map(&file).unwrap()).unwrap();
    let [low, high] = guid_words(PROVIDER);
    let write = || {
        let Reserve::Slot(slot) = region.reserve(epoch, 0, 96, || 1) else { panic!("no room") };
        slot.put(3, low);
        slot.put(4, high);
        slot.commit(0xC013_0060);
    };
    (0..10).for_each(|_| write());
    controller.disable("S", Guid::from_provider_name(PROVIDER)).unwrap();
    write();
    thread::sleep(Duration::from_millis(2500));
    controller.flush("S").unwrap();
    write();
    let status = controller.stop("S").unwrap();
    assert_eq!((status.events_written, status.events_refused), (11, 1));
}

#[test]
fn a_process_whose_buffers_follow_each_other_for_ever_delays_nobody() {
    let host = TestHost::new();
    let mut controller = host.controller();
    SessionBuilder::new("S").file(host.path("s.etl")).start(&mut controller).unwrap();
    controller.enable("S", &enable()).unwrap();
    let mut honest = Process::writer(host.dir.path());
    let (evil, file, epoch) = Client::provider(&host);
    let region = Region::attach(SharedWords::map(&file).unwrap()).unwrap();
    let words = Arc::new(SharedWords::map(&file).unwrap());
    let [low, high] = guid_words(PROVIDER);
    let Reserve::Slot(slot) = region.reserve(epoch, 0, 96, || 1) else { panic!("no room") };
    slot.commit(0xC013_0060);
    let stop = Arc::new(AtomicBool::new(false));
    let attack = {
        let (words, stop, first) = (words.clone(), stop.clone(), region.buffers().start);
        let buffer_words = region.geometry().buffer_bytes as usize / 8;
        thread::spawn(move || {
            while !stop.load(Relaxed) {
                for buffer in 0..64 {
                    let start = first + buffer * buffer_words;
                    words[start + 12].store(low, Relaxed);
                    words[start + 13].store(high, Relaxed);
                    words[start + 9].store(0xC013_0060, Relaxed);
                    words[start + 1].store(21 | ((buffer as u64 + 1) % 64 + 1) << 32, Relaxed);
                }
            }
        })
    };
    for _ in 0..20 {
        honest.write_all(50);
        thread::sleep(Duration::from_millis(10));
    }
    let begun = Instant::now();
    let status = controller.stop("S").unwrap();
    // Without a limit the stop takes as long as the attack.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    stop.store(true, Relaxed);
    attack.join().unwrap();
    drop(evil);
    assert_eq!(status.events_lost, 0, "{status:?}");
    let mut of_honest = Vec::new();
    let mut trace = Trace::open_file(host.path("s.etl")).unwrap();
    trace
        .for_each_event(|event| {
            if event.record.process_id() == Some(honest.id()) {
                of_honest.extend(written(event).unwrap());
            }
        })
        .unwrap();
    assert_eq!(numbers(&of_honest), (0..1000).collect::<Vec<u32>>());
}

#[expect(unsafe_code, reason = "an attacker uses what the system has")]
fn unset_nonblocking(file: &OwnedFd) {
    // SAFETY: the file is open; changing its flags touches no memory.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, 0) }, 0);
}

#[test]
fn a_consumer_cannot_make_the_logger_wait() {
    let host = TestHost::new();
    let mut controller = host.controller();
    SessionBuilder::new("S").real_time().start(&mut controller).unwrap();
    controller.enable("S", &enable()).unwrap();
    let mut honest = Process::writer(host.dir.path());
    let mut evil = Client::new(&host, Role::Consumer);
    evil.channel.send(&FromConsumer::Open { session: "S".into() }, &[]).unwrap();
    let (opened, files) = evil.next::<ToConsumer>();
    assert!(matches!(opened, ToConsumer::Opened { .. }), "{opened:?}");
    for file in &files {
        // It makes blocking what it can, and fills what it can fill.
        unset_nonblocking(file);
        if let Ok(mut counter) = file.try_clone().map(std::fs::File::from) {
            let is_memory = counter.metadata().is_ok_and(|metadata| metadata.len() > 0);
            let _ = if is_memory { Ok(()) } else { counter.write_all(&(u64::MAX - 1).to_ne_bytes()) };
        }
    }
    // It says over and over that it sleeps.
    let position = SharedWords::map(&files[1]).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let sleeper = {
        let stop = stop.clone();
        thread::spawn(move || {
            while !stop.load(Relaxed) {
                position.iter().skip(1).for_each(|word| word.store(1, Relaxed));
            }
        })
    };
    for _ in 0..200 {
        honest.write_all(5);
        controller.flush("S").unwrap();
    }
    let status = controller.stop("S").unwrap();
    assert_eq!((status.events_written, status.events_lost), (1000, 0));
    stop.store(true, Relaxed);
    sleeper.join().unwrap();
}

#[test]
fn programs_that_come_and_go_leave_nothing() {
    let host = TestHost::new();
    let mut controller = host.controller();
    SessionBuilder::new("S").file(host.path("s.etl")).start(&mut controller).unwrap();
    controller.enable("S", &enable()).unwrap();
    let mut honest = Process::writer(host.dir.path());
    for _ in 0..1000 {
        drop(Client::provider(&host));
    }
    honest.write_all(100);
    eventually("the regions are gone", || controller.query("S").unwrap().users[0].regions == 1);
    let status = controller.stop("S").unwrap();
    assert_eq!((status.events_written, status.events_lost), (100, 0));
}
