//! Fuzz bodies for reading whole traces: containers, merging, events at all levels; and for filters and provider
//! strings.

use std::fmt::Display;
use std::hint::black_box;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use etw_consumer::{
    Event, IdSet, Input, InputLimits, OwnedEvent, Predicate, ProviderSpec, TimePoint, Trace, TraceError,
};
use etw_event::Guid;
use etw_nettrace::ipc::{self, HEADER_LEN_BYTES, ProviderConfig};
use etw_nettrace::{Item, TraceFile};
use etw_perf_data::{PerfData, Tracepoints};

use super::output::Writers;
use etw_testkit::traces::{self, Kind, Recipe};

/// Maximum decompressed size of a container in bytes.
const LIMITS: InputLimits = InputLimits { decompressed_bytes: 1 << 20, is_writable: false };

/// Maximum number of events read from one trace: damaged buffers may decompress to very many.
const MAX_EVENTS: u64 = 2000;

/// Filters to read a trace with; its length selects one.
const FILTERS: [&str; 5] = [
    "pid > 0",
    "not provider == x",
    "ImageName icontains e or data.Length > 4",
    "process startswith n or level < 5",
    "stack contains 0 or stack != '0xff'",
];

/// Opens a trace with process names and a limit on events.
pub(super) fn open(bytes: &[u8]) -> Result<Trace, TraceError> {
    Trace::builder().bytes("fuzz", bytes).limits(LIMITS).process_names(true).limit(MAX_EVENTS).open()
}

/// Calls a function with each event of a trace.
pub(super) fn each_event(trace: &mut Trace, mut each: impl FnMut(&Event<'_>)) {
    black_box(trace.for_each_event(|event| each(event))).ok();
}

/// The answer of a .NET runtime to a request; as text, the description of a provider for one.
pub fn dotnet_ipc(bytes: &[u8]) {
    if let Some((header, payload)) = bytes.split_first_chunk::<HEADER_LEN_BYTES>() {
        if let Err(error) = ipc::payload_len(header) {
            check_line(&error);
        }
        if let Err(error) = ipc::session(header, payload) {
            check_line(&error);
        }
    }
    if let Ok(provider) = String::from_utf8_lossy(bytes).parse::<ProviderConfig>() {
        black_box(ipc::collect_tracing(1, &[provider]));
    }
}

/// Reads a whole trace: merges, decodes with embedded schemas, filters, and writes every format.
pub fn decoded_file(bytes: &[u8]) {
    let mut trace = match open(bytes) {
        Ok(trace) => trace,
        Err(error) => {
            check_line(&error);
            return;
        }
    };
    let mut writers = Writers::new();
    let read = trace.for_each_event(|event| {
        writers.show(event);
        if let Err(reason) = event.properties {
            check_line(reason);
        }
        black_box(OwnedEvent::from(event).to_json());
    });
    black_box(read).ok();
    let statistics = trace.statistics();
    assert!(statistics.damage.len() <= 2 + bytes.len(), "{} damages", statistics.damage.len());
    for (_, damage) in &statistics.damage {
        check_line(damage);
    }
    // Stacks are collected from all records, whatever the limit is.
    let is_small = statistics.records < MAX_EVENTS;
    let stacks = Arc::new(if is_small { trace.stacks().ok() } else { None });
    if let Some(stacks) = &*stacks {
        let read = trace.for_each_record(|record| {
            black_box(stacks.of(record).addresses().fold(0, u64::wrapping_add));
        });
        black_box(read).ok();
    }
    black_box(trace.processes()).ok();
    let filter = FILTERS[bytes.len() % FILTERS.len()];
    let predicate: Predicate = filter.parse().unwrap_or_else(|error| panic!("{filter}: {error}"));
    let predicate = predicate.with_stacks(move |record, each| {
        let addresses = stacks.iter().flat_map(|stacks| stacks.of(record).addresses());
        addresses.for_each(|address| each(&format!("{address:#x}")));
    });
    let filtered =
        Trace::builder().bytes("fuzz", bytes).limits(LIMITS).only(predicate).limit(MAX_EVENTS).open();
    if let Ok(mut trace) = filtered {
        black_box(trace.for_each_record(|record| _ = black_box(record.provider_id()))).ok();
    }
}

/// Opens a `.zst`, `.gz` or `.zip`.
pub fn container(bytes: &[u8]) {
    match Input::from_bytes("fuzz", bytes.into(), &LIMITS) {
        Ok(inputs) => {
            assert!(inputs.len() <= 1 + bytes.len() / 46, "{} inputs", inputs.len());
            for input in &inputs {
                assert!(input.bytes().len() as u64 <= LIMITS.decompressed_bytes.max(bytes.len() as u64));
                check_line(&input.name());
            }
        }
        Err(error) => check_line(&error),
    }
}

/// Reads a .NET trace: every item, and then the events that it is converted to.
pub fn nettrace(bytes: &[u8]) {
    let file = match TraceFile::open(bytes) {
        Ok(file) => file,
        Err(error) => {
            check_line(&error);
            return;
        }
    };
    black_box(file.header().clock());
    let (mut items, mut count) = (file.items(), 0);
    while let Some(item) = items.next() {
        count += 1;
        assert!(count <= 2 + bytes.len(), "more items than the file has room for");
        match item {
            Item::Event(event) => {
                black_box((event.stack.addresses().count(), event.labels.count(), event.payload));
                black_box(items.definition(event.definition));
            }
            Item::Damage(damage) => check_line(&damage),
            other => _ = black_box(other),
        }
    }
    black_box(items.lost());
    decoded_file(bytes);
}

/// A file of Linux's perf: its header and records, then as a trace.
pub fn perf_data(bytes: &[u8]) {
    let file = match PerfData::open(bytes) {
        Ok(file) => file,
        Err(error) => {
            check_line(&error);
            return;
        }
    };
    file.damage().iter().for_each(|damage| check_line(damage));
    black_box(Tracepoints::read(file.features().tracing_data));
    for (count, record) in file.records().enumerate() {
        assert!(count <= bytes.len() / 8, "more records than the file has room for");
        match record {
            Ok(record) => _ = black_box((file.sample_id(&record), file.parse(&record))),
            Err(damage) => check_line(&damage),
        }
    }
    decoded_file(bytes);
}

/// Applies a filter expression to events of a few kinds.
pub fn filter(bytes: &[u8]) {
    let Some(predicate) = parse::<Predicate>(bytes) else { return };
    black_box(predicate.to_string());
    let predicate = predicate.with_stacks(|_, each| each("module!function"));
    let mut trace = Trace::builder().bytes("small", small_trace()).only(predicate).process_names(true).open();
    if let Ok(trace) = &mut trace {
        black_box(trace.for_each_record(|record| _ = black_box(record.provider_id()))).ok();
    }
}

/// Parses a provider string, and the same text as event ids, a point in time and a GUID.
pub fn provider_string(bytes: &[u8]) {
    parse::<ProviderSpec>(bytes);
    parse::<IdSet>(bytes);
    parse::<Guid>(bytes);
    if let Some(time) = parse::<TimePoint>(bytes) {
        black_box(time.resolve(traces::START));
    }
}

fn parse<T: FromStr<Err: Display>>(bytes: &[u8]) -> Option<T> {
    match std::str::from_utf8(bytes).ok()?.parse::<T>() {
        Ok(value) => Some(value),
        Err(error) => {
            black_box(error.to_string());
            None
        }
    }
}

/// Returns a trace with an event of each kind for filters.
fn small_trace() -> Arc<[u8]> {
    static SMALL: LazyLock<Arc<[u8]>> = LazyLock::new(|| {
        let recipe = Recipe { processors: 1, buffer_size: 4096, ..Recipe::new(Kind::Mixed, 12) };
        traces::bytes(&recipe).map(|(bytes, _)| bytes.into()).unwrap_or_else(|error| panic!("{error}"))
    });
    SMALL.clone()
}

/// Checks that a message is one line, whatever the input contains.
fn check_line(message: &dyn Display) {
    let text = message.to_string();
    assert!(!text.contains(char::is_control), "{text:?}");
    assert!(text.len() < 4096, "{} characters", text.len());
}
