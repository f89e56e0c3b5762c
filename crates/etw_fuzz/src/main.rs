//! Writes the seeds of all targets to `fuzz/seeds`; `cargo xtask seeds` runs it.

#![forbid(unsafe_code)]

use std::fs;
use std::io;

use etw_fuzz::{TARGETS, seeds_dir};

fn main() -> io::Result<()> {
    for target in TARGETS {
        let directory = seeds_dir().join(target.name);
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(&directory)?;
        for (name, bytes) in (target.seeds)() {
            fs::write(directory.join(name), bytes)?;
        }
    }
    Ok(())
}
