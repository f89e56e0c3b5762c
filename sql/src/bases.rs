//! Numbers of rows and stacks that are unique among the traces of a database, so that tables can be joined by them alone.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use etw_columns::Index;
use etw_tables::row_tables;
use serde::{Deserialize, Serialize};

use crate::once::{Once, once};
use crate::source::{Source, prepare};

/// All traces of a database.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    pub(crate) sources: Vec<Source>,
    bases: Once<Vec<Arc<Bases>>>,
}

impl Traces {
    pub(crate) fn new(sources: Vec<Source>) -> Traces {
        Traces { sources, bases: Once::new() }
    }

    /// Returns traces of which another process has found what is added to their numbers.
    pub(crate) fn with_bases(sources: Vec<Source>, bases: Vec<Arc<Bases>>) -> Traces {
        Traces { sources, bases: Once::from(Ok(bases)) }
    }

    /// Returns what is added to the numbers of each trace. Reads the tables of all but the last.
    ///
    /// # Errors
    ///
    /// Fails if a trace cannot be read, or if all together have more than 2³² rows of a table.
    pub(crate) fn bases(&self) -> Result<&[Arc<Bases>]> {
        let bases = once(&self.bases, || Bases::from_sources(&self.sources))?;
        Ok(bases)
    }
}

/// What is added to the numbers of one trace: how many the traces before it have.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Bases {
    tables: HashMap<String, u32>,
    stacks: u32,
}

impl Bases {
    /// Returns those of each trace. The first one's are 0, so one trace alone needs no other.
    fn from_sources(sources: &[Source]) -> Result<Vec<Arc<Bases>>> {
        if let Some((_, counted)) = sources.split_last() {
            prepare(counted, |source| source.index().map(|_| ()));
        }
        let mut bases = Bases::default();
        let mut all = Vec::with_capacity(sources.len());
        for source in sources {
            all.push(Arc::new(bases.clone()));
            if all.len() == sources.len() {
                break;
            }
            let index = source.index()?.index();
            for table in row_tables() {
                let rows = index.table(&table.name).map_or(0, |table| table.rows());
                let base = bases.tables.entry(table.name.to_string()).or_default();
                *base = sum(*base, rows)?;
            }
            bases.stacks = sum(bases.stacks, index.stacks()?.len() as u64)?;
        }
        Ok(all)
    }

    /// Returns those of stacks and of one table only.
    pub(crate) fn only(&self, table: &str) -> Bases {
        Bases { tables: HashMap::from([(table.to_owned(), self.of_table(table))]), stacks: self.stacks }
    }

    /// Returns what is added to the numbers of a table's rows.
    pub(crate) fn of_table(&self, name: &str) -> u32 {
        self.tables.get(name).copied().unwrap_or(0)
    }

    /// Returns what is added to the codes of stacks.
    pub(crate) fn of_stacks(&self) -> u32 {
        self.stacks
    }

    /// Checks that every number of the trace fits with what is added to it, so that none wraps.
    ///
    /// # Errors
    ///
    /// Fails if a table, or the stacks, have too many rows, or if they cannot be read.
    pub(crate) fn check(&self, index: &Index) -> Result<()> {
        for table in row_tables() {
            let rows = index.table(&table.name).map_or(0, |table| table.rows());
            sum(self.of_table(&table.name), rows).with_context(|| format!("the table {}", table.name))?;
        }
        sum(self.stacks, index.stacks()?.len() as u64).context("the stacks").map(drop)
    }
}

fn sum(base: u32, count: u64) -> Result<u32> {
    let sum = u64::from(base) + count;
    u32::try_from(sum).ok().context("the traces have too many rows for one database; name fewer of them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_rows_do_not_wrap() {
        assert_eq!(sum(7, u64::from(u32::MAX) - 7).unwrap(), u32::MAX);
        let error = sum(7, u64::from(u32::MAX) - 6).unwrap_err();
        assert!(error.to_string().contains("too many rows"), "{error}");
        assert!(sum(0, 1 << 40).is_err());
    }
}
