//! Files of stack tags.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use openetw::analysis::StackTags;

/// Reads files of stack tags.
///
/// # Errors
///
/// Fails if a file cannot be read or does not contain stack tags; the error names the file.
pub fn read(files: &[PathBuf]) -> Result<StackTags> {
    let mut tags = StackTags::default();
    for file in files {
        let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
        tags.add_file(&bytes).map_err(|error| anyhow!("{}: {error}", file.display()))?;
    }
    Ok(tags)
}
