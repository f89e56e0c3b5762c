//! Where the tables and stacks of a report are in the viewer (`etw view`).

use maud::{Markup, html};
use openetw::analysis::{Cell, StackWeight, Table, TableKind};

/// How a page leads into the viewer.
#[derive(Debug, Clone)]
pub(super) enum Links {
    /// By commands that open the viewer, since a file does not know where one runs: the files, as arguments.
    Commands(String),
    /// By links, since the viewer serves the page.
    Pages,
    /// Not at all: the events come from a session, which is no file to open.
    None,
}

impl Links {
    /// Returns the links of a page in a file.
    pub(super) fn of_files<'f>(files: impl IntoIterator<Item = &'f str>) -> Links {
        let files: Vec<String> = files.into_iter().map(argument).collect();
        Links::Commands(files.join(" "))
    }

    /// Returns what leads to a place of the viewer; nothing if the viewer has no such place.
    pub(super) fn to(&self, place: Option<&str>) -> Markup {
        let Some(place) = place else { return Markup::default() };
        html! {
            @match self {
                Links::Commands(files) => details.viewer {
                    summary { "In the viewer" }
                    code { "etw view " (files) " --open " (argument(place)) }
                },
                Links::Pages => p.viewer { a href={ "/#" (place) } { "In the viewer" } },
                Links::None => {}
            }
        }
    }
}

/// Returns a text as an argument of a command, with quotes if it needs them.
fn argument(text: &str) -> String {
    let text = super::words::shown(text);
    let is_plain = |letter: char| {
        letter.is_alphanumeric() || matches!(letter, '.' | '_' | '-' | '/' | '\\' | ':' | '=' | '+')
    };
    if !text.is_empty() && text.chars().all(is_plain) {
        text
    } else if cfg!(windows) {
        format!("\"{}\"", text.replace('"', ""))
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Returns the part after `#` of the viewer's URL that shows a table.
pub(super) fn table(table: &Table) -> Option<String> {
    let has_switches = || {
        let switches = table.columns.iter().position(|column| column.key == "cpu_ns");
        let of = |row: &Vec<Cell>| switches.and_then(|column| row.get(column).cloned());
        table.rows.iter().filter_map(of).any(|cell| cell != Cell::None)
    };
    let rows = match table.kind {
        TableKind::ByFunction(_) => return stacks(table.kind),
        TableKind::WaitChains => return stacks(TableKind::ByFunction(StackWeight::WaitChains)),
        TableKind::Cpu | TableKind::Threads if has_switches() => "cpu_precise",
        kind => kind.rows()?,
    };
    Some(format!("table={rows}"))
}

/// Returns the same for stacks.
pub(super) fn stacks(kind: TableKind) -> Option<String> {
    let rows = kind.rows()?;
    let weight = match kind {
        TableKind::ByFunction(weight) => match weight.column() {
            Some(column) => column.to_owned(),
            // The viewer counts it as the report does.
            None => format!("trace%3A{}", weight.name()),
        },
        TableKind::Functions => "weight".to_owned(),
        _ => return None,
    };
    Some(format!("table={rows}&tab=stacks&stack=%7B%22weight%22%3A%22{weight}%22%7D"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_of_plain_or_quoted_arguments() {
        let check = |file: &str, expected: &str| {
            let shown = Links::of_files([file]).to(Some("table=disk")).into_string();
            assert!(shown.contains(&format!("etw view {expected} --open table=disk")), "{shown}");
        };
        check("/tmp/a-1.etl", "/tmp/a-1.etl");
        if cfg!(unix) {
            check("a b.etl", "'a b.etl'");
            check("$(x)'.etl", r"'$(x)'\''.etl'");
            check("<b>.etl", "'&lt;b&gt;.etl'");
        }
        let page = Links::Pages.to(Some("table=disk")).into_string();
        assert!(page.contains("href=\"/#table=disk\""), "{page}");
        assert!(Links::Pages.to(None).into_string().is_empty());
    }

    #[test]
    fn places_are_tables_with_rows() {
        for name in TableKind::ALL.iter().filter_map(|kind| kind.rows()) {
            assert!(openetw::tables::row_tables().any(|table| table.name == name), "{name}");
        }
    }

    #[test]
    fn stacks_are_of_tables_with_this_weight() {
        let places = StackWeight::ALL.iter().filter_map(|weight| stacks(TableKind::ByFunction(*weight)));
        let places: Vec<String> = places.chain(stacks(TableKind::Functions)).collect();
        assert_eq!(places.len(), 18);
        for place in places {
            let (name, rest) = place.strip_prefix("table=").unwrap().split_once('&').unwrap();
            let weight = rest.split("%22").nth(3).unwrap();
            let table = openetw::tables::row_tables().find(|table| table.name == name).unwrap();
            let is_known =
                weight == "rows" || weight.starts_with("trace%3A") || table.column(weight).is_some();
            assert!(is_known, "{place}");
        }
    }
}
