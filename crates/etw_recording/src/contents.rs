//! Data embedded in a recording to make it readable elsewhere: schemas of events that are not self-describing, the
//! processes, and the names of the functions of the kernel and of JIT compilers whose addresses it contains.
//!
//! The data is appended in further buffers that any reader understands: schemas as the Windows merge step writes them,
//! processes as the kernel's rundown writes them, functions as TraceLogging events.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use etw_consumer::{ProcessTable, Schemas, Trace, TraceError};
use etw_controller::ProcessStatus;
use etw_etl::encode::RecordBuilder;
use etw_etl::{BufferFlags, BufferHeader, BufferState, BufferType, EtlFile, OpenError};
use etw_event::{ClockType, HookId, PointerSize, Ticks, classes};
use etw_kernel_events::ids;
use etw_machine::{KernelAddresses, UserAddresses};
use etw_relog::EmbeddedSchemas;
use etw_symbols::KernelSymbols;

#[cfg(target_os = "linux")]
use super::jit::{self, JitClock};
#[cfg(target_os = "linux")]
use super::private_files;

/// Hook id of Process/DCEnd: a process that ran at the end of the recording, or that the recording saw.
const PROCESS_DC_END: HookId = ids::Process::DC_END.hook_id();
/// Hook id of EventTrace/BuildInfo: the recorded system.
const BUILD_INFO: HookId = ids::EventTrace::BUILD_INFO.hook_id();
/// Bytes of the file that contain its header, since the first buffer is no larger than the largest session buffer.
const MAX_HEADER_BYTES: u64 = 16 << 20;
/// Offset in the file of the number of buffers (`BuffersWritten`), for both layouts of the log file header.
const BUFFERS_WRITTEN: u64 = 0x48 + 0x20 + 0x24;

/// The reason why nothing was added to a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The file could not be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is not a trace.
    #[error(transparent)]
    NotATrace(#[from] OpenError),
}

/// Processes by their ids.
pub type Processes = BTreeMap<u32, ProcessStatus>;

/// The contents of a file, and the data that its reader needs.
#[derive(Debug, Default)]
pub struct Contents {
    /// Number of provider events.
    pub events: u64,
    /// Events lost, according to the file's header.
    pub events_lost: u64,
    /// Buffers lost, according to the file's header.
    pub buffers_lost: u64,
    /// Process ids of the events.
    process_ids: BTreeSet<u32>,
    /// Descriptions of its events.
    descriptions: Vec<RecordBuilder>,
    /// Kernel addresses in the file.
    kernel: KernelAddresses,
    /// Addresses of programs in the file.
    user: UserAddresses,
    /// Whether the kernel recorded its system.
    has_build: bool,
    #[cfg_attr(windows, expect(dead_code, reason = "functions of JIT compilers are not looked up"))]
    clock_type: ClockType,
    /// The session's start.
    #[cfg_attr(windows, expect(dead_code, reason = "functions of JIT compilers are not looked up"))]
    first: Ticks,
    /// Time of the last record.
    last: Ticks,
}

impl Contents {
    /// Counts the events of a file and collects the data needed to read it elsewhere.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub fn of_file(path: &Path, schemas: &Schemas) -> Result<Contents, TraceError> {
        let mut trace = Trace::builder().file(path).schemas(schemas).open()?;
        let (first, clock_type) = trace
            .headers()
            .first()
            .map_or_else(Default::default, |header| (header.anchor, header.clock_type()));
        let mut found = Contents { first, last: first, clock_type, ..Contents::default() };
        let mut embedded = EmbeddedSchemas::new();
        let mut last_process = u32::MAX;
        trace.for_each_schema(|event| {
            let record = event.record;
            found.last = found.last.max(record.raw_time());
            if record.provider_id() == classes::EVENT_TRACE {
                found.has_build |= record.hook_id() == Some(BUILD_INFO);
                return;
            }
            found.events += 1;
            found.kernel.add(record);
            found.user.add(record);
            // Consecutive events often share a process, which skips most insertions.
            if let Some(process) = record.process_id()
                && process != last_process
            {
                last_process = process;
                found.process_ids.insert(process);
            }
            found.descriptions.extend(embedded.describe(record, event.schema));
        })?;
        let statistics = trace.statistics();
        (found.events_lost, found.buffers_lost) = (statistics.events_lost(), statistics.buffers_lost());
        Ok(found)
    }

    /// Appends to the file what its reader needs: schemas, the processes that wrote the events, names of functions.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or written.
    pub fn embed(&self, path: &Path, processes: &Processes) -> Result<(), EmbedError> {
        let seen = self.process_ids.iter().filter_map(|id| processes.get(id));
        let build = if self.has_build { None } else { build_record() };
        let records = build.into_iter().chain(seen.map(process_record));
        let records = records.chain(self.descriptions.iter().cloned());
        let functions = match self.kernel.is_empty() {
            true => Vec::new(),
            // Without permission to read kernel addresses, function names are left out.
            false => {
                KernelSymbols::of_this_machine().map_or(Vec::new(), |symbols| self.kernel.records(&symbols))
            }
        };
        let records = records.chain(functions);
        // A description that exceeds the record size is left out; its events are then shown without a schema.
        let records: Vec<_> = records.filter_map(|record| record.time(self.last).build().ok()).collect();
        #[cfg(target_os = "linux")]
        if self.user.processes().next().is_some() {
            let clock = JitClock::new(self.clock_type, self.first, self.last);
            let functions = jit::functions(&self.user, &clock);
            append_records(path, BufferType::RUNDOWN, self.last, |max_bytes| {
                let functions = functions.iter();
                functions.filter_map(|(time, function)| function.fitting_record(*time, max_bytes)).collect()
            })?;
        }
        #[cfg(target_os = "linux")]
        append_records(path, BufferType::GENERIC, self.last, |max_bytes| {
            let names = private_files::names(&self.user, max_bytes);
            names.into_iter().filter_map(|record| record.time(self.last).build().ok()).collect()
        })?;
        append_records(path, BufferType::GENERIC, self.last, |_| records)
    }
}

/// Returns the kernel's event for a process (`Process_V4_TypeGroup1`).
fn process_record(process: &ProcessStatus) -> RecordBuilder {
    let name = ProcessTable::image_name(&process.image);
    let wide = |text: &str| text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let payload = [
        // UniqueProcessKey, ProcessId, ParentId, SessionId, ExitStatus (still active), DirectoryTableBase, Flags.
        &0u64.to_le_bytes()[..],
        &process.pid.to_le_bytes(),
        &process.parent_pid.to_le_bytes(),
        &0u32.to_le_bytes(),
        &259u32.to_le_bytes(),
        &0u64.to_le_bytes(),
        &0u32.to_le_bytes(),
        // No user SID.
        &0u32.to_le_bytes(),
        name.as_bytes(),
        b"\0",
        &wide(&process.command_line),
        // PackageFullName, ApplicationId.
        &wide(""),
        &wide(""),
    ];
    RecordBuilder::system(PointerSize::Eight, PROCESS_DC_END, 4)
        .process(process.pid, u32::MAX)
        .payload(&payload.concat())
}

/// Returns the kernel's event for the system (`Header_BuildInfo_TypeGroup`), as in the kernel's own recordings.
fn build_record() -> Option<RecordBuilder> {
    let mut build = std::fs::read("/proc/version").ok()?.trim_ascii_end().to_vec();
    build.push(0);
    Some(
        RecordBuilder::system(PointerSize::Eight, BUILD_INFO, 2)
            .process(std::process::id(), u32::MAX)
            .payload(&build),
    )
}

/// Appends records to a trace file in separate buffers, given the maximum size of a record.
///
/// Records of one type of buffer are in the order of time.
fn append_records(
    path: &Path,
    buffer_type: BufferType,
    time: Ticks,
    records: impl FnOnce(usize) -> Vec<Vec<u8>>,
) -> Result<(), EmbedError> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut head = Vec::new();
    (&mut file).take(MAX_HEADER_BYTES).read_to_end(&mut head)?;
    let trace = EtlFile::open(&head)?;
    let size = trace.header().buffer_size as usize;
    let max_bytes = size.saturating_sub(BufferHeader::LEN_BYTES);
    let records = records(max_bytes);
    if records.is_empty() {
        return Ok(());
    }
    let first = BufferHeader::parse(&head).unwrap_or_default();
    let end = file.metadata()?.len().next_multiple_of(size as u64);
    file.seek(SeekFrom::Start(end))?;
    let mut buffers: Vec<Vec<u8>> = Vec::new();
    for record in &records {
        let needed = record.len().next_multiple_of(8);
        if needed > max_bytes {
            continue;
        }
        match buffers.last_mut() {
            Some(buffer) if buffer.len() + needed <= size => buffer.extend_from_slice(record),
            _ => buffers.push([&[0; BufferHeader::LEN_BYTES][..], record].concat()),
        }
        if let Some(buffer) = buffers.last_mut() {
            buffer.resize(buffer.len().next_multiple_of(8), 0);
        }
    }
    let written = u64::from(trace.header().buffers_written);
    for (buffer, number) in buffers.iter_mut().zip(1..) {
        let used = buffer.len() as u32;
        let header = BufferHeader {
            buffer_size: size as u32,
            saved_offset: used,
            current_offset: used,
            offset: used,
            time_stamp: time,
            sequence_number: i64::try_from(written).unwrap_or(0) + number,
            logger_id: first.logger_id,
            state: BufferState::FLUSH,
            buffer_flag: BufferFlags::PROC_INDEX.union(BufferFlags::FLUSH_MARKER),
            buffer_type,
            ..BufferHeader::default()
        };
        buffer[..BufferHeader::LEN_BYTES].copy_from_slice(&header.to_bytes());
        buffer.resize(size, 0xFF);
    }
    if let Err(error) = buffers.iter().try_for_each(|buffer| file.write_all(buffer)) {
        // A partly written buffer would be damage.
        let _ = file.set_len(end);
        return Err(error.into());
    }
    let count = trace.header().buffers_written.saturating_add(buffers.len() as u32);
    file.seek(SeekFrom::Start(BUFFERS_WRITTEN))?;
    file.write_all(&count.to_le_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use etw_etl::{EtlWriter, WriterOptions};
    use etw_event::{Clock, EventDescriptor, FileTime, Guid};

    use super::*;

    /// Microsoft-Windows-Kernel-Process, whose schemas are built in.
    const PROVIDER: Guid = Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);

    #[test]
    fn a_file_takes_its_schemas_and_processes_along() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.etl");
        let clock = Clock::new(ClockType::Qpc, Ticks(1000), FileTime(132_760_000_000_000_000), 10_000_000);
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = EtlWriter::new(file, WriterOptions::new(clock, 4096, 2)).unwrap();
        for (time, process) in [(2000, 4711), (3000, 4712), (4000, 4711)] {
            let descriptor = EventDescriptor { id: 2, version: 1, ..EventDescriptor::default() };
            let record = RecordBuilder::event(PointerSize::Eight, PROVIDER, &descriptor);
            let record = record.time(Ticks(time)).process(process, 1).payload(&[0; 96]).build().unwrap();
            writer.write((time / 1000 % 2) as u16, &record).unwrap();
        }
        writer.finish(FileTime(0)).unwrap();
        let process = |pid: u32, image: &str| {
            let command_line = format!("{image} --option");
            (pid, ProcessStatus { pid, parent_pid: 1, image: image.to_owned(), command_line })
        };
        let processes = [process(4711, "/usr/bin/app"), process(4713, "/usr/bin/other")].into();
        let contents = Contents::of_file(&path, &Schemas::new()).unwrap();
        assert_eq!((contents.events, contents.events_lost), (3, 0));
        contents.embed(&path, &processes).unwrap();

        // The reader knows only the file.
        let mut trace = Trace::builder().file(&path).schemas(&Schemas::empty());
        trace = trace.process_names(true);
        let mut trace = trace.open().unwrap();
        let mut seen = Vec::new();
        trace
            .for_each_event(|event| {
                if event.record.provider_id() == PROVIDER {
                    let name = event.properties.as_ref().ok().map(|properties| properties.len());
                    seen.push((name.is_some_and(|count| count > 3), event.process.map(str::to_owned)));
                }
            })
            .unwrap();
        assert_eq!(trace.statistics().damage, []);
        assert_eq!(trace.statistics().inversions, 0);
        assert_eq!(seen.len(), 3);
        assert!(seen.iter().all(|(decoded, _)| *decoded), "{seen:?}");
        drop(trace);
        let mut trace = Trace::builder().file(&path).process_names(true).open().unwrap();
        assert_eq!(trace.headers()[0].buffers_written, 4);
        let processes = trace.processes().unwrap();
        assert_eq!(processes.name(0, 4711, FileTime(0)), Some("app"));
        assert_eq!(processes.name(0, 4713, FileTime(0)), None, "it has no events in the trace");
        let mut lines = Vec::new();
        trace
            .for_each_event(|event| {
                if event.record.hook_id() == Some(PROCESS_DC_END) {
                    lines.push((
                        event.get::<u32>("ProcessId").unwrap(),
                        event.get::<String>("CommandLine").unwrap(),
                    ));
                    assert!(event.properties.as_ref().unwrap().error().is_none());
                }
            })
            .unwrap();
        assert_eq!(lines, [(4711, "/usr/bin/app --option".to_owned())]);
    }
}
