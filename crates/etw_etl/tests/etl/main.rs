//! Tests of whole files.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;
mod damage;
mod properties;
mod real_files;
mod round_trip;
