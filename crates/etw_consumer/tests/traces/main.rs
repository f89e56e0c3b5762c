//! Traces read, merged and filtered.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod filter_language;
mod levels;
mod overview;
mod process_names;
mod real_files;
mod stacks;
mod testing_kit;
