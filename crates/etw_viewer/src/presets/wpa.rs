//! Profiles of Windows Performance Analyzer (`.wpaProfile`): their graphs with the presets of these.
//!
//! A preset lists its columns from left to right. Four bars lie between them, and the attributes `LeftFrozenColumnCount`,
//! `KeyColumnCount` (the golden bar), `RightFrozenColumnCount` and `GraphColumnCount` are their places in this list, in
//! which the bars themselves count too.

use anyhow::{Result, bail};
use openetw::tables::{ColumnType, Role};
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::names::{Meaning, TableNames, column, table_of};
use super::query::expression;
use super::{MAX_COLUMNS, MAX_PRESETS, Missing, Opened, OpenedPreset};
use crate::tables::{Condition, Operator, Sort};

/// Maximum number of attributes of an element.
const MAX_ATTRIBUTES: usize = 64;
/// Number of columns of single rows.
const MAX_SHOWN: usize = 24;

/// A preset as the file says it.
#[derive(Debug, Default)]
struct RawPreset {
    name: String,
    /// Places of the bars in the list of columns.
    bars: Vec<usize>,
    golden: usize,
    query: String,
    /// Whether rows that the filter matches are shown; otherwise the others.
    keeps: bool,
    columns: Vec<RawColumn>,
    /// What of it is not shown here.
    missing: Vec<Missing>,
}

#[derive(Debug, Default)]
struct RawColumn {
    name: String,
    aggregation: String,
    is_visible: bool,
    /// The order, and its rank among the columns that rows are sorted by.
    descending: Option<bool>,
    rank: u32,
    /// How a stack is shown; empty for its frames.
    mode: String,
}

/// Where the reader is.
#[derive(Debug, Default)]
struct Place {
    view: String,
    graph: String,
    preset: Option<RawPreset>,
}

/// Reads a profile.
///
/// # Errors
///
/// Fails if the text is no profile. Of a file that ends early, or is damaged at some place, what comes before is read.
pub(super) fn read(text: &str) -> Result<Opened> {
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    config.allow_dangling_amp = true;
    let (mut opened, mut place, mut is_profile) = (Opened::default(), Place::default(), false);
    loop {
        match reader.read_event() {
            Ok(Event::Start(element) | Event::Empty(element)) => {
                if !is_profile && !element.local_name().as_ref().starts_with("WpaProfile") {
                    bail!("no profile of Windows Performance Analyzer");
                }
                is_profile = true;
                place.start(&element, &mut opened);
            }
            Ok(Event::End(element)) => {
                if matches!(element.local_name().as_ref(), "Preset" | "HdvViewModelPreset") {
                    place.finish(&mut opened);
                }
            }
            Ok(Event::Eof) => break,
            Ok(_) => {}
            Err(error) => {
                opened.missing.push(Missing::new("the end of the file", format!("it is damaged: {error}")));
                break;
            }
        }
        if opened.presets.len() > MAX_PRESETS {
            bail!("more than {MAX_PRESETS} presets");
        }
    }
    if !is_profile {
        bail!("no profile of Windows Performance Analyzer");
    }
    place.finish(&mut opened);
    Ok(opened)
}

impl Place {
    fn start(&mut self, element: &BytesStart<'_>, opened: &mut Opened) {
        let name = element.local_name().as_ref().to_owned();
        let attribute = |wanted: &str| attribute(element, wanted);
        match name.as_str() {
            "View" | "ViewTitle" => {
                if let Some(title) = attribute("Title") {
                    self.view = title;
                }
            }
            "Preset" | "HdvViewModelPreset" => {
                self.finish(opened);
                let place = |name: &str| attribute(name).and_then(|text| text.parse::<usize>().ok());
                let golden = place("KeyColumnCount").unwrap_or(0);
                let others = ["LeftFrozenColumnCount", "RightFrozenColumnCount", "GraphColumnCount"];
                let mut bars: Vec<usize> = others.into_iter().filter_map(place).chain([golden]).collect();
                bars.sort_unstable();
                let selection = attribute("InitialSelectionQuery").map(|query| {
                    Missing::new(
                        format!("the selection {query}"),
                        "lines are selected by a click, which lights their lanes",
                    )
                });
                self.preset = Some(RawPreset {
                    name: attribute("Name").unwrap_or_default(),
                    bars,
                    golden,
                    query: attribute("InitialFilterQuery").unwrap_or_default(),
                    keeps: attribute("InitialFilterShouldKeep").is_none_or(|text| is_true(&text)),
                    columns: Vec::new(),
                    missing: selection.into_iter().collect(),
                });
            }
            "HighlightEntry" => {
                let Some(preset) = &mut self.preset else { return };
                let column = attribute("StartTimeColumnName").unwrap_or_default();
                if preset.missing.len() < MAX_COLUMNS {
                    preset.missing.push(Missing::new(
                        format!("the highlight of {column}"),
                        "times are lit by selecting rows, or marked with M",
                    ));
                }
            }
            "Column" | "HdvColumnViewModelPreset" => {
                let Some(preset) = &mut self.preset else { return };
                if preset.columns.len() >= MAX_COLUMNS {
                    return;
                }
                preset.columns.push(RawColumn {
                    name: attribute("Name").unwrap_or_default().trim().to_owned(),
                    aggregation: attribute("AggregationMode").unwrap_or_default(),
                    is_visible: attribute("IsVisible").is_some_and(|text| is_true(&text)),
                    descending: attribute("SortOrder").map(|text| text == "Descending"),
                    rank: attribute("SortPriority").and_then(|text| text.parse().ok()).unwrap_or(0),
                    mode: String::new(),
                });
            }
            "StackOptionsParameter" | "PresetStackOptions" => {
                let column = self.preset.as_mut().and_then(|preset| preset.columns.last_mut());
                if let (Some(column), Some(mode)) = (column, attribute("Mode")) {
                    column.mode = mode;
                }
            }
            "FileReference" => {
                if let Some(file) = attribute("FileName") {
                    let why = match file.to_ascii_lowercase() {
                        file if file.ends_with(".xml") => "regions are made with `etw view --regions FILE`",
                        file if file.ends_with(".stacktags") => {
                            "stack tags are files of their own; give them by --stack-tags"
                        }
                        _ => "other files are not opened",
                    };
                    opened.missing.push(Missing::new(file, why));
                }
            }
            "Graph" => self.graph = attribute("Guid").unwrap_or_default(),
            name if name.ends_with("GraphTreeItem") => {
                self.graph = attribute("ClsID").unwrap_or_else(|| name.to_owned());
            }
            _ => {}
        }
    }

    /// Adds the preset that was read.
    fn finish(&mut self, opened: &mut Opened) {
        let Some(raw) = self.preset.take() else { return };
        let columns: Vec<&str> = raw.columns.iter().map(|column| column.name.as_str()).collect();
        let table = table_of(&self.graph, &columns);
        let Some(table) = table.filter(|table| !table.table.is_empty()) else {
            let (name, why) = match table {
                Some(table) => (table.name, table.reason.to_owned()),
                None => ("a graph", format!("the table {} is not known", self.graph)),
            };
            opened.missing.push(Missing::new(format!("{}: {name}: {}", self.view, raw.name), why));
            return;
        };
        let mut made =
            OpenedPreset { view: self.view.clone(), missing: raw.missing.clone(), ..OpenedPreset::default() };
        made.preset.name = raw.name.clone();
        table.table.clone_into(&mut made.preset.table);
        columns_of(&raw, table, &mut made);
        if !raw.query.trim().is_empty() {
            match expression(&raw.query, table) {
                Ok(text) => made.preset.filters.push(Condition {
                    column: String::new(),
                    op: Operator::Rows,
                    value: if raw.keeps { text } else { format!("not ({text})") },
                    label: None,
                }),
                Err(error) => made.missing.push(Missing::new(
                    format!("the filter {}", raw.query),
                    format!("{error:#}; all rows are shown"),
                )),
            }
        }
        opened.presets.push(made);
    }
}

/// Adds the visible columns of a preset.
fn columns_of(raw: &RawPreset, table: &TableNames, made: &mut OpenedPreset) {
    let OpenedPreset { preset, missing, .. } = made;
    let mut place = 0;
    // The column that rows are sorted by, with its rank.
    let mut sort: Option<(u32, Sort)> = None;
    for column in &raw.columns {
        while raw.bars.contains(&place) {
            place += raw.bars.iter().filter(|bar| **bar == place).count();
        }
        let is_key = place < raw.golden;
        place += 1;
        if !column.is_visible {
            continue;
        }
        let found = Found::new(column, table);
        let by = match &found {
            Ok(Found { key: Some(key), .. }) if is_key => {
                let is_first = preset.keys.is_empty();
                push(&mut preset.keys, key);
                is_first.then(|| "label".to_owned())
            }
            Ok(Found { value: Some(value), .. }) if !is_key => {
                push(&mut preset.values, value);
                Some(value.clone())
            }
            _ => None,
        };
        match found {
            Ok(found) => {
                if let Some(path) = found.column.filter(|_| preset.columns.len() < MAX_SHOWN) {
                    push(&mut preset.columns, &path);
                }
                let why = match (is_key, found.key) {
                    (true, None) => Some("rows are not grouped by it".to_owned()),
                    (true, Some(_)) => None,
                    (false, _) => found.why,
                };
                if let Some(why) = why {
                    missing.push(Missing::new(&column.name, why));
                }
            }
            Err(why) => missing.push(Missing::new(&column.name, why)),
        }
        if let (Some(by), Some(descending)) = (by, column.descending)
            && sort.as_ref().is_none_or(|(rank, _)| column.rank < *rank)
        {
            sort = Some((column.rank, Sort { by, descending }));
        }
    }
    preset.flat = preset.keys.is_empty();
    if !preset.flat {
        if preset.values.is_empty() {
            preset.values.push("rows".to_owned());
        }
        preset.sort = sort.map(|(_, sort)| sort);
    }
}

fn push(list: &mut Vec<String>, name: &str) {
    if !list.iter().any(|known| known == name) {
        list.push(name.to_owned());
    }
}

/// What a column of a profile becomes.
#[derive(Debug, Default)]
struct Found {
    /// A column to group by.
    key: Option<String>,
    /// A value of a group.
    value: Option<String>,
    /// A column of single rows.
    column: Option<String>,
    /// What is different here.
    why: Option<String>,
}

impl Found {
    fn new(raw: &RawColumn, table: &TableNames) -> Result<Found, String> {
        let path = match table.column(&raw.name) {
            Meaning::Path(path) => path,
            Meaning::Rows if raw.aggregation == "Peak" => {
                return Err("the greatest number at once is in the timeline".to_owned());
            }
            Meaning::Rows => return Ok(Found { value: Some("rows".to_owned()), ..Found::default() }),
            Meaning::Percent(of) => {
                let of = if of.is_empty() { "rows".to_owned() } else { format!("sum({of})") };
                return Ok(Found { value: Some(format!("percent({of})")), ..Found::default() });
            }
            Meaning::Missing(why) => return Err(why),
        };
        let Some(column) = column(table.table, &path) else { return Err("it is no column here".to_owned()) };
        if column.column_type == ColumnType::Stack {
            let why = match raw.mode.as_str() {
                "" => "stacks are in the tab Stacks",
                _ => "stack tags are in the tab Stacks, if etw view has --stack-tags",
            };
            return Err(why.to_owned());
        }
        let is_time = column.column_type == ColumnType::Time;
        let is_number = column.column_type.is_number() && !is_time;
        let (word, why) = match raw.aggregation.as_str() {
            "Sum" if is_number => (Some("sum"), None),
            "Average" if is_number => (Some("mean"), None),
            "Min" if is_number || is_time => (Some("min"), None),
            "Max" if is_number || is_time => (Some("max"), None),
            "Peak" if is_number => {
                (Some("max"), Some("the greatest single value; the greatest sum at once is in the timeline"))
            }
            "UniqueCount" => (Some("unique"), None),
            "Count" => {
                return Ok(Found {
                    key: Some(path.clone()),
                    value: Some("rows".to_owned()),
                    column: Some(path),
                    why: None,
                });
            }
            "" | "None" if column.role == Role::Measure => (Some("sum"), None),
            "" | "None" => (None, Some("shown for single rows only")),
            _ => (None, Some("it is not added up so here")),
        };
        Ok(Found {
            // Times are different in every row.
            key: (!is_time).then(|| path.clone()),
            value: word.map(|word| format!("{word}({path})")),
            column: Some(path),
            why: why.map(str::to_owned),
        })
    }
}

fn is_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

/// Returns an attribute of an element.
fn attribute(element: &BytesStart<'_>, wanted: &str) -> Option<String> {
    let mut attributes = element.attributes();
    let attributes = attributes.with_checks(false).take(MAX_ATTRIBUTES).flatten();
    let mut found = attributes.filter(|attribute| attribute.key.as_ref() == wanted);
    let value = found.next()?.normalized_value(XmlVersion::Implicit1_0).ok()?;
    Some(value.into_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A profile with a graph, a filter and a file that it refers to.
    pub(crate) const SAMPLE: &str = "<WpaProfileContainer Version=\"2\"><Content><Sessions><Session Index=\"0\"><FileReferences>\
        <FileReference FileName=\"a.stacktags\"/></FileReferences></Session></Sessions><Views>\
        <View Title=\"CPU &amp; more\"><Graphs><Graph Guid=\"b855361e-7be0-4bc8-a754-3e8507715ca5\">\
        <Preset Name=\"One\" LeftFrozenColumnCount=\"0\" KeyColumnCount=\"5\" RightFrozenColumnCount=\"8\" \
        GraphColumnCount=\"10\" InitialFilterQuery=\"[Process Name]:=&quot;a.exe&quot;\" \
        InitialFilterShouldKeep=\"false\"><Columns>\
        <Column Name=\"Process\" IsVisible=\"true\" SortOrder=\"Ascending\" SortPriority=\"4\"/>\
        <Column Name=\"Module\" IsVisible=\"false\"/>\
        <Column Name=\"Function\" IsVisible=\"true\"/>\
        <Column Name=\"Stack\" IsVisible=\"true\"><StackOptionsParameter/></Column>\
        <Column Name=\"Count\" AggregationMode=\"Sum\" IsVisible=\"true\"/>\
        <Column Name=\"Priority\" IsVisible=\"true\"/>\
        <Column Name=\"Weight (in view)\" AggregationMode=\"Sum\" IsVisible=\"true\"/>\
        <Column Name=\"% Weight\" AggregationMode=\"Sum\" SortOrder=\"Descending\" SortPriority=\"0\" IsVisible=\"true\"/>\
        </Columns></Preset></Graph></Graphs></View></Views></Content></WpaProfileContainer>";

    #[test]
    fn columns_lie_left_and_right_of_the_golden_bar() {
        let text = SAMPLE;
        let opened = read(text).unwrap();
        let [one] = &opened.presets[..] else { panic!("{opened:?}") };
        assert_eq!((one.view.as_str(), one.preset.name.as_str()), ("CPU & more", "One"));
        assert_eq!(one.preset.table, "cpu_sampled");
        assert_eq!(one.preset.keys, ["thread.process", "frame.function"]);
        assert_eq!(one.preset.values, ["rows", "sum(weight)", "percent(sum(weight))"]);
        assert_eq!(one.preset.columns, ["thread.process", "frame.function", "weight"]);
        assert_eq!(one.preset.sort, Some(Sort { by: "percent(sum(weight))".to_owned(), descending: true }));
        assert_eq!(one.preset.filters[0].value, "not (thread.process.name =~ \"a.exe\")");
        let missing: Vec<&str> = one.missing.iter().map(|missing| missing.what.as_str()).collect();
        assert_eq!(missing, ["Stack", "Priority"]);
        assert_eq!(opened.missing[0].what, "a.stacktags");
        // Every beginning is read without a panic; what is complete is there.
        for end in 0..text.len() {
            let _read = read(&text[..end]);
        }
        let cut = read(&text[..text.len() - 90]).unwrap();
        assert_eq!(cut.presets.len(), 1);
    }

    #[test]
    fn the_published_profiles_are_read() {
        let Some(folder) = etw_testkit::data::data_dir() else { return };
        let (mut files, mut presets, mut lost) = (0, 0, Vec::new());
        for folder in std::fs::read_dir(folder.join("wpa-profiles")).unwrap().flatten() {
            for file in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                let path = file.path();
                if path.extension().is_none_or(|extension| extension != "wpaProfile") {
                    continue;
                }
                let text = etw_profile::decode(&std::fs::read(&path).unwrap()).into_owned();
                let opened =
                    super::super::open("a", &text).unwrap_or_else(|error| panic!("{path:?}: {error:#}"));
                files += 1;
                presets += opened.presets.len();
                lost.extend(opened.missing);
                for one in &opened.presets {
                    let preset = &one.preset;
                    assert!(!preset.columns.is_empty(), "{path:?}: {one:?}");
                    for name in preset.keys.iter().chain(&preset.columns) {
                        assert!(column(&preset.table, name).is_some(), "{path:?}: {name}");
                    }
                }
            }
        }
        assert!(files >= 25 && presets >= 40, "{files} files, {presets} presets");
        // Handles of windows, reference sets, resident sets and snapshots of heaps have no table.
        let unknown: Vec<&Missing> = lost.iter().filter(|one| one.why.contains("is not known")).collect();
        assert!(unknown.len() <= 1, "{unknown:?}");
    }
}
