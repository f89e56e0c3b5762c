//! Clusters whose executors are killed and stopped, and whose connections are slow, cut, or end in the middle of a message,
//! at instants that a seed tells. A query then gives the whole answer, or says in one line what it has lost.

mod link;
mod running;

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use etw_testkit::traces::{self, Kind, Recipe};
use shell::random::Random;

use running::{Answer, Cluster, Program};

/// Traces, and events of each.
const TRACES: usize = 6;
const EVENTS: u64 = 20_000;
/// Longest time of a query, whatever happens.
const LONGEST: Duration = Duration::from_secs(60);
/// Faults begin within the time of a query and a part more, in percent.
const WITHIN: u64 = 120;

/// Queries with one stage and with several, whose rows are exchanged, sorted, joined, or come all the time.
const QUERIES: [&str; 6] = [
    "select count(*) as n, sum(length(payload)) as p, count(distinct payload) as d from events",
    "select provider, event, count(*) as n from events group by provider, event order by n desc, event, provider",
    "select thread_id, count(distinct payload) as n from events group by thread_id order by n desc, thread_id",
    "select count(*) as n, max(a.time) as t from events a join events b on a.time = b.time and a.thread_id = b.thread_id",
    "select time, thread_id, payload from events order by payload, time, thread_id limit 5000",
    "select time, event, payload from events where thread_id % 2 = 0",
];

/// Kill executors and cut connections of clusters, and check every answer.
#[derive(Args)]
pub(crate) struct Options {
    /// Number of seeds, of which each tells a query and what happens while it runs.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Clusters at once.
    #[arg(long, default_value_t = 2)]
    at_once: u64,
}

impl Options {
    pub(crate) fn run(&self) -> Result<()> {
        let program = Program::find()?;
        let directory = tempfile::Builder::new().prefix("openetw-cluster-").tempdir()?;
        write_traces(directory.path())?;
        let answers = QUERIES.iter().map(|query| program.answer(directory.path(), query));
        let answers: Vec<Answer> = answers.collect::<Result<_>>()?;
        let (next, tally) = (AtomicU64::new(self.first), Mutex::new(Tally::default()));
        let start = Instant::now();
        thread::scope(|scope| {
            let run = |number| {
                let end = self.first + self.seeds;
                let mut cluster = Cluster::start(&program, directory.path(), number)?;
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= end {
                        return Ok(());
                    }
                    let outcome = round(&mut cluster, seed, &answers);
                    let outcome = outcome.with_context(|| format!("--first {seed} --seeds 1"))?;
                    let mut tally = tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    tally.add(outcome);
                    if (seed + 1 - self.first).is_multiple_of(100) {
                        eprintln!("{seed}: {tally}");
                    }
                }
            };
            let clusters: Vec<_> =
                (1..=self.at_once).map(|number| scope.spawn(move || run(number))).collect();
            clusters.into_iter().try_for_each(|cluster| {
                cluster.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread failed")))
            })
        })?;
        // The processes have been killed; the next one removes what they have left.
        program.answer(directory.path(), "select 1")?;
        let left = running::temporary(directory.path())?;
        ensure!(left.is_empty(), "temporary files of processes that are gone: {left:?}");
        let tally = tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        println!("clusters: {tally}, {:.1} s", start.elapsed().as_secs_f64());
        Ok(())
    }
}

fn write_traces(directory: &Path) -> Result<()> {
    for number in 0..TRACES {
        let file = BufWriter::new(File::create(directory.join(format!("t{number}.etl")))?);
        traces::write(file, &Recipe::new(Kind::Mixed, EVENTS))?;
    }
    Ok(())
}

/// What has happened to queries.
#[derive(Default)]
struct Tally {
    whole: u64,
    failed: u64,
    slowest: Duration,
}

impl Tally {
    fn add(&mut self, (is_whole, time): (bool, Duration)) {
        match is_whole {
            true => self.whole += 1,
            false => self.failed += 1,
        }
        self.slowest = self.slowest.max(time);
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { whole, failed, slowest } = self;
        write!(
            f,
            "{whole} whole answers, {failed} that say what was lost, none short; the longest took {:.1} s",
            slowest.as_secs_f64()
        )
    }
}

/// What happens to an executor or to its connections.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill,
    /// It does nothing for some milliseconds.
    Pause(u64),
    /// Its connections with the others, or with the scheduler, end after some more bytes.
    Cut {
        is_scheduler: bool,
        bytes: u64,
    },
    /// Each piece of what it is sent takes some more microseconds.
    Delay(u64),
}

/// Runs a query with what a seed tells, and then once more. Returns whether the answer was whole, and its time.
fn round(cluster: &mut Cluster<'_>, seed: u64, answers: &[Answer]) -> Result<(bool, Duration)> {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    // The first numbers of neighbouring seeds are alike.
    (0..8).for_each(|_| _ = random.below(2));
    let number = random.below(QUERIES.len() as u64) as usize;
    let (query, expected) = (QUERIES[number], &answers[number]);
    let usual_micros = cluster.time(number).as_micros() as u64;
    let faults = 1 + random.below(2);
    let mut faults: Vec<(u64, usize, Fault)> = (0..faults)
        .map(|_| {
            let fault = match random.below(10) {
                0..=3 => Fault::Kill,
                4 => Fault::Pause(50 + random.below(1500)),
                5..=7 => Fault::Cut { is_scheduler: random.below(2) == 0, bytes: 1 << random.below(20) },
                _ => Fault::Delay(10 + random.below(2000)),
            };
            let executor = random.below(running::EXECUTORS as u64) as usize;
            (random.below(usual_micros * WITHIN / 100 + 1), executor, fault)
        })
        .collect();
    faults.sort_by_key(|(at, ..)| *at);
    let start = Instant::now();
    let asked = cluster.ask(query, LONGEST)?;
    for (at, executor, fault) in &faults {
        thread::sleep(Duration::from_micros(*at).saturating_sub(start.elapsed()));
        cluster.strike(*executor, *fault)?;
    }
    let got = asked.wait().with_context(|| format!("{query}; {faults:?}"))?;
    let time = start.elapsed();
    let is_whole = got.check(expected).with_context(|| format!("{query}; {faults:?}"))?;
    // Whatever has happened, the cluster is there again.
    cluster.mend()?;
    let start = Instant::now();
    let got = cluster.ask(query, LONGEST)?.wait().with_context(|| format!("{query}; after {faults:?}"))?;
    ensure!(
        got.check(expected).with_context(|| format!("{query}; after {faults:?}"))?,
        "{query} fails after {faults:?}: {}",
        got.error()
    );
    cluster.took(number, start.elapsed());
    Ok((is_whole, time))
}
