//! The consumer's process.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use etw_sys::clock;
use openetw::{Guid, Schemas, Trace};

use super::PROVIDER;

/// How it reads.
#[derive(Args)]
pub(crate) struct Options {
    session: String,
    /// The manifest of the events.
    manifest: PathBuf,
    /// For each event, how long it took until it was here, in ticks of the clock, in place of the totals.
    #[arg(long)]
    latencies: bool,
}

/// Reads every field of every event until the session stops. Prints a line at the start, and at the end the number of
/// events and the nanoseconds between the first and the last one.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut schemas = Schemas::new();
    schemas.add_files([&options.manifest]);
    let mut trace = Trace::builder().session(&options.session).schemas(&schemas).open()?;
    let mut out = std::io::stdout();
    writeln!(out, "begun")?;
    let (mut events, mut undecoded, mut sum) = (0u64, 0u64, 0i128);
    let mut times: Option<(Instant, Instant)> = None;
    let mut latencies = Vec::new();
    let provider = Guid::from_provider_name(PROVIDER);
    trace.for_each_event(|event| {
        // The session's own events report its start and its losses.
        if event.record.provider_id() != provider {
            return;
        }
        if options.latencies {
            let begun = event.get::<u64>("Time").unwrap_or(0);
            latencies.push(clock::counter().saturating_sub(begun));
        }
        let Ok(properties) = &event.properties else {
            undecoded += 1;
            return;
        };
        for property in properties.iter() {
            sum ^= property.value().as_integer().unwrap_or(0);
        }
        events += 1;
        // The cost of reading the clock is not measured.
        if events % 4096 == 1 {
            let now = Instant::now();
            times = Some((times.map_or(now, |(first, _)| first), now));
        }
    })?;
    ensure!(undecoded == 0, "{undecoded} events without schema");
    std::hint::black_box(sum);
    let nanos = times.map_or(0, |(first, last)| (last - first).as_nanos());
    writeln!(out, "{events} {nanos}")?;
    for latency in latencies {
        writeln!(out, "{latency}")?;
    }
    Ok(())
}
