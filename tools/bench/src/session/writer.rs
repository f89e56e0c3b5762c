//! The provider's process.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use etw_provider::{Outcome, provider};
use etw_sys::clock;

use super::{EVENT, PROVIDER};

provider!(static BENCH: "OpenETW.Bench.Session");

/// How it writes.
#[derive(Args)]
pub(crate) struct Options {
    /// Events a second; as fast as it goes if 0.
    #[arg(long)]
    rate: u64,
    /// For how long.
    #[arg(long)]
    seconds: f64,
}

/// Most often that events are written, for rates that allow it; more are written at a time at higher rates.
const TICKS_A_SECOND: u64 = 2000;

/// Writes, and prints how many events were written, how many of those were refused, the nanoseconds it took, and
/// of those the ones that it wrote.
pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(BENCH.name() == PROVIDER);
    BENCH.register();
    ensure!(BENCH.is_enabled(), "no session has enabled the provider");
    let (mut written, mut refused, mut busy) = (0u64, 0u64, Duration::ZERO);
    let begun = Instant::now();
    let duration = Duration::from_secs_f64(options.seconds);
    loop {
        let elapsed = begun.elapsed();
        if elapsed >= duration {
            break;
        }
        let due = match options.rate {
            0 => written + 10_000,
            rate => (elapsed.as_secs_f64() * rate as f64) as u64,
        };
        let start = Instant::now();
        while written < due {
            // Its own clock, beside the header's, says when the writer began.
            let outcome = BENCH.write(&EVENT, &(1u32, written as u32, clock::counter()));
            refused += u64::from(outcome != Outcome::Written);
            written += 1;
        }
        busy += start.elapsed();
        if options.rate > 0 {
            let next = (written + 1) as f64 / options.rate as f64;
            let tick = elapsed.as_secs_f64() + 1.0 / TICKS_A_SECOND as f64;
            let until = Duration::from_secs_f64(next.max(tick));
            std::thread::sleep(until.saturating_sub(begun.elapsed()));
        }
    }
    println!("{written} {refused} {} {}", begun.elapsed().as_nanos(), busy.as_nanos());
    Ok(())
}
