//! Writes `docs/wpa-tables.md`: which tables and columns of the published profiles of Windows Performance Analyzer are
//! here, from `tools/pages/wpa-tables.toml`; and the same for the viewer, which opens such profiles.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use etw_testkit::data;
use openetw::tables::row_tables;
use serde::Deserialize;

use crate::Files;

const PAGE: &str = "docs/wpa-tables.md";
const NAMES: &str = "crates/etw_viewer/src/presets/wpa-tables.tsv";
const MAPPING: &str = "tools/pages/wpa-tables.toml";
/// Least part of the columns of decodable tables that must be here, in percent.
const GOAL: usize = 90;

const HEAD: &str = "# Tables of Windows Performance Analyzer

`.wpaProfile` files say which tables and columns people use in Windows Performance Analyzer.
This page lists those of the published profiles that the project tests with, and what they are called here ([tables](tables.md)).
`cargo xtask wpa-tables` writes it from `tools/pages/wpa-tables.toml`, and fails if a profile has a table or column that the file lacks, or if the file names a column that is not declared.

- A path such as `thread.process.name` leads through the tables that rows refer to; `etw report --columns` and `--group-by` take it as it is.
- *Italics* say what takes the place of a column that is no column here.
- **Missing** columns could be made from events that are decoded, but are not yet.

";

/// The file that says what columns are called here.
#[derive(Deserialize)]
struct Mapping {
    /// Columns of many tables.
    common: BTreeMap<String, String>,
    table: Vec<Entry>,
}

/// A table of Windows Performance Analyzer.
#[derive(Deserialize)]
struct Entry {
    guid: String,
    name: String,
    /// What profiles of Windows 8 call it.
    #[serde(default)]
    class: String,
    /// The table here; empty if there is none.
    #[serde(default)]
    table: String,
    /// Why there is none.
    #[serde(default)]
    reason: String,
    /// For each column its path here, `TABLE:PATH` if it is in another table, `=` and what takes its place, or `-` and why
    /// it is missing.
    #[serde(default)]
    columns: BTreeMap<String, String>,
}

/// Returns the page and the names for the viewer; `None` without published profiles.
pub(crate) fn made() -> Result<Option<Files>> {
    let Some(directory) = data::data_dir().map(|directory| directory.join("wpa-profiles")) else {
        return Ok(None);
    };
    let text = fs::read_to_string(data::workspace_root().join(MAPPING)).context(MAPPING)?;
    let mapping: Mapping = toml::from_str(&text).context(MAPPING)?;
    Ok(Some(vec![(PAGE, page_of(&mapping, &directory)?), (NAMES, names(&mapping))]))
}

/// Returns the mapping as lines: a table, then its columns; first the columns of many tables.
fn names(mapping: &Mapping) -> String {
    let mut text = String::from("table\t*\t\t\t\t\n");
    let put = |columns: &BTreeMap<String, String>, text: &mut String| {
        text.extend(columns.iter().map(|(column, said)| format!("{column}\t{said}\n")));
    };
    put(&mapping.common, &mut text);
    for Entry { guid, name, class, table, reason, columns } in &mapping.table {
        text.push_str(&format!("table\t{guid}\t{name}\t{table}\t{reason}\t{class}\n"));
        put(columns, &mut text);
    }
    text
}

/// The columns of a table in all profiles, and the names of these.
#[derive(Default)]
struct Used {
    columns: BTreeSet<String>,
    profiles: BTreeSet<String>,
}

fn page_of(mapping: &Mapping, directory: &Path) -> Result<String> {
    let mut used: BTreeMap<String, Used> = BTreeMap::new();
    for path in profiles(directory)? {
        let bytes = fs::read(&path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        columns(&openetw::profile::decode(&bytes), &name, &mut used);
    }
    for guid in used.keys() {
        if !mapping.table.iter().any(|entry| entry.guid == *guid) {
            bail!("{MAPPING} lacks the table {guid}");
        }
    }
    let mut page = String::new();
    let (mut here, mut decodable, mut all) = (0, 0, 0);
    for entry in &mapping.table {
        let used =
            used.get(&entry.guid).with_context(|| format!("no profile has the table {}", entry.name))?;
        let profiles: Vec<&str> = used.profiles.iter().map(String::as_str).collect();
        writeln!(page, "## {}\n\nIn {}.", entry.name, profiles.join(", "))?;
        all += used.columns.len();
        if entry.table.is_empty() {
            if entry.reason.is_empty() {
                bail!("{MAPPING}: {} has neither `table` nor `reason`", entry.name);
            }
            writeln!(page, "Not here: {}.\n", entry.reason)?;
            continue;
        }
        writeln!(page, "Here [`{0}`](tables.md#{0}).\n\n| column | here |\n|---|---|", entry.table)?;
        for column in &used.columns {
            let found = entry.columns.get(column).or_else(|| mapping.common.get(column));
            let found = found.with_context(|| format!("{MAPPING}: {} lacks '{column}'", entry.name))?;
            decodable += 1;
            let shown = match (found.strip_prefix('='), found.strip_prefix('-')) {
                (Some(other), _) => format!("*{}*", other.trim()),
                (_, Some(reason)) => format!("**missing**: {}", reason.trim()),
                _ => {
                    check_path(&entry.table, found).with_context(|| format!("{}: {column}", entry.name))?;
                    format!("`{found}`")
                }
            };
            here += usize::from(!found.starts_with('-'));
            writeln!(page, "| {column} | {shown} |")?;
        }
        writeln!(page)?;
    }
    if here * 100 < decodable * GOAL {
        bail!("{here} of {decodable} columns are here, less than {GOAL} %");
    }
    let summary = format!(
        "The profiles use {all} columns of {} tables. {decodable} of them are of tables whose events are decoded, and {here} of these are here.\n\n",
        mapping.table.len()
    );
    page.truncate(page.trim_end().len() + 1);
    Ok(format!("{HEAD}{summary}{page}"))
}

fn profiles(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in fs::read_dir(directory)?.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        files.extend(fs::read_dir(folder)?.flatten().map(|entry| entry.path()));
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "wpaProfile"));
    files.sort();
    Ok(files)
}

/// Adds the tables and columns of a profile. One published file ends early, so tags are read one by one.
fn columns(text: &str, name: &str, used: &mut BTreeMap<String, Used>) {
    let mut table = String::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('<') {
        if let Some(comment) = after.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let (tag, after) = after.split_once('>').unwrap_or((after, ""));
        rest = after;
        if tag.starts_with("Graph ") {
            table = attribute(tag, "Guid").unwrap_or_default().to_ascii_lowercase();
        } else if tag.starts_with("Column ")
            && let Some(column) = attribute(tag, "Name")
        {
            let used = used.entry(table.clone()).or_default();
            used.columns.insert(column.trim().to_owned());
            used.profiles.insert(name.to_owned());
        }
    }
}

fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let (_, value) = tag.split_once(&format!(" {name}=\""))?;
    value.split_once('"').map(|(value, _)| value)
}

/// Checks that a path leads to a column.
fn check_path(table: &str, path: &str) -> Result<()> {
    let (mut table, path) = path.split_once(':').unwrap_or((table, path));
    let steps: Vec<&str> = path.split('.').collect();
    for (number, step) in steps.iter().enumerate() {
        let schema = row_tables().find(|schema| schema.name == table);
        let schema = schema.with_context(|| format!("no table '{table}'"))?;
        let column = schema.column(step).and_then(|number| schema.columns.get(number));
        let column = column.with_context(|| format!("table '{table}' has no column '{step}'"))?;
        table = &column.table;
        if table.is_empty() && number + 1 < steps.len() {
            bail!("'{step}' refers to no table");
        }
    }
    Ok(())
}
