//! Limits of what servers may send, in one file and in one run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Default of the maximum length in bytes of a symbol file, compressed or not.
pub(crate) const MAX_LEN_BYTES: u64 = 4 << 30;

/// Limits of [`Symbolizer::fetch`](crate::Symbolizer::fetch).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchLimits {
    /// Time to connect to a server.
    pub connect: Duration,
    /// Time in which a server must send at least a kilobyte per second on average.
    pub stall: Duration,
    /// Maximum length in bytes of one file, compressed or not.
    pub file_bytes: u64,
    /// Maximum sum in bytes of what is received and unpacked in one call.
    pub total_bytes: u64,
    /// Maximum time of one call.
    pub total: Duration,
}

impl Default for FetchLimits {
    /// 10 s to connect, 20 s of a stall, 4 GiB for a file, 16 GiB and 2 hours for all.
    fn default() -> FetchLimits {
        FetchLimits {
            connect: Duration::from_secs(10),
            stall: Duration::from_secs(20),
            file_bytes: MAX_LEN_BYTES,
            total_bytes: 16 << 30,
            total: Duration::from_secs(2 * 60 * 60),
        }
    }
}

/// What is left of the limits of a run.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(super) limits: FetchLimits,
    start: Instant,
    left: AtomicU64,
}

impl Budget {
    pub(crate) fn new(limits: FetchLimits) -> Budget {
        Budget { limits, start: Instant::now(), left: AtomicU64::new(limits.total_bytes) }
    }

    /// Returns the time that is left.
    ///
    /// # Errors
    ///
    /// Returns which limit of the run is reached.
    pub(super) fn time_left(&self) -> Result<Duration, String> {
        let left = self.limits.total.checked_sub(self.start.elapsed()).filter(|left| !left.is_zero());
        let left = left.ok_or_else(|| format!("the time of {} s is over", self.limits.total.as_secs()))?;
        match self.bytes_left() {
            0 => Err(self.bytes_spent()),
            _ => Ok(left),
        }
    }

    pub(super) fn bytes_left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Takes bytes from the budget.
    ///
    /// # Errors
    ///
    /// Fails if there are not as many; nothing is left then.
    pub(super) fn spend(&self, bytes: u64) -> Result<(), String> {
        let take = |left: u64| Some(left.saturating_sub(bytes));
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(left) if left >= bytes => Ok(()),
            _ => Err(self.bytes_spent()),
        }
    }

    fn bytes_spent(&self) -> String {
        format!("the {} bytes for all files are used up", self.limits.total_bytes)
    }
}
