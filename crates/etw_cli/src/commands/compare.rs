//! `etw compare`.

use anyhow::Result;

use crate::args::compare::CompareArgs;

/// Runs the command; returns the exit status: 1 if a condition of `--fail-if` holds.
pub(crate) fn run(args: CompareArgs) -> Result<u8> {
    Ok(u8::from(etw_report::compare::run(&args.request()?)?))
}
