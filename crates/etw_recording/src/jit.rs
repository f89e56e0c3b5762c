//! Functions of JIT compilers, which runtimes list in files for `perf`: perf maps and jitdump files.
//!
//! A recording takes those along that its stacks lead through, since the files are gone some day, and are not on another
//! machine.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use etw_etl::encode::{JitFunction, JitSourceLine};
use etw_event::{ClockType, Ticks};
use etw_machine::UserAddresses;
use etw_symbols::jit::{JitCode, JitDump, PerfMap};
use etw_sys::clock::ClockSource;

/// Maximum number of bytes read of a file.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Maximum number of functions in a recording.
const MAX_FUNCTIONS: usize = 1 << 18;
/// The clock ticks of `/proc` per second on all current systems.
const TICKS_A_SECOND: u64 = 100;
/// Inaccuracy of the start times of processes.
const TOLERANCE: Duration = Duration::from_secs(2);

/// Converts the times of jitdump files to those of a recording.
#[derive(Debug, Clone, Copy)]
pub(super) struct JitClock {
    source: ClockSource,
    /// A reading of the session's clock and of `CLOCK_MONOTONIC` at one instant.
    now: (u64, u64),
    first: Ticks,
    last: Ticks,
}

impl JitClock {
    /// Creates a clock for a session that recorded events between two times.
    pub(super) fn new(clock_type: ClockType, first: Ticks, last: Ticks) -> JitClock {
        let source = match clock_type {
            ClockType::Qpc => ClockSource::of_performance_counter(),
            ClockType::SystemTime => ClockSource::System,
            ClockType::CpuCycle => ClockSource::Counter,
        };
        JitClock { source, now: source.beside_monotonic(), first, last }
    }

    /// Returns the session's time, limited to the recording.
    fn at(&self, monotonic_nanos: u64) -> Ticks {
        let (reading, nanos) = self.now;
        let ago = i128::from(nanos) - i128::from(monotonic_nanos);
        let ticks = i128::from(reading) - ago * i128::from(self.source.frequency()) / 1_000_000_000;
        let (first, last) = (i128::from(self.first.0), i128::from(self.last.0));
        Ticks(ticks.clamp(first, last.max(first)) as i64)
    }
}

/// Returns the functions that the stacks of a recording lead through, each with its time, in the order of time.
pub(super) fn functions(addresses: &UserAddresses, clock: &JitClock) -> Vec<(Ticks, JitFunction)> {
    let mut functions = Vec::new();
    for id in addresses.processes() {
        let process = Process::read(id);
        let mut of_process = Vec::new();
        for path in addresses.dumps(id) {
            if let Some(bytes) = process.read_file(&process.seen(path)) {
                of_process.extend(of_dump(&bytes, id, addresses, clock));
            }
        }
        // A jitdump file has the same functions, with times.
        if of_process.is_empty()
            && let Some(bytes) = process.perf_map()
        {
            let found = of_perf_map(&bytes, id, addresses).into_iter();
            of_process.extend(found.map(|function| (clock.last, function)));
        }
        of_process.truncate(MAX_FUNCTIONS - functions.len());
        functions.extend(of_process);
    }
    functions.sort_by_key(|(time, _)| *time);
    functions
}

/// Returns the functions of a jitdump file that a process has addresses in. A damaged file has those before the damage.
fn of_dump(
    bytes: &[u8],
    process_id: u32,
    addresses: &UserAddresses,
    clock: &JitClock,
) -> Vec<(Ticks, JitFunction)> {
    let Ok(dump) = JitDump::parse(bytes) else { return Vec::new() };
    let counter = dump.has_counter_times().then(|| ClockSource::Counter.beside_monotonic());
    let time_of = |code: &JitCode<'_>| match (code.time.unwrap_or(0), counter) {
        (time, None) => clock.at(time),
        (time, Some((reading, nanos))) => {
            let ago = i128::from(reading) - i128::from(time);
            let ago = ago * 1_000_000_000 / i128::from(ClockSource::Counter.frequency().max(1));
            clock.at((i128::from(nanos) - ago).max(0) as u64)
        }
    };
    let found = dump.filter(|code| addresses.has(process_id, code.address, code.end()));
    found.map(|code| (time_of(&code), function(&code, process_id, true))).take(MAX_FUNCTIONS).collect()
}

/// Returns the functions of a perf map that a process has addresses in. Of functions that overlap, the later one has
/// taken its place from the earlier one.
fn of_perf_map(bytes: &[u8], process_id: u32, addresses: &UserAddresses) -> Vec<JitFunction> {
    let mut places: BTreeMap<u64, JitCode<'_>> = BTreeMap::new();
    let found = PerfMap::new(bytes).filter(|code| addresses.has(process_id, code.address, code.end()));
    for code in found {
        while let Some((start, before)) = places.range(..code.end()).next_back()
            && before.end() > code.address
        {
            let (start, before) = (*start, *before);
            places.remove(&start);
            if start < code.address {
                places.insert(start, JitCode { len_bytes: code.address - start, ..before });
            }
            if before.end() > code.end() {
                let rest = JitCode { address: code.end(), len_bytes: before.end() - code.end(), ..before };
                places.insert(code.end(), rest);
            }
        }
        if places.len() < MAX_FUNCTIONS {
            places.insert(code.address, code);
        }
    }
    let found = places.values().filter(|code| addresses.has(process_id, code.address, code.end()));
    found.map(|code| function(code, process_id, false)).collect()
}

fn function(code: &JitCode<'_>, process_id: u32, is_load: bool) -> JitFunction {
    let mut lines: Vec<JitSourceLine> = Vec::new();
    for line in code.lines.iter() {
        let Ok(offset) = u32::try_from(line.offset) else { continue };
        let file = String::from_utf8_lossy(line.file);
        let last = lines.last();
        if last.is_some_and(|last| last.line == line.line && *last.file == *file) {
            continue;
        }
        let same = last.filter(|last| *last.file == *file).map(|last| Arc::clone(&last.file));
        let file = same.unwrap_or_else(|| Arc::from(&*file));
        lines.push(JitSourceLine { offset, line: line.line, file });
    }
    JitFunction {
        process_id,
        address: code.address,
        len_bytes: u32::try_from(code.len_bytes).unwrap_or(u32::MAX),
        name: String::from_utf8_lossy(code.name).into_owned(),
        lines,
        is_load,
    }
}

/// A process, as far as it still exists.
struct Process {
    id: u32,
    directory: PathBuf,
    /// Its effective user and its id in its own PID namespace; `None` if it has ended.
    alive: Option<(u32, u32)>,
    /// When it started; if it has ended, when the system started.
    started: SystemTime,
}

impl Process {
    fn read(id: u32) -> Process {
        let directory = PathBuf::from(format!("/proc/{id}"));
        let status = fs::read_to_string(directory.join("status")).unwrap_or_default();
        let words = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok())
        };
        let alive = words("Uid:").nth(1).zip(words("NSpid:").next_back());
        let stat = fs::read_to_string(directory.join("stat")).unwrap_or_default();
        // The name is in parentheses and may contain any character.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks: u64 = fields.split_whitespace().nth(19).and_then(|ticks| ticks.parse().ok()).unwrap_or(0);
        let started = start_of_system() + Duration::from_millis(ticks * 1000 / TICKS_A_SECOND);
        Process { id, directory, alive, started }
    }

    /// Returns the path under which this process sees a file of the other one.
    fn seen(&self, path: &str) -> PathBuf {
        match self.alive {
            Some(_) => self.directory.join("root").join(path.trim_start_matches('/')),
            None => PathBuf::from(path),
        }
    }

    /// Returns the contents of its perf map.
    fn perf_map(&self) -> Option<Vec<u8>> {
        let inner = self.alive.map_or(self.id, |(_, inner)| inner);
        let own = self.seen(&format!("/tmp/perf-{inner}.map"));
        self.read_file(&own).or_else(|| self.read_file(Path::new(&format!("/tmp/perf-{}.map", self.id))))
    }

    /// Reads a file that the process has written: one of its user, not from before its start. An earlier process with
    /// the same id may have left one.
    fn read_file(&self, path: &Path) -> Option<Vec<u8>> {
        let file = fs::symlink_metadata(path)
            .ok()
            .filter(fs::Metadata::is_file)
            .and(etw_sys::open_regular(path).ok())?;
        let metadata = file.metadata().ok()?;
        let is_of_user = self.alive.is_none_or(|(uid, _)| metadata.uid() == uid);
        if !is_of_user || metadata.modified().ok()? + TOLERANCE < self.started {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

/// Returns the time at which the system started.
fn start_of_system() -> SystemTime {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses of a process, as its events have them.
    fn addresses(process_id: u32, addresses: &[u64]) -> UserAddresses {
        let mut all = UserAddresses::default();
        addresses.iter().for_each(|address| all.insert(process_id, *address));
        all
    }

    #[test]
    fn later_functions_take_the_place_of_earlier_ones() {
        let check = |map: &str, at: &[u64], expected: &[(u64, u32, &str)]| {
            let found = of_perf_map(map.as_bytes(), 7, &addresses(7, at));
            let found: Vec<_> =
                found.iter().map(|code| (code.address, code.len_bytes, code.name.as_str())).collect();
            assert_eq!(found, expected, "{map}");
        };
        check("1000 100 a\n2000 100 b\n", &[0x1000, 0x20FF], &[(0x1000, 0x100, "a"), (0x2000, 0x100, "b")]);
        check("1000 100 a\n2000 100 b\n", &[0x2100], &[]);
        check("1000 100 a\n1000 100 b\n", &[0x1010], &[(0x1000, 0x100, "b")]);
        let in_the_middle = "1000 300 a\n1100 100 b\n";
        check(
            in_the_middle,
            &[0x1000, 0x1100, 0x1200],
            &[(0x1000, 0x100, "a"), (0x1100, 0x100, "b"), (0x1200, 0x100, "a")],
        );
        // What has no address in it does not matter.
        check(in_the_middle, &[0x1000], &[(0x1000, 0x300, "a")]);
        check("1000 300 a\n1100 100 b\n0 5000 c\n", &[0x1150], &[(0, 0x5000, "c")]);
    }

    #[test]
    fn times_are_those_of_the_session() {
        let clock = |clock_type| JitClock::new(clock_type, Ticks(0), Ticks(i64::MAX));
        let system = clock(ClockType::SystemTime);
        let (filetime, nanos) = ClockSource::System.beside_monotonic();
        let second_ago = system.at(nanos - 1_000_000_000).0;
        assert!((filetime as i64 - second_ago - 10_000_000).abs() < 10_000, "{second_ago} {filetime}");
        let qpc = clock(ClockType::Qpc);
        let (reading, nanos) = ClockSource::of_performance_counter().beside_monotonic();
        let frequency = ClockSource::of_performance_counter().frequency() as i64;
        let second_ago = qpc.at(nanos - 1_000_000_000).0;
        assert!((reading as i64 - second_ago - frequency).abs() < frequency / 1000);
        let Ticks(now) = qpc.at(nanos);
        let (before, after) = (Ticks(now - 5), Ticks(now + 5));
        assert_eq!(JitClock { first: after, ..qpc }.at(nanos), after);
        assert_eq!(JitClock { last: before, ..qpc }.at(nanos), before);
    }

    #[test]
    fn files_of_others_and_of_earlier_processes_are_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("perf-1.map");
        fs::write(&path, "10 1 f\n").unwrap();
        let own = Process::read(std::process::id());
        let (uid, _) = own.alive.unwrap();
        assert!(own.read_file(&path).is_some());
        let other = Process { alive: Some((uid + 1, 1)), ..Process::read(std::process::id()) };
        assert!(other.read_file(&path).is_none());
        fs::File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .set_modified(own.started - 2 * TOLERANCE)
            .unwrap();
        assert!(own.read_file(&path).is_none());
        assert!(own.read_file(directory.path()).is_none());
        let ended = Process::read(0);
        assert!(ended.alive.is_none() && ended.read_file(&path).is_some());
    }
}
