//! Decoding the real traces: TraceLogging to the last byte, event metadata, and the events without schema.

use std::collections::BTreeMap;

use etw_etl::{EtlFile, Records};
use etw_event::Record;
use etw_schema::{CompiledSchema, Decoding, Located, Observed, Resolver};
use etw_testkit::data;

/// Calls `each` for every record of a trace.
fn for_each_record(bytes: &[u8], mut each: impl FnMut(&Record<'_>)) {
    let file = EtlFile::open(bytes).unwrap_or_else(|error| panic!("{error}"));
    let mut scratch = Vec::new();
    for buffer in file.buffers().flatten() {
        let data = buffer.data(&mut scratch);
        let origin = buffer.origin(file.clock(), 0);
        for record in Records::new(data.bytes, &origin, buffer.place()).flatten() {
            each(&record);
        }
    }
}

#[derive(Default)]
struct Tally {
    count: u64,
    errors: u64,
    rests: u64,
    example: String,
}

#[test]
fn every_event_of_the_real_traces() {
    let Some(traces) = data::traces() else { return };
    let mut total = (0u64, 0u64);
    for trace in traces {
        let bytes = trace.read().unwrap();
        let mut resolver = Resolver::new();
        let mut metadata_events = 0;
        for_each_record(&bytes, |record| {
            let observed = resolver.observe(record).unwrap();
            metadata_events += u64::from(observed == Observed::EventMetadata);
            if let Observed::Manifest { problems, .. } = observed {
                assert_eq!(problems, [], "{}", trace.name);
            }
        });
        assert_eq!(metadata_events, trace.count_of("embedded event metadata"), "{}", trace.name);
        let mut tallies: BTreeMap<(String, String), Tally> = BTreeMap::new();
        let mut undecoded: BTreeMap<String, u64> = BTreeMap::new();
        let mut located = Located::new();
        let (mut trace_logging, mut text) = (0, String::new());
        for_each_record(&bytes, |record| {
            total.0 += 1;
            let schema = match resolver.resolve(record) {
                Ok(schema) => schema,
                Err(reason) => {
                    *undecoded.entry(reason.to_string()).or_default() += 1;
                    return;
                }
            };
            total.1 += 1;
            let event = schema.locate(record, &mut located);
            text.clear();
            for property in event.iter() {
                property.text().write_to(&mut text);
            }
            let decoding = format!("{:?}", schema.schema.decoding);
            if schema.schema.decoding == Decoding::TraceLogging {
                trace_logging += 1;
                assert!(event.error().is_none() && event.rest().is_empty(), "{}: {event:?}", schema.label());
            }
            let tally = tallies.entry((decoding, label(schema, record))).or_default();
            tally.count += 1;
            if let Some(error) = event.error() {
                tally.errors += 1;
                tally.example = error.to_string();
            } else if !event.rest().is_empty() {
                tally.rests += 1;
                tally.example = format!("{} of {} bytes left", event.rest().len(), event.payload().len());
            }
        });
        println!("{}: {metadata_events} metadata, {trace_logging} TraceLogging", trace.name);
        for ((decoding, name), tally) in tallies.iter().filter(|(_, tally)| tally.errors + tally.rests > 0) {
            println!(
                "  {decoding} {name}: {} events, {} errors, {} rests: {}",
                tally.count, tally.errors, tally.rests, tally.example
            );
        }
        for (reason, count) in &undecoded {
            println!("  {count} × {reason}");
        }
        assert_eq!(trace_logging, trace.count_of("TraceLogging"), "{}", trace.name);
    }
    println!("{} of {} records have a schema", total.1, total.0);
}

fn label(schema: &CompiledSchema, record: &Record<'_>) -> String {
    let descriptor = record.descriptor();
    format!(
        "{} id {} opcode {} v{}/{}",
        schema.label(),
        descriptor.id,
        descriptor.opcode.0,
        descriptor.version,
        schema.schema.descriptor.version
    )
}
