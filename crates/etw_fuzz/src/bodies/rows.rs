//! Fuzz body for the tables of whole traces.

use std::hint::black_box;

use etw_columns::IndexWriter;
use etw_event::classes;
use etw_symbols::Symbolizer;
use etw_tables::{EventKinds, RowTables};

use super::consumer::open;

/// Fills the tables of a trace and those of its kinds of events. Each event has a row.
pub fn row_tables(bytes: &[u8]) {
    let Ok(mut trace) = open(bytes) else { return };
    let mut kinds = EventKinds::default();
    let (Ok(overview), Ok(())) = (trace.overview(), trace.for_each_event(|event| kinds.add(event))) else {
        return;
    };
    let of_kinds = kinds.tables();
    let tables =
        RowTables::new(IndexWriter::in_memory()).and_then(|tables| tables.of_events(of_kinds.clone()));
    let (Ok(stacks), Ok(mut tables)) = (trace.stacks(), tables) else { return };
    tables.add_traces(&trace, &overview);
    let (mut events, mut without_stacks) = (0, 0);
    let read = trace.for_each_event(|event| {
        tables.add(event, &stacks.of(event.record));
        events += 1;
        without_stacks += u64::from(event.record.provider_id() != classes::STACK_WALK);
    });
    if read.is_err() {
        return;
    }
    tables.add_losses(trace.statistics());
    let index = tables.finish(&Symbolizer::new()).unwrap_or_else(|error| panic!("{error}"));
    index.verify().unwrap_or_else(|error| panic!("{error}"));
    let rows = |name: &str| index.table(name).map_or(0, |table| table.rows());
    assert_eq!(rows("events"), without_stacks);
    assert_eq!(of_kinds.iter().map(etw_tables::EventTable::events).sum::<u64>(), events);
    black_box(index);
}
