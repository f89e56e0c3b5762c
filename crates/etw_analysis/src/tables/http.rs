//! HTTP requests: those that .NET programs send (`System.Net.Http`), those that ASP.NET Core serves, and those of WinINet,
//! WinHTTP and HTTP.sys.
//!
//! A request of .NET has an activity of its own: its events have the same activity id.
//!
//! Source: `HttpTelemetry` in dotnet/runtime, `HostingEventSource` and `KestrelEventSource` in dotnet/aspnetcore.

use std::cmp::Reverse;

use etw_consumer::Event;
use etw_event::{FileTime, Guid};
use etw_schema::FromValue;

use super::context::Context;
use super::latency::Latencies;
use super::table::{Cell, Column, Table, TableKind, shown};
use super::windows_http::{self, Api, Request, Requests};
use crate::maps::HashMap;
use crate::processes::{ProcessIndex, Processes};
use crate::{Duration, Window};

/// Maximum number of requests that are awaited, and of rows. Further requests are counted as left out.
const MAX_REQUESTS: usize = 1 << 16;
/// First status code of errors.
const FIRST_ERROR: i64 = 400;

/// Who writes events about requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Source {
    /// The client.
    Client,
    /// The server's framework.
    Hosting,
    /// The server.
    Kestrel,
    /// A part of Windows.
    Windows(Api),
}

impl Source {
    const PROVIDERS: [(&'static str, Source); 4] = [
        ("System.Net.Http", Source::Client),
        ("Microsoft.AspNetCore.Hosting", Source::Hosting),
        // Up to ASP.NET Core 2.2.
        ("Microsoft-AspNetCore-Hosting", Source::Hosting),
        ("Microsoft-AspNetCore-Server-Kestrel", Source::Kestrel),
    ];

    fn name(self) -> &'static str {
        match self {
            Source::Client => "client",
            Source::Hosting => "ASP.NET Core",
            Source::Kestrel => "Kestrel",
            Source::Windows(Api::WinInet) => "WinINet",
            Source::Windows(Api::WinHttp) => "WinHTTP",
            Source::Windows(Api::HttpSys) => "HTTP.sys",
        }
    }

    /// Returns the ids of the events for the start, the stop and a failure; `u16::MAX` if the provider has no such event.
    fn ids(self) -> [u16; 3] {
        match self {
            Source::Client => [1, 2, 3],
            Source::Hosting => [3, 4, 5],
            Source::Kestrel => [3, 4, u16::MAX],
            Source::Windows(_) => [u16::MAX; 3],
        }
    }
}

/// What requests are counted by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    process: ProcessIndex,
    source: Source,
    method: Option<Box<str>>,
    host: Option<Box<str>>,
    path: Box<str>,
}

#[derive(Debug, Default)]
struct Sum {
    count: u64,
    failed: u64,
    finished: Latencies,
}

/// A request that has not stopped.
#[derive(Debug)]
struct Open {
    row: usize,
    start: FileTime,
    has_failed: bool,
}

/// The requests of all processes.
#[derive(Debug)]
pub(crate) struct Http {
    providers: [(Guid, Source); 4],
    by_key: HashMap<Key, usize>,
    rows: Vec<Sum>,
    open: HashMap<(ProcessIndex, Guid), Open>,
    of_windows: Requests,
    left_out: u64,
    without_activity: u64,
}

impl Http {
    pub(crate) fn new() -> Http {
        Http {
            providers: Source::PROVIDERS.map(|(name, source)| (Guid::from_provider_name(name), source)),
            by_key: HashMap::default(),
            rows: Vec::new(),
            open: HashMap::default(),
            of_windows: Requests::default(),
            left_out: 0,
            without_activity: 0,
        }
    }

    /// Adds an event if it is about a request.
    pub(crate) fn event(&mut self, event: &Event<'_>, processes: &mut Processes, window: &Window) {
        let record = event.record;
        let provider = record.provider_id();
        let Some((_, source)) = self.providers.iter().find(|(guid, _)| *guid == provider) else {
            if let Some(request) = self.of_windows.event(event, processes)
                && window.has(request.start)
            {
                self.add(&request);
            }
            return;
        };
        let (source, time) = (*source, record.time());
        let Some(process_id) = record.process_id() else { return };
        let process = processes.at(process_id);
        let activity = (process, record.activity_id().unwrap_or_default());
        let [start, stop, failure] = source.ids();
        match record.descriptor().id {
            id if id == start && window.has(time) => {
                let Some(key) = key(event, process, source) else { return };
                self.start(key, activity, time);
            }
            id if id == stop => {
                let Some(open) = self.open.remove(&activity) else { return };
                let status = get::<i64>(event, "statusCode");
                let has_failed = open.has_failed || status.is_some_and(|status| status >= FIRST_ERROR);
                if let Some(row) = self.rows.get_mut(open.row) {
                    row.failed += u64::from(has_failed);
                    row.finished.add(Duration(time.0.saturating_sub(open.start.0).max(0) as u64));
                }
            }
            id if id == failure => {
                if let Some(open) = self.open.get_mut(&activity) {
                    open.has_failed = true;
                }
            }
            _ => {}
        }
    }

    /// Counts the requests of Windows that have not ended.
    pub(crate) fn finish(&mut self, window: &Window) {
        let pending: Vec<Request> = self.of_windows.take_pending().collect();
        pending.iter().filter(|request| window.has(request.start)).for_each(|request| self.add(request));
    }

    /// Counts a request of Windows.
    fn add(&mut self, request: &Request) {
        let (host, path) = windows_http::parts(&request.url);
        let key = Key {
            process: request.process,
            source: Source::Windows(request.api),
            method: request.method.clone(),
            host: host.map(String::into_boxed_str),
            path: without_query(path),
        };
        let Some(row) = self.row(key) else { return };
        let Some(sum) = self.rows.get_mut(row) else { return };
        sum.count += 1;
        sum.failed += u64::from(request.has_failed);
        if let Some(end) = request.end {
            sum.finished.add(Duration(end.0.saturating_sub(request.start.0).max(0) as u64));
        }
    }

    /// Returns the row of requests, which is new or known; `None` if there are too many.
    fn row(&mut self, key: Key) -> Option<usize> {
        if self.rows.len() >= MAX_REQUESTS && !self.by_key.contains_key(&key) {
            self.left_out += 1;
            return None;
        }
        let row = *self.by_key.entry(key).or_insert(self.rows.len());
        if row == self.rows.len() {
            self.rows.push(Sum::default());
        }
        Some(row)
    }

    fn start(&mut self, key: Key, activity: (ProcessIndex, Guid), start: FileTime) {
        let Some(row) = self.row(key) else { return };
        if let Some(sum) = self.rows.get_mut(row) {
            sum.count += 1;
        }
        if activity.1.is_zero() {
            self.without_activity += 1;
        } else if self.open.len() < MAX_REQUESTS {
            self.open.insert(activity, Open { row, start, has_failed: false });
        }
    }

    /// Returns the table by process, method, host and path.
    pub(crate) fn table(&self, context: &Context<'_>) -> Table {
        let mut failed: HashMap<usize, u64> = HashMap::default();
        for open in self.open.values().filter(|open| open.has_failed) {
            *failed.entry(open.row).or_default() += 1;
        }
        let rows = self.by_key.iter().filter(|(key, _)| context.wants(Some(key.process)));
        let mut rows: Vec<_> =
            rows.filter_map(|(key, row)| Some((key, *row, self.rows.get(*row)?))).collect();
        rows.sort_by_key(|(key, _, sum)| (Reverse((sum.finished.sum, sum.count)), *key));
        let rows = rows.into_iter().map(|(key, row, sum)| {
            let [process, process_id] = context.process(Some(key.process));
            let times = &sum.finished;
            let of_times = |duration: Duration| Cell::duration((times.count > 0).then_some(duration));
            vec![
                process,
                process_id,
                Cell::text(Some(key.source.name())),
                Cell::text(key.method.as_deref()),
                Cell::text(key.host.as_deref()),
                Cell::text(Some(&key.path)),
                Cell::Count(sum.count),
                Cell::Count(sum.failed + failed.get(&row).copied().unwrap_or(0)),
                Cell::Count(sum.count - times.count),
                of_times(times.sum),
                of_times(Duration(times.sum.0 / times.count.max(1))),
                Cell::duration(times.quantile(0.95)),
                of_times(times.max),
            ]
        });
        let mut notes = Vec::new();
        if self.without_activity > 0 {
            notes.push(format!("{} requests have no activity id, and so no time.", self.without_activity));
        }
        if self.left_out > 0 {
            notes.push(format!("{} requests of too many paths are left out.", self.left_out));
        }
        Table { kind: TableKind::Http, columns: COLUMNS, rows: rows.collect(), notes }
    }
}

fn get<'e, T: FromValue<'e>>(event: &Event<'e>, name: &str) -> Option<T> {
    event.properties.as_ref().ok()?.try_get(name)
}

/// Returns what a request is counted by, from the event about its start.
fn key(event: &Event<'_>, process: ProcessIndex, source: Source) -> Option<Key> {
    let text = |name: &str| get::<String>(event, name);
    let path = text(if source == Source::Client { "pathAndQuery" } else { "path" })?;
    let path = without_query(&path);
    let host = text("host").map(|host| {
        let scheme = text("scheme").unwrap_or_default();
        let port = match (&*scheme, get::<i64>(event, "port")) {
            (_, None) | ("http", Some(80)) | ("https", Some(443)) => String::new(),
            (_, Some(port)) => format!(":{port}"),
        };
        format!("{scheme}://{host}{port}").into()
    });
    Some(Key { process, source, method: text("method").map(String::into_boxed_str), host, path })
}

/// Returns a path without its query, which differs from request to request.
fn without_query(path: &str) -> Box<str> {
    path.split(['?', '#']).next().unwrap_or_default().into()
}

const COLUMNS: &[Column] = &[
    shown("process", "Process"),
    shown("process_id", "PID"),
    shown("source", "By"),
    shown("method", "Method"),
    shown("host", "Host"),
    shown("path", "Path"),
    shown("count", "Count"),
    shown("failed", "Failed"),
    shown("unfinished", "Unfinished"),
    shown("time_ns", "Time"),
    shown("mean_ns", "Mean"),
    shown("p95_ns", "p95"),
    shown("max_ns", "Max"),
];
