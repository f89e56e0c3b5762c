//! The decoder of a trace's events: the resolver, and the metadata that the trace carries.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use etw_etl::EtlFile;
use etw_event::{ExtendedType, Fields, OwnedRecord, Record, classes};
use etw_schema::event_source::{MANIFEST_EVENT_ID, is_manifest_chunk};
use etw_schema::{CompiledSchema, Located, Resolver, Undecoded};

use crate::ProcessTable;
use crate::one_clock;
use crate::overview::{self, About, BufferSummary, Collected, Known, Overview};
use crate::processes::{FoundProcesses, Machines, PROCESS_EVENT_IDS, ProcessSearch, is_about_process};
use crate::unordered::{self, FileItem};

/// Limit for the bytes of records about schemas kept during the metadata scan.
const MAX_SCHEMA_BYTES: usize = 24 << 20;

/// Level 2: a record with its schema.
#[derive(Clone, Copy)]
pub struct SchemaEvent<'a> {
    /// The record.
    pub record: &'a Record<'a>,
    /// The schema, or the reason why the event has none.
    pub schema: Result<&'a CompiledSchema, &'a Undecoded>,
}

/// Decodes the events of a trace.
#[derive(Debug, Clone)]
pub(crate) struct Decoder {
    pub(crate) resolver: Resolver,
    pub(crate) processes: ProcessTable,
    /// Whether the files were searched for schemas, or are not to be.
    has_schemas: bool,
    /// Whether they were searched for processes, or are not to be.
    has_processes: bool,
    /// Limit for the threads of the metadata scan.
    threads: usize,
    /// What is known of the files' buffers.
    pub(crate) overview: Known,
    /// Records about schemas dropped because of the limit.
    pub(crate) unkept_schemas: u64,
    /// Records about processes dropped because of the limit.
    unkept_processes: u64,
}

/// A search for records about schemas and about processes, if they are wanted, on several threads.
#[derive(Debug)]
pub(crate) struct Search {
    /// The resolver before the search.
    resolver: Resolver,
    schemas: bool,
    processes: Option<ProcessSearch>,
    schema_bytes: AtomicUsize,
    unkept_schemas: AtomicU64,
}

/// What a thread has found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    schemas: Vec<SchemaRecord>,
    processes: FoundProcesses,
}

/// A record about schemas.
#[derive(Debug)]
struct SchemaRecord {
    /// File, buffer, and number in the buffer.
    place: (u32, u32, u32),
    record: OwnedRecord,
}

impl Search {
    /// Checks a record of a file. Its place is the number of its buffer and its number there.
    #[inline]
    pub(crate) fn look_at(&self, record: &Record<'_>, (buffer, number): (u32, u32), found: &mut Found) {
        if may_concern(record) {
            self.look_closely(record, (record.origin().source, buffer, number), found);
        }
    }

    fn look_closely(&self, record: &Record<'_>, place: (u32, u32, u32), found: &mut Found) {
        if !is_about_schemas(record) {
            if let Some(processes) = &self.processes {
                processes.look_at(record, &self.resolver, &mut found.processes);
            }
            return;
        }
        if !self.schemas {
            return;
        }
        let len_bytes = record.as_bytes().len();
        if self.schema_bytes.fetch_add(len_bytes + 128, Ordering::Relaxed) < MAX_SCHEMA_BYTES {
            found.schemas.push(SchemaRecord { place, record: record.into() });
        } else {
            self.unkept_schemas.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Found {
    /// Adds what another thread has found.
    pub(crate) fn append(&mut self, other: Found) {
        self.schemas.extend(other.schemas);
        self.processes.append(other.processes);
    }
}

impl Decoder {
    /// Returns a decoder for the sources of these machines, whose metadata scan uses at most `threads` threads.
    pub(crate) fn new(resolver: Resolver, machines: Machines, threads: usize) -> Decoder {
        let processes = ProcessTable::new(machines);
        Decoder {
            resolver,
            processes,
            has_schemas: false,
            has_processes: false,
            threads,
            overview: None,
            unkept_schemas: 0,
            unkept_processes: 0,
        }
    }

    /// Disables the metadata scan.
    pub(crate) fn without_scan(self) -> Decoder {
        Decoder { has_schemas: true, has_processes: true, ..self }
    }

    /// Returns the schema of a record. The first record that does not describe itself triggers the metadata scan,
    /// since its schema may come later in the trace.
    #[inline]
    pub(crate) fn resolve(
        &mut self,
        record: &Record<'_>,
        files: &[EtlFile<'_>],
    ) -> Result<&CompiledSchema, &Undecoded> {
        if self.needs_scan(record) {
            self.scan(files, false);
        }
        match self.resolver.resolve(record) {
            Ok(schema) => Ok(schema),
            Err(reason) => Err(reason),
        }
    }

    /// Whether the metadata scan must run before the record can be resolved.
    #[inline]
    pub(crate) fn needs_scan(&self, record: &Record<'_>) -> bool {
        !self.has_schemas && is_described_elsewhere(record)
    }

    /// Learns from a record about schemas, and about processes if their names are wanted, for traces without a metadata
    /// scan.
    #[inline]
    pub(crate) fn observe(&mut self, record: &Record<'_>, located: &mut Located, process_names: bool) {
        if may_concern(record) {
            self.observe_closely(record, located, process_names);
        }
    }

    #[cold]
    fn observe_closely(&mut self, record: &Record<'_>, located: &mut Located, process_names: bool) {
        // With a broken blob the event has no schema; the event itself reports the reason.
        let _ = self.resolver.observe(record);
        if process_names {
            self.processes.observe(record, &mut self.resolver, located);
        }
    }

    /// Returns the number of records about processes, and of names, dropped because of the limits.
    pub(crate) fn unkept_processes(&self) -> u64 {
        self.unkept_processes + self.processes.unobserved()
    }

    /// Returns a search through all files for what is not known yet, for [`Decoder::learn`].
    pub(crate) fn search(&self, process_names: bool) -> Search {
        let processes = process_names && !self.has_processes;
        Search {
            resolver: self.resolver.clone(),
            schemas: !self.has_schemas,
            processes: processes.then(|| self.processes.search()),
            schema_bytes: AtomicUsize::new(0),
            unkept_schemas: AtomicU64::new(0),
        }
    }

    /// Scans the trace for event metadata and EventSource manifests, and for processes if their names are wanted; for each
    /// only once.
    #[cold]
    pub(crate) fn scan(&mut self, files: &[EtlFile<'_>], process_names: bool) {
        if !self.has_processes
            && let Some(names) = self.overview.as_ref().and_then(|overview| overview.process_names.clone())
        {
            self.unkept_processes = names.unkept();
            self.processes.know(&names);
            self.has_processes = true;
        }
        if self.has_schemas && (self.has_processes || !process_names) {
            return;
        }
        let mut files = files.to_vec();
        one_clock::share(files.iter_mut());
        let search = self.search(process_names);
        let threads = unordered::threads(&files).min(self.threads);
        let mut states: Vec<Found> = (0..threads).map(|_| Found::default()).collect();
        let buffers = files.iter().zip(0..).flat_map(|(file, source)| {
            let known = overview::of_file(&self.overview, source as usize);
            overview::buffers(file, known, self.scanned_buffers(process_names))
                .map(move |buffer| (file, source, buffer))
        });
        unordered::for_each_of(&files, buffers, &mut states, |found, _, met| {
            if let FileItem::Record(record, place) = met {
                search.look_at(record, place, found);
            }
            ControlFlow::Continue(())
        });
        let mut all = Found::default();
        states.into_iter().for_each(|found| all.append(found));
        self.learn(search, all);
    }

    /// Returns which buffers the metadata scan reads, of those that are known: none if the scan is done.
    pub(crate) fn scanned_buffers(
        &self,
        process_names: bool,
    ) -> impl Fn(&BufferSummary) -> bool + Send + Copy + use<> {
        let are_known = self.overview.as_ref().is_some_and(|overview| overview.process_names.is_some());
        let needs_schemas = !self.has_schemas;
        let needs_names = process_names && !self.has_processes && !are_known;
        move |buffer| needs_schemas && buffer.has_schemas || needs_names && buffer.has_processes
    }

    /// Scans the trace as [`Decoder::scan`] does, and returns what it says of the buffers.
    pub(crate) fn scan_buffers(&mut self, files: &[EtlFile<'_>]) -> Overview {
        let mut files = files.to_vec();
        one_clock::share(files.iter_mut());
        let search = self.search(true);
        let threads = unordered::threads(&files).min(self.threads).max(1);
        let mut states: Vec<(Found, Collected)> = (0..threads).map(|_| Default::default()).collect();
        unordered::for_each(&files, &mut states, |(found, collected), source, met| {
            match met {
                FileItem::Buffer(buffer) => collected.buffer(source, buffer),
                FileItem::Damage(damage) => collected.damage(source, &damage),
                FileItem::Record(record, place) => {
                    let about = about(record);
                    collected.record(record, about);
                    if about != About::Other {
                        search.look_at(record, place, found);
                    }
                }
            }
            ControlFlow::Continue(())
        });
        let mut all = Found::default();
        let mut parts = Vec::new();
        for (found, collected) in states {
            all.append(found);
            parts.push(collected);
        }
        self.learn(search, all);
        let process_names = self.processes.scanned(self.unkept_processes);
        Overview { process_names, ..Collected::join(parts, files.len()) }
    }

    /// Learns what a search through the whole trace found, unless it is known or not to be searched for.
    pub(crate) fn learn(&mut self, search: Search, found: Found) {
        let Found { mut schemas, processes } = found;
        if !self.has_schemas {
            schemas.sort_unstable_by_key(|found| found.place);
            for found in schemas {
                // With a broken blob the event has no schema; the event itself reports the reason.
                let _ = self.resolver.observe(&found.record.record());
            }
            self.unkept_schemas = search.unkept_schemas.into_inner();
            self.has_schemas = true;
        }
        if let Some(search) = search.processes
            && !self.has_processes
        {
            self.unkept_processes = self.processes.learn(search, processes, &mut self.resolver);
            self.has_processes = true;
        }
    }
}

/// Whether the record's schema may be elsewhere in the trace.
#[inline]
fn is_described_elsewhere(record: &Record<'_>) -> bool {
    !record.kind().has_hook_id() && record.extended(ExtendedType::EVENT_SCHEMA_TL).is_none()
}

#[inline]
fn about(record: &Record<'_>) -> About {
    match may_concern(record) {
        true if is_about_schemas(record) => About::Schemas,
        true if is_about_process(record) => About::Processes,
        _ => About::Other,
    }
}

/// Whether a record may be about schemas or processes; a cheap check.
#[inline]
fn may_concern(record: &Record<'_>) -> bool {
    let kind = record.kind();
    if kind.is_event_header() {
        let is_wanted = |id: u16| id == MANIFEST_EVENT_ID || PROCESS_EVENT_IDS.contains(&id);
        return record.as_bytes().u16_at(0x28).is_some_and(is_wanted);
    }
    // Of the records with hook ids, only those about processes matter.
    !kind.has_hook_id() || is_about_process(record)
}

/// Whether a record is about schemas.
#[inline]
fn is_about_schemas(record: &Record<'_>) -> bool {
    is_manifest_chunk(record)
        || (record.kind().is_classic() && record.provider_id() == classes::EVENT_METADATA)
}
