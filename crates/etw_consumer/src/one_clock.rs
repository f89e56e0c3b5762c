//! One clock for the files of one boot of a machine.
//!
//! Each session reads the wall clock once, as its own anchor. These readings differ by microseconds, enough to
//! separate an event from what another session wrote about it. Sessions of one boot count the same performance
//! counter, so all of them use the anchor of the first one, and their raw clocks decide the order. (Observed: the four
//! files of perfview's diaghub recording, whose anchors differ by up to 36 µs.)

use etw_etl::{EtlFile, LogFileHeader};
use etw_event::{Clock, ClockType, FileTime};

/// If anchors differ by more than this, the wall clock was set between them, and each file keeps its own.
const MOST_APART_100NS: u64 = FileTime::PER_SECOND.unsigned_abs();

/// Relative precision of a measured frequency: one part in this many.
const MEASURED_DIGITS: u64 = 10_000;

/// Sets the clock of files of one boot to that of the first of them.
pub(crate) fn share<'f, 'a: 'f>(files: impl Iterator<Item = &'f mut EtlFile<'a>>) {
    let mut known: Vec<(LogFileHeader, Clock)> = Vec::new();
    for file in files {
        let clock = file.clock();
        match shared(&known, file.header(), &clock) {
            Some(first) => file.set_clock(first),
            None => known.push((file.header().clone(), clock)),
        }
    }
}

/// Returns the clock that a file shares with one of the known files, if it does.
pub(crate) fn shared(
    known: &[(LogFileHeader, Clock)],
    header: &LogFileHeader,
    clock: &Clock,
) -> Option<Clock> {
    let is_shared = |known: &LogFileHeader, first: &Clock| {
        same_counter(known, header)
            && first.to_filetime(clock.anchor).0.abs_diff(clock.start.0) <= MOST_APART_100NS
    };
    known.iter().find(|(known, first)| is_shared(known, first)).map(|(_, first)| *first)
}

/// Returns the clocks of files that are read together.
pub(crate) fn clocks(files: &mut [EtlFile<'_>]) -> Vec<Clock> {
    share(files.iter_mut());
    files.iter().map(EtlFile::clock).collect()
}

/// Whether two files are of one boot of a machine, by boot time, build of the system and number of processors. A file
/// without a boot time is of no known machine. Sessions that measure the boot time, as OpenETW's do, know it only
/// approximately.
pub(crate) fn same_boot(left: &LogFileHeader, right: &LogFileHeader) -> bool {
    let machine = |header: &LogFileHeader| (header.provider_version, header.number_of_processors);
    left.boot_time.0 != 0
        && right.boot_time.0 != 0
        && machine(left) == machine(right)
        && left.boot_time.0.abs_diff(right.boot_time.0) <= MOST_APART_100NS
}

/// Whether two files count the same performance counter. Sessions that measure its frequency know it only
/// approximately.
fn same_counter(left: &LogFileHeader, right: &LogFileHeader) -> bool {
    let frequencies = [left, right].map(|header| header.clock().frequency());
    [left, right].iter().all(|header| header.clock_type() == ClockType::Qpc)
        && same_boot(left, right)
        && frequencies[0].abs_diff(frequencies[1]) <= frequencies[0].unsigned_abs() / MEASURED_DIGITS
}
