//! Indexes and pivots over generated tables.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;
mod index;
mod pivot;
mod through;
