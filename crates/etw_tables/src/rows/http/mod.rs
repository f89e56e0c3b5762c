//! HTTP requests: those that .NET programs send (`System.Net.Http`), those that ASP.NET Core serves, and those of WinINet,
//! WinHTTP and HTTP.sys.

mod dotnet;
mod request;
mod windows;

use etw_machine::Model;

use super::columns::{Bool, End, GuidValue, Id, Process, Span, Start, Text};
use super::source::{EventContext, RowContext, RowSource};
use super::spans::between;
use super::table::table;
use crate::summary::{Column, Summary};
use request::{Request, parts};

table! {
    /// One row for each HTTP request that a program sends or serves.
    HttpRow: "http", "HTTP Requests";
    /// When it began.
    start_time: Start,
    /// When it ended, if that was during the trace.
    end_time: Option<End>,
    /// Time between the two.
    duration: Option<Span>,
    /// Process that sent or served it.
    process: Process,
    /// Who tells of it: `client` (of .NET), `ASP.NET Core`, `Kestrel`, `WinINet`, `WinHTTP` or `HTTP.sys`.
    source: Text,
    /// Method, such as `GET`.
    method: Option<Text>,
    /// Scheme and host, with the port if it is not the usual one.
    host: Option<Text>,
    /// Path, without the query.
    path: Text,
    /// Query or fragment, with its `?` or `#`.
    query: Option<Text>,
    /// Status code of the response.
    status: Option<Id>,
    /// Whether it failed, or its status is 400 or higher.
    failed: Bool,
    /// Activity of its events, if they have one.
    activity_id: Option<GuidValue>,
}

pub(in crate::rows) static REPORT: Summary = Summary {
    name: "http",
    title: "HTTP requests",
    about: "HTTP requests by host and path",
    recorded_by: "System.Net.Http, Microsoft.AspNetCore.Hosting and System.Threading.Tasks.TplEventSource:0x80:4; on \
         Windows Microsoft-Windows-WinINet, Microsoft-Windows-WebIO and Microsoft-Windows-HttpService",
    table: "http",
    by: &["process", "source", "method", "host", "path"],
    condition: "",
    process: "process",
    thread: "",
    columns: &[
        Column::shown("process", "Process").key(&["process.name"]),
        Column::shown("process_id", "PID").key(&["process.process_id"]),
        Column::shown("source", "By").key(&["source"]),
        Column::shown("method", "Method").key(&["method"]),
        Column::shown("host", "Host").key(&["host"]),
        Column::shown("path", "Path").key(&["path"]),
        Column::shown("count", "Count").value("rows"),
        Column::shown("failed", "Failed").value("rows where failed == true"),
        Column::shown("unfinished", "Unfinished").value("rows where not end_time"),
        Column::shown("time_ns", "Time").value("sum(duration)"),
        Column::shown("mean_ns", "Mean").value("mean(duration)"),
        Column::hidden("median_ns").value("p50(duration)"),
        Column::shown("p95_ns", "p95").value("p95(duration)"),
        Column::shown("max_ns", "Max").value("max(duration)"),
    ],
    order: &["sum(duration)", "rows"],
    weights: &["time_ns", "count"],
    notes,
};

fn notes(model: &Model, _has_rows: bool) -> Vec<String> {
    match model.requests_without_activity {
        0 => Vec::new(),
        count => vec![format!("{count} requests have no activity id, and so no time.")],
    }
}

/// The requests of all processes.
#[derive(Debug, Default)]
pub(super) struct HttpRequests {
    of_dotnet: dotnet::Requests,
    of_windows: windows::Requests,
}

impl RowSource for HttpRequests {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        let provider = event.record().provider_id();
        self.of_dotnet.has_provider(provider) || windows::is_provider(provider)
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        let Model { processes, window, requests_without_activity, .. } = &mut *context.model;
        let request = if windows::is_provider(event.record().provider_id()) {
            self.of_windows.event(event, processes)
        } else {
            let request = self.of_dotnet.event(event, processes);
            let is_alone = |request: &Request| request.activity.is_none() && window.has(request.start);
            *requests_without_activity += u64::from(request.as_ref().is_some_and(is_alone));
            request
        };
        if let Some(request) = request {
            write(&request, context);
        }
    }

    /// Adds the requests that have not ended.
    fn finish(&mut self, context: &mut RowContext<'_>) {
        let mut pending: Vec<Request> =
            self.of_dotnet.take_pending().chain(self.of_windows.take_pending()).collect();
        pending.sort_by(|one, other| {
            let key = |request: &Request| (request.start, request.process, request.source);
            key(one).cmp(&key(other)).then_with(|| one.url.cmp(&other.url))
        });
        pending.iter().for_each(|request| write(request, context));
    }
}

fn write(request: &Request, context: &mut RowContext<'_>) {
    if !context.model.window.has(request.start) {
        return;
    }
    let (host, path, query) = parts(&request.url);
    context.writer.add(HttpRow {
        start_time: request.start,
        end_time: request.end,
        duration: request.end.map(|end| between(request.start, end)),
        process: request.process,
        source: request.source,
        method: request.method.as_deref(),
        host: host.as_deref(),
        path,
        query: (!query.is_empty()).then_some(query),
        status: request.status.map(u32::from),
        failed: request.has_failed,
        activity_id: request.activity,
    });
}
