//! Kills writers at random instants and accounts for every event that they started to write.

#![forbid(unsafe_code)]

mod cluster;
mod hostile;
mod ledger;
mod region;
mod session;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::{Parser, Subcommand};

use shell::random::Random;

/// Kill writers at random instants, thousands of times, and account for every event.
#[derive(Parser)]
#[command(name = "cargo xtask torture")]
struct Options {
    /// Number of rounds; each starts and kills its own processes.
    #[arg(long, default_value_t = 2000)]
    rounds: u32,
    /// Seed of the random numbers, to repeat a round.
    #[arg(long)]
    seed: Option<u64>,
    /// Run only sessions of this kind.
    #[arg(long)]
    case: Option<session::Case>,
    #[command(subcommand)]
    child: Option<Child>,
}

/// Other tests, and the processes of tests, for internal use.
#[derive(Subcommand)]
enum Child {
    #[command(hide = true)]
    Region(region::Child),
    #[command(hide = true)]
    Writer(session::Writer),
    #[command(hide = true)]
    Consumer(session::Consumer),
    #[command(hide = true)]
    Host,
    /// Attack a host as other users while an honest program writes and root controls it.
    Hostile(hostile::Options),
    /// Kill executors of clusters and cut their connections while they answer queries.
    Cluster(cluster::Options),
    #[command(hide = true)]
    HostOfNeighbours(hostile::HostChild),
    #[command(hide = true)]
    HonestWriter(hostile::Writer),
    #[command(hide = true)]
    HonestConsumer(hostile::Consumer),
    #[command(hide = true)]
    Attacker(hostile::Attacker),
}

fn main() -> ExitCode {
    shell::finish(run(&Options::parse()))
}

/// Runs the tests, or a process that one of them started.
fn run(options: &Options) -> Result<()> {
    match &options.child {
        Some(Child::Region(child)) => child.run(),
        Some(Child::Writer(child)) => child.run(),
        Some(Child::Consumer(child)) => child.run(),
        Some(Child::Host) => session::host(),
        Some(Child::Hostile(options)) => options.run(),
        Some(Child::Cluster(options)) => options.run(),
        Some(Child::HostOfNeighbours(child)) => child.run(),
        Some(Child::HonestWriter(child)) => child.run(),
        Some(Child::HonestConsumer(child)) => child.run(),
        Some(Child::Attacker(child)) => child.run(),
        None => torture(options.rounds, options.case, options.seed.unwrap_or_else(seed)),
    }
}

fn torture(rounds: u32, case: Option<session::Case>, seed: u64) -> Result<()> {
    eprintln!("{rounds} rounds, --seed {seed}");
    let mut random = Random(seed | 1);
    if case.is_none() {
        let start = Instant::now();
        let total = region::torture(rounds, &mut random)?;
        println!("killed writers: {total}, {:.1} s", start.elapsed().as_secs_f64());
    }
    let start = Instant::now();
    let total = session::torture(rounds, case, &mut random)?;
    println!("sessions: {total}, {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn seed() -> u64 {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    now.as_nanos() as u64
}
