//! Statistics of one trace file, for `etw info`.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use openetw::etl::{BufferRef, Damage, EtlFile, Loss, Records, loss_of};
use openetw::schema::{CompiledSchema, Located, Observed, Resolver};
use openetw::{EventDescriptor, FileTime, Guid, HeaderKind, PartLosses, Record, Ticks};

use openetw::schema::Names;

use crate::machine::Machine;

/// Damaged places kept in the list; further ones are only counted.
const MAX_DAMAGE: usize = 10_000;

/// Kinds of events counted separately; further ones are counted together.
const MAX_KINDS: usize = 1 << 16;
/// Limit of the approximate size of these kinds' schemas, since a crafted trace can put thousands of properties in each
/// event.
pub const MAX_SCHEMA_BYTES: usize = 64 << 20;

/// The statistics of a file.
#[derive(Debug, Default)]
pub struct Survey {
    /// Records, including the one of the log file header.
    pub records: u64,
    /// Records whose payload is decoded completely.
    pub decoded: u64,
    /// Decoded records of which something is inferred.
    pub inferred: u64,
    /// Records of which a part is decoded: the schema does not describe the rest, or the payload ends early.
    pub partial: u64,
    /// Records of which a part is decoded since the payload ends early.
    pub cut: u64,
    /// Records with a schema of which no property is decoded.
    pub opaque: u64,
    /// Buffers read.
    pub buffers: u64,
    /// Buffers read that were compressed.
    pub compressed_buffers: u64,
    /// Bytes of records, including headers.
    pub record_bytes: u64,
    /// Earliest time of a record.
    pub first: Option<Ticks>,
    /// Latest time of a record.
    pub last: Option<Ticks>,
    /// The first 10,000 damaged places, by offset.
    pub damage: Vec<Damage>,
    /// Total number of damaged places.
    pub damages: u64,
    /// Records that report losses: of events, buffers and backup files.
    pub loss_records: [u64; 3],
    /// The kinds of events, most frequent first.
    pub events: Vec<EventCount>,
    /// The machine that the trace was recorded on.
    pub machine: Machine,
    /// Schemas in the trace that could not be read.
    pub schema_problems: Vec<String>,
    /// What the file lost.
    pub losses: PartLosses,
}

/// The events of one kind.
#[derive(Debug, Clone)]
pub struct EventCount {
    /// Name of the provider, if known.
    pub provider: Option<String>,
    /// GUID of the provider.
    pub guid: Guid,
    /// GUID of the class, for classic events.
    pub event_guid: Option<Guid>,
    /// The event descriptor.
    pub descriptor: EventDescriptor,
    /// Name of the event.
    pub name: String,
    /// Number of events.
    pub count: u64,
    /// Events whose payload is decoded completely.
    pub decoded: u64,
    /// Bytes of their records, including headers.
    pub bytes: u64,
    /// Events whose payload is shorter than the schema.
    pub cut: u64,
    /// Source of the schema, or why the event could not be decoded.
    pub decoding: Result<&'static str, String>,
}

/// The key that distinguishes kinds of events while counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Kind {
    guid: Guid,
    id: u16,
    version: u8,
    opcode: u8,
    header: HeaderKind,
    schema: usize,
}

/// Adds the schemas in the file to the resolver, and appends the problems found to `problems`.
///
/// Do this before decoding, since a trace may have its schemas at its end.
pub fn learn(file: &EtlFile<'_>, resolver: &mut Resolver, problems: &mut Vec<String>) {
    let mut scratch = Vec::new();
    for buffer in file.buffers().filter_map(Result::ok) {
        let data = buffer.data(&mut scratch);
        let origin = buffer.origin(file.clock(), 0);
        for record in Records::new(data.bytes, &origin, buffer.place()).filter_map(Result::ok) {
            match resolver.observe(&record) {
                Ok(Observed::Manifest { provider, problems: found, .. }) => {
                    problems.extend(
                        found.iter().map(|problem| format!("EventSource manifest of {provider}: {problem}")),
                    );
                }
                Ok(_) => {}
                Err(error) => problems.push(format!("event metadata: {error}")),
            }
        }
    }
    problems.extend(resolver.incomplete_manifests().iter().map(|manifest| {
        format!(
            "EventSource manifest of {} from process {}: {} of {} chunks",
            manifest.guid, manifest.process, manifest.chunks, manifest.of
        )
    }));
}

/// Collects the statistics of a file on `threads` threads, and calls `progress` with the bytes completed.
pub fn survey(
    file: &EtlFile<'_>,
    resolver: &Resolver,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Survey {
    let mut buffers = Vec::new();
    let mut total = Survey::default();
    for item in file.buffers() {
        match item {
            Ok(buffer) => buffers.push(buffer),
            Err(damage) => total.add_damage(damage),
        }
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new((total, HashMap::new()));
    let worker = || {
        let mut counter = Counter::new(file, resolver.clone());
        while let Some(buffer) = buffers.get(next.fetch_add(1, Ordering::Relaxed)) {
            counter.buffer(buffer);
            progress(u64::from(buffer.header.buffer_size));
        }
        if let Ok(mut done) = done.lock() {
            let (total, counts) = &mut *done;
            total.add(counter.survey);
            for (kind, count) in counter.counts {
                merge(counts, kind, count);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, 64).min(buffers.len().max(1)) {
            // If the thread cannot be started, this one does the work.
            let _ = std::thread::Builder::new().name("count".into()).spawn_scoped(scope, worker);
        }
        worker();
    });
    let (mut total, counts): (Survey, HashMap<Kind, EventCount>) = done.into_inner().unwrap_or_default();
    total.damage.sort_by_key(|damage| (damage.offset, damage.within));
    total.events = counts.into_values().collect();
    total.events.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.sort_key().cmp(&b.sort_key())));
    total
}

/// Merges kinds from different threads: they have different schemas in memory but are the same if everything shown is.
fn merge(counts: &mut HashMap<Kind, EventCount>, kind: Kind, count: EventCount) {
    let same = |other: &EventCount| {
        other.name == count.name && other.decoding == count.decoding && other.provider == count.provider
    };
    // The hash of the name distinguishes most of them.
    let mut hasher = DefaultHasher::new();
    count.name.hash(&mut hasher);
    let mut key = Kind { schema: hasher.finish() as usize, ..kind };
    while let Some(other) = counts.get_mut(&key) {
        if same(other) {
            other.count += count.count;
            other.decoded += count.decoded;
            other.bytes += count.bytes;
            other.cut += count.cut;
            return;
        }
        key.schema = key.schema.wrapping_add(1);
    }
    counts.insert(key, count);
}

/// Returns the approximate size in bytes of a schema in memory.
pub fn schema_bytes(schema: &CompiledSchema) -> usize {
    1024 + 256 * schema.schema.properties.len()
}

struct Counter<'f> {
    file: &'f EtlFile<'f>,
    resolver: Resolver,
    located: Located,
    scratch: Vec<u8>,
    survey: Survey,
    counts: HashMap<Kind, EventCount>,
    /// Keeps the schemas alive that `Kind::schema` identifies by address.
    schemas: HashMap<usize, Arc<CompiledSchema>>,
    /// Their approximate size in bytes.
    schema_bytes: usize,
}

impl<'f> Counter<'f> {
    fn new(file: &'f EtlFile<'f>, resolver: Resolver) -> Counter<'f> {
        Counter {
            file,
            resolver,
            located: Located::new(),
            scratch: Vec::new(),
            survey: Survey::default(),
            counts: HashMap::new(),
            schemas: HashMap::new(),
            schema_bytes: 0,
        }
    }

    fn buffer(&mut self, buffer: &BufferRef<'_>) {
        self.survey.buffers += 1;
        self.survey.compressed_buffers += u64::from(buffer.header.is_compressed());
        let mut scratch = std::mem::take(&mut self.scratch);
        let data = buffer.data(&mut scratch);
        if let Some(damage) = data.damage {
            self.survey.add_damage(damage);
        }
        let origin = buffer.origin(self.file.clock(), 0);
        for item in Records::new(data.bytes, &origin, buffer.place()) {
            match item {
                Ok(record) => self.record(&record),
                Err(damage) => self.survey.add_damage(damage),
            }
        }
        self.scratch = scratch;
    }

    fn record(&mut self, record: &Record<'_>) {
        let bytes = record.as_bytes().len() as u64;
        let survey = &mut self.survey;
        survey.records += 1;
        survey.record_bytes += bytes;
        let time = record.raw_time();
        survey.first = Some(survey.first.map_or(time, |first| first.min(time)));
        survey.last = Some(survey.last.map_or(time, |last| last.max(time)));
        match loss_of(record) {
            Some(Loss::Events) => survey.loss_records[0] += 1,
            Some(Loss::Buffers) => survey.loss_records[1] += 1,
            Some(_) => survey.loss_records[2] += 1,
            None => {}
        }
        let descriptor = record.descriptor();
        let resolved = self.resolver.resolve(record);
        let schema = resolved.ok();
        let mut kind = Kind {
            guid: record.provider_id(),
            id: descriptor.id,
            version: descriptor.version,
            opcode: descriptor.opcode.0,
            header: record.kind(),
            schema: schema.map_or(0, |schema| Arc::as_ptr(schema) as usize),
        };
        let (mut decoded, mut cut) = (0, 0);
        match schema.map(|schema| schema.locate(record, &mut self.located)) {
            None => {}
            Some(found) if found.is_complete() => {
                decoded = 1;
                survey.inferred += u64::from(found.inferred().is_some());
            }
            Some(found) => {
                cut = u64::from(found.error().is_some_and(|error| error.error.kind.is_cut()));
                match found.is_empty() {
                    true => survey.opaque += 1,
                    false => survey.partial += 1,
                }
            }
        }
        survey.decoded += decoded;
        survey.cut += cut;
        let is_full = self.counts.len() >= MAX_KINDS || self.schema_bytes >= MAX_SCHEMA_BYTES;
        if is_full && !self.counts.contains_key(&kind) {
            kind = Kind {
                guid: Guid::ZERO,
                id: 0,
                version: 0,
                opcode: 0,
                header: HeaderKind::Event64,
                schema: 0,
            };
        }
        if let Some(count) = self.counts.get_mut(&kind) {
            count.count += 1;
            count.decoded += decoded;
            count.bytes += bytes;
            count.cut += cut;
            return;
        }
        let (schema, reason) = match resolved {
            Ok(schema) => (Some(schema.clone()), None),
            Err(reason) => (None, Some(reason.to_string())),
        };
        let info = self.resolver.provider_info(&kind.guid);
        let names = Names::new(record, schema.as_ref().map(|schema| &*schema.schema), info.as_deref());
        let count = EventCount {
            provider: names.provider().map(str::to_owned),
            guid: names.provider_guid(),
            event_guid: names.event_guid(),
            descriptor,
            name: names.event().into_owned(),
            count: 1,
            decoded,
            bytes,
            cut,
            decoding: match (&schema, reason) {
                (Some(schema), _) => Ok(schema.schema.decoding.name()),
                (None, reason) => Err(reason.unwrap_or_default()),
            },
        };
        if let Some(schema) = schema {
            self.schema_bytes += schema_bytes(&schema);
            self.schemas.insert(kind.schema, schema);
        }
        self.counts.insert(kind, count);
    }
}

impl Survey {
    /// Adds the damage of the file that the trace was converted from: the first places, and their total number.
    pub fn add_source_damage(&mut self, damage: &[Damage], count: u64) {
        self.damages += count;
        self.damage.extend_from_slice(damage);
        self.damage.truncate(MAX_DAMAGE);
    }

    fn add_damage(&mut self, damage: Damage) {
        self.damages += 1;
        if self.damage.len() < MAX_DAMAGE {
            self.damage.push(damage);
        }
    }

    fn add(&mut self, other: Survey) {
        self.records += other.records;
        self.decoded += other.decoded;
        self.cut += other.cut;
        self.opaque += other.opaque;
        self.inferred += other.inferred;
        self.partial += other.partial;
        self.buffers += other.buffers;
        self.compressed_buffers += other.compressed_buffers;
        self.record_bytes += other.record_bytes;
        self.first = self.first.into_iter().chain(other.first).min();
        self.last = self.last.into_iter().chain(other.last).max();
        self.damages += other.damages;
        self.damage.extend(other.damage);
        self.damage.truncate(MAX_DAMAGE);
        for (sum, part) in self.loss_records.iter_mut().zip(other.loss_records) {
            *sum += part;
        }
    }

    /// Returns the reasons why the file lacks events of the session; empty if it is complete.
    pub fn gaps(&self, file: &EtlFile<'_>) -> Vec<String> {
        let mut gaps = Vec::new();
        let mut gap = |count: u64, one: &str, many: &str| match count {
            0 => {}
            1 => gaps.push(format!("1 {one}")),
            _ => gaps.push(format!("{count} {many}")),
        };
        gap(self.losses.events.into(), "event lost", "events lost");
        gap(self.losses.buffers.into(), "buffer lost", "buffers lost");
        gap(self.loss_records.iter().sum(), "loss record", "loss records");
        gap(self.damages, "damaged place", "damaged places");
        if self.losses.since_start {
            gaps.push(
                "counted since the session's start, which may be before this part of its files".to_owned(),
            );
        }
        if !file.header().is_closed() {
            gaps.push("the session did not close the file, so its losses are unknown".to_owned());
        }
        gaps
    }

    /// Returns the times of the first and the last event.
    pub fn span(&self, file: &EtlFile<'_>) -> Option<(FileTime, FileTime)> {
        let clock = file.clock();
        Some((clock.to_filetime(self.first?), clock.to_filetime(self.last?)))
    }
}

impl EventCount {
    fn sort_key(&self) -> (&Option<String>, Guid, u16, u8, u8, &str) {
        let d = &self.descriptor;
        (&self.provider, self.guid, d.id, d.version, d.opcode.0, &self.name)
    }
}
