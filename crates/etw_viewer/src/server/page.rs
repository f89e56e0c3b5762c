//! The page: what esbuild made of `ui`, committed so that a build needs no Node.

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

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, kind)], text).into_response()
}

pub(super) fn enter() -> Response {
    file("text/html; charset=utf-8", ENTER)
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
