//! Values that are made once.

use std::sync::OnceLock;

use anyhow::Result;

/// A value that is made once, or the text of the error.
pub(crate) type Once<T> = OnceLock<Result<T, String>>;

/// Returns a value that is made once.
pub(crate) fn once<T>(cell: &Once<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    cell.get_or_init(|| make().map_err(|error| etw_app::output::with_causes(&error)))
        .as_ref()
        .map_err(|text| anyhow::anyhow!("{text}"))
}
