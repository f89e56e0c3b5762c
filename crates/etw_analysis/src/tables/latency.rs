//! Latencies of operations.

use std::collections::BTreeMap;

use etw_machine::Duration;

/// Number of steps per power of two; the error of quantiles is less than 1/32, about 3 %.
const STEPS: u32 = 32;

/// Latencies: exact count, sum and maximum, and quantiles within 3 %, in bounded memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Latencies {
    pub(crate) count: u64,
    pub(crate) sum: Duration,
    pub(crate) max: Duration,
    /// Number of latencies in each step.
    steps: BTreeMap<u16, u32>,
}

impl Latencies {
    pub(crate) fn add(&mut self, latency: Duration) {
        self.count += 1;
        self.sum += latency;
        self.max = self.max.max(latency);
        let count = self.steps.entry(step(latency.0)).or_default();
        *count = count.saturating_add(1);
    }

    /// Returns the latency that the given part of all, between 0 and 1, does not exceed, or `None` if empty.
    pub(crate) fn quantile(&self, part: f64) -> Option<Duration> {
        let wanted = ((self.count as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        for (step, count) in &self.steps {
            seen += u64::from(*count);
            if seen >= wanted {
                return Some(Duration(middle(*step)).min(self.max));
            }
        }
        None
    }
}

/// Returns the step of a number; each number below [`STEPS`] has its own.
fn step(number: u64) -> u16 {
    let shift = (u64::BITS - number.leading_zeros()).saturating_sub(STEPS.ilog2() + 1);
    (shift * STEPS) as u16 + (number >> shift) as u16
}

/// Returns the number in the middle of a step.
fn middle(step: u16) -> u64 {
    let step = u32::from(step);
    if step < 2 * STEPS {
        return step.into();
    }
    let shift = step / STEPS - 1;
    let low = u64::from(step - shift * STEPS) << shift;
    low + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_near_the_middle_of_its_step() {
        for number in (0..2000).chain((10..63).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) * 3 / 2]))
        {
            let middle = middle(step(number));
            assert!(middle.abs_diff(number) as f64 <= number as f64 / 32.0, "{number}: {middle}");
        }
        assert_eq!(step(u64::MAX), step(u64::MAX - 1));
    }

    #[test]
    fn quantiles() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantile(0.5), None);
        (1..=1000).for_each(|latency| latencies.add(Duration(latency * 1000)));
        let check = |part: f64, expected: f64| {
            let found = latencies.quantile(part).unwrap().0 as f64;
            assert!((found / expected - 1.0).abs() < 0.04, "{part}: {found}");
        };
        check(0.0, 1000.0);
        check(0.5, 500_000.0);
        check(0.95, 950_000.0);
        check(1.0, 1_000_000.0);
        assert_eq!((latencies.count, latencies.sum.0, latencies.max.0), (1000, 500_500_000, 1_000_000));
    }
}
