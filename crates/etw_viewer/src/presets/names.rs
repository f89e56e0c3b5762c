//! What tables and columns of Windows Performance Analyzer are called here.
//!
//! `wpa-tables.tsv` is written by `cargo xtask wpa-tables`, as `docs/wpa-tables.md` is.

use std::collections::HashMap;
use std::sync::OnceLock;

use openetw::tables::{Column, TableSchema, row_tables};

const NAMES: &str = include_str!("wpa-tables.tsv");

/// Least number of columns by which a table is recognised whose id is not known, and the least part of all its columns.
const MIN_COLUMNS: usize = 4;
const MIN_PART: f64 = 0.6;

/// Names that many tables use, with the paths that are tried for them.
const COMMON: &[(&str, &[&str])] = &[
    ("cpu", &["processor"]),
    ("timestamp", &["time"]),
    ("process", &["process", "thread.process"]),
    ("processname", &["process.name", "thread.process.name"]),
    ("threadid", &["thread.thread_id"]),
    ("threadname", &["thread.name"]),
    ("filename", &["file.path"]),
    ("pathname", &["file.path"]),
    ("iotype", &["operation"]),
];

/// A table of Windows Performance Analyzer.
#[derive(Debug, Default)]
pub(super) struct TableNames {
    guid: &'static str,
    pub(super) name: &'static str,
    /// The table here; empty if there is none.
    pub(super) table: &'static str,
    /// Why there is none.
    pub(super) reason: &'static str,
    /// What profiles of Windows 8 call it.
    class: &'static str,
    columns: HashMap<&'static str, &'static str>,
}

/// What a column is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A column of the table, or of a table that its rows refer to.
    Path(String),
    /// The number of rows.
    Rows,
    /// The share of the sum of a column.
    Percent(String),
    /// There is none, for this reason.
    Missing(String),
}

/// Returns all tables that are known; the first one has the columns of all tables.
fn tables() -> &'static [TableNames] {
    static TABLES: OnceLock<Vec<TableNames>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut tables: Vec<TableNames> = Vec::new();
        for line in NAMES.lines() {
            let mut cells = line.split('\t');
            match (cells.next(), tables.last_mut()) {
                (Some("table"), _) => {
                    let mut cell = || cells.next().unwrap_or_default();
                    tables.push(TableNames {
                        guid: cell(),
                        name: cell(),
                        table: cell(),
                        reason: cell(),
                        class: cell(),
                        columns: HashMap::new(),
                    });
                }
                (Some(column), Some(table)) => {
                    table.columns.insert(column, cells.next().unwrap_or_default());
                }
                _ => {}
            }
        }
        tables
    })
}

/// Returns the table with an id, or the one that has most of the columns if the id is not known.
pub(super) fn table_of(id: &str, columns: &[&str]) -> Option<&'static TableNames> {
    let id = id.trim_matches(['{', '}']).to_ascii_lowercase();
    let named = tables().iter().skip(1);
    if let Some(known) = named
        .clone()
        .find(|table| table.guid == id || table.class.eq_ignore_ascii_case(&id) && !id.is_empty())
    {
        return Some(known);
    }
    let has = |table: &TableNames| columns.iter().filter(|name| table.columns.contains_key(**name)).count();
    let mut found: Vec<(usize, &TableNames)> =
        named.filter(|table| !table.table.is_empty()).map(|table| (has(table), table)).collect();
    found.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let (most, table) = *found.first()?;
    let is_only = found.get(1).is_none_or(|(count, _)| *count < most);
    let is_most = most >= MIN_COLUMNS && most as f64 >= columns.len() as f64 * MIN_PART;
    (is_only && is_most).then_some(table)
}

impl TableNames {
    /// Returns what a column is here.
    pub(super) fn column(&self, name: &str) -> Meaning {
        // Only the time in view is counted here too.
        let name = name.strip_suffix(" (in view)").unwrap_or(name).trim();
        if plain(name) == "count" {
            return Meaning::Rows;
        }
        if let Some(of) = name.strip_prefix("% ") {
            return match self.column(of) {
                Meaning::Path(path) => Meaning::Percent(path),
                Meaning::Rows => Meaning::Percent(String::new()),
                missing @ (Meaning::Percent(_) | Meaning::Missing(_)) => missing,
            };
        }
        let common = tables().first().and_then(|common| common.columns.get(name));
        if let Some(said) = self.columns.get(name).or(common) {
            return match (said.strip_prefix('='), said.strip_prefix('-'), said.split_once(':')) {
                (Some(other), ..) => {
                    Meaning::Missing(format!("here it is {}", other.trim().replace('`', "")))
                }
                (_, Some(reason), _) => Meaning::Missing(reason.trim().replace('`', "")),
                (.., Some((table, path))) => {
                    Meaning::Missing(format!("here it is {path} of the table {table}"))
                }
                _ => Meaning::Path(shorter(self.table, said)),
            };
        }
        match self.similar(name) {
            Some(path) => Meaning::Path(path),
            None => Meaning::Missing(format!("the table {} has no such column", self.table)),
        }
    }

    /// Returns the column whose name differs only in spaces and case.
    fn similar(&self, name: &str) -> Option<String> {
        let schema = schema(self.table)?;
        let wanted = plain(name);
        if let Some(own) = schema.columns.iter().find(|column| plain(&column.name) == wanted) {
            return Some(own.name.to_string());
        }
        let (_, paths) = COMMON.iter().find(|(common, _)| *common == wanted)?;
        paths.iter().find(|path| column(self.table, path).is_some()).map(|path| (*path).to_owned())
    }
}

/// Returns a path without the last step if that leads to what a process is shown as.
fn shorter(table: &str, path: &str) -> String {
    let process = path.strip_suffix(".process");
    let process =
        process.filter(|path| column(table, path).is_some_and(|column| column.table == "processes"));
    process.unwrap_or(path).to_owned()
}

fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

fn schema(name: &str) -> Option<&'static TableSchema> {
    row_tables().find(|schema| schema.name == name)
}

/// Returns the column that a path leads to.
pub(super) fn column(table: &str, path: &str) -> Option<&'static Column> {
    let mut schema = schema(table)?;
    let mut steps = path.split('.').peekable();
    while let Some(step) = steps.next() {
        let column = schema.column(step).and_then(|number| schema.columns.get(number))?;
        if steps.peek().is_none() {
            return Some(column);
        }
        schema = self::schema(&column.table)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_leads_to_a_column() {
        assert!(tables().len() > 20);
        for table in tables().iter().skip(1).filter(|table| !table.table.is_empty()) {
            for name in table.columns.keys() {
                if let Meaning::Path(path) = table.column(name) {
                    assert!(column(table.table, &path).is_some(), "{}: {name}: {path}", table.name);
                }
            }
        }
    }

    #[test]
    fn tables_are_known_by_id_class_and_columns() {
        let name = |id: &str, columns: &[&str]| table_of(id, columns).map(|table| table.table);
        assert_eq!(name("{C58F5FEA-0319-4046-932D-E695EBE20B47}", &[]), Some("cpu_precise"));
        assert_eq!(name("CpuSamplingGraphTreeItem", &[]), Some("cpu_sampled"));
        assert_eq!(name("other", &["Weight", "Function", "Module", "Stack"]), Some("cpu_sampled"));
        assert_eq!(name("other", &["Weight", "Function"]), None);
        assert_eq!(name("", &[]), None);
    }

    #[test]
    fn columns_have_meanings() {
        let table = table_of("b855361e-7be0-4bc8-a754-3e8507715ca5", &[]).unwrap();
        let check = |name: &str, path: &str| assert_eq!(table.column(name), Meaning::Path(path.to_owned()));
        check("Process", "thread.process");
        check("Process Name", "thread.process.name");
        check("Weight (in view)", "weight");
        check("CPU", "processor");
        assert_eq!(table.column("Count"), Meaning::Rows);
        assert_eq!(table.column("% Weight"), Meaning::Percent("weight".to_owned()));
        assert!(matches!(table.column("Priority"), Meaning::Missing(_)));
        assert!(matches!(table.column("Colour of the sky"), Meaning::Missing(_)));
    }
}
