//! Tests of whole files.

mod common;
mod real_files;
mod round_trip;
