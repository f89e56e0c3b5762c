//! Fuzz bodies for exports of whole traces: event logs, tables, timelines.

use std::hint::black_box;
use std::io::{self, Cursor};

use etw_arrow::{ColumnFormat, ColumnsWriter};
use etw_export::{EvtxWriter, Options};
use etw_schema::Event;
use etw_symbols::Symbolizer;
use etw_timeline::{Format, Selection, Summary};

use super::consumer::{each_event, open};
use super::decoder;

/// Sizes of an event log's header and of its chunks.
const LOG_HEADER: usize = 4096;
const LOG_CHUNK: usize = 1 << 16;

/// Exports a whole trace as an event log.
pub fn evtx(bytes: &[u8]) {
    let Ok(mut trace) = open(bytes) else { return };
    let mut log = Cursor::new(Vec::new());
    let mut events = 0;
    let mut writer = EvtxWriter::new(&mut log, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    each_event(&mut trace, |event| {
        writer.put(event).unwrap_or_else(|error| panic!("{error}"));
        events += 1;
    });
    let summary = writer.finish().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(summary.records, events);
    let len = log.into_inner().len();
    assert!(len % LOG_CHUNK == LOG_HEADER && (len > LOG_HEADER) == (events > 0), "{len} bytes");
}

/// Exports a whole trace as tables of both formats; other input is a schema with a payload, as for `decoder`.
pub fn columns(bytes: &[u8]) {
    for format in [ColumnFormat::Parquet, ColumnFormat::Arrow] {
        let mut writer = ColumnsWriter::new(format, 0, |name: &str| {
            assert!(!name.contains("..") && !name.starts_with('/'), "{name}");
            Ok(io::sink())
        });
        let mut events = 0;
        let put = |event: &Event<'_>| {
            writer.put(event).unwrap_or_else(|error| panic!("{error}"));
            events += 1;
        };
        match open(bytes) {
            Ok(mut trace) => each_event(&mut trace, put),
            Err(_) => decoder::with_event(bytes, put),
        }
        let summary = writer.finish().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((summary.events, summary.files), (events, summary.tables), "{summary:?}");
    }
}

/// Exports a whole trace as a timeline in each format.
pub fn timeline(bytes: &[u8]) {
    let Ok(mut trace) = open(bytes) else { return };
    let chosen = Selection { process_ids: vec![0, 4, 100], ..Selection::default() };
    let selection = if bytes.len().is_multiple_of(2) { Selection::default() } else { chosen };
    for format in [Format::Perfetto, Format::Chrome, Format::Firefox, Format::Speedscope, Format::Pprof] {
        let mut out = Vec::new();
        let written =
            etw_timeline::write(&mut trace, format, &selection, &Symbolizer::new(), &mut out, &|_| ());
        let summary = written.unwrap_or_else(|error| panic!("{error}"));
        let Summary { switches, wakeups, samples, of_slices, instants, context, .. } = summary;
        let placed = switches + wakeups + samples + of_slices + instants + context;
        assert_eq!(placed + summary.left_out + summary.without_place, summary.events, "{format:?}");
        if ![Format::Perfetto, Format::Pprof].contains(&format)
            && let Err(error) = serde_json::from_slice::<serde_json::Value>(&out)
        {
            panic!("{format:?}: no JSON: {error}");
        }
        black_box(out);
    }
}
