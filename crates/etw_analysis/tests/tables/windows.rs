//! Traces written by Windows.

use etw_analysis::{Analysis, Report, ReportOptions, TableKind};
use etw_consumer::Trace;
use etw_machine::Window;
use etw_tables::{Cell, Summary};
use etw_testkit::data;

use crate::machine::{row, rows, table, text};

fn report(name: &str) -> Option<Report> {
    let trace = data::traces()?.into_iter().find(|trace| trace.name == name)?;
    let mut trace = Trace::open_file(&trace.path).unwrap();
    let mut analysis = Analysis::new(Window::ALL);
    trace.for_each_event(|event| analysis.add(event)).unwrap();
    Some(analysis.report(&ReportOptions::from_headers(trace.headers())))
}

fn sum(report: &Report, kind: TableKind, column: &str) -> u64 {
    let number = |cell: &Cell| match cell {
        Cell::Count(number) | Cell::Bytes(number) => *number,
        Cell::Duration(duration) => duration.0,
        _ => 0,
    };
    rows(report, kind).iter().map(|row| number(&row[column])).sum()
}

#[test]
fn every_trace_has_a_report() {
    let Some(traces) = data::traces() else { return };
    for trace in traces {
        let report = report(&trace.name).unwrap();
        assert_eq!(report.tables.len(), TableKind::ALL.len(), "{}", trace.name);
    }
}

#[test]
fn a_trace_with_samples_disk_faults_and_network() {
    let Some(report) = report("microsoft-perfview/net.4.5.2.x64.etl") else { return };
    // Numbers taken from a listing of its events.
    let check =
        |kind, column, expected| assert_eq!(sum(&report, kind, column), expected, "{kind:?} {column}");
    check(TableKind::Cpu, "samples", 79_528);
    check(TableKind::Threads, "samples", 79_528);
    check(TableKind::Functions, "exclusive_samples", 79_528);
    check(TableKind::Summary(Summary::DISK), "count", 1208 + 21 + 2);
    check(TableKind::Summary(Summary::DISK), "bytes", 19_564_544 + 286_720);
    check(TableKind::Summary(Summary::FAULTS), "count", 153);
    check(TableKind::Summary(Summary::FAULTS), "bytes", 2_722_816);
    check(TableKind::Summary(Summary::NETWORK), "sends", 240 + 1 + 6);
    check(TableKind::Summary(Summary::NETWORK), "sent_bytes", 11_436_388 + 201 + 1318);
    check(TableKind::Summary(Summary::NETWORK), "receives", 250 + 19 + 10);
    check(TableKind::Summary(Summary::NETWORK), "received_bytes", 80_565 + 1829 + 1200);
    let test = row(&report, TableKind::Processes, "process", &text("Test.x64.exe"));
    crate::machine::check(&test, &[("process_id", Cell::Id(3676)), ("exit_status", Cell::Number(0))]);
    // The runtime did nearly all of the program's work; most stacks were logged by keys.
    let of_test = |row: &&crate::machine::Row| {
        row["process"] == text("Test.x64.exe") && row["module"] == text("clr.dll")
    };
    let rows = rows(&report, TableKind::Functions);
    let runtime = rows.iter().find(of_test).unwrap();
    let Cell::Count(inclusive) = runtime["inclusive_samples"] else { panic!("{runtime:?}") };
    assert!(inclusive > 4900, "{inclusive}");
    // The notes report that symbols of Windows are missing.
    let notes = &table(&report, TableKind::Functions).notes;
    let missing = "ntoskrnl.exe: ntkrnlmp.pdb 724821001C1C4A03AED8C4C71C2E8D1D2 is not in the symbol path";
    assert!(notes[1].contains(missing), "{notes:?}");
}
