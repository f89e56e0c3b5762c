//! Answers that are computed on threads of their own, so that requests do not wait for each other.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use tokio::task::JoinError;

use super::{Base, Shared, Shown};
use crate::model::Model;
use crate::timeline::Tiles;

const NO_BASE: &str = "the tables of a trace to compare with are not there; start etw view with --compare";

/// What an answer contains.
pub(super) enum Body {
    Json(serde_json::Value),
    Arrow(Vec<u8>),
    Csv(String),
}

impl IntoResponse for Body {
    fn into_response(self) -> Response {
        match self {
            Body::Json(value) => ([(CONTENT_TYPE, "application/json")], value.to_string()).into_response(),
            Body::Arrow(bytes) => {
                ([(CONTENT_TYPE, "application/vnd.apache.arrow.stream")], bytes).into_response()
            }
            Body::Csv(text) => ([(CONTENT_TYPE, "text/csv; charset=utf-8")], text).into_response(),
        }
    }
}

/// Returns the answer to a question about the tables.
pub(super) async fn about<R: IntoResponse + Send + 'static>(
    shared: Arc<Shared>,
    compute: impl FnOnce(&Shown, &Model) -> Result<R> + Send + 'static,
) -> Response {
    let Some(model) = shared.loader.model() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the tables are not complete yet").into_response();
    };
    let shown = shared.shown(&model);
    finished(tokio::task::spawn_blocking(move || compute(&shown, &model)).await)
}

/// Returns the answer to a question about the tables of the traces to compare with.
pub(super) async fn about_base<R: IntoResponse + Send + 'static>(
    shared: Arc<Shared>,
    compute: impl FnOnce(&Tiles, &Model) -> Result<R> + Send + 'static,
) -> Response {
    let Some(model) = shared.base.as_ref().and_then(|base| base.loader.model()) else {
        return (StatusCode::SERVICE_UNAVAILABLE, NO_BASE).into_response();
    };
    let computed = tokio::task::spawn_blocking(move || match &shared.base {
        Some(base) => compute(&base.tiles, &model),
        None => bail!(NO_BASE),
    });
    finished(computed.await)
}

/// Returns the answer to a question about both traces.
pub(super) async fn about_both<R: IntoResponse + Send + 'static>(
    shared: Arc<Shared>,
    compute: impl FnOnce(&Shown, &Model, &Base, &Model) -> Result<R> + Send + 'static,
) -> Response {
    let other = Arc::clone(&shared);
    about(shared, move |shown, model| {
        let base = other.base.as_ref().context(NO_BASE)?;
        let before = base.loader.model().context(NO_BASE)?;
        compute(shown, model, base, &before)
    })
    .await
}

/// Returns the answer to a question that needs no tables.
pub(super) async fn blocking<R: IntoResponse + Send + 'static>(
    shared: Arc<Shared>,
    compute: impl FnOnce(&Shared) -> Result<R> + Send + 'static,
) -> Response {
    finished(tokio::task::spawn_blocking(move || compute(&shared)).await)
}

/// Returns what a thread answered, or its error.
pub(super) fn finished<R: IntoResponse>(computed: Result<Result<R>, JoinError>) -> Response {
    match computed {
        Ok(Ok(body)) => body.into_response(),
        Ok(Err(error)) => (StatusCode::UNPROCESSABLE_ENTITY, format!("{error:#}")).into_response(),
        // The panic was printed.
        Err(_panic) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "the server failed; see its terminal").into_response()
        }
    }
}
