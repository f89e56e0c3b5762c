//! Tables as the page shows them: groups of rows level by level, or single rows.

mod catalog;
mod compare;
mod condition;
mod csv;
mod field;
mod groups;
mod ipc;
mod list;
mod sql;
mod traced;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use openetw::tables::Table;
use serde::{Deserialize, Serialize};

use crate::model::Model;
use groups::GroupRow;
use list::RowList;

pub(crate) use catalog::{catalog, stack_column};
pub(crate) use compare::{CompareRequest, Comparisons, comparable_scope, without_id};
pub(crate) use condition::{Condition, Conditions, Operator, Scope};
pub(crate) use csv::csv;
pub(crate) use field::{Cell, Field, Fields, title as column_title};
pub(crate) use ipc::{Column as IpcColumn, Data as IpcData, stream};
pub(crate) use list::find_row;
pub(crate) use sql::sql;
pub(crate) use traced::traced_weight;

/// Maximum number of views that are kept.
const MAX_VIEWS: usize = 16;
/// Maximum number of rows whose places are kept in all views but the last; 8 bytes each.
const MAX_KEPT: usize = 1 << 24;
/// Maximum number of rows of an answer.
const MAX_PAGE: usize = 5000;

/// What to show of a table.
#[derive(Debug, Clone, Deserialize, PartialEq)]
pub(crate) struct GridRequest {
    /// Which rows.
    #[serde(flatten)]
    pub(crate) scope: Scope,
    /// Columns to group by, the outermost first; single rows if there are none.
    #[serde(default)]
    pub(crate) keys: Vec<String>,
    /// What to count of each group, such as `sum(weight)`.
    #[serde(default)]
    pub(crate) values: Vec<String>,
    /// Columns of single rows.
    #[serde(default)]
    pub(crate) columns: Vec<String>,
    /// Order; that of the table, or by the first value, if missing.
    #[serde(default)]
    pub(crate) sort: Option<Sort>,
    /// The groups that are open, each by the keys that lead to it.
    #[serde(default)]
    pub(crate) expanded: Vec<Vec<String>>,
}

/// An order of rows or groups.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub(crate) struct Sort {
    /// A column of single rows; of groups, `rows`, `label` or one of the values.
    pub(crate) by: String,
    #[serde(default)]
    pub(crate) descending: bool,
}

/// A part of the rows of a view.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Page {
    #[serde(default)]
    pub(crate) offset: usize,
    #[serde(default)]
    pub(crate) limit: usize,
}

/// Rows to show: their order and number are known.
#[derive(Debug)]
pub(crate) enum View {
    Groups { rows: Vec<GroupRow>, total: GroupRow },
    Rows(RowList),
}

impl View {
    /// Returns the number of places that are kept.
    fn len(&self) -> usize {
        match self {
            View::Groups { rows, .. } => rows.len(),
            View::Rows(RowList::All(_)) => 0,
            View::Rows(RowList::Listed(rows)) => rows.len(),
        }
    }
}

/// The description of a shown column.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Heading {
    pub(crate) name: String,
    pub(crate) title: String,
    /// How numbers are shown: `count`, `duration`, `bytes`, `time`, `percent`, `number`, `id`; `text` for texts.
    pub(crate) kind: &'static str,
    pub(crate) summary: String,
}

/// Returns a table of the trace.
///
/// # Errors
///
/// Fails if there is no such table.
pub(crate) fn table<'m>(model: &'m Model, name: &str) -> Result<Table<'m>> {
    model.index().table(name).with_context(|| format!("no table '{name}'"))
}

/// The views that were shown last, with the requests for them.
#[derive(Debug, Default)]
pub(crate) struct Views(Mutex<VecDeque<(GridRequest, Arc<View>)>>);

impl Views {
    /// Returns the view of a request.
    ///
    /// # Errors
    ///
    /// Fails if the request does not fit the table.
    pub(crate) fn get(&self, model: &Model, request: &GridRequest) -> Result<Arc<View>> {
        if let Some(known) = self.find(request) {
            return Ok(known);
        }
        let table = table(model, &request.scope.table)?;
        let view = Arc::new(match request.keys.is_empty() {
            true => View::Rows(list::rows(model, table, request)?),
            false => groups::view(model, table, request)?,
        });
        let mut views = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        views.push_front((request.clone(), Arc::clone(&view)));
        views.truncate(MAX_VIEWS);
        while views.len() > 1 && views.iter().map(|(_, view)| view.len()).sum::<usize>() > MAX_KEPT {
            views.pop_back();
        }
        Ok(view)
    }

    fn find(&self, request: &GridRequest) -> Option<Arc<View>> {
        let mut views = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = views.iter().position(|(known, _)| known == request)?;
        let found = views.remove(place)?;
        let view = Arc::clone(&found.1);
        views.push_front(found);
        Some(view)
    }
}

/// Returns a page of a view as an Arrow stream.
///
/// # Errors
///
/// Fails if the request does not fit the table, or if a chunk is damaged.
pub(crate) fn page(model: &Model, view: &View, request: &GridRequest, page: Page) -> Result<Vec<u8>> {
    let page = Page { limit: page.limit.min(MAX_PAGE), ..page };
    let table = table(model, &request.scope.table)?;
    match view {
        View::Groups { rows, total } => groups::page(model, table, request, rows, total, page),
        View::Rows(list) => list::page(model, table, request, list, page),
    }
}

/// Number of threads that a question about a table uses.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
