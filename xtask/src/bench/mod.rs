//! Benches: what is measured, beside other readers in the same run.

#[cfg(target_os = "linux")]
mod build;
mod decode;
#[cfg(target_os = "linux")]
mod kernel;
mod peer;
mod relog;
mod row;
#[cfg(target_os = "linux")]
pub(crate) mod session;
#[cfg(target_os = "linux")]
mod write;

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, ValueEnum};

pub(crate) use peer::{Peer, python};
use row::Row;

/// Options of `bench`.
#[derive(Args)]
pub(crate) struct Options {
    /// What to measure.
    #[arg(default_value = "decode")]
    suite: Suite,
    /// Print a JSON list in place of the table.
    #[arg(long)]
    json: bool,
    /// Seconds that a session is kept busy.
    #[cfg(target_os = "linux")]
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Measure for a moment only, to see that everything runs; the numbers mean nothing.
    #[arg(long)]
    smoke: bool,
}

#[cfg(target_os = "linux")]
impl Options {
    fn busy_seconds(&self) -> f64 {
        if self.smoke { SMOKE_SECONDS } else { self.seconds }
    }
}

/// A group of measurements.
#[derive(Clone, Copy, ValueEnum)]
enum Suite {
    /// Reading and decoding of files.
    Decode,
    /// Traces written anew: merged, filtered, compressed.
    Relog,
    /// Writing events, beside LTTng-UST.
    #[cfg(target_os = "linux")]
    Write,
    /// Whole sessions: throughput and latency.
    #[cfg(target_os = "linux")]
    Session,
    /// Tracing the kernel, beside perf and ftrace.
    #[cfg(target_os = "linux")]
    Kernel,
    /// Compiling programs that depend on `openetw`.
    #[cfg(target_os = "linux")]
    Build,
}

/// Measures, and prints what came out.
pub(crate) fn run(options: &Options) -> Result<()> {
    let rows = match options.suite {
        Suite::Decode => decode::rows(&Effort::new(options.smoke))?,
        Suite::Relog => relog::rows(&Effort::new(options.smoke))?,
        #[cfg(target_os = "linux")]
        Suite::Write => write::rows(&Effort::new(options.smoke))?,
        #[cfg(target_os = "linux")]
        Suite::Session => session::rows(options.busy_seconds())?,
        #[cfg(target_os = "linux")]
        Suite::Kernel => kernel::rows(&Effort::new(options.smoke), options.busy_seconds())?,
        #[cfg(target_os = "linux")]
        Suite::Build => build::rows(options.smoke)?,
    };
    if options.json {
        row::print_json(&rows)
    } else {
        row::print_table(&rows)
    }
    Ok(())
}

/// Seconds that a session is busy when it matters only that the bench runs.
#[cfg(target_os = "linux")]
const SMOKE_SECONDS: f64 = 0.3;

/// Sees that the benches run.
pub(crate) fn smoke() -> Result<()> {
    for suite in Suite::value_variants() {
        run(&Options {
            suite: *suite,
            json: false,
            smoke: true,
            #[cfg(target_os = "linux")]
            seconds: SMOKE_SECONDS,
        })?;
    }
    Ok(())
}

/// How much time measuring may take.
pub(crate) struct Effort {
    /// Rounds; in each, everything that is compared runs once.
    pub(crate) rounds: usize,
    /// Time for one measurement of ours in one round.
    pub(crate) time: Duration,
    /// Time for one pass of a peer over a file.
    pub(crate) peer_time: Duration,
    /// Events in generated traces: more than caches hold, few enough that some passes go undisturbed on a busy machine.
    pub(crate) events: u64,
}

impl Effort {
    fn new(smoke: bool) -> Effort {
        let (rounds, time, peer_time, events) =
            if smoke { (1, 5, 300, 20_000) } else { (5, 400, 4000, 500_000) };
        let [time, peer_time] = [time, peer_time].map(Duration::from_millis);
        Effort { rounds, time, peer_time, events }
    }

    /// Whether it matters only that the bench runs.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_smoke(&self) -> bool {
        self.rounds == 1
    }

    /// Seconds for one call of `body`: the fastest of the calls that fit into the time of a round.
    pub(crate) fn seconds(&self, body: impl FnMut()) -> f64 {
        self.seconds_after(|| (), body)
    }

    /// The same, with `prepare` before each call, whose time does not count.
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

/// The middle one of the values; 0 of none.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
