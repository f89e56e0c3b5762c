//! Times of several files on one scale.

use etw_event::{Clock, FileTime, Ticks};

/// Parts of 100 ns on the common scale: fine enough to keep the order of any clock up to 10 GHz, and wide enough for
/// 29 years around the first file's start.
const FRACTIONS: i64 = 1024;

/// Conversion of raw times of one file to times of the common scale.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scale {
    /// The raw ticks of a single file.
    Raw,
    /// UTC relative to a common base.
    Utc {
        anchor: i64,
        /// The time of the anchor.
        start: i64,
        frequency: i64,
        /// Fractions per tick, if that is a whole number.
        whole: Option<i64>,
    },
}

impl Scale {
    /// Returns the scale for a file with this clock among others; `base` is the start of one of them.
    pub(crate) fn utc(clock: &Clock, base: FileTime) -> Scale {
        let per_second = FileTime::PER_SECOND * FRACTIONS;
        let whole = (per_second % clock.frequency() == 0).then(|| per_second / clock.frequency());
        Scale::Utc {
            anchor: clock.anchor.0,
            start: clock.start.0.saturating_sub(base.0).saturating_mul(FRACTIONS),
            frequency: clock.frequency(),
            whole,
        }
    }

    /// Returns the time of a raw reading on the common scale.
    #[inline]
    pub(crate) fn key(&self, raw: Ticks) -> i64 {
        match *self {
            Scale::Raw => raw.0,
            Scale::Utc { anchor, start, frequency, whole } => {
                let ticks = raw.0.saturating_sub(anchor);
                let fractions = match whole {
                    Some(whole) => ticks.saturating_mul(whole),
                    None => {
                        let product = i128::from(ticks) * i128::from(FileTime::PER_SECOND * FRACTIONS);
                        i64::try_from(product.div_euclid(i128::from(frequency))).unwrap_or(if ticks < 0 {
                            i64::MIN
                        } else {
                            i64::MAX
                        })
                    }
                };
                start.saturating_add(fractions)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_event::ClockType;

    #[test]
    fn clocks_meet_in_utc() {
        let base = FileTime(132_760_000_000_000_000);
        let fast = Clock::new(ClockType::Qpc, Ticks(500), base, 3_000_000_000);
        let slow = Clock::new(ClockType::Qpc, Ticks(0), FileTime(base.0 + 10), 2_337_949);
        let (fast, slow) = (Scale::utc(&fast, base), Scale::utc(&slow, base));
        assert_eq!(fast.key(Ticks(500)), 0);
        assert_eq!(slow.key(Ticks(0)), 10 * FRACTIONS);
        assert_eq!(fast.key(Ticks(500 + 3000)), 10 * FRACTIONS, "3000 cycles of 3 GHz are 1 us");
        assert!(fast.key(Ticks(501)) > fast.key(Ticks(500)));
        assert!(slow.key(Ticks(-1)) < slow.key(Ticks(0)));
        assert_eq!(slow.key(Ticks(2_337_949)), (10_000_000 + 10) * FRACTIONS);
        assert_eq!(fast.key(Ticks(i64::MAX)), i64::MAX);
        assert_eq!(Scale::Raw.key(Ticks(7)), 7);
    }
}
