//! HTTP requests in the events of Windows: those that programs send by WinINet and WinHTTP, and those that HTTP.sys
//! receives.
//!
//! Source: the manifests of the providers. Observed in no real trace so far.

use etw_consumer::Event;
use etw_event::{FileTime, Guid};
use etw_schema::FromValue;

use crate::maps::HashMap;
use crate::processes::{ProcessIndex, Processes};

/// Microsoft-Windows-WinINet.
const WININET: Guid = Guid::from_u128(0x43d1a55c_76d6_4f7e_995c_64c711e5cafe);
/// Microsoft-Windows-WebIO, the part of WinHTTP that knows requests.
const WEBIO: Guid = Guid::from_u128(0x50b3e73c_9370_461d_bb9f_26f32d68887d);
/// Microsoft-Windows-HttpService.
const HTTP_SERVICE: Guid = Guid::from_u128(0xdd5ef90a_6398_47a4_ad34_4dcecdef795f);

/// Maximum number of requests that are awaited.
const MAX_PENDING: usize = 1 << 16;
/// First status code of errors.
const FIRST_ERROR: u16 = 400;

/// Who writes the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Api {
    WinInet,
    WinHttp,
    HttpSys,
}

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) api: Api,
    pub(super) process: ProcessIndex,
    pub(super) method: Option<Box<str>>,
    pub(super) url: Box<str>,
    pub(super) start: FileTime,
    /// `None` if it has not ended.
    pub(super) end: Option<FileTime>,
    pub(super) has_failed: bool,
}

/// The requests that have not ended.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// By API, process or, of the kernel, machine, and number. URLs are empty as long as no event names them.
    pending: HashMap<(Api, u32, u64), Request>,
    /// Method and URL of requests that HTTP.sys has parsed, by machine and object.
    parsed: HashMap<(u32, u64), (Option<Box<str>>, Box<str>)>,
}

impl Requests {
    /// Adds an event; returns the request if it ends.
    pub(super) fn event(&mut self, event: &Event<'_>, processes: &mut Processes) -> Option<Request> {
        let provider = event.record.provider_id();
        match provider {
            WININET => self.wininet(event, processes),
            WEBIO => self.webio(event, processes),
            HTTP_SERVICE => self.http_sys(event, processes),
            _ => None,
        }
    }

    /// Removes and returns the requests that have not ended and whose URL is known.
    pub(super) fn take_pending(&mut self) -> impl Iterator<Item = Request> {
        let pending = std::mem::take(&mut self.pending).into_values();
        pending.filter(|request| !request.url.is_empty())
    }

    /// Adds the start of a request.
    fn start(
        &mut self,
        key: (Api, u32, u64),
        process: ProcessIndex,
        event: &Event<'_>,
    ) -> Option<&mut Request> {
        if self.pending.len() >= MAX_PENDING && !self.pending.contains_key(&key) {
            return None;
        }
        let request = Request {
            api: key.0,
            process,
            method: None,
            url: Box::default(),
            start: event.record.time(),
            end: None,
            has_failed: false,
        };
        // Objects are used again; what had their address before has ended unseen.
        self.pending.insert(key, request);
        self.pending.get_mut(&key)
    }

    /// Ends a request.
    fn end(&mut self, key: (Api, u32, u64), event: &Event<'_>, has_failed: bool) -> Option<Request> {
        let mut request = self.pending.remove(&key).filter(|request| !request.url.is_empty())?;
        request.end = Some(event.record.time());
        request.has_failed |= has_failed;
        Some(request)
    }

    /// Wininet_SendRequest has the URL at its start and the status line at its end.
    fn wininet(&mut self, event: &Event<'_>, processes: &mut Processes) -> Option<Request> {
        const START: u16 = 1007;
        const STOP: u16 = 1008;
        let id = event.record.descriptor().id;
        if !matches!(id, START | STOP) {
            return None;
        }
        let process = processes.at(event.record.process_id()?);
        let key = (Api::WinInet, process.0, get::<u64>(event, "Request")?);
        if id == STOP {
            let status = get::<String>(event, "StatusLine").as_deref().and_then(status_of);
            // Without a response there is no status line.
            return self.end(key, event, status.is_none_or(|status| status >= FIRST_ERROR));
        }
        let url = get::<String>(event, "AddressName")?;
        self.start(key, process, event)?.url = url.into();
        None
    }

    /// A request exists from RequestCreate on, is sent, and has its response when the headers are there.
    fn webio(&mut self, event: &Event<'_>, processes: &mut Processes) -> Option<Request> {
        const CREATE: u16 = 17;
        const RECEIVED_HEADERS: u16 = 101;
        const SEND_START: u16 = 130;
        const RESPONSE: u16 = 134;
        let id = event.record.descriptor().id;
        if !matches!(id, CREATE | RECEIVED_HEADERS | SEND_START | RESPONSE) {
            return None;
        }
        let process = processes.at(event.record.process_id()?);
        let key = (Api::WinHttp, process.0, get::<u64>(event, "Request")?);
        match id {
            CREATE => {
                let url = get::<String>(event, "URI")?;
                let method = get::<String>(event, "Method").filter(|method| !method.is_empty());
                let request = self.start(key, process, event)?;
                (request.url, request.method) = (url.into(), method.map(String::into_boxed_str));
            }
            SEND_START => self.pending.get_mut(&key)?.start = event.record.time(),
            RECEIVED_HEADERS => {
                let status = get::<String>(event, "Headers").as_deref().and_then(status_of);
                self.pending.get_mut(&key)?.has_failed = status.is_some_and(|status| status >= FIRST_ERROR);
            }
            _ => {
                let error = get::<u32>(event, "Error").unwrap_or(0);
                return self.end(key, event, error != 0);
            }
        }
        None
    }

    /// HTTP.sys receives a request, parses it, delivers it to a process and sends its response; or it has the response in
    /// its cache.
    fn http_sys(&mut self, event: &Event<'_>, processes: &mut Processes) -> Option<Request> {
        const RECEIVE: u16 = 1;
        const PARSE: u16 = 2;
        const DELIVER: u16 = 3;
        const RESPONSES: [u16; 2] = [4, 8];
        const SENT: std::ops::RangeInclusive<u16> = 10..=13;
        const FAILED: [u16; 2] = [14, 15];
        const CACHED: [u16; 2] = [16, 17];
        let (id, machine) = (event.record.descriptor().id, processes.machine());
        let object = |event: &Event<'_>| get::<u64>(event, "RequestObj").map(|object| (machine, object));
        if id == PARSE {
            let url = get::<String>(event, "Url")?;
            let method = get::<u32>(event, "HttpVerb").and_then(verb).map(Box::from);
            if self.parsed.len() < MAX_PENDING {
                self.parsed.insert(object(event)?, (method, url.into()));
            }
            return None;
        }
        let is_known = matches!(id, RECEIVE | DELIVER) || SENT.contains(&id);
        if !is_known && ![RESPONSES, FAILED, CACHED].iter().any(|ids| ids.contains(&id)) {
            return None;
        }
        let key = (Api::HttpSys, machine, get::<u64>(event, "RequestId")?);
        match id {
            RECEIVE => {
                let process = processes.at(event.record.process_id()?);
                self.start(key, process, event)?;
            }
            DELIVER => {
                let parsed = object(event).and_then(|object| self.parsed.remove(&object));
                let request = self.pending.get_mut(&key)?;
                request.url = get::<String>(event, "Url")?.into();
                request.method = parsed.and_then(|(method, _)| method);
            }
            id if RESPONSES.contains(&id) => {
                // The process that sends the response calls HTTP.sys itself.
                let process = processes.at(event.record.process_id()?);
                let request = self.pending.get_mut(&key)?;
                request.process = process;
                let status = get::<u16>(event, "StatusCode");
                request.has_failed = status.is_some_and(|status| status >= FIRST_ERROR);
            }
            id if CACHED.contains(&id) => {
                let (method, url) = object(event).and_then(|object| self.parsed.remove(&object))?;
                let request = self.pending.get_mut(&key)?;
                (request.method, request.url) = (method, url);
                return self.end(key, event, false);
            }
            _ => {
                let status = get::<u16>(event, "HttpStatus");
                let has_failed = FAILED.contains(&id) || status.is_some_and(|status| status >= FIRST_ERROR);
                return self.end(key, event, has_failed);
            }
        }
        None
    }
}

fn get<'e, T: FromValue<'e>>(event: &Event<'e>, name: &str) -> Option<T> {
    event.properties.as_ref().ok()?.try_get(name)
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

/// Returns scheme and host, without the port if it is the usual one, and the path of a URL.
pub(super) fn parts(url: &str) -> (Option<String>, &str) {
    let Some((scheme, rest)) = url.split_once("://") else { return (None, url) };
    let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(at);
    let scheme = scheme.to_ascii_lowercase();
    let usual = match &*scheme {
        "http" => host.strip_suffix(":80"),
        "https" => host.strip_suffix(":443"),
        _ => None,
    };
    (Some(format!("{scheme}://{}", usual.unwrap_or(host))), if path.is_empty() { "/" } else { path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_hosts_and_paths() {
        let check = |url: &str, host: Option<&str>, path: &str| {
            let (found, rest) = parts(url);
            assert_eq!((found.as_deref(), rest), (host, path), "{url}");
        };
        check("http://a.example:80/b?c", Some("http://a.example"), "/b?c");
        check("HTTPS://a.example:443", Some("https://a.example"), "/");
        check("https://a.example:80/", Some("https://a.example:80"), "/");
        check("http://[::1]:8080/x", Some("http://[::1]:8080"), "/x");
        check("http://a?b=/c", Some("http://a"), "?b=/c");
        check("/only/a/path", None, "/only/a/path");
    }

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
