//! What a piece of work cost: time, processor time, and the crates that it compiled.

use std::fs;
use std::path::Path;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result};

use crate::target_dir;

/// Depth of the directories in the target directory that Cargo builds in: `debug`, `TARGET/debug`, `msrv/TARGET/debug`.
const DEPTH: u32 = 3;

/// The beginning of a piece of work.
#[derive(Debug)]
pub struct Meter {
    start: Instant,
    at: SystemTime,
    processor_seconds: f64,
}

/// What a piece of work cost.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Wall time in seconds.
    pub seconds: f64,
    /// Processor time of the programs that it ran to their ends, in seconds.
    pub processor_seconds: f64,
    /// Number of crates that were compiled: libraries, programs, tests and build scripts.
    pub crates: usize,
}

impl Meter {
    /// Begins.
    ///
    /// # Errors
    ///
    /// Fails if the system does not tell the processor time.
    pub fn start() -> Result<Meter> {
        Ok(Meter {
            start: Instant::now(),
            at: SystemTime::now(),
            processor_seconds: processor_seconds_of_children()?,
        })
    }

    /// Returns the cost since the beginning.
    ///
    /// # Errors
    ///
    /// Fails if the system does not tell the processor time.
    pub fn cost(&self) -> Result<Cost> {
        Ok(Cost {
            seconds: self.start.elapsed().as_secs_f64(),
            processor_seconds: processor_seconds_of_children()? - self.processor_seconds,
            crates: compiled_since(&target_dir(), self.at, DEPTH),
        })
    }
}

/// Returns the number of crates below a target directory that were compiled since a time.
///
/// Cargo writes the file `invoked.timestamp` in the directory of a crate's fingerprint when it begins to compile it.
fn compiled_since(directory: &Path, since: SystemTime, depth: u32) -> usize {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let mut count = 0;
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        if entry.file_name() == ".fingerprint" {
            let crates = fs::read_dir(entry.path()).into_iter().flatten().flatten();
            let began = crates.filter_map(|one| fs::metadata(one.path().join("invoked.timestamp")).ok());
            count += began.filter(|file| file.modified().is_ok_and(|at| at >= since)).count();
        } else if depth > 0 {
            count += compiled_since(&entry.path(), since, depth - 1);
        }
    }
    count
}

/// Returns the processor time in seconds of this process's descendants that have ended.
///
/// # Errors
///
/// Fails if the system does not tell it.
///
/// Source: `cutime` and `cstime` of `/proc/self/stat`, proc_pid_stat(5).
pub fn processor_seconds_of_children() -> Result<f64> {
    let text = fs::read_to_string("/proc/self/stat")?;
    // The name of the program, in parentheses, may contain spaces. The state, field 3, follows it.
    let (_, fields) = text.rsplit_once(") ").context("/proc/self/stat without a name")?;
    let ticks = fields.split(' ').skip(13).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    #[test]
    fn crates_are_counted_by_when_they_began() {
        let target = tempfile::tempdir().unwrap();
        for (profile, krate) in [("debug", "old-1"), ("debug", "new-2"), ("x/debug", "new-3")] {
            let directory = target.path().join(profile).join(".fingerprint").join(krate);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("invoked.timestamp"), "").unwrap();
        }
        let now = SystemTime::now();
        let old = fs::File::options()
            .write(true)
            .open(target.path().join("debug/.fingerprint/old-1/invoked.timestamp"))
            .unwrap();
        old.set_modified(now - Duration::from_secs(100)).unwrap();
        assert_eq!(compiled_since(target.path(), now - Duration::from_secs(50), DEPTH), 2);
        assert_eq!(compiled_since(target.path(), now + Duration::from_secs(50), DEPTH), 0);
    }

    #[test]
    fn the_processor_time_of_programs_is_counted() {
        let meter = Meter::start().unwrap();
        let status =
            Command::new("sh").args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]).status();
        assert!(status.unwrap().success());
        let cost = meter.cost().unwrap();
        assert!(cost.processor_seconds > 0.0 && cost.seconds > 0.0, "{cost:?}");
    }
}
