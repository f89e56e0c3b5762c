//! Systems without tracepoints.

use anyhow::Result;
use openetw::schema::Provider;
#[cfg(windows)]
use openetw::session::EnableBuilder;

use super::pattern_text;
use crate::UsageError;

/// Fails if the string names tracepoints ([`UsageError`]).
///
/// # Errors
///
/// Fails if the string names tracepoints.
pub fn find(text: &str) -> Result<Option<Provider>> {
    pattern_text(text).map_or(Ok(None), |_| Err(none()))
}

/// Fails if the string names tracepoints.
///
/// # Errors
///
/// As [`find`].
pub fn list(text: &str) -> Result<Option<Vec<String>>> {
    pattern_text(text).map_or(Ok(None), |_| Err(none()))
}

/// Fails.
#[cfg(windows)]
pub(crate) fn wanted(_: &[(&str, Option<&str>)]) -> Result<EnableBuilder> {
    Err(none())
}

fn none() -> anyhow::Error {
    UsageError("only Linux has tracepoints".to_owned()).into()
}
