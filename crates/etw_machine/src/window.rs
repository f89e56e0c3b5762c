//! The time window of tables.

use etw_event::FileTime;

/// A time window for tables: from one time up to, but not including, another.
///
/// Names always come from the whole trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Start of the window.
    pub from: FileTime,
    /// End of the window, exclusive.
    pub to: FileTime,
}

impl Window {
    /// The window of all times.
    pub const ALL: Window = Window { from: FileTime(i64::MIN), to: FileTime(i64::MAX) };

    /// Whether a time is in the window.
    #[inline]
    pub fn has(&self, time: FileTime) -> bool {
        self.from <= time && time < self.to
    }

    /// Returns how much of the time between two moments is in the window.
    #[inline]
    pub fn part(&self, from: FileTime, to: FileTime) -> Duration {
        let (from, to) = (from.max(self.from), to.min(self.to));
        Duration(to.0.saturating_sub(from.0).max(0).unsigned_abs())
    }
}

/// A time span in units of 100 ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(pub u64);

impl Duration {
    /// Returns the duration in nanoseconds.
    pub fn nanos(self) -> u64 {
        self.0.saturating_mul(100)
    }

    /// Returns the duration in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / FileTime::PER_SECOND as f64
    }
}

impl std::ops::AddAssign for Duration {
    #[inline]
    fn add_assign(&mut self, other: Duration) {
        self.0 = self.0.saturating_add(other.0);
    }
}

impl std::iter::Sum for Duration {
    fn sum<I: Iterator<Item = Duration>>(durations: I) -> Duration {
        durations.fold(Duration::default(), |mut sum, duration| {
            sum += duration;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_in_the_window_counts() {
        let window = Window { from: FileTime(100), to: FileTime(200) };
        let check = |from, to, expected| {
            assert_eq!(window.part(FileTime(from), FileTime(to)), Duration(expected), "{from} to {to}");
        };
        check(0, 50, 0);
        check(50, 150, 50);
        check(120, 130, 10);
        check(150, 300, 50);
        check(0, 300, 100);
        check(130, 120, 0);
        assert!(window.has(FileTime(100)) && !window.has(FileTime(200)));
        assert_eq!(Window::ALL.part(FileTime(1), FileTime(4)), Duration(3));
    }
}
