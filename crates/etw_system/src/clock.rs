//! Conversion of the kernel's event times to a session's clock.

use etw_event::FileTime;
use etw_sys::clock::ClockSource;

/// A clock that deviates this much from its prediction was set, or kept running while the machine was suspended.
const JUMP_NANOS: f64 = 1e6;
/// Number of pairs kept; the slope is taken over all of them.
const PAIRS: usize = 64;

/// Converts times of `CLOCK_MONOTONIC`, which kernel events have, to another clock.
///
/// Both clocks are read together on every fetch. A time between two readings is interpolated by the slope between them,
/// so converting it again gives the same result. Later times use the slope over the last pairs. The error stays below a
/// microsecond even while the system clock is being adjusted; each pair is exact to some tens of nanoseconds.
///
/// The monotonic clock stops while the machine is suspended and is never set; others may run on or be set. Events from
/// before a jump that were not fetched yet get times after it; at most ten milliseconds of events, the time between two
/// fetches, are affected.
#[derive(Debug)]
pub(crate) struct SessionClock {
    source: ClockSource,
    /// Readings in a ring: the newest is at `newest`, older ones precede it.
    pairs: Vec<Pair>,
    newest: usize,
    /// Ticks of the session's clock per nanosecond.
    slope: f64,
}

/// A reading of both clocks.
#[derive(Debug, Clone, Copy)]
struct Pair {
    /// Time on the session's clock, and on the monotonic one.
    ticks: u64,
    nanos: u64,
    /// Ticks per nanosecond since the previous reading.
    slope: f64,
}

impl SessionClock {
    pub(crate) fn new(source: ClockSource) -> SessionClock {
        let slope = source.frequency() as f64 / 1e9;
        let (ticks, nanos) = source.beside_monotonic();
        SessionClock { source, pairs: vec![Pair { ticks, nanos, slope }], newest: 0, slope }
    }

    /// Reads both clocks.
    pub(crate) fn look(&mut self) {
        let pair = self.source.beside_monotonic();
        self.add(pair);
    }

    fn add(&mut self, (ticks, nanos): (u64, u64)) {
        let nominal = self.source.frequency() as f64 / 1e9;
        if self.of(nanos).abs_diff(ticks) as f64 > JUMP_NANOS * nominal {
            self.pairs.clear();
            self.slope = nominal;
        }
        let since = |before: &Pair| {
            let nanos = nanos.saturating_sub(before.nanos);
            (nanos, ticks.wrapping_sub(before.ticks) as i64 as f64 / nanos as f64)
        };
        let slope = self.pairs.get(self.newest).map(since).filter(|(nanos, _)| *nanos > 0);
        let pair = Pair { ticks, nanos, slope: slope.map_or(self.slope, |(_, slope)| slope) };
        if self.pairs.len() < PAIRS {
            self.pairs.push(pair);
            self.newest = self.pairs.len() - 1;
        } else {
            self.newest = (self.newest + 1) % PAIRS;
            if let Some(oldest) = self.pairs.get_mut(self.newest) {
                *oldest = pair;
            }
        }
        // Over a shorter time the error of each pair would dominate.
        let oldest = self.pairs.get((self.newest + 1) % self.pairs.len().max(1)).map(since);
        if let Some((_, slope)) = oldest.filter(|(nanos, _)| *nanos > 50_000_000) {
            self.slope = slope;
        }
    }

    /// Returns the session's time for a monotonic time in nanoseconds.
    pub(crate) fn of(&self, nanos: u64) -> u64 {
        let (before, after) = self.pairs.split_at(self.newest + usize::from(!self.pairs.is_empty()));
        let mut newest_first = before.iter().rev().chain(after.iter().rev());
        let Some(mut pair) = newest_first.next() else { return 0 };
        let mut slope = self.slope;
        if nanos < pair.nanos {
            for earlier in newest_first {
                if nanos >= earlier.nanos {
                    slope = pair.slope;
                    break;
                }
                pair = earlier;
            }
        }
        let ahead = nanos.wrapping_sub(pair.nanos) as i64;
        pair.ticks.saturating_add_signed((ahead as f64 * slope) as i64)
    }
}

/// Returns the system time for a monotonic time in nanoseconds.
pub(crate) fn filetime_of(nanos: u64) -> FileTime {
    let (filetime, now) = ClockSource::System.beside_monotonic();
    FileTime(filetime.saturating_add_signed(nanos.wrapping_sub(now) as i64 / 100) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_clock_that_jumps_is_followed() {
        let mut clock = SessionClock::new(ClockSource::Monotonic);
        let start = clock.pairs[0].nanos;
        // A second is lost to a suspension between two readings; the pace differs by a millisecond per second.
        let pace = |nanos: u64| nanos + nanos / 1000;
        for look in 1..200 {
            let nanos = look * 2_000_000;
            let jumped = if look < 100 { 0 } else { 1_000_000_000 };
            clock.add((start + pace(nanos) + jumped, start + nanos));
            let error =
                clock.of(start + nanos + 1_000_000).abs_diff(start + pace(nanos + 1_000_000) + jumped);
            // The pace is known some readings after the start, and after a jump.
            let bound = if (30..100).contains(&look) || look > 130 { 100 } else { 1_100 };
            assert!(error < bound, "look {look}: {error} ns");
        }
    }

    #[test]
    fn times_between_looks_are_reckoned_by_those_and_do_not_change() {
        let mut clock = SessionClock::new(ClockSource::Monotonic);
        let Pair { mut ticks, nanos: start, .. } = clock.pairs[0];
        let mut before = None;
        for look in 1..200 {
            // The clock's pace varies by a thousandth.
            let step = 10_000_000 + if look % 3 == 0 { 10_000 } else { 0 };
            ticks += step;
            let nanos = start + look * 10_000_000;
            clock.add((ticks, nanos));
            let (middle, expected) = (nanos - 5_000_000, ticks - step / 2);
            assert!(clock.of(middle).abs_diff(expected) <= 1, "look {look}");
            if let Some((nanos, ticks)) = before.replace((middle, clock.of(middle))) {
                assert_eq!(clock.of(nanos), ticks, "look {look}");
            }
        }
    }

    #[test]
    fn times_are_those_of_the_sessions_clock() {
        for source in [ClockSource::of_performance_counter(), ClockSource::Monotonic, ClockSource::System] {
            let mut clock = SessionClock::new(source);
            let micro = source.frequency() as f64 / 1e6;
            for _ in 0..100 {
                std::thread::sleep(Duration::from_millis(1));
                clock.look();
                // An instant read on both clocks, slightly before or after the reading.
                let (ticks, nanos) = source.beside_monotonic();
                let error = clock.of(nanos).abs_diff(ticks) as f64 / micro;
                assert!(error < 1.5, "{source:?}: {error} us");
            }
        }
    }
}
