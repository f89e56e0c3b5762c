//! The project's development tasks: checks and packages. What needs the product itself is in `tools`, and started from here.

#![forbid(unsafe_code)]

mod api;
mod bpf;
mod ci;
mod dependencies;
mod dist;
mod fuzz;
mod layers;
mod msrv;
mod python;
mod skips;
mod snapshots;
mod systems;
mod tools;
mod ui;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tools::Arguments;

/// The project's development tasks.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run the checks that a change must pass, cheapest first; with `--all` all that there are.
    Ci(ci::Options),
    /// Check the structure: layers of crates, directions of imports, `unsafe`, and examples of public modules.
    Layers,
    /// Compare the public API of the libraries with the text in xtask/api, or write it.
    Api(api::Options),
    /// Check the licences, sources, Rust versions and use of dependencies.
    Dependencies,
    /// Build the Debian package and the tarball in target/dist.
    Dist(dist::Options),
    /// Build the programs that trace the Linux kernel, or check that the committed ones match the source.
    Bpf(bpf::Options),
    /// Write a generated trace.
    #[command(disable_help_flag = true)]
    Generate(Arguments),
    /// Compare our output with the results of independent readers.
    #[command(disable_help_flag = true)]
    Peers(Arguments),
    /// Write docs/coverage.md: the decoded share of each real trace.
    #[command(disable_help_flag = true)]
    Coverage(Arguments),
    /// Build and type-check the page of `etw view`, or check that the committed one is what its source gives.
    Ui(ui::Options),
    /// Build the Python package, and run its checks and tests.
    Python(python::Options),
    /// Build programs for Windows and run them under Wine, where they use OpenETW.
    #[command(disable_help_flag = true)]
    Wine(Arguments),
    /// Build `etw-sql`, run its tests, and compare its answers with those of DuckDB.
    Sql(workspace::SqlOptions),
    /// Write docs/header.md from the declarations of the header's fields.
    #[command(disable_help_flag = true)]
    Header(Arguments),
    /// Write docs/tables.md from the declarations of the tables.
    #[command(disable_help_flag = true)]
    Tables(Arguments),
    /// Write or check docs/wpa-tables.md: which tables and columns of published profiles of Windows Performance Analyzer
    /// are here.
    #[command(disable_help_flag = true)]
    WpaTables(Arguments),
    /// Write the pack of Windows' schemas from the public collections, or check that it is what they give.
    #[command(disable_help_flag = true)]
    Schemas(Arguments),
    /// Write or check the table in docs/tools/wprp.md: the part of each published recording profile that Linux records.
    #[command(disable_help_flag = true)]
    Profiles(Arguments),
    /// Measure performance and compare it with other tools.
    #[command(disable_help_flag = true)]
    Bench(Arguments),
    /// Write the fuzzing seeds to fuzz/seeds.
    Seeds,
    /// Fuzz the parsers of untrusted bytes with cargo-fuzz.
    Fuzz(fuzz::Options),
    /// Kill writers at random instants, thousands of times, and account for every event.
    #[command(disable_help_flag = true)]
    Torture(Arguments),
}

fn main() -> ExitCode {
    shell::finish(match Cli::parse().chore {
        Chore::Ci(options) => ci::run(&options),
        Chore::Layers => layers::check(),
        Chore::Api(options) => api::run(&options),
        Chore::Dependencies => dependencies::check(),
        Chore::Dist(options) => dist::run(&options),
        Chore::Bpf(options) => bpf::run(&options),
        Chore::Generate(arguments) => arguments.run("bench", "dev", &["generate"]),
        Chore::Peers(arguments) => arguments.run_beside("peers"),
        Chore::Coverage(arguments) => arguments.run("pages", "dev", &["coverage"]),
        Chore::Ui(options) => ui::run(&options),
        Chore::Python(options) => python::run(&options),
        Chore::Wine(arguments) => arguments.run_beside("wine"),
        Chore::Sql(options) => workspace::sql(&options),
        Chore::Header(arguments) => arguments.run("pages", "dev", &["header"]),
        Chore::Tables(arguments) => arguments.run("pages", "dev", &["tables"]),
        Chore::WpaTables(arguments) => arguments.run("pages", "dev", &["wpa-tables"]),
        Chore::Schemas(arguments) => arguments.run("schemas", "dev", &[]),
        Chore::Profiles(arguments) => arguments.run("pages", "dev", &["profiles"]),
        Chore::Bench(arguments) => arguments.bench(),
        Chore::Seeds => fuzz::write_seeds(),
        Chore::Fuzz(options) => fuzz::run(&options),
        // What the optimizer reorders is part of the test.
        Chore::Torture(arguments) => arguments.run("torture", "release", &[]),
    })
}
