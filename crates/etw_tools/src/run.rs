//! Running of tools whose command line consists of options.

use std::process::ExitCode;

use anyhow::Result;
use etw_app::output;
use etw_app::status::{Failed, code};

use crate::options::Options;

/// Runs a tool: prints the help if it is requested or there are no options, else calls `act`.
pub(crate) fn run_options(
    options: &Options,
    help: impl FnOnce() -> String,
    act: impl FnOnce(&mut Vec<u8>) -> Result<()>,
) -> Result<ExitCode> {
    let mut out = Vec::new();
    let result = if options.asks_for_help || options.is_empty() {
        out = help().into_bytes();
        Ok(())
    } else {
        act(&mut out)
    };
    // Output from before a failure is still printed.
    output::open(None)?.write_all(&out)?;
    result.map(|()| ExitCode::SUCCESS)
}

/// Fails for an unsupported option, with an alternative.
pub(crate) fn refuse(refusal: Option<(&str, &str)>) -> Result<()> {
    refusal.map_or(Ok(()), |(name, instead)| {
        Err(Failed::new(code::NOT_SUPPORTED, format!("-{name}: {instead}")).into())
    })
}
