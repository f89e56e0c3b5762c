//! Sums and their rates.

/// A sum, and its rate in the last period.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Meter {
    /// The sum.
    pub total: u64,
    /// Increase per second in the last period.
    pub rate: f64,
    /// Increase since the end of the last period.
    period: u64,
}

impl Meter {
    pub(crate) fn add(&mut self, amount: u64) {
        self.total = self.total.saturating_add(amount);
        self.period = self.period.saturating_add(amount);
    }

    /// Ends a period of `seconds` seconds.
    pub(crate) fn roll(&mut self, seconds: f64) {
        self.rate = if seconds > 0.0 { self.period as f64 / seconds } else { 0.0 };
        self.period = 0;
    }
}

/// Number of transfers and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Transfers {
    pub(crate) count: Meter,
    pub(crate) bytes: Meter,
}

impl Transfers {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.count.add(1);
        self.bytes.add(bytes);
    }

    pub(crate) fn roll(&mut self, seconds: f64) {
        self.count.roll(seconds);
        self.bytes.roll(seconds);
    }
}

/// Durations in units of 100 ns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Latency {
    count: u64,
    sum: u64,
    pub(crate) longest: u64,
}

impl Latency {
    pub(crate) fn add(&mut self, hundred_nanos: i64) {
        let took = u64::try_from(hundred_nanos).unwrap_or(0);
        self.count += 1;
        self.sum = self.sum.saturating_add(took);
        self.longest = self.longest.max(took);
    }

    pub(crate) fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_last_period() {
        let mut meter = Meter::default();
        meter.add(100);
        assert_eq!((meter.total, meter.rate), (100, 0.0));
        meter.roll(2.0);
        assert_eq!((meter.total, meter.rate), (100, 50.0));
        meter.add(u64::MAX);
        meter.roll(1.0);
        assert_eq!(meter.total, u64::MAX);
        meter.roll(1.0);
        assert_eq!(meter.rate, 0.0);
        meter.roll(0.0);
        assert_eq!(meter.rate, 0.0);
        let mut latency = Latency::default();
        assert_eq!(latency.mean(), 0.0);
        [10, -5, 30, 0].into_iter().for_each(|took| latency.add(took));
        assert_eq!((latency.mean(), latency.longest), (10.0, 30));
    }
}
