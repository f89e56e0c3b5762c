//! The attacks. Each goes on until its process is killed, and begins anew when the host throws it out.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use etw_buffer::Reserve;
use etw_protocol::{FromConsumer, Request, Response, Role, ToConsumer};
use openetw::Guid;
use openetw::session::{Enable, SessionProperties};

use shell::random::Random;

use super::raw::{Owner, Raw};
use super::{NOBODY, PROVIDER, STARTER};

/// Layout of a region that attackers rely on (`etw_buffer::geometry`): the bitmap of free buffers, the words of processors,
/// and the number of words of each.
const FREE: usize = 16;
const PROCESSORS: usize = 80;
const PROCESSOR_WORDS: usize = 16;

/// A kind of attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Attack {
    /// Connects, registers, reads the reply and closes.
    Churn,
    /// Registers as many providers as it can, with long names.
    Registrations,
    /// Asks for lists and does not read them.
    Lists,
    /// Makes its buffers follow each other for ever.
    Chain,
    /// Writes events of the kernel, of others, and with others' ids.
    Forge,
    /// Claims that it has no free buffers.
    Bitmap,
    /// Stores anything anywhere.
    Scribble,
    /// Touches all of its memory, in as many regions as it gets.
    Memory,
    /// Claims losses.
    Losses,
    /// Rings the doorbell without end.
    Doorbell,
    /// Writes its own events as fast as it can.
    Flood,
    /// Sends what is no message.
    Garbage,
    /// Keeps as many connections as it gets, and says nothing.
    Connections,
    /// Reserves room and never commits.
    Pending,
    /// Starts sessions as large as they can be, enables providers in its own processes, and stops them.
    Sessions,
    /// Consumes and never reads, with a bell that it has made blocking and filled.
    Consumers,
    /// Passes files that would block: pipes and memory.
    Files,
}

impl Attack {
    pub(super) fn name(self) -> &'static str {
        // The name on the command line.
        match self {
            Attack::Churn => "churn",
            Attack::Registrations => "registrations",
            Attack::Lists => "lists",
            Attack::Chain => "chain",
            Attack::Forge => "forge",
            Attack::Bitmap => "bitmap",
            Attack::Scribble => "scribble",
            Attack::Memory => "memory",
            Attack::Losses => "losses",
            Attack::Doorbell => "doorbell",
            Attack::Flood => "flood",
            Attack::Garbage => "garbage",
            Attack::Connections => "connections",
            Attack::Pending => "pending",
            Attack::Sessions => "sessions",
            Attack::Consumers => "consumers",
            Attack::Files => "files",
        }
    }

    /// The users who can try it.
    pub(super) fn users(self) -> &'static [u32] {
        match self {
            Attack::Sessions | Attack::Consumers | Attack::Files => &[STARTER],
            _ => &[NOBODY, STARTER],
        }
    }
}

/// A hostile process; for internal use.
#[derive(Args)]
pub(crate) struct Attacker {
    attack: Attack,
}

impl Attacker {
    pub(crate) fn run(&self) -> Result<()> {
        let mut random = Random(u64::from(std::process::id()) | 1);
        loop {
            // Being refused and thrown out is what the attacker expects.
            let _ = self.try_once(&mut random);
        }
    }

    fn try_once(&self, random: &mut Random) -> Result<()> {
        match self.attack {
            Attack::Churn => Owner::new().map(drop),
            Attack::Registrations => registrations(),
            Attack::Lists => lists(),
            Attack::Chain => chain(),
            Attack::Forge => forge(),
            Attack::Bitmap => bitmap(),
            Attack::Scribble => scribble(random),
            Attack::Memory => memory(),
            Attack::Losses => losses(),
            Attack::Doorbell => doorbell(),
            Attack::Flood => flood(),
            Attack::Garbage => garbage(random),
            Attack::Connections => connections(),
            Attack::Pending => pending(),
            Attack::Sessions => sessions(random),
            Attack::Consumers => consumers(),
            Attack::Files => files(),
        }
    }
}

/// How long an attack goes on before it begins anew.
const ROUND: Duration = Duration::from_millis(700);

fn for_a_while(mut act: impl FnMut() -> Result<()>) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < ROUND {
        act()?;
    }
    Ok(())
}

fn registrations() -> Result<()> {
    let mut kept = Vec::new();
    let name = "x".repeat(1000);
    for connection in 0..64 {
        let Ok(raw) = Raw::new(Role::Provider) else { break };
        for id in 0..4096 {
            let guid =
                Guid::from_u128(u128::from(std::process::id()) << 64 | connection << 32 | u128::from(id));
            if raw.register(id, guid, &name).is_err() {
                break;
            }
        }
        kept.push(raw);
    }
    thread::sleep(ROUND);
    Ok(())
}

fn lists() -> Result<()> {
    let mut kept = Vec::new();
    for _ in 0..60 {
        let Ok(raw) = Raw::new(Role::Controller) else { break };
        for _ in 0..20 {
            let _ = raw.channel.send(&Request::Providers, &[]);
            let _ = raw.channel.send(&Request::List, &[]);
        }
        kept.push(raw);
    }
    thread::sleep(ROUND);
    Ok(())
}

/// The first word of the buffers, and of the words of one.
fn geometry(words: &[std::sync::atomic::AtomicU64]) -> (usize, usize, usize, usize) {
    let word = words[1].load(Relaxed);
    let (processors, buffers) = ((word & 0xFFFF) as usize, (word >> 16 & 0xFFFF) as usize);
    let buffer_words = (word >> 32) as usize / 8;
    let first = (PROCESSORS + processors * PROCESSOR_WORDS).next_multiple_of(512);
    (processors, buffers, first, buffer_words)
}

fn chain() -> Result<()> {
    let owner = Owner::new()?;
    write(&owner, 100)?;
    let words = owner.words()?;
    let (_, buffers, first, buffer_words) = geometry(&words);
    let [low, high] = guid_words(PROVIDER);
    for_a_while(|| {
        for buffer in 0..buffers {
            let start = first + buffer * buffer_words;
            words[start + 12].store(low, Relaxed);
            words[start + 13].store(high, Relaxed);
            words[start + 9].store(0xC013_0060, Relaxed);
            words[start + 1].store(21 | (((buffer + 1) % buffers) as u64 + 1) << 32, Relaxed);
        }
        Ok(())
    })
}

fn guid_words(provider: &str) -> [u64; 2] {
    let bytes = u128::from_le_bytes(Guid::from_provider_name(provider).to_bytes());
    [bytes as u64, (bytes >> 64) as u64]
}

/// Writes allowed events.
fn write(owner: &Owner, count: u32) -> Result<()> {
    let region = owner.region()?;
    let [low, high] = guid_words(PROVIDER);
    for number in 0..count {
        if let Reserve::Slot(slot) = region.reserve(owner.epoch, number % 2, 96, || 1) {
            slot.put(3, low);
            slot.put(4, high);
            slot.put(10, number.into());
            slot.commit(0xC013_0060);
        }
    }
    Ok(())
}

fn forge() -> Result<()> {
    let owner = Owner::new()?;
    let region = owner.region()?;
    let [low, high] = guid_words("Somebody-Else");
    let kinds =
        [0x60_C002_0004, 0x60_C004_0004, 0x60_C011_0002, 0xC013_0060, 0xC014_0060, 0x28_0000_9000_0060];
    for_a_while(|| {
        for kind in kinds {
            if let Reserve::Slot(slot) = region.reserve(owner.epoch, 0, 96, || 1) {
                slot.put(1, 1 << 32 | 1);
                slot.put(3, low);
                slot.put(4, high);
                slot.commit(kind);
            }
        }
        Ok(())
    })
}

fn bitmap() -> Result<()> {
    let owner = Owner::new()?;
    let words = owner.words()?;
    for_a_while(|| {
        write(&owner, 10)?;
        (FREE..PROCESSORS).for_each(|at| words[at].store(0, Relaxed));
        thread::sleep(Duration::from_millis(1));
        Ok(())
    })
}

fn scribble(random: &mut Random) -> Result<()> {
    let owner = Owner::new()?;
    write(&owner, 100)?;
    let words = owner.words()?;
    for_a_while(|| {
        for _ in 0..10_000 {
            let at = random.below(words.len() as u64) as usize;
            let word = match random.below(4) {
                0 => random.below(u64::MAX),
                1 => 0xC013_0000 | random.below(0x1_0000),
                2 => u64::MAX << random.below(64),
                _ => random.below(0x1_0000),
            };
            words[at].store(word, Relaxed);
            words[at % 512].fetch_xor(1 << (word % 64), Relaxed);
        }
        Ok(())
    })
}

fn memory() -> Result<()> {
    let mut kept = Vec::new();
    while let Ok(owner) = Owner::new() {
        let words = owner.words()?;
        words.iter().step_by(512).skip(1).for_each(|word| word.store(1, Relaxed));
        kept.push((owner, words));
        if kept.len() > 2000 {
            break;
        }
    }
    thread::sleep(ROUND);
    Ok(())
}

fn losses() -> Result<()> {
    let owner = Owner::new()?;
    write(&owner, 1)?;
    let words = owner.words()?;
    for_a_while(|| {
        words[PROCESSORS + 1].fetch_add(0xFFFF_FFFF, Relaxed);
        thread::sleep(Duration::from_millis(1));
        Ok(())
    })
}

fn doorbell() -> Result<()> {
    let owner = Owner::new()?;
    write(&owner, 1)?;
    let bell = etw_sys::EventFd::from_file(owner.doorbell.try_clone()?)?;
    for_a_while(|| {
        (0..1000).for_each(|_| bell.signal());
        Ok(())
    })
}

fn flood() -> Result<()> {
    let owner = Owner::new()?;
    for_a_while(|| write(&owner, 10_000))
}

fn garbage(random: &mut Random) -> Result<()> {
    let roles = [Role::Provider, Role::Controller, Role::Consumer];
    let raw = Raw::new(roles[random.below(3) as usize])?;
    loop {
        let packet: Vec<u8> = (0..1 + random.below(60_000)).map(|_| random.below(256) as u8).collect();
        raw.channel.connection().send(&packet, &[raw.channel.as_fd(); 8])?;
    }
}

fn connections() -> Result<()> {
    let mut kept = Vec::new();
    let until = Instant::now() + ROUND;
    while Instant::now() < until {
        let roles = [Role::Provider, Role::Controller, Role::Consumer];
        if let Ok(raw) = Raw::new(roles[kept.len() % 3]) {
            kept.push(raw);
        }
    }
    Ok(())
}

fn pending() -> Result<()> {
    let owner = Owner::new()?;
    let region = owner.region()?;
    for_a_while(|| {
        for processor in 0..2 {
            if let Reserve::Slot(slot) = region.reserve(owner.epoch, processor, 96, || 1) {
                drop(slot);
            }
        }
        thread::sleep(Duration::from_millis(1));
        Ok(())
    })
}

fn sessions(random: &mut Random) -> Result<()> {
    let mut raw = Raw::new(Role::Controller)?;
    let (Response::Welcome { .. }, _) = raw.next()? else { bail!("not welcome") };
    let owner = Owner::new();
    for number in 0..20 {
        let properties = SessionProperties {
            logger_name: format!("hostile-{}-{number}", std::process::id()),
            buffer_size: [4, 64, 16 * 1024][random.below(3) as usize],
            maximum_buffers: [2, 2048, 4094][random.below(3) as usize],
            log_file_mode: openetw::session::LogFileMode::REAL_TIME,
            ..SessionProperties::default()
        };
        let session = properties.logger_name.clone();
        raw.channel.send(&Request::Start { properties, lease: true }, &[])?;
        let _ = raw.next::<Response>()?;
        for _ in 0..20 {
            let provider = Guid::from_provider_name(PROVIDER);
            let request = Request::Enable { session: session.clone(), provider, enable: Enable::default() };
            raw.channel.send(&request, &[])?;
            let _ = raw.next::<Response>()?;
            raw.channel.send(&Request::Disable { session: session.clone(), provider }, &[])?;
            let _ = raw.next::<Response>()?;
        }
    }
    drop(owner);
    Ok(())
}

fn consumers() -> Result<()> {
    let mut raw = Raw::new(Role::Controller)?;
    let (Response::Welcome { .. }, _) = raw.next()? else { bail!("not welcome") };
    let session = format!("deaf-{}", std::process::id());
    let properties = SessionProperties {
        logger_name: session.clone(),
        log_file_mode: openetw::session::LogFileMode::REAL_TIME,
        ..SessionProperties::default()
    };
    raw.channel.send(&Request::Start { properties, lease: true }, &[])?;
    let _ = raw.next::<Response>()?;
    let provider = Guid::from_provider_name(PROVIDER);
    let enable = Enable::default();
    raw.channel.send(&Request::Enable { session: session.clone(), provider, enable }, &[])?;
    let _ = raw.next::<Response>()?;
    let mut kept: Vec<(Raw, Vec<OwnedFd>)> = Vec::new();
    for _ in 0..32 {
        let Ok(mut consumer) = Raw::new(Role::Consumer) else { break };
        consumer.channel.send(&FromConsumer::Open { session: session.clone() }, &[])?;
        let Ok((ToConsumer::Opened { .. }, files)) = consumer.next() else { continue };
        for file in &files {
            // What it can make blocking, it fills.
            let _ = rustix::io::ioctl_fionbio(file, false);
        }
        // It says that it sleeps, with a position that is nonsense.
        if let Some(position) = files.get(1) {
            let words = etw_sys::SharedWords::map(position)?;
            words.iter().for_each(|word| word.store(u64::MAX >> 1, Relaxed));
        }
        kept.push((consumer, files));
    }
    let owner = Owner::new()?;
    for_a_while(|| write(&owner, 1000))
}

fn files() -> Result<()> {
    let mut raw = Raw::new(Role::Controller)?;
    let (Response::Welcome { .. }, _) = raw.next()? else { bail!("not welcome") };
    let place = std::env::temp_dir().join(format!("openetw-hostile-{}", std::process::id()));
    let (_, memory) = etw_sys::SharedWords::create("hostile", 4096)?;
    let pipe = std::io::pipe()?.1;
    for file in [memory.as_fd(), pipe.as_fd()] {
        let properties = SessionProperties {
            logger_name: format!("file-{}", std::process::id()),
            log_file_name: place.display().to_string(),
            ..SessionProperties::default()
        };
        raw.channel.send(&Request::Start { properties, lease: true }, &[file])?;
        let _ = raw.next::<Response>();
    }
    Ok(())
}
