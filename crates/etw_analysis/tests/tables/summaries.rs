//! The declared tables of a report, whose rows are counted as they come, are the pivots over the tables of an index.

use etw_analysis::{Analysis, ReportOptions, TableKind};
use etw_columns::IndexWriter;
use etw_consumer::Trace;
use etw_machine::{Duration, Machines, ProcessFilter, Window};
use etw_symbols::Symbolizer;
use etw_tables::{Cell, RowTables, SummarySelection, summary_rows};

use crate::sums::random;

/// Rows in an order of their own, since rows of equal weight may come in any.
fn sorted(rows: &[Vec<Cell>]) -> Vec<String> {
    let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    rows.sort_unstable();
    rows
}

/// Compares all declared tables for a selection; returns the number of rows.
fn check(name: &str, open: impl Fn() -> Trace, processes: &ProcessFilter) -> usize {
    let mut trace = open();
    let machines = Machines::from_trace(&trace);
    let stacks = trace.stacks().unwrap();
    let mut tables = RowTables::new(IndexWriter::in_memory()).unwrap().of_machines(machines.clone());
    trace.for_each_event(|event| tables.add(event, &stacks.of(event.record))).unwrap();
    let index = tables.finish(&Symbolizer::new()).unwrap();

    let mut trace = open();
    let mut analysis = Analysis::new(Window::ALL).of_machines(machines);
    trace.for_each_event(|event| analysis.add(event)).unwrap();
    let mut options = ReportOptions::from_headers(trace.headers());
    options.processes = processes.clone();
    let report = analysis.report(&options);
    let processor_time = Duration(report.duration.0 * u64::from(options.processors));
    let selection = SummarySelection { filter: processes, start: options.start, processor_time };
    let mut rows = 0;
    for table in &report.tables {
        let TableKind::Summary(summary) = table.kind else { continue };
        let found = summary_rows(summary, &index, &selection).unwrap();
        assert_eq!(sorted(&found), sorted(&table.rows), "{name}: {} of {processes:?}", summary.name);
        rows += found.len();
    }
    rows
}

#[test]
fn real_traces() {
    let Some(traces) = etw_testkit::data::traces() else { return };
    let all = ProcessFilter::default();
    let rows = traces.iter().map(|file| check(&file.name, || Trace::open_file(&file.path).unwrap(), &all));
    let rows: usize = rows.sum();
    assert!(rows > 100, "{rows}");
}

#[test]
fn random_events_of_all_processes_and_of_some() {
    let selections = [
        ProcessFilter::default(),
        ProcessFilter { ids: vec![10], ..ProcessFilter::default() },
        ProcessFilter { threads: vec![12], ..ProcessFilter::default() },
        ProcessFilter { names: vec!["nobody".to_owned()], ..ProcessFilter::default() },
    ];
    let mut rows = [0; 4];
    for seed in 0..8 {
        for (rows, processes) in rows.iter_mut().zip(&selections) {
            let open = || random::machine(seed, random::EVENTS).trace(random::MICROS);
            *rows += check(&format!("seed {seed}"), open, processes);
        }
    }
    assert!(rows[0] > rows[1] && rows[1] > 0 && rows[2] > 0 && rows[3] == 0, "{rows:?}");
}
