//! The machine's properties in the log file header.

use std::fs;

use etw_etl::{LogFileHeader, LogFileMode};
use etw_event::{Clock, FileTime, Ticks};
use etw_sys::clock;

use super::shared::Shared;
use super::{SessionClock, SessionConfig, time_zone};

/// Returns the header of the session's files at the start.
pub(super) fn header(config: &SessionConfig, shared: &Shared) -> LogFileHeader {
    let start = FileTime(shared.start_filetime as i64);
    let frequency = shared.clock.frequency();
    let clock = Clock::new(
        config.clock.clock_type(),
        Ticks(shared.start as i64),
        start,
        i64::try_from(frequency).unwrap_or(i64::MAX),
    );
    let mut header = LogFileHeader::new(clock, config.buffer_bytes, u32::from(shared.geometry.processors));
    if config.clock != SessionClock::CpuCycle {
        header.cpu_speed_in_mhz = cpu_mhz();
    }
    header.boot_time = boot_time();
    header.time_zone = time_zone::local();
    header.maximum_file_size = config.maximum_file_size;
    header.log_file_mode = match config.log_file_mode.0 & 0xF {
        0 => config.log_file_mode.union(LogFileMode::SEQUENTIAL),
        _ => config.log_file_mode,
    };
    header.logger_name.clone_from(&config.logger_name);
    if let Some(path) = &config.log_file_name {
        header.log_file_name = path.to_string_lossy().into_owned();
    }
    header
}

/// Returns the speed of the first processor (`/proc/cpuinfo`), or of the performance counter if that is missing.
fn cpu_mhz() -> u32 {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("cpu MHz"));
    let speed = line.and_then(|line| line.split(':').nth(1)?.trim().parse::<f64>().ok());
    let speed = speed.map_or(0, |speed| speed.round() as u32);
    let of_counter = || clock::ClockSource::of_performance_counter().frequency() / 1_000_000;
    if speed > 0 { speed } else { u32::try_from(of_counter()).unwrap_or(1).max(1) }
}

/// Returns the boot time (`/proc/stat`, in seconds).
fn boot_time() -> FileTime {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("btime "));
    let seconds = line.and_then(|seconds| seconds.trim().parse::<i64>().ok()).unwrap_or(0);
    FileTime::from_unix_nanos(i128::from(seconds) * 1_000_000_000)
}

/// A reading of the session's clock and of the steady system clock, used later to refine the frequency.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reference {
    ticks: u64,
    nanos: u64,
}

impl Reference {
    pub(super) fn take(shared: &Shared) -> Reference {
        // The closest of several pairs, in case of an interruption between the two readings.
        let pair = |_| {
            let before = clock::monotonic_nanos();
            let ticks = shared.clock.now();
            let after = clock::monotonic_nanos();
            (after.wrapping_sub(before), Reference { ticks, nanos: before / 2 + after / 2 })
        };
        let best = (0..16).map(pair).min_by_key(|(took, _)| *took);
        best.map_or(Reference { ticks: 0, nanos: 0 }, |(_, reference)| reference)
    }

    /// Returns the ticks per second since this reading; `None` if too little time has passed.
    pub(super) fn frequency(&self, shared: &Shared) -> Option<i64> {
        let now = Reference::take(shared);
        let nanos = u128::from(now.nanos.checked_sub(self.nanos)?);
        let ticks = u128::from(now.ticks.checked_sub(self.ticks)?);
        if nanos < 1_000_000_000 {
            return None;
        }
        i64::try_from((ticks * 1_000_000_000 + nanos / 2) / nanos).ok().filter(|frequency| *frequency > 0)
    }
}
