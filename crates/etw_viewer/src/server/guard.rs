//! Who may ask for what: every request passes here first.
//!
//! | attack | what stops it |
//! |---|---|
//! | another machine | the server listens on the loopback address only, unless it was started to listen elsewhere with a password |
//! | who can read the network | TLS, unless the server was told to listen without |
//! | guessing of the password | one attempt a second, for all together |
//! | another user or program of this machine | requests need the cookie, which a one-time token gives |
//! | a page of another site | `Origin` and `Sec-Fetch-Site` must be of this page; the cookie is `SameSite=Strict` |
//! | DNS rebinding | `Host` must be a name of the loopback address |
//! | a form or image of another page | changes and questions need a header that only scripts of this page can set |
//! | requests that never end | connections without the cookie are few and short (`connections`) |
//! | markup in names of a trace | the content security policy allows the page's own script and style only |

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::extract::{ConnectInfo, Json, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, ORIGIN, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::connections::Peer;
use super::{Shared, page};

/// The header of all requests but `GET` and `HEAD`.
const OWN_HEADER: HeaderName = HeaderName::from_static("x-openetw");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Time after a wrong password in which nobody is let in.
const PAUSE: Duration = Duration::from_secs(1);

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Refuses requests that do not come from the page, and adds the headers that all responses have.
pub(super) async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    if has_cookie(&shared, request.headers())
        && let Some(ConnectInfo(peer)) = request.extensions().get::<ConnectInfo<Peer>>()
    {
        peer.let_in();
    }
    let mut response = match admit(&shared, &request) {
        Ok(Admitted::Enter(response)) => response,
        Ok(Admitted::Page) => next.run(request).await,
        Err((status, text)) => (status, text).into_response(),
    };
    let headers = response.headers_mut();
    // The report has its own.
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    for (name, value) in [
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("x-frame-options", "DENY"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

enum Admitted {
    /// A token was right: the answer with the cookie.
    Enter(Response),
    /// A request of the page.
    Page,
}

type Refusal = (StatusCode, &'static str);

fn admit(shared: &Shared, request: &Request) -> Result<Admitted, Refusal> {
    let headers = request.headers();
    let host = only(headers, &HOST).ok_or((StatusCode::BAD_REQUEST, "one Host header is needed\n"))?;
    if !is_allowed(shared, host) {
        return Err((StatusCode::FORBIDDEN, "this host name is not the local machine's\n"));
    }
    if headers.contains_key(ORIGIN) {
        let origin = only(headers, &ORIGIN).unwrap_or_default();
        // In front of the server may be one that encrypts.
        let is_https = shared.is_encrypted || !shared.host_names.is_empty();
        let encrypted = origin.strip_prefix("https://").filter(|_| is_https);
        let plain = origin.strip_prefix("http://").filter(|_| !shared.is_encrypted);
        let is_own = plain.or(encrypted) == Some(host);
        if !is_own {
            return Err((StatusCode::FORBIDDEN, "requests of other origins are refused\n"));
        }
    }
    if headers.contains_key("upgrade") {
        return Err((StatusCode::BAD_REQUEST, "there is nothing to upgrade to\n"));
    }
    let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
    if !is_reading && only(headers, &OWN_HEADER) != Some("1") {
        return Err((StatusCode::FORBIDDEN, "requests with a body need the header X-OpenETW: 1\n"));
    }
    if request.uri().path() == "/enter" {
        // A link from elsewhere may lead here, since the token is the proof.
        let site = only(headers, &FETCH_SITE).unwrap_or("none");
        if site != "none" && only(headers, &FETCH_MODE) != Some("navigate") {
            return Err((StatusCode::FORBIDDEN, "requests of other sites are refused\n"));
        }
        return enter(shared, request.uri().query().unwrap_or_default()).map(Admitted::Enter);
    }
    if headers.contains_key(FETCH_SITE) && !matches!(only(headers, &FETCH_SITE), Some("same-origin" | "none"))
    {
        return Err((StatusCode::FORBIDDEN, "requests of other sites are refused\n"));
    }
    if shared.password.is_some() && matches!(request.uri().path(), "/login" | "/login.js") {
        return Ok(Admitted::Page);
    }
    if !has_cookie(shared, headers) {
        if shared.password.is_some() && is_reading && request.uri().path() == "/" {
            return Ok(Admitted::Enter(page::login()));
        }
        return Err((
            StatusCode::UNAUTHORIZED,
            "This page is locked. Open the URL that etw view printed; press Enter there for a new one.\n",
        ));
    }
    Ok(Admitted::Page)
}

/// Exchanges a token for the cookie.
fn enter(shared: &Shared, query: &str) -> Result<Response, Refusal> {
    let given = query.split('&').find_map(|part| part.strip_prefix("token="));
    let mut token = shared.token.lock().unwrap_or_else(PoisonError::into_inner);
    let is_right = match (given, token.as_deref()) {
        (Some(given), Some(token)) => is_equal(given, token),
        _ => false,
    };
    if !is_right {
        return Err((
            StatusCode::UNAUTHORIZED,
            "This URL was used already, or is wrong. Press Enter in the terminal of etw view for a new one.\n",
        ));
    }
    *token = None;
    let mut response = page::enter();
    response.headers_mut().insert(SET_COOKIE, cookie(shared)?);
    Ok(response)
}

/// Returns the cookie that lets a page in.
fn cookie(shared: &Shared) -> Result<HeaderValue, Refusal> {
    let secure = if shared.is_encrypted { "; Secure" } else { "" };
    let (name, value) = (&shared.cookie_name, &shared.cookie);
    let cookie = format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/{secure}");
    HeaderValue::from_str(&cookie)
        .map_err(|_wrong| (StatusCode::INTERNAL_SERVER_ERROR, "the cookie is wrong\n"))
}

/// What the page of the password sends.
#[derive(Debug, Deserialize)]
pub(super) struct Login {
    password: String,
}

/// Exchanges the password for the cookie.
pub(super) async fn login(State(shared): State<Arc<Shared>>, Json(given): Json<Login>) -> Response {
    let Some(password) = &shared.password else {
        return (StatusCode::NOT_FOUND, "not found\n").into_response();
    };
    // Attempts wait for each other, so that many at once are no faster.
    let attempt = shared.attempts.lock().await;
    if !is_equal(&given.password, password) {
        tokio::time::sleep(PAUSE).await;
        drop(attempt);
        return (StatusCode::FORBIDDEN, "the password is wrong\n").into_response();
    }
    drop(attempt);
    match cookie(&shared) {
        Ok(cookie) => ([(SET_COOKIE, cookie)], "welcome\n").into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

/// Returns the value of a header that occurs once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Whether a `Host` header names this server: the loopback address, a name that it was started with, or any address if it
/// listens on others. A page of another site has a name, which is none of these.
fn is_allowed(shared: &Shared, host: &str) -> bool {
    if is_loopback(host) {
        return true;
    }
    let is_address = host.parse::<SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    is_address && !shared.is_loopback
        || shared.host_names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Whether a `Host` header names the loopback address. The port may be that of a tunnel (`ssh -L`).
fn is_loopback(host: &str) -> bool {
    let (name, port) = match host.strip_prefix("[::1]") {
        Some(rest) => ("[::1]", rest.strip_prefix(':').or(rest.is_empty().then_some(""))),
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, Some("")),
        },
    };
    let is_port = port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    is_port && (matches!(name, "127.0.0.1" | "[::1]") || name.eq_ignore_ascii_case("localhost"))
}

fn has_cookie(shared: &Shared, headers: &HeaderMap) -> bool {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies =
        cookies.flat_map(|value| value.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    cookies.any(|(name, value)| name == shared.cookie_name && is_equal(value, &shared.cookie))
}

/// Compares secrets in a time that does not depend on where they differ.
fn is_equal(given: &str, secret: &str) -> bool {
    let (given, secret) = (given.as_bytes(), secret.as_bytes());
    given.len() == secret.len() && given.iter().zip(secret).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_those_of_this_machine() {
        for host in ["127.0.0.1", "127.0.0.1:80", "localhost:8000", "LOCALHOST", "[::1]:5", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil:80",
            "localhost:80@evil",
            "0.0.0.0",
            "",
            "[::1]x",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
