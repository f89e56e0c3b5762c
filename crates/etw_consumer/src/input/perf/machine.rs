//! The machine and its kernel.

use etw_etl::WriteError;
use etw_kernel_events::classes::{
    BuildInfo, Cpu, Process, ProcessEvent, Processor, RundownComplete, Stamp, Thread, ThreadEvent,
};
use etw_perf_data::Features;

use super::write::RecordWriter;

/// `PROCESSOR_ARCHITECTURE_*` by the names of `uname -m`.
const ARCHITECTURES: [(&[u8], u16); 4] = [(b"x86_64", 9), (b"aarch64", 12), (b"i686", 0), (b"armv7l", 5)];
/// `PROCESSOR_ARCHITECTURE_UNKNOWN`.
const UNKNOWN_ARCHITECTURE: u16 = 0xFFFF;
/// Page size of most machines, which the file does not have.
const PAGE_BYTES: u32 = 4096;

/// Writes what the header says of the machine, and the idle threads.
pub(super) fn put(
    features: &Features<'_>,
    processors: u32,
    stamp: &Stamp,
    out: &mut RecordWriter,
) -> Result<(), WriteError> {
    if !features.os_release.is_empty() {
        let build = [b"Linux version ", features.os_release].concat();
        out.put_at(0, stamp, &BuildInfo { build: &build })?;
    }
    let architecture = ARCHITECTURES.iter().find(|(name, _)| *name == features.architecture);
    let cpu = Cpu {
        processors,
        memory_mib: features.memory_kib.map_or(0, |kib| u32::try_from(kib / 1024).unwrap_or(u32::MAX)),
        page_size: PAGE_BYTES,
        allocation_granularity: PAGE_BYTES,
        computer_name: features.host_name,
        architecture: architecture.map_or(UNKNOWN_ARCHITECTURE, |(_, number)| *number),
        ..Cpu::default()
    };
    out.put_at(0, stamp, &cpu)?;
    let vendor = features.processor_id.split(|byte| *byte == b',').next().unwrap_or_default();
    for index in 0..processors {
        let processor = Processor {
            index,
            name: features.processor_name,
            vendor,
            identifier: features.processor_id,
            ..Processor::default()
        };
        out.put_at(0, stamp, &processor)?;
    }
    out.put_at(0, stamp, &Process::idle(ProcessEvent::DcStart))?;
    for processor in 0..processors {
        out.put_at(0, stamp, &Thread::idle(ThreadEvent::DcStart, processor))?;
    }
    out.put_at(0, stamp, &RundownComplete)
}
