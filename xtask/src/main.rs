//! The project's own chores: checks, generated traces, fuzzing and benches.

#![forbid(unsafe_code)]

mod bench;
mod bpf;
mod ci;
mod coverage;
mod dependencies;
#[cfg(target_os = "linux")]
mod dist;
mod fuzz;
mod generate;
mod layers;
mod msrv;
mod peers;
mod process;
#[cfg(target_os = "linux")]
mod profiles;
mod shell;
mod systems;
#[cfg(target_os = "linux")]
mod torture;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own chores.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run every check that a change must pass, in the order of their cost.
    Ci,
    /// Check that dependencies between crates point down the layers, and that imports between folders go in one direction.
    Layers,
    /// Check licences, sources and Rust versions of dependencies, and that all are used.
    Dependencies,
    /// Make the Debian package and the tarball that people install, in target/dist.
    #[cfg(target_os = "linux")]
    Dist(dist::Options),
    /// Build the programs that trace the Linux kernel, or check that the built ones are those of the source.
    Bpf(bpf::Options),
    /// Write a generated trace.
    Generate(generate::Options),
    /// Have independent readers read what our writer writes, and compare.
    Peers,
    /// Write docs/coverage.md: how much of each real trace is decoded.
    Coverage,
    /// Write the table of docs/tools/wprp.md, what of each published recording profile Linux records, or check it.
    #[cfg(target_os = "linux")]
    Profiles(profiles::Options),
    /// Measure speed, beside other readers.
    Bench(bench::Options),
    /// A process that a bench starts.
    #[cfg(target_os = "linux")]
    #[command(hide = true, subcommand)]
    BenchPart(bench::Part),
    /// Write the inputs that fuzzing starts from to fuzz/seeds.
    Seeds,
    /// Fuzz the parsers of outside bytes with cargo-fuzz.
    Fuzz(fuzz::Options),
    /// Kill writers at random instants, thousands of times, and account for every event.
    #[cfg(target_os = "linux")]
    Torture(torture::Options),
}

fn main() -> ExitCode {
    let done = match Cli::parse().chore {
        Chore::Ci => ci::run(),
        Chore::Layers => layers::check(),
        Chore::Dependencies => dependencies::check(),
        #[cfg(target_os = "linux")]
        Chore::Dist(options) => dist::run(&options),
        Chore::Bpf(options) => bpf::run(&options),
        Chore::Generate(options) => generate::run(&options),
        Chore::Peers => peers::compare(),
        Chore::Coverage => coverage::write(),
        #[cfg(target_os = "linux")]
        Chore::Profiles(options) => profiles::run(&options),
        Chore::Bench(options) => bench::run(&options),
        #[cfg(target_os = "linux")]
        Chore::BenchPart(part) => part.run(),
        Chore::Seeds => fuzz::write_seeds(),
        Chore::Fuzz(options) => fuzz::run(&options),
        #[cfg(target_os = "linux")]
        Chore::Torture(options) => torture::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
