//! The time that tables are about.

use etw_event::FileTime;

/// The time that tables are about: from one moment, and up to before another.
///
/// What names things is taken from the whole trace all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// From when on.
    pub from: FileTime,
    /// Up to when.
    pub to: FileTime,
}

impl Window {
    /// All times.
    pub const ALL: Window = Window { from: FileTime(i64::MIN), to: FileTime(i64::MAX) };

    /// Whether a moment is in it.
    #[inline]
    pub(crate) fn has(&self, time: FileTime) -> bool {
        self.from <= time && time < self.to
    }

    /// How much of the time between two moments is in it.
    #[inline]
    pub(crate) fn part(&self, from: FileTime, to: FileTime) -> Duration {
        let (from, to) = (from.max(self.from), to.min(self.to));
        Duration(to.0.saturating_sub(from.0).max(0).unsigned_abs())
    }
}

/// A time span in units of 100 ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(pub u64);

impl Duration {
    /// Nanoseconds.
    pub fn nanos(self) -> u64 {
        self.0.saturating_mul(100)
    }

    /// Seconds.
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
