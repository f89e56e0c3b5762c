//! The machine of each source of a trace.

use std::sync::Arc;

use etw_etl::LogFileHeader;

use crate::one_clock;

/// The number of the machine of each source, by the number of the source. Live sessions are of a machine of their own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Machines {
    files: Arc<[u32]>,
    live: u32,
}

impl Machines {
    /// Compares the headers of files. All further sources are live sessions of this machine.
    pub(crate) fn new(files: &[LogFileHeader]) -> Machines {
        let mut firsts: Vec<(&LogFileHeader, u32)> = Vec::new();
        let mut machines = Vec::with_capacity(files.len());
        for header in files {
            let known = firsts.iter().find(|(first, _)| one_clock::same_boot(first, header));
            let machine = known.map_or(firsts.len() as u32, |(_, machine)| *machine);
            if known.is_none() {
                firsts.push((header, machine));
            }
            machines.push(machine);
        }
        Machines { files: machines.into(), live: firsts.len() as u32 }
    }

    /// Returns the number of a source's machine.
    #[inline]
    pub(crate) fn of(&self, source: u32) -> u32 {
        self.files.get(source as usize).copied().unwrap_or(self.live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_event::{Clock, FileTime};

    #[test]
    fn files_of_one_boot_share_a_machine() {
        let header = |boot_seconds: i64, build: u32, processors: u32| {
            let mut header = LogFileHeader::new(Clock::system_time(), 65_536, 8);
            header.boot_time = FileTime(boot_seconds * FileTime::PER_SECOND);
            (header.provider_version, header.number_of_processors) = (build, processors);
            header
        };
        let check = |headers: &[LogFileHeader], expected: &[u32]| {
            let machines = Machines::new(headers);
            let of: Vec<u32> = (0..headers.len() as u32).map(|source| machines.of(source)).collect();
            assert_eq!(of, expected);
        };
        check(&[header(1000, 19045, 8), header(1000, 19045, 8)], &[0, 0]);
        check(&[header(1000, 19045, 8), header(5000, 19045, 8), header(1001, 19045, 8)], &[0, 1, 0]);
        check(&[header(1000, 19045, 8), header(1000, 22621, 8), header(1000, 19045, 4)], &[0, 1, 2]);
        check(&[header(0, 19045, 8), header(0, 19045, 8)], &[0, 1]);
        let machines = Machines::new(&[header(1000, 19045, 8)]);
        assert_eq!([0, 1, 2].map(|source| machines.of(source)), [0, 1, 1], "sessions are of this machine");
    }
}
