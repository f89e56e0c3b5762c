//! HTTP requests of .NET programs.

use etw_analysis::{Report, TableKind};
use etw_etl::encode::{EventMetadata, RecordBuilder, provider_traits};
use etw_event::{EventDescriptor, ExtendedType, Guid, PointerSize, Ticks};
use etw_tables::{Cell, Summary};

use crate::machine::{Machine, Row, check, micros, rows, table, text};
use crate::parts::{shown, tables};

const PROCESS: u32 = 10;
const CLIENT: &str = "System.Net.Http";
const HOSTING: &str = "Microsoft.AspNetCore.Hosting";
const KESTREL: &str = "Microsoft-AspNetCore-Server-Kestrel";
/// Types of fields: UTF-16 and a signed number of 32 bits.
const TEXT: u8 = 1;
const NUMBER: u8 = 7;

enum Value<'a> {
    Text(&'a str),
    Number(i32),
}
use Value::{Number, Text};

/// Adds an event of an `EventSource`, as it is in traces of EventPipe.
fn put(
    machine: &mut Machine,
    micros: i64,
    source: &str,
    id: u16,
    activity: u128,
    fields: &[(&str, Value<'_>)],
) {
    let mut metadata = EventMetadata::new("Request");
    let mut payload = Vec::new();
    for (name, value) in fields {
        match value {
            Text(text) => {
                metadata = metadata.field(name, TEXT);
                payload.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
            }
            Number(number) => {
                metadata = metadata.field(name, NUMBER);
                payload.extend(number.to_le_bytes());
            }
        }
    }
    let descriptor = EventDescriptor { id, ..EventDescriptor::default() };
    let record = RecordBuilder::event(PointerSize::Eight, Guid::from_provider_name(source), &descriptor)
        .process(PROCESS, 10)
        .activity_id(Guid::from_u128(activity))
        .item(ExtendedType::EVENT_SCHEMA_TL, &metadata.build())
        .item(ExtendedType::PROVIDER_TRAITS, &provider_traits(source));
    machine.put_bytes(micros, 0, record.time(Ticks(micros * 10)).payload(&payload).build().unwrap());
}

fn start(machine: &mut Machine, micros: i64, activity: u128, host: &str, port: i32, path: &str) {
    let fields = [
        ("scheme", Text("https")),
        ("host", Text(host)),
        ("port", Number(port)),
        ("pathAndQuery", Text(path)),
    ];
    put(machine, micros, CLIENT, 1, activity, &fields);
}

fn row_of(report: &Report, source: &str, path: &str) -> Row {
    let is_it = |row: &Row| row["source"] == text(source) && row["path"] == text(path);
    let mut found = rows(report, TableKind::Summary(Summary::HTTP)).into_iter().filter(is_it);
    let row = found.next().unwrap_or_else(|| panic!("{source} {path}"));
    assert!(found.next().is_none());
    row
}

/// Returns a machine with requests of a client and a server.
fn requests() -> Machine {
    let mut machine = Machine::default();
    machine.there_is(PROCESS, "app");
    // A stop without a start.
    put(&mut machine, 500, CLIENT, 2, 99, &[("statusCode", Number(200))]);
    // Two at the same time, to one path with different queries; the first one is answered last.
    start(&mut machine, 1000, 1, "api.example.org", 443, "/items?id=1");
    start(&mut machine, 1100, 2, "api.example.org", 443, "/items?id=2");
    put(&mut machine, 1400, CLIENT, 2, 2, &[("statusCode", Number(200))]);
    put(&mut machine, 2000, CLIENT, 2, 1, &[("statusCode", Number(503))]);
    // One that fails, as runtimes before .NET 8 write it; one on another port, one that does not end.
    start(&mut machine, 3000, 3, "down.example.org", 8443, "/");
    put(&mut machine, 3400, CLIENT, 3, 3, &[]);
    put(&mut machine, 3500, CLIENT, 2, 3, &[]);
    start(&mut machine, 4000, 4, "api.example.org", 443, "/slow");
    // A server with both providers, and a handler that throws.
    let kestrel = [
        ("connectionId", Text("C1")),
        ("requestId", Text("C1:1")),
        ("httpVersion", Text("HTTP/1.1")),
        ("path", Text("/hello")),
        ("method", Text("GET")),
    ];
    put(&mut machine, 5000, KESTREL, 3, 50, &kestrel);
    put(&mut machine, 5010, HOSTING, 3, 51, &[("method", Text("GET")), ("path", Text("/hello"))]);
    put(&mut machine, 5200, HOSTING, 5, 51, &[]);
    put(&mut machine, 5310, HOSTING, 4, 51, &[]);
    put(&mut machine, 5400, KESTREL, 4, 50, &[]);
    // Without activities, nothing says which stop is whose.
    start(&mut machine, 6000, 0, "api.example.org", 443, "/untraced");
    put(&mut machine, 6100, CLIENT, 2, 0, &[("statusCode", Number(200))]);
    machine
}

#[test]
fn requests_are_rows() {
    let index = tables(requests());
    let columns = [
        "start_time",
        "duration",
        "process.name",
        "source",
        "method",
        "host",
        "path",
        "query",
        "status",
        "failed",
    ];
    let expected = [
        "1100 300 app client - https://api.example.org /items ?id=2 200 false",
        "1000 1000 app client - https://api.example.org /items ?id=1 503 true",
        "3000 500 app client - https://down.example.org:8443 / - - true",
        "5010 300 app ASP.NET Core GET - /hello - - true",
        "5000 400 app Kestrel GET - /hello - - false",
        "6000 - app client - https://api.example.org /untraced - - false",
        "4000 - app client - https://api.example.org /slow - - false",
    ];
    assert_eq!(shown(&index, "http", &columns), expected);
    let activity = shown(&index, "http", &["path", "activity_id"]);
    assert_eq!(activity[5], "/untraced -");
    assert_eq!(activity[6], "/slow {00000000-0000-0000-0000-000000000004}");
}

#[test]
fn requests_by_host_and_path() {
    let report = requests().report(10_000);
    assert_eq!(rows(&report, TableKind::Summary(Summary::HTTP)).len(), 6);
    let items = row_of(&report, "client", "/items");
    check(
        &items,
        &[("process", text("app")), ("host", text("https://api.example.org")), ("method", Cell::None)],
    );
    check(&items, &[("count", Cell::Count(2)), ("failed", Cell::Count(1)), ("unfinished", Cell::Count(0))]);
    check(&items, &[("time_ns", micros(1300)), ("mean_ns", micros(650)), ("max_ns", micros(1000))]);
    let down = row_of(&report, "client", "/");
    check(&down, &[("host", text("https://down.example.org:8443")), ("failed", Cell::Count(1))]);
    check(&down, &[("count", Cell::Count(1)), ("max_ns", micros(500))]);
    let slow = row_of(&report, "client", "/slow");
    check(&slow, &[("unfinished", Cell::Count(1)), ("time_ns", Cell::None), ("failed", Cell::Count(0))]);
    let hosting = row_of(&report, "ASP.NET Core", "/hello");
    check(&hosting, &[("method", text("GET")), ("host", Cell::None), ("failed", Cell::Count(1))]);
    check(&hosting, &[("time_ns", micros(300))]);
    let kestrel = row_of(&report, "Kestrel", "/hello");
    check(&kestrel, &[("method", text("GET")), ("time_ns", micros(400)), ("failed", Cell::Count(0))]);
    let untraced = row_of(&report, "client", "/untraced");
    check(&untraced, &[("count", Cell::Count(1)), ("unfinished", Cell::Count(1)), ("max_ns", Cell::None)]);
    let notes = &table(&report, TableKind::Summary(Summary::HTTP)).notes;
    assert!(notes.len() == 1 && notes[0].starts_with("1 requests have no activity id"), "{notes:?}");
}
