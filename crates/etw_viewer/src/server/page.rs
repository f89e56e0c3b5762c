//! The page: what esbuild made of `ui`, committed so that a build needs no Node.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

const INDEX: &str = include_str!("../../ui/dist/index.html");
const SCRIPT: &str = include_str!("../../ui/dist/app.js");
const STYLE: &str = include_str!("../../ui/dist/app.css");
const ICON: &str = include_str!("../../ui/dist/icon.svg");
const LICENSES: &str = include_str!("../../ui/dist/licenses.txt");

/// Goes on to the page with the state that the URL had after `#`.
const ENTER: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>OpenETW</title>\
                     <script src=\"/enter.js\"></script><a href=\"/\">Open the trace</a></html>";
const ENTER_SCRIPT: &str = "location.replace('/' + location.hash);\n";

/// Asks for the password. The script sends it, since a form could be sent by a page of another site.
const LOGIN: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>OpenETW</title>\
                     <form><h1>OpenETW</h1>\
                     <label>Password <input type=\"password\" autofocus autocomplete=\"current-password\"></label> \
                     <button>Open</button><p role=\"alert\"></p></form><script src=\"/login.js\"></script></html>";
const LOGIN_SCRIPT: &str = "document.querySelector('form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const password = document.querySelector('input').value;
  const headers = { 'Content-Type': 'application/json', 'X-OpenETW': '1' };
  const answer = await fetch('/login', { method: 'POST', headers, body: JSON.stringify({ password }) });
  if (answer.ok) location.reload();
  else document.querySelector('p').textContent = await answer.text();
});
";

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, kind)], text).into_response()
}

pub(super) fn enter() -> Response {
    file("text/html; charset=utf-8", ENTER)
}

pub(super) fn login() -> Response {
    let mut page = file("text/html; charset=utf-8", LOGIN);
    *page.status_mut() = StatusCode::UNAUTHORIZED;
    page
}

pub(super) async fn login_script() -> Response {
    file("text/javascript; charset=utf-8", LOGIN_SCRIPT)
}

pub(super) async fn enter_script() -> Response {
    file("text/javascript; charset=utf-8", ENTER_SCRIPT)
}

pub(super) async fn index() -> Response {
    file("text/html; charset=utf-8", INDEX)
}

pub(super) async fn script() -> Response {
    file("text/javascript; charset=utf-8", SCRIPT)
}

pub(super) async fn style() -> Response {
    file("text/css; charset=utf-8", STYLE)
}

pub(super) async fn icon() -> Response {
    file("image/svg+xml", ICON)
}

pub(super) async fn licenses() -> Response {
    file("text/plain; charset=utf-8", LICENSES)
}
