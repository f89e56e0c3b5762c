//! The decoder of a trace's events: the resolver, and the metadata that the trace carries.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use etw_etl::EtlFile;
use etw_event::{ExtendedType, Fields, OwnedRecord, Record, classes};
use etw_schema::event_source::{MANIFEST_EVENT_ID, is_manifest_chunk};
use etw_schema::{CompiledSchema, Located, Resolver, Undecoded};

use crate::ProcessTable;
use crate::unordered::{self, Met};

/// Limit for the bytes of records about schemas and processes kept during the metadata scan.
const MAX_FOUND_BYTES: usize = 24 << 20;

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
    /// Whether the metadata scan is done or disabled.
    scanned: bool,
    /// Records about schemas and processes dropped because of the limit.
    pub(crate) unkept: u64,
}

/// A search for records about schemas and processes, on several threads.
#[derive(Debug, Default)]
pub(crate) struct Search {
    bytes_found: AtomicUsize,
    unkept: AtomicU64,
}

/// A record about schemas or processes.
#[derive(Debug)]
pub(crate) struct Found {
    /// File, buffer, and number in the buffer.
    place: (u32, u32, u32),
    record: OwnedRecord,
}

impl Search {
    /// Checks a record of a file. Its place is the number of its buffer and its number there.
    #[inline]
    pub(crate) fn look_at(&self, record: &Record<'_>, (buffer, number): (u32, u32), found: &mut Vec<Found>) {
        if may_concern(record) {
            self.look_closely(record, (record.origin().source, buffer, number), found);
        }
    }

    fn look_closely(&self, record: &Record<'_>, place: (u32, u32, u32), found: &mut Vec<Found>) {
        if !concerns(record) {
            return;
        }
        let len_bytes = record.as_bytes().len();
        if self.bytes_found.fetch_add(len_bytes + 128, Ordering::Relaxed) < MAX_FOUND_BYTES {
            found.push(Found { place, record: record.into() });
        } else {
            self.unkept.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Decoder {
    pub(crate) fn new(resolver: Resolver) -> Decoder {
        Decoder { resolver, processes: ProcessTable::default(), scanned: false, unkept: 0 }
    }

    /// Disables the metadata scan.
    pub(crate) fn without_scan(self) -> Decoder {
        Decoder { scanned: true, ..self }
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
            self.scan(files);
        }
        match self.resolver.resolve(record) {
            Ok(schema) => Ok(schema),
            Err(reason) => Err(reason),
        }
    }

    /// Whether the metadata scan must run before the record can be resolved.
    #[inline]
    pub(crate) fn needs_scan(&self, record: &Record<'_>) -> bool {
        !self.scanned && is_described_elsewhere(record)
    }

    /// Learns from a record about schemas or processes, for traces without a metadata scan.
    #[inline]
    pub(crate) fn observe(&mut self, record: &Record<'_>, located: &mut Located) {
        if may_concern(record) {
            self.observe_closely(record, located);
        }
    }

    #[cold]
    fn observe_closely(&mut self, record: &Record<'_>, located: &mut Located) {
        if concerns(record) {
            // With a broken blob the event has no schema; the event itself reports the reason.
            let _ = self.resolver.observe(record);
            self.processes.add(record, &mut self.resolver, located);
        }
    }

    /// Scans the trace for event metadata, EventSource manifests and processes; does so only once.
    #[cold]
    pub(crate) fn scan(&mut self, files: &[EtlFile<'_>]) {
        if self.scanned {
            return;
        }
        let search = Search::default();
        let mut states: Vec<Vec<Found>> = (0..unordered::threads(files)).map(|_| Vec::new()).collect();
        unordered::for_each(files, &mut states, |found, _, met| {
            if let Met::Record(record, place) = met {
                search.look_at(record, place, found);
            }
            ControlFlow::Continue(())
        });
        self.learn(search, states.into_iter().flatten().collect());
    }

    /// Learns what a search through the whole trace found. Does nothing if the scan is done or disabled.
    pub(crate) fn learn(&mut self, search: Search, mut found: Vec<Found>) {
        if std::mem::replace(&mut self.scanned, true) {
            return;
        }
        found.sort_by_key(|found| found.place);
        for found in &found {
            // With a broken blob the event has no schema; the event itself reports the reason.
            let _ = self.resolver.observe(&found.record.record());
        }
        found.sort_by_key(|found| (found.place.0, found.record.record().raw_time()));
        let mut located = Located::new();
        for found in &found {
            self.processes.add(&found.record.record(), &mut self.resolver, &mut located);
        }
        self.unkept = search.unkept.into_inner();
    }
}

/// Whether the record's schema may be elsewhere in the trace.
#[inline]
fn is_described_elsewhere(record: &Record<'_>) -> bool {
    !record.kind().has_hook_id() && record.extended(ExtendedType::EVENT_SCHEMA_TL).is_none()
}

/// Whether a record may be about schemas or processes; a cheap check before [`concerns`].
#[inline]
fn may_concern(record: &Record<'_>) -> bool {
    let kind = record.kind();
    if kind.is_event_header() {
        let is_wanted = |id: u16| id == MANIFEST_EVENT_ID || ProcessTable::CONCERNED_IDS.contains(&id);
        return record.as_bytes().u16_at(0x28).is_some_and(is_wanted);
    }
    // Of the records with hook ids, only those about processes matter.
    !kind.has_hook_id() || ProcessTable::concerns(record)
}

/// Whether a record is about schemas or processes.
#[inline]
fn concerns(record: &Record<'_>) -> bool {
    ProcessTable::concerns(record)
        || is_manifest_chunk(record)
        || (record.kind().is_classic() && record.provider_id() == classes::EVENT_METADATA)
}
