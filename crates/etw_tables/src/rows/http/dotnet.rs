//! HTTP requests that .NET programs send and serve.
//!
//! A request has an activity of its own: its events have the same activity id.
//!
//! Source: `HttpTelemetry` in dotnet/runtime, `HostingEventSource` and `KestrelEventSource` in dotnet/aspnetcore.

use etw_event::Guid;
use etw_machine::{HashMap, ProcessIndex, Processes};

use super::request::Request;
use crate::rows::source::EventContext;

/// Maximum number of requests whose end is awaited; further ones have none.
const MAX_PENDING: usize = 1 << 20;

/// A provider of requests.
#[derive(Debug)]
struct Provider {
    name: &'static str,
    /// What rows call it.
    source: &'static str,
    /// The ids of the events for the start, the stop and a failure; `u16::MAX` if it has no such event.
    ids: [u16; 3],
    /// The property with the path.
    path: &'static str,
}

const PROVIDERS: [Provider; 4] = [
    Provider { name: "System.Net.Http", source: "client", ids: [1, 2, 3], path: "pathAndQuery" },
    Provider { name: "Microsoft.AspNetCore.Hosting", source: "ASP.NET Core", ids: [3, 4, 5], path: "path" },
    // Up to ASP.NET Core 2.2.
    Provider { name: "Microsoft-AspNetCore-Hosting", source: "ASP.NET Core", ids: [3, 4, 5], path: "path" },
    Provider {
        name: "Microsoft-AspNetCore-Server-Kestrel",
        source: "Kestrel",
        ids: [3, 4, u16::MAX],
        path: "path",
    },
];

/// The requests that have not ended.
#[derive(Debug)]
pub(super) struct Requests {
    providers: [Guid; 4],
    pending: HashMap<(ProcessIndex, Guid), Request>,
}

impl Default for Requests {
    fn default() -> Requests {
        let providers = PROVIDERS.map(|provider| Guid::from_provider_name(provider.name));
        Requests { providers, pending: HashMap::default() }
    }
}

impl Requests {
    /// Whether a provider tells of requests.
    pub(super) fn has_provider(&self, provider: Guid) -> bool {
        self.providers.contains(&provider)
    }

    /// Adds an event; returns the request if it ends, or if nothing will say which end is its.
    pub(super) fn event(
        &mut self,
        event: &EventContext<'_, '_>,
        processes: &mut Processes,
    ) -> Option<Request> {
        let record = event.record();
        let provider = self.providers.iter().position(|guid| *guid == record.provider_id())?;
        let provider = &PROVIDERS[provider];
        let process = processes.at(record.process_id()?);
        let activity = record.activity_id().filter(|activity| !activity.is_zero());
        let key = activity.map(|activity| (process, activity));
        let [start, stop, failure] = provider.ids;
        match record.descriptor().id {
            id if id == start => {
                let request = Request {
                    source: provider.source,
                    process,
                    activity,
                    method: event.get::<String>(&["method"]).map(String::into_boxed_str),
                    url: url(provider, event)?,
                    start: record.time(),
                    end: None,
                    status: None,
                    has_failed: false,
                };
                match key.filter(|_| self.pending.len() < MAX_PENDING) {
                    // An activity that begins again has ended unseen.
                    Some(key) => self.pending.insert(key, request),
                    None => Some(request),
                }
            }
            id if id == stop => {
                let mut request = self.pending.remove(&key?)?;
                request.end = Some(record.time());
                let status = event.get::<i64>(&["statusCode"]);
                request.set_status(status.and_then(|status| u16::try_from(status).ok()));
                Some(request)
            }
            id if id == failure => {
                self.pending.get_mut(&key?)?.has_failed = true;
                None
            }
            _ => None,
        }
    }

    /// Removes and returns the requests that have not ended.
    pub(super) fn take_pending(&mut self) -> impl Iterator<Item = Request> + use<> {
        std::mem::take(&mut self.pending).into_values()
    }
}

/// Returns the URL of a request, or its path, from the event about its start.
fn url(provider: &Provider, event: &EventContext<'_, '_>) -> Option<Box<str>> {
    let text = |name| event.get::<String>(&[name]);
    let path = text(provider.path)?;
    let Some(host) = text("host") else { return Some(path.into()) };
    let port = event.get::<i64>(&["port"]).map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{}://{host}{port}{path}", text("scheme").unwrap_or_default()).into())
}
