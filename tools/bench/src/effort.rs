//! How much time measuring may take.

use std::time::{Duration, Instant};

/// How much time measuring may take.
pub(crate) struct Effort {
    /// Number of rounds; each runs everything that is compared once.
    pub(crate) rounds: usize,
    /// Time for one measurement of ours in one round.
    pub(crate) time: Duration,
    /// Time for one pass of a peer over a file.
    pub(crate) peer_time: Duration,
    /// Events in generated traces: more than caches hold, few enough that some passes go undisturbed on a busy machine.
    pub(crate) events: u64,
}

impl Effort {
    pub(super) fn new(smoke: bool) -> Effort {
        let (rounds, time, peer_time, events) =
            if smoke { (1, 5, 300, 20_000) } else { (5, 400, 4000, 500_000) };
        let [time, peer_time] = [time, peer_time].map(Duration::from_millis);
        Effort { rounds, time, peer_time, events }
    }

    /// Whether the bench only has to run, and its numbers do not matter.
    pub(crate) fn is_smoke(&self) -> bool {
        self.rounds == 1
    }

    /// Returns the seconds of the fastest call of `body` within the time of a round.
    pub(crate) fn seconds(&self, body: impl FnMut()) -> f64 {
        self.seconds_after(|| (), body)
    }

    /// The same, with a call of `prepare`, which is not timed, before each call.
    pub(crate) fn seconds_after(&self, mut prepare: impl FnMut(), mut body: impl FnMut()) -> f64 {
        let start = Instant::now();
        let mut best = f64::INFINITY;
        loop {
            prepare();
            let call = Instant::now();
            body();
            best = best.min(call.elapsed().as_secs_f64());
            if start.elapsed() >= self.time {
                return best;
            }
        }
    }
}

/// Returns the median; 0 if there are no values.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
