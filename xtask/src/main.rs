//! The project's development tasks: checks, generated traces, fuzzing and benches.

#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod api;
mod bench;
mod bpf;
mod ci;
mod coverage;
mod dependencies;
#[cfg(target_os = "linux")]
mod dist;
mod fuzz;
mod generate;
mod lanes;
mod layers;
mod msrv;
mod peers;
mod process;
#[cfg(target_os = "linux")]
mod profiles;
mod python;
mod random;
mod schemas;
mod shell;
mod sql;
mod systems;
#[cfg(target_os = "linux")]
mod tables;
mod torture;
mod ui;
#[cfg(target_os = "linux")]
mod wine;
#[cfg(target_os = "linux")]
mod wpa_tables;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's development tasks.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run all checks that a change must pass, cheapest first.
    Ci(ci::Options),
    /// Check the structure: layers of crates, directions of imports, `unsafe`, and examples of public modules.
    Layers,
    /// Compare the public API of the libraries with the text in xtask/api, or write it.
    #[cfg(target_os = "linux")]
    Api(api::Options),
    /// Check the licences, sources, Rust versions and use of dependencies.
    Dependencies,
    /// Build the Debian package and the tarball in target/dist.
    #[cfg(target_os = "linux")]
    Dist(dist::Options),
    /// Build the programs that trace the Linux kernel, or check that the committed ones match the source.
    Bpf(bpf::Options),
    /// Write a generated trace.
    Generate(generate::Options),
    /// Compare our output with the results of independent readers.
    Peers(peers::Options),
    /// Write docs/coverage.md: the decoded share of each real trace.
    Coverage,
    /// Build and type-check the page of `etw view`, or check that the committed one is what its source gives.
    Ui(ui::Options),
    /// Build the Python package, and run its checks and tests.
    Python(python::Options),
    /// Build programs for Windows and run them under Wine, where they use OpenETW.
    #[cfg(target_os = "linux")]
    Wine(wine::Options),
    /// Build `etw-sql`, run its tests, and compare its answers with those of DuckDB.
    Sql(sql::Options),
    /// Write docs/tables.md from the declarations of the tables.
    Tables,
    /// Write or check docs/wpa-tables.md: which tables and columns of published profiles of Windows Performance Analyzer
    /// are here.
    #[cfg(target_os = "linux")]
    WpaTables(wpa_tables::Options),
    /// Write the pack of Windows' schemas from the public collections, or check that it is what they give.
    Schemas(schemas::Options),
    /// Write or check the table in docs/tools/wprp.md: the part of each published recording profile that Linux records.
    #[cfg(target_os = "linux")]
    Profiles(profiles::Options),
    /// Measure performance and compare it with other tools.
    Bench(bench::Options),
    /// A process that a bench starts.
    #[cfg(target_os = "linux")]
    #[command(hide = true, subcommand)]
    BenchPart(bench::Part),
    /// Write the fuzzing seeds to fuzz/seeds.
    Seeds,
    /// Fuzz the parsers of untrusted bytes with cargo-fuzz.
    Fuzz(fuzz::Options),
    /// Kill writers at random instants, thousands of times, and account for every event.
    #[cfg(target_os = "linux")]
    Torture(torture::Options),
}

fn main() -> ExitCode {
    let done = match Cli::parse().chore {
        Chore::Ci(options) => ci::run(&options),
        Chore::Layers => layers::check(),
        #[cfg(target_os = "linux")]
        Chore::Api(options) => api::run(&options),
        Chore::Dependencies => dependencies::check(),
        #[cfg(target_os = "linux")]
        Chore::Dist(options) => dist::run(&options),
        Chore::Bpf(options) => bpf::run(&options),
        Chore::Generate(options) => generate::run(&options),
        Chore::Peers(options) => peers::run(&options),
        Chore::Coverage => coverage::write(),
        Chore::Ui(options) => ui::run(&options),
        Chore::Python(options) => python::run(&options),
        #[cfg(target_os = "linux")]
        Chore::Wine(options) => wine::run(&options),
        Chore::Sql(options) => sql::run(&options),
        Chore::Tables => tables::write(),
        #[cfg(target_os = "linux")]
        Chore::WpaTables(options) => wpa_tables::run(&options),
        Chore::Schemas(options) => schemas::run(&options),
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
