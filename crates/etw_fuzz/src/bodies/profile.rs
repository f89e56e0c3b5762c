//! Fuzz body for recording profiles.

use std::hint::black_box;

use etw_profile::{LoggingMode, ProfileFile, decode};

/// Parses a file of recording profiles, and finds and resolves each by name.
pub fn profile(bytes: &[u8]) {
    let text = decode(bytes);
    let file = match ProfileFile::parse(&text) {
        Ok(file) => file,
        Err(error) => return drop(black_box(error.to_string())),
    };
    for what in file.not_understood() {
        black_box(what.to_string());
    }
    for definition in file.profiles().iter().take(16) {
        match file.resolve(definition) {
            Ok(profile) => drop(black_box(profile)),
            Err(error) => drop(black_box(error.to_string())),
        }
        match file.find(&definition.name, LoggingMode::Memory) {
            Ok(found) => drop(black_box(found.line)),
            Err(error) => drop(black_box(error.to_string())),
        }
    }
}
