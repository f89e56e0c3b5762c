//! Merging the traces of runtimes into a recorded file.

use std::error::Error;
use std::path::{Path, PathBuf};

use etw_consumer::{InputLimits, Spooled, Trace};
use etw_event::{Clock, ClockType, FileTime, Ticks};
use etw_nettrace::TraceFile;
use etw_relog::Relogger;
use etw_sys::FileMap;
use tempfile::NamedTempFile;

use super::{DotNetError, Warn};

/// Ticks per second of the runtimes' clock on Linux, `CLOCK_MONOTONIC`.
const NANOS: i64 = 1_000_000_000;

/// Merges traces into the file that was recorded meanwhile. `clocks` are readings of the session's clock and of the
/// runtimes', at the start and at the end.
///
/// # Errors
///
/// Fails if the traces cannot be merged; the error names the files that have them.
pub(super) fn into_file(
    path: &Path,
    traces: Vec<(u32, NamedTempFile)>,
    clocks: [(u64, u64); 2],
    warn: Warn,
) -> Result<(), DotNetError> {
    merge(path, &traces, clocks, warn).map_err(|error| {
        let files = traces.into_iter().filter_map(|(id, file)| keep(path, id, file)).collect();
        DotNetError::Merge { reason: with_sources(&*error), files }
    })
}

/// Returns an error and its causes in one line.
fn with_sources(error: &dyn Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

fn merge(
    path: &Path,
    traces: &[(u32, NamedTempFile)],
    clocks: [(u64, u64); 2],
    warn: Warn,
) -> Result<(), Box<dyn Error>> {
    let session = Trace::builder().file(path).open()?;
    let session = session.headers().first().map(|header| header.clock());
    let session = session.filter(|clock| clock.clock_type == ClockType::Qpc);
    let Some(session) = session else {
        return Err("the file has another clock than the performance counter".into());
    };
    let monotonic = of_runtimes(&session, clocks);
    let mut parts = Vec::new();
    for (process_id, file) in traces {
        let name = format!("the trace of process {process_id}");
        let bytes = FileMap::new(file.as_file()).map_err(|error| format!("{name}: {error}"))?;
        // A clock with another rate is not the one that was compared with the session's.
        let clock = match TraceFile::open(&bytes) {
            Ok(trace) if trace.header().clock().frequency() != NANOS => trace.header().clock(),
            Ok(_) => monotonic,
            Err(error) => {
                warn(&format_args!("process {process_id}: no events of .NET: {error}"));
                continue;
            }
        };
        let (part, converted) = Spooled::from_nettrace(&name, &bytes, &clock, &InputLimits::default())?;
        if let Some(damage) = converted.damage.first() {
            let count = converted.damage_count;
            warn(&format_args!("process {process_id}: {count} damaged places in its trace, first {damage}"));
        }
        parts.push(part);
    }
    if parts.is_empty() {
        return Ok(());
    }
    let builder = parts.iter().fold(Trace::builder().file(path), |builder, part| builder.spooled(part));
    let merged = beside(path, "merged");
    Relogger::new().overwrite(true).write(&mut builder.open()?, &merged)?;
    std::fs::rename(&merged, path)?;
    Ok(())
}

/// Returns the runtimes' clock by readings at the start and at the end, between which rates hardly change.
fn of_runtimes(session: &Clock, clocks: [(u64, u64); 2]) -> Clock {
    let [(from, start), (to, end)] =
        clocks.map(|(ticks, nanos)| (session.to_filetime(Ticks(ticks as i64)).0, i128::from(nanos)));
    let units = i128::from(to - from);
    // Over a short time, the readings say less about the rate than its definition.
    let rate = match units < i128::from(FileTime::PER_SECOND) {
        true => NANOS,
        false => ((end - start) * i128::from(FileTime::PER_SECOND) / units) as i64,
    };
    Clock::new(ClockType::Qpc, Ticks(start as i64), FileTime(from), rate)
}

/// Keeps a trace beside the recorded file; returns its path.
fn keep(path: &Path, process_id: u32, file: NamedTempFile) -> Option<PathBuf> {
    let kept = beside(path, &format!("{process_id}.nettrace"));
    match file.persist(&kept) {
        Ok(_) => Some(kept),
        Err(error) => Some(error.file.keep().ok()?.1),
    }
}

/// Returns the path with another extension after its own.
fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{extension}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_runtimes_are_those_of_the_session() {
        // A counter of 3 GHz that runs 20 millionths too fast against its nominal rate, for a minute and a tenth of a second.
        let session =
            Clock::new(ClockType::Qpc, Ticks(1000), FileTime(134_000_000_000_000_000), 3_000_000_000);
        for seconds in [60.0, 0.1] {
            let ticks = |at: f64| 5_000_000_000 + (at * 3_000_060_000.0) as u64;
            let nanos = |at: f64| 700_000_000_000 + (at * 1e9) as u64;
            let at = |at: f64| (ticks(at), nanos(at));
            let clock = of_runtimes(&session, [at(0.0), at(seconds)]);
            for part in [0.0, 0.3, 0.5, 1.0] {
                let expected = session.to_filetime(Ticks(ticks(part * seconds) as i64)).0;
                let found = clock.to_filetime(Ticks(nanos(part * seconds) as i64)).0;
                // In a tenth of a second, both rates part by two microseconds.
                assert!(found.abs_diff(expected) <= 25, "{seconds} {part}: {found} {expected}");
            }
        }
    }
}
