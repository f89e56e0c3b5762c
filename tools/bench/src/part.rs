//! The processes that a bench starts.

use anyhow::Result;
use clap::Subcommand;

use super::{kernel, large_pdb, session, write};

/// A process of a bench, for internal use.
#[derive(Subcommand)]
pub(crate) enum Part {
    /// Serves an instance until its input ends.
    Host,
    /// Writes events.
    Writer(session::writer::Options),
    /// Reads a session until it ends.
    Consumer(session::consumer::Options),
    /// Writes events whose instructions are counted.
    Count(write::instructions::Options),
    /// Looks up addresses in a large PDB.
    LargePdb(large_pdb::Options),
    /// Runs a traced load.
    Load(kernel::load::Options),
}

impl Part {
    /// Runs the process.
    pub(crate) fn run(&self) -> Result<()> {
        match self {
            Part::Host => session::host::run(),
            Part::Writer(options) => session::writer::run(options),
            Part::Consumer(options) => session::consumer::run(options),
            Part::Count(options) => write::instructions::run(options),
            Part::LargePdb(options) => large_pdb::part(options),
            Part::Load(options) => kernel::load::run(options),
        }
    }
}
