//! The kernel's tracing code between an event and the program that records it, which stacks of events start with.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

/// The addresses of the kernel's code that runs programs at tracepoints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TracingCode(Vec<Range<u64>>);

/// Prefixes of the names of its functions.
const NAMES: [&str; 6] = [
    "bpf_trace_run",
    "__bpf_trace_",
    "__traceiter_",
    "bpf_get_task_stack",
    "__bpf_get_task_stack",
    "__bpf_get_stack",
];

/// Number of first frames that may be tracing code. Further out, it would be what an event is about.
const FIRST_FRAMES: usize = 12;

impl TracingCode {
    /// Returns the code of the running kernel. Its symbols are read once, which takes some tens of milliseconds. If
    /// they are hidden, nothing is known, and stacks start with that code.
    pub fn of_this_boot() -> &'static TracingCode {
        static KNOWN: OnceLock<TracingCode> = OnceLock::new();
        KNOWN.get_or_init(|| TracingCode::of_symbols(Path::new("/proc/kallsyms")).unwrap_or_default())
    }

    fn of_symbols(path: &Path) -> io::Result<TracingCode> {
        let mut symbols = BufReader::with_capacity(64 * 1024, File::open(path)?);
        let mut ranges = Vec::new();
        let mut begun: Option<u64> = None;
        let mut line = String::new();
        while symbols.read_line(&mut line)? > 0 {
            let mut fields = line.split_ascii_whitespace();
            let address =
                fields.next().and_then(|address| u64::from_str_radix(address, 16).ok()).unwrap_or(0);
            let name = fields.nth(1).unwrap_or_default();
            if let Some(begin) = begun.take() {
                ranges.push(begin..address);
            }
            if NAMES.iter().any(|begin| name.starts_with(begin)) {
                begun = Some(address);
            }
            line.clear();
        }
        ranges.retain(|range| range.start < range.end);
        ranges.sort_unstable_by_key(|range| range.start);
        Ok(TracingCode(ranges))
    }

    /// Returns how many of these frames, innermost first, are tracing code.
    pub fn frames_of(&self, frames: impl Iterator<Item = u64>) -> usize {
        let of_tracing = frames.take(FIRST_FRAMES).enumerate().filter(|(_, address)| self.has(*address));
        of_tracing.last().map_or(0, |(index, _)| index + 1)
    }

    fn has(&self, address: u64) -> bool {
        let behind = self.0.partition_point(|range| range.start <= address);
        behind.checked_sub(1).is_some_and(|index| self.0[index].contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_up_to_the_event_are_those_of_tracing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kallsyms");
        let symbols = "1000 t __bpf_get_stack\n1100 T other\n2000 T bpf_trace_run2\n2100 t __traceiter_sys_enter\n\
                       2200 T do_syscall_64\n";
        std::fs::write(&path, symbols).unwrap();
        let code = TracingCode::of_symbols(&path).unwrap();
        // What lies between is the program itself, which has no symbol here.
        let check = |frames: &[u64], expected: usize| {
            assert_eq!(code.frames_of(frames.iter().copied()), expected, "{frames:x?}");
        };
        check(&[0x1010, 0x9000, 0x2010, 0x2110, 0x2210], 4);
        check(&[0x1100, 0x2200], 0);
        check(&[], 0);
        check(&[0x9000; FIRST_FRAMES], 0);
        let deep: Vec<u64> = std::iter::repeat_n(0x9000, FIRST_FRAMES).chain([0x2010]).collect();
        check(&deep, 0);
        std::fs::write(&path, symbols.replace(|digit: char| digit.is_ascii_digit(), "0")).unwrap();
        assert_eq!(TracingCode::of_symbols(&path).unwrap(), TracingCode::default(), "hidden addresses");
    }
}
