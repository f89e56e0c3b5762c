//! Latency from an event's writer to a consumer's callback, with the session's defaults.

use anyhow::{Result, ensure};
use etw_sys::clock::ClockSource;
use openetw::session::{EnableBuilder, SessionBuilder};

use super::host::{Hosted, Lines};
use super::throughput::{SESSION, consumer, writer};
use super::{PROVIDER, Row};

/// Events a second.
const RATES: [u64; 5] = [1, 10, 100, 1000, 10_000];
/// Number of events for a distribution, if time allows.
const EVENTS: f64 = 2000.0;

pub(super) fn rows(seconds: f64) -> Result<Vec<Row>> {
    let host = Hosted::start()?;
    let mut rows = Vec::new();
    let most = seconds / 2.0;
    for rate in RATES {
        let seconds = (EVENTS / rate as f64).clamp(most.min(2.0), most);
        let (mut latencies, lost) = measure(&host, rate, seconds)?;
        latencies.sort_unstable();
        let row = |name: &str, micros: f64| Row {
            events_lost: lost,
            ..Row::new(format!("latency at {rate} events/s, {name} of {}", latencies.len()), micros, "us")
        };
        let at = |share: f64| {
            let index = (latencies.len() as f64 * share) as usize;
            let ticks = latencies.get(index.min(latencies.len().saturating_sub(1))).copied().unwrap_or(0);
            ticks as f64 * 1e6 / ClockSource::Counter.frequency() as f64
        };
        rows.extend([row("median", at(0.5)), row("p99", at(0.99)), row("longest", at(1.0))]);
    }
    Ok(rows)
}

fn measure(host: &Hosted, rate: u64, seconds: f64) -> Result<(Vec<u64>, u64)> {
    let mut controller = host.controller()?;
    SessionBuilder::new(SESSION).real_time().start(&mut controller)?;
    controller.enable(SESSION, &EnableBuilder::new(PROVIDER.parse()?))?;
    let (mut process, mut lines) = consumer(host, true)?;
    let mut writer = writer(host, rate, seconds)?;
    let [written, ..] = Lines::from_process(&mut writer)?.numbers::<4>()?;
    writer.wait()?;
    let status = controller.stop(SESSION)?;
    let [events, _] = lines.numbers()?;
    let mut latencies = Vec::new();
    while let Some(line) = lines.next()? {
        latencies.push(line.parse()?);
    }
    process.wait()?;
    let lost = status.events_lost + status.real_time_events_lost;
    ensure!(events + lost == written, "{written} events written, {events} arrived, {lost} lost");
    Ok((latencies, lost))
}
