//! HTTP requests in the events of Windows: those that programs send by WinINet and WinHTTP, and those that HTTP.sys
//! receives.
//!
//! Source: the manifests of the providers. Those of HTTP.sys were observed in a real trace, the others in none so far.

use etw_event::Guid;
use etw_machine::{HashMap, ProcessIndex, Processes};

use super::request::Request;
use crate::rows::source::EventContext;

/// Microsoft-Windows-WinINet.
const WININET: Guid = Guid::from_u128(0x43d1a55c_76d6_4f7e_995c_64c711e5cafe);
/// Microsoft-Windows-WebIO, the part of WinHTTP that knows requests.
const WEBIO: Guid = Guid::from_u128(0x50b3e73c_9370_461d_bb9f_26f32d68887d);
/// Microsoft-Windows-HttpService.
const HTTP_SERVICE: Guid = Guid::from_u128(0xdd5ef90a_6398_47a4_ad34_4dcecdef795f);

/// Maximum number of requests whose end is awaited; further ones are left out.
const MAX_PENDING: usize = 1 << 20;

/// Whether a provider tells of requests.
pub(super) fn is_provider(provider: Guid) -> bool {
    [WININET, WEBIO, HTTP_SERVICE].contains(&provider)
}

/// Who writes the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Api {
    WinInet,
    WinHttp,
    HttpSys,
}

impl Api {
    fn name(self) -> &'static str {
        match self {
            Api::WinInet => "WinINet",
            Api::WinHttp => "WinHTTP",
            Api::HttpSys => "HTTP.sys",
        }
    }
}

/// The requests that have not ended.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// By API, process or, of the kernel, machine, and number. URLs are empty as long as no event names them.
    pending: HashMap<(Api, u32, u64), Request>,
    /// Method and URL of requests that HTTP.sys has parsed, by machine and object.
    parsed: HashMap<(u32, u64), (Option<Box<str>>, Box<str>)>,
    /// The request whose object the current event uses again.
    displaced: Option<Request>,
}

impl Requests {
    /// Adds an event; returns the request that ends, or has ended unseen.
    pub(super) fn event(
        &mut self,
        event: &EventContext<'_, '_>,
        processes: &mut Processes,
    ) -> Option<Request> {
        let ended = match event.record().provider_id() {
            WININET => self.wininet(event, processes),
            WEBIO => self.webio(event, processes),
            HTTP_SERVICE => self.http_sys(event, processes),
            _ => None,
        };
        ended.or_else(|| self.displaced.take())
    }

    /// Removes and returns the requests that have not ended and whose URL is known.
    pub(super) fn take_pending(&mut self) -> impl Iterator<Item = Request> + use<> {
        let pending = std::mem::take(&mut self.pending).into_values();
        pending.filter(|request| !request.url.is_empty())
    }

    /// Adds the start of a request.
    fn start(
        &mut self,
        key: (Api, u32, u64),
        process: ProcessIndex,
        event: &EventContext<'_, '_>,
    ) -> Option<&mut Request> {
        if self.pending.len() >= MAX_PENDING && !self.pending.contains_key(&key) {
            return None;
        }
        let request = Request {
            source: key.0.name(),
            process,
            activity: None,
            method: None,
            url: Box::default(),
            start: event.record().time(),
            end: None,
            status: None,
            has_failed: false,
        };
        // Objects are used again; what had their address before has ended unseen.
        let before = self.pending.insert(key, request);
        self.displaced = before.filter(|request| !request.url.is_empty());
        self.pending.get_mut(&key)
    }

    /// Ends a request.
    fn end(&mut self, key: (Api, u32, u64), event: &EventContext<'_, '_>) -> Option<Request> {
        let mut request = self.pending.remove(&key).filter(|request| !request.url.is_empty())?;
        request.end = Some(event.record().time());
        Some(request)
    }

    /// Wininet_SendRequest has the URL at its start and the status line at its end.
    fn wininet(&mut self, event: &EventContext<'_, '_>, processes: &mut Processes) -> Option<Request> {
        const START: u16 = 1007;
        const STOP: u16 = 1008;
        let id = event.record().descriptor().id;
        if !matches!(id, START | STOP) {
            return None;
        }
        let process = processes.at(event.record().process_id()?);
        let key = (Api::WinInet, process.0, event.get::<u64>(&["Request"])?);
        if id == STOP {
            let status = event.get::<String>(&["StatusLine"]).as_deref().and_then(status_of);
            let mut request = self.end(key, event)?;
            request.set_status(status);
            // Without a response there is no status line.
            request.has_failed |= status.is_none();
            return Some(request);
        }
        let url = event.get::<String>(&["AddressName"])?;
        self.start(key, process, event)?.url = url.into();
        None
    }

    /// A request exists from RequestCreate on, is sent, and has its response when the headers are there.
    fn webio(&mut self, event: &EventContext<'_, '_>, processes: &mut Processes) -> Option<Request> {
        const CREATE: u16 = 17;
        const RECEIVED_HEADERS: u16 = 101;
        const SEND_START: u16 = 130;
        const RESPONSE: u16 = 134;
        let id = event.record().descriptor().id;
        if !matches!(id, CREATE | RECEIVED_HEADERS | SEND_START | RESPONSE) {
            return None;
        }
        let process = processes.at(event.record().process_id()?);
        let key = (Api::WinHttp, process.0, event.get::<u64>(&["Request"])?);
        match id {
            CREATE => {
                let url = event.get::<String>(&["URI"])?;
                let method = event.get::<String>(&["Method"]).filter(|method| !method.is_empty());
                let request = self.start(key, process, event)?;
                (request.url, request.method) = (url.into(), method.map(String::into_boxed_str));
            }
            SEND_START => self.pending.get_mut(&key)?.start = event.record().time(),
            RECEIVED_HEADERS => {
                let status = event.get::<String>(&["Headers"]).as_deref().and_then(status_of);
                self.pending.get_mut(&key)?.set_status(status);
            }
            _ => {
                let error = event.get::<u32>(&["Error"]).unwrap_or(0);
                let mut request = self.end(key, event)?;
                request.has_failed |= error != 0;
                return Some(request);
            }
        }
        None
    }

    /// HTTP.sys receives a request, parses it, delivers it to a process and sends its response; or it has the response in
    /// its cache.
    fn http_sys(&mut self, event: &EventContext<'_, '_>, processes: &mut Processes) -> Option<Request> {
        const RECEIVE: u16 = 1;
        const PARSE: u16 = 2;
        const DELIVER: u16 = 3;
        const RESPONSES: [u16; 2] = [4, 8];
        const SENT: std::ops::RangeInclusive<u16> = 10..=13;
        const FAILED: [u16; 2] = [14, 15];
        const CACHED: [u16; 2] = [16, 17];
        let (id, machine) = (event.record().descriptor().id, processes.machine());
        let object =
            |event: &EventContext<'_, '_>| event.get::<u64>(&["RequestObj"]).map(|object| (machine, object));
        if id == PARSE {
            let url = event.get::<String>(&["Url"])?;
            let method = event.get::<u32>(&["HttpVerb"]).and_then(verb).map(Box::from);
            if self.parsed.len() < MAX_PENDING {
                self.parsed.insert(object(event)?, (method, url.into()));
            }
            return None;
        }
        let is_known = matches!(id, RECEIVE | DELIVER) || SENT.contains(&id);
        if !is_known && ![RESPONSES, FAILED, CACHED].iter().any(|ids| ids.contains(&id)) {
            return None;
        }
        let key = (Api::HttpSys, machine, event.get::<u64>(&["RequestId"])?);
        match id {
            RECEIVE => {
                let process = processes.at(event.record().process_id()?);
                self.start(key, process, event)?;
            }
            DELIVER => {
                let parsed = object(event).and_then(|object| self.parsed.remove(&object));
                let request = self.pending.get_mut(&key)?;
                request.url = event.get::<String>(&["Url"])?.into();
                request.method = parsed.and_then(|(method, _)| method);
            }
            id if RESPONSES.contains(&id) => {
                // The process that sends the response calls HTTP.sys itself.
                let process = processes.at(event.record().process_id()?);
                let request = self.pending.get_mut(&key)?;
                request.process = process;
                request.set_status(event.get(&["StatusCode"]));
            }
            id if CACHED.contains(&id) => {
                let (method, url) = object(event).and_then(|object| self.parsed.remove(&object))?;
                let request = self.pending.get_mut(&key)?;
                (request.method, request.url) = (method, url);
                return self.end(key, event);
            }
            _ => {
                let mut request = self.end(key, event)?;
                request.set_status(event.get(&["HttpStatus"]));
                request.has_failed |= FAILED.contains(&id);
                return Some(request);
            }
        }
        None
    }
}

/// Returns the code of a status line such as `HTTP/1.1 200 OK`.
fn status_of(line: &str) -> Option<u16> {
    let mut words = line.split_ascii_whitespace();
    let is_http = words.next()?.starts_with("HTTP/");
    words.next().filter(|_| is_http)?.parse().ok()
}

/// Returns the method of an `HTTP_VERB`.
fn verb(number: u32) -> Option<&'static str> {
    const NAMES: [&str; 17] = [
        "OPTIONS",
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "DELETE",
        "TRACE",
        "CONNECT",
        "TRACK",
        "MOVE",
        "COPY",
        "PROPFIND",
        "PROPPATCH",
        "MKCOL",
        "LOCK",
        "UNLOCK",
        "SEARCH",
    ];
    // Before them are those for methods that were not parsed, are unknown, or invalid.
    NAMES.get((number as usize).checked_sub(3)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lines_and_methods() {
        assert_eq!(status_of("HTTP/1.1 503 Service Unavailable\r\nX: 1"), Some(503));
        assert_eq!([status_of("200 OK"), status_of("HTTP/1.1"), status_of("")], [None; 3]);
        assert_eq!(
            [verb(2), verb(3), verb(4), verb(19), verb(20)],
            [None, Some("OPTIONS"), Some("GET"), Some("SEARCH"), None]
        );
    }
}
