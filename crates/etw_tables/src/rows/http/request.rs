//! A request of HTTP.

use etw_event::{FileTime, Guid};
use etw_machine::ProcessIndex;

/// First status code of errors.
const FIRST_ERROR: u16 = 400;

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    /// Who writes the events.
    pub(super) source: &'static str,
    pub(super) process: ProcessIndex,
    /// What its events have in common, if they have something.
    pub(super) activity: Option<Guid>,
    pub(super) method: Option<Box<str>>,
    /// The URL, or only the path; empty as long as no event names it.
    pub(super) url: Box<str>,
    pub(super) start: FileTime,
    /// `None` if it has not ended.
    pub(super) end: Option<FileTime>,
    /// The status code of the response.
    pub(super) status: Option<u16>,
    /// Whether an event says so, or the status.
    pub(super) has_failed: bool,
}

impl Request {
    /// Sets the status code of the response.
    pub(super) fn set_status(&mut self, status: Option<u16>) {
        self.status = status.or(self.status);
        self.has_failed |= status.is_some_and(|status| status >= FIRST_ERROR);
    }
}

/// Returns scheme and host, without the port if it is the usual one; the path; and what comes after it, with its `?` or `#`.
pub(super) fn parts(url: &str) -> (Option<String>, &str, &str) {
    let (host, rest) = match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
            let scheme = scheme.to_ascii_lowercase();
            let usual = match &*scheme {
                "http" => host.strip_suffix(":80"),
                "https" => host.strip_suffix(":443"),
                _ => None,
            };
            (Some(format!("{scheme}://{}", usual.unwrap_or(host))), rest)
        }
        None => (None, url),
    };
    let (path, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    (host, if path.is_empty() { "/" } else { path }, query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_hosts_paths_and_queries() {
        let check = |url: &str, host: Option<&str>, path: &str, query: &str| {
            let found = parts(url);
            assert_eq!((found.0.as_deref(), found.1, found.2), (host, path, query), "{url}");
        };
        check("http://a.example:80/b?c", Some("http://a.example"), "/b", "?c");
        check("HTTPS://a.example:443", Some("https://a.example"), "/", "");
        check("https://a.example:80/", Some("https://a.example:80"), "/", "");
        check("http://[::1]:8080/x#y", Some("http://[::1]:8080"), "/x", "#y");
        check("http://a?b=/c", Some("http://a"), "/", "?b=/c");
        check("/only/a/path?d", None, "/only/a/path", "?d");
    }
}
