//! Rounds without a session: a process with several threads writes to a region at full speed and is killed; then the
//! region is read.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use etw_buffer::{Geometry, ReadEnd, Region, RegionReader, Reserve};
use etw_sys::{SharedWords, clock, cpu, ids};

use super::ledger::{Attempt, Entry, Losses, Total, settle, words};
use shell::random::Random;

/// Small buffers, so that they change often; in half of the rounds so few that they run out.
const BUFFER_BYTES: u32 = 4096;
const FEW_BUFFERS: u64 = 40;
const MANY_BUFFERS: u16 = 3000;
const THREADS: u64 = 6;
/// Maximum lifetime of a process in microseconds.
const LIFE_MICROS: u64 = 3000;

/// The killed process.
#[derive(Args)]
pub(super) struct Child {
    /// File of the region.
    region: String,
    /// File of the ledger; its first word is set when all threads have started.
    ledger: String,
    threads: usize,
}

impl Child {
    pub(super) fn run(&self) -> Result<()> {
        let map = |path: &str| -> Result<SharedWords> {
            let file = File::options().read(true).write(true).open(path)?;
            Ok(SharedWords::map(file)?)
        };
        let region = Region::attach(map(&self.region)?)?;
        let ledger = map(&self.ledger)?;
        thread::scope(|scope| {
            for thread in 0..self.threads {
                let (region, entry) = (&region, Entry::new(&ledger[1..], thread));
                scope.spawn(move || {
                    loop {
                        entry.record(|number| write(region, thread as u32, number));
                    }
                });
            }
            ledger[0].store(1, Release);
        });
        Ok(())
    }
}

fn write(region: &Region<SharedWords>, thread: u32, number: u64) -> Attempt {
    // Records of 80 to 144 bytes.
    let len_bytes = 80 + (number % 9) as u16 * 8;
    match region.reserve(1, cpu::current(), len_bytes, clock::counter) {
        Reserve::Slot(slot) => {
            slot.put(1, ids::thread_and_process());
            slot.put(2, slot.time);
            slot.put(3, u64::from(thread));
            slot.put(slot.words().len() - 1, number);
            slot.commit(0xC013_0000 | u64::from(len_bytes));
            Attempt::Taken
        }
        _ => Attempt::Refused,
    }
}

/// Runs rounds.
pub(super) fn torture(rounds: u32, random: &mut Random) -> Result<Total> {
    let mut total = Total::default();
    for number in 0..rounds {
        let done = round(random).with_context(|| format!("round {number}"))?;
        total.add(&done);
    }
    Ok(total)
}

fn round(random: &mut Random) -> Result<Total> {
    let processors = u16::try_from(cpu::possible())?;
    let buffers = if random.below(2) == 0 { 1 + random.below(FEW_BUFFERS) as u16 } else { MANY_BUFFERS };
    let threads = 1 + random.below(THREADS) as usize;
    let geometry = Geometry { processors, buffers, buffer_bytes: BUFFER_BYTES };
    let (region, region_file) = SharedWords::create("torture", geometry.len_words())?;
    let (ledger, ledger_file) = SharedWords::create("torture", 1 + words(threads))?;
    let start = clock::counter();
    let mut reader = RegionReader::format(region, geometry, 0, 1, 7, start, u64::MAX)?;
    reader.grant(usize::from(buffers));
    let mut child = Command::new(std::env::current_exe()?)
        .args(["region", &path(&region_file), &path(&ledger_file), &threads.to_string()])
        .stdin(Stdio::null())
        .spawn()?;
    let mut events = Events::default();
    let begun = Instant::now();
    while ledger[0].load(Acquire) == 0 {
        ensure!(begun.elapsed() < Duration::from_secs(20), "the process does not begin");
        thread::yield_now();
    }
    let life = Duration::from_micros(random.below(LIFE_MICROS));
    let is_read_meanwhile = random.below(4) > 0;
    let begun = Instant::now();
    while begun.elapsed() < life {
        if is_read_meanwhile {
            events.take(&mut reader, clock::counter())?;
        } else {
            thread::yield_now();
        }
    }
    child.kill()?;
    child.wait()?;
    reader.process_ended();
    loop {
        let before = events.read.len();
        events.take(&mut reader, u64::MAX)?;
        if events.read.len() == before {
            break;
        }
    }
    ensure!(events.ends.iter().all(|end| *end == ReadEnd::Empty), "not read to the end: {:?}", events.ends);
    let losses = Losses { before: reader.lost(), after: 0 };
    settle(&ledger[1..], threads, &events.read, Some(losses))
}

/// Returns the path of a file that another process has open.
fn path(file: &OwnedFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

/// Results of reading a region.
#[derive(Default)]
struct Events {
    /// Thread and number.
    read: Vec<(u32, u64)>,
    /// Latest time by processor.
    times: Vec<u64>,
    /// How reading ended, by processor.
    ends: Vec<ReadEnd>,
}

impl Events {
    fn take(&mut self, reader: &mut RegionReader<SharedWords>, until: u64) -> Result<()> {
        let processors = usize::from(reader.geometry().processors);
        self.times.resize(processors, 0);
        self.ends.clear();
        let mut out = Vec::new();
        for processor in 0..processors {
            out.clear();
            let taken = reader.read(processor, until, until, usize::MAX, &mut out);
            self.ends.push(taken.end);
            let mut at = 0;
            while let Some(first) = out.get(at) {
                let len_words = (*first as usize & 0xFFFF).div_ceil(8);
                let record = out.get(at..at + len_words).context("a record is cut")?;
                let [_, ids, time, thread, .., number] = record else {
                    anyhow::bail!("a record of {len_words} words")
                };
                ensure!(first >> 16 == 0xC013 && ids >> 32 == 7, "a record begins with {first:#x}, {ids:#x}");
                ensure!(*time >= self.times[processor], "time runs backwards");
                self.times[processor] = *time;
                self.read.push((*thread as u32, *number));
                at += len_words;
            }
        }
        Ok(())
    }
}
