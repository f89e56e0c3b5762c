//! The tables of a database by their names. A table of a kind of events is looked for in the traces when it is named.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::utils::datafusion_strsim::normalized_levenshtein;
use datafusion::common::{Result, exec_err};
use etw_tables::EventTable;

use crate::bases::Traces;
use crate::damage::{self, DamageTable};
use crate::database::Unreadable;
use crate::events::{EventsTable, blocking};
use crate::rows::{self, RowTable};
use crate::source::Source;

/// Name of the table of all events.
const EVENTS: &str = "events";
/// The kernel's records of stacks, whose addresses are in the column `stack` of other events.
pub(crate) const STACK_RECORDS: &str = "StackWalk/";

/// The tables of some traces of a database.
#[derive(Debug)]
pub(crate) struct TraceTables {
    traces: Arc<Traces>,
    sources: Vec<Source>,
    unreadable: Vec<Unreadable>,
    /// Views, and tables of kinds that were found.
    known: Mutex<BTreeMap<String, Arc<dyn TableProvider>>>,
}

impl TraceTables {
    pub(crate) fn new(
        traces: &Arc<Traces>,
        sources: Vec<Source>,
        unreadable: Vec<Unreadable>,
    ) -> TraceTables {
        TraceTables { traces: traces.clone(), sources, unreadable, known: Mutex::default() }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<dyn TableProvider>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a table that needs no look into the traces.
    fn told(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        if let Some(known) = self.known().get(name) {
            return Some(known.clone());
        }
        match name {
            EVENTS => Some(Arc::new(EventsTable::all(&self.sources))),
            damage::NAME => Some(Arc::new(DamageTable::new(&self.sources))),
            _ => Some(Arc::new(RowTable::find(&self.traces, &self.sources, &self.unreadable, name)?)),
        }
    }

    /// Returns the names of all tables whose names are known without reading much.
    pub(crate) fn near_names(&self) -> Vec<String> {
        self.names(|source| source.near_kinds())
    }

    /// Returns the names of tables, with those of the kinds of events that `kinds` returns.
    fn names<'s>(&'s self, kinds: impl Fn(&'s Source) -> Option<&'s [EventTable]>) -> Vec<String> {
        let told = [EVENTS, damage::NAME].into_iter().chain(rows::names()).map(str::to_owned);
        let kinds = self.sources.iter().filter_map(kinds).flatten();
        // A kind that traces call differently is one table.
        let mut keys = HashSet::new();
        let kinds = kinds.filter(|kind| keys.insert(kind.key()));
        let kinds =
            kinds.map(|kind| kind.schema().name.to_string()).filter(|name| !name.starts_with(STACK_RECORDS));
        let mut names: Vec<String> = told.chain(self.known().keys().cloned()).chain(kinds).collect();
        names.sort();
        names.dedup();
        names
    }
}

#[async_trait]
impl SchemaProvider for TraceTables {
    fn table_names(&self) -> Vec<String> {
        // A trace that cannot be read has no kinds of events; queries of it report the error.
        self.names(|source| source.kinds(false).ok())
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(told) = self.told(name) {
            return Ok(Some(told));
        }
        // All kinds have a name of two parts.
        if !name.contains('/') {
            return Ok(None);
        }
        let (sources, wanted) = (self.sources.clone(), name.to_owned());
        let found = blocking(move || EventsTable::of_kind(&sources, &wanted)).await?;
        Ok(found.map(|table| {
            let table: Arc<dyn TableProvider> = Arc::new(table);
            self.known().insert(name.to_owned(), table.clone());
            table
        }))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.known().insert(name, table))
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let removed = self.known().remove(name);
        match removed {
            Some(table) => Ok(Some(table)),
            None if self.table_exist(name) => exec_err!("'{name}' is a table of the traces"),
            None => Ok(None),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.told(name).is_some()
    }
}

/// How like a misspelled name is, from 0 to 1.
const LIKE: f64 = 0.7;

/// Returns the names of tables that are like one that does not exist.
pub(crate) fn similar(names: &[String], wanted: &str) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let last = wanted.rsplit('/').next().unwrap_or_default();
    let is_like = |name: &&String| {
        let name = name.to_lowercase();
        let is_part = name.contains(&wanted) || !last.is_empty() && name.ends_with(last);
        is_part || normalized_levenshtein(&name, &wanted) >= LIKE
    };
    names.iter().filter(is_like).take(3).cloned().collect()
}
