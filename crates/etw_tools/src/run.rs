//! How tools whose command line is options run.

use std::process::ExitCode;

use anyhow::Result;
use etw_app::output;
use etw_app::status::{Failed, code};

use crate::options::Options;

/// Runs a tool whose command line is options: the help if that is asked for or nothing is, else what `act` does.
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
    // What was found before a failure is shown all the same.
    output::open(None)?.write_all(&out)?;
    result.map(|()| ExitCode::SUCCESS)
}

/// Fails for an option that makes no sense here, with what to do instead.
pub(crate) fn refuse(refusal: Option<(&str, &str)>) -> Result<()> {
    refusal.map_or(Ok(()), |(name, instead)| {
        Err(Failed::new(code::NOT_SUPPORTED, format!("-{name}: {instead}")).into())
    })
}
