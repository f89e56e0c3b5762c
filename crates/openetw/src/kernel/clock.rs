//! The kernel's times on a session's clock.

use etw_sys::clock::ClockSource;

/// Pairs that are kept: as many looks back as the slope is taken over.
const PAIRS: usize = 64;

/// Brings times of `CLOCK_MONOTONIC`, which the kernel's events have, to another clock.
///
/// The two are read together at every look for events, and a time is reckoned from the newest pair by the slope over the
/// last pairs. So the error stays below a microsecond also where the system's clock is being adjusted; each pair is exact
/// to some tens of nanoseconds.
#[derive(Debug)]
pub(super) struct SessionClock {
    source: ClockSource,
    /// Readings of the session's clock and of the monotonic one, the newest at `newest`.
    pairs: Vec<(u64, u64)>,
    newest: usize,
    /// Ticks of the session's clock in a nanosecond.
    slope: f64,
}

impl SessionClock {
    pub(super) fn new(source: ClockSource) -> SessionClock {
        let slope = source.frequency() as f64 / 1e9;
        SessionClock { source, pairs: vec![source.beside_monotonic()], newest: 0, slope }
    }

    /// Reads both clocks.
    pub(super) fn look(&mut self) {
        let pair = self.source.beside_monotonic();
        if self.pairs.len() < PAIRS {
            self.pairs.push(pair);
            self.newest = self.pairs.len() - 1;
        } else {
            self.newest = (self.newest + 1) % PAIRS;
            if let Some(oldest) = self.pairs.get_mut(self.newest) {
                *oldest = pair;
            }
        }
        let oldest = self.pairs.get((self.newest + 1) % self.pairs.len().max(1)).copied().unwrap_or(pair);
        let nanos = pair.1.saturating_sub(oldest.1);
        // Over less time than this the pairs' own error would be seen.
        if nanos > 50_000_000 {
            self.slope = pair.0.wrapping_sub(oldest.0) as i64 as f64 / nanos as f64;
        }
    }

    /// The session's time of a monotonic one, in nanoseconds.
    pub(super) fn of(&self, nanos: u64) -> u64 {
        let Some((ticks, at)) = self.pairs.get(self.newest).copied() else { return 0 };
        let ahead = nanos.wrapping_sub(at) as i64;
        ticks.saturating_add_signed((ahead as f64 * self.slope) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_those_of_the_sessions_clock() {
        for source in [ClockSource::of_performance_counter(), ClockSource::Monotonic, ClockSource::System] {
            let mut clock = SessionClock::new(source);
            let micro = source.frequency() as f64 / 1e6;
            for _ in 0..100 {
                std::thread::sleep(Duration::from_millis(1));
                clock.look();
                // An instant of both clocks, a little behind and ahead of the look.
                let (ticks, nanos) = source.beside_monotonic();
                let error = clock.of(nanos).abs_diff(ticks) as f64 / micro;
                assert!(error < 1.5, "{source:?}: {error} us");
            }
        }
    }
}
