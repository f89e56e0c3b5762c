//! The report of the traces, which is kept until they change.

use anyhow::Result;
use axum::body::Bytes;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use crate::model::{Identity, Loader};

/// Greatest size of a report that is kept.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// A report, and what it is of.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    page: Bytes,
    policy: String,
    /// The contents of the traces, and the number of their tables: symbols give them other names.
    of: (Vec<Option<Identity>>, u32),
}

impl Report {
    /// Returns the report to keep; nothing if it is too large.
    pub(super) fn to_keep(&self) -> Option<Report> {
        (self.page.len() <= MAX_KEPT_BYTES).then(|| self.clone())
    }
}

impl IntoResponse for Report {
    fn into_response(self) -> Response {
        let headers =
            [(CONTENT_TYPE, "text/html; charset=utf-8".to_owned()), (CONTENT_SECURITY_POLICY, self.policy)];
        (headers, self.page).into_response()
    }
}

/// Returns the report of the traces: the known one if it is still of them, or else a new one, for which they are read.
///
/// # Errors
///
/// Fails if a trace cannot be read any more.
pub(super) fn report(loader: &Loader, known: Option<Report>) -> Result<Report> {
    loader.opened().check()?;
    let generation = loader.model().map_or(0, |model| model.generation);
    let of = (loader.opened().now(), generation);
    if let Some(known) = known.filter(|known| known.of == of) {
        return Ok(known);
    }
    let (page, policy) = etw_report::page_of_viewer(loader.paths(), loader.symbols())?;
    let policy = format!("{policy}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    Ok(Report { page: page.into(), policy, of })
}
