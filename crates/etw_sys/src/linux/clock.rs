//! Clocks of sessions: the processor's time stamp counter, and the system's clocks.

// UNSAFETY: reads the processor's counter.
#![cfg_attr(any(target_arch = "x86_64", target_arch = "aarch64"), expect(unsafe_code))]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// 100 ns intervals from 1601, the epoch of FILETIME, to 1970.
const EPOCH_100NS: u64 = 116_444_736_000_000_000;

/// The clock that a session's timestamps are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ClockSource {
    /// The time stamp counter (`rdtsc`; `cntvct_el0` on arm64).
    Counter = 0,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    Monotonic = 1,
    /// `CLOCK_REALTIME` as FILETIME: 100 ns intervals since 1601.
    System = 2,
}

impl ClockSource {
    /// Returns the source with this number, as stored in shared memory.
    pub const fn from_code(code: u8) -> Option<ClockSource> {
        match code {
            0 => Some(ClockSource::Counter),
            1 => Some(ClockSource::Monotonic),
            2 => Some(ClockSource::System),
            _ => None,
        }
    }

    /// Returns the source of the performance counter: the time stamp counter if it always runs at one rate on all
    /// processors, otherwise `CLOCK_MONOTONIC`.
    pub fn of_performance_counter() -> ClockSource {
        static SOURCE: OnceLock<ClockSource> = OnceLock::new();
        *SOURCE.get_or_init(|| {
            if counter_is_invariant() { ClockSource::Counter } else { ClockSource::Monotonic }
        })
    }

    /// Returns the current reading.
    #[inline(always)]
    pub fn now(self) -> u64 {
        match self {
            ClockSource::Counter => counter(),
            ClockSource::Monotonic => monotonic_nanos(),
            ClockSource::System => filetime(),
        }
    }

    /// Returns the ticks per second. The counter's rate is measured against `CLOCK_MONOTONIC_RAW`; the first call takes
    /// 20 ms.
    pub fn frequency(self) -> u64 {
        match self {
            ClockSource::Counter => counter_frequency(),
            ClockSource::Monotonic => 1_000_000_000,
            ClockSource::System => 10_000_000,
        }
    }

    /// Returns a reading and the UTC time (FILETIME) of the same instant, accurate to some tens of nanoseconds.
    pub fn anchor(self) -> (u64, u64) {
        pair(|| self.now(), filetime)
    }

    /// Returns a reading and that of `CLOCK_MONOTONIC` of the same instant, accurate to some tens of nanoseconds.
    pub fn beside_monotonic(self) -> (u64, u64) {
        pair(|| self.now(), monotonic_nanos)
    }
}

/// Returns the time stamp counter, which takes about 10 ns; 0 if programs cannot read one on this processor.
#[inline(always)]
pub fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: Linux leaves the instruction enabled for programs; it touches no memory.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: Linux lets programs read the virtual counter; it touches no memory.
        unsafe {
            std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags))
        };
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

/// Returns `CLOCK_MONOTONIC` in nanoseconds.
#[inline]
pub fn monotonic_nanos() -> u64 {
    nanos(ClockId::Monotonic)
}

/// Returns `CLOCK_REALTIME` as FILETIME.
#[inline]
pub fn filetime() -> u64 {
    nanos(ClockId::Realtime) / 100 + EPOCH_100NS
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Reads two clocks at once: repeats reading `first` between two readings of `second`, and returns the closest pair.
fn pair(first: impl Fn() -> u64, second: impl Fn() -> u64) -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..16 {
        let before = counter();
        let one = first();
        let two = second();
        let took = counter().wrapping_sub(before);
        if took < best.0 {
            best = (took, one, two);
        }
    }
    (best.1, best.2)
}

/// Returns whether the counter's rate is constant, also in sleep states.
fn counter_is_invariant() -> bool {
    if cfg!(target_arch = "aarch64") {
        return true;
    }
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let has = |name| flags.split_whitespace().any(|flag| flag == name);
    has("constant_tsc") && has("nonstop_tsc")
}

fn counter_frequency() -> u64 {
    static FREQUENCY: OnceLock<u64> = OnceLock::new();
    *FREQUENCY.get_or_init(|| {
        let read = || pair(counter, || nanos(ClockId::MonotonicRaw));
        let (start, first) = (Instant::now(), read());
        while start.elapsed() < Duration::from_millis(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let last = read();
        let ticks = u128::from(last.0.wrapping_sub(first.0));
        let elapsed = u128::from(last.1.wrapping_sub(first.1)).max(1);
        u64::try_from(ticks * 1_000_000_000 / elapsed).unwrap_or(1).max(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_each_clock_is_a_second() {
        for source in [ClockSource::of_performance_counter(), ClockSource::Monotonic, ClockSource::System] {
            assert_eq!(ClockSource::from_code(source as u8), Some(source));
            let frequency = source.frequency();
            let (start, before) = (source.now(), Instant::now());
            std::thread::sleep(Duration::from_millis(50));
            let (ticks, elapsed) = (source.now() - start, before.elapsed());
            let expected = elapsed.as_nanos() * u128::from(frequency) / 1_000_000_000;
            let error = expected.abs_diff(u128::from(ticks)) * 1000 / expected;
            assert!(error <= 20, "{source:?}: {ticks} ticks for {elapsed:?}");
        }
    }

    #[test]
    fn readings_beside_the_monotonic_clock_are_of_one_instant() {
        for source in [ClockSource::of_performance_counter(), ClockSource::Monotonic, ClockSource::System] {
            let before = (source.now(), monotonic_nanos());
            let (ticks, nanos) = source.beside_monotonic();
            assert!((before.0..=source.now()).contains(&ticks), "{source:?}");
            assert!((before.1..=monotonic_nanos()).contains(&nanos), "{source:?}");
        }
    }

    #[test]
    fn an_anchor_is_now() {
        let (_, utc) = ClockSource::Counter.anchor();
        let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let now = unix.as_nanos() as u64 / 100 + EPOCH_100NS;
        assert!(now.abs_diff(utc) < 10_000_000);
    }
}
