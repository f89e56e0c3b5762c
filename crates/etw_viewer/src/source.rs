//! The source lines of a function, with what each weighs, if the file is on this machine.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use openetw::tables::{Aggregate, Filter, Pivot, TextPattern, TextPosition, Value};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::model::Model;
use crate::tables::{Cell, Conditions, Fields, Scope, table, threads};

/// Maximum size of a file.
const MAX_LEN_BYTES: u64 = 8 << 20;
/// Number of lines that are shown before and after those of the function.
const AROUND: u32 = 12;
/// Maximum number of lines that are shown.
const MAX_LINES: u32 = 1000;
/// Extensions of source files. A trace may name any file, and only these are read.
const EXTENSIONS: &[&str] = &[
    "c", "cc", "cpp", "cxx", "h", "hh", "hpp", "hxx", "inl", "ipp", "m", "mm", "rs", "go", "cs", "fs", "vb",
    "java", "kt", "swift", "zig", "py", "js", "ts", "asm", "s", "d", "pas", "f90", "nim", "cu", "cl",
];

/// A function whose lines are wanted.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SourceRequest {
    /// Which rows are counted.
    #[serde(flatten)]
    scope: Scope,
    /// The function as the table of frames has it.
    function: String,
}

/// Returns the lines around those of a function.
///
/// # Errors
///
/// Fails if no symbols say where the function is, or if a chunk is damaged.
pub(crate) fn source(model: &Model, request: &SourceRequest) -> Result<Json> {
    let weights = weights(model, request)?;
    let (file, lines) = weights
        .into_iter()
        .max_by_key(|(_, lines)| lines.values().map(|line| line.rows).sum::<u64>())
        .with_context(|| format!("no symbols say in which file {} is", request.function))?;
    let mut shown = json!({ "file": file, "lines": [], "problem": null });
    let hottest = lines.iter().max_by_key(|(_, line)| line.rows).map_or(1, |(number, _)| *number);
    shown["line"] = hottest.into();
    match read(&file) {
        Ok(text) => shown["lines"] = excerpt(&text, &lines, hottest),
        Err(error) => {
            shown["problem"] = format!("{error:#}").into();
            // The numbers of the lines are known without the file.
            let known = lines.iter().map(|(number, line)| line.json(*number, ""));
            shown["lines"] = known.collect();
        }
    }
    Ok(shown)
}

/// What a line weighs.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    rows: u64,
    weight: f64,
}

impl Line {
    fn json(self, number: u32, text: &str) -> Json {
        json!({ "number": number, "text": text, "rows": self.rows, "weight": self.weight })
    }
}

/// Returns the weights of lines by file. A table without instructions has no weights, only places.
fn weights(model: &Model, request: &SourceRequest) -> Result<BTreeMap<String, BTreeMap<u32, Line>>> {
    let mut rows = table(model, &request.scope.table)?;
    let mut scope = request.scope.clone();
    let has_frames = rows.schema().column("frame").is_some();
    if !has_frames {
        rows = table(model, "frames")?;
        scope = Scope { table: "frames".to_owned(), from: None, to: None, filters: Vec::new() };
    }
    let prefix = if has_frames { "frame." } else { "" };
    let fields = Fields::new(model, rows);
    let mut conditions = Conditions::new(model, rows, &scope)?;
    conditions.check_groups()?;
    let mut field = |name: &str| -> Result<_> {
        let field = fields.get(&format!("{prefix}{name}"))?;
        let number = conditions.number(&field);
        Ok((field, number))
    };
    let ((file, file_number), (_, line_number), (_, function)) =
        (field("file")?, field("line")?, field("function")?);
    let pattern =
        TextPattern { text: request.function.clone(), position: TextPosition::Whole, ignore_case: false };
    conditions.add(Filter::Text { column: function, pattern });
    let mut aggregates = vec![Aggregate::Rows];
    aggregates.extend(rows.schema().column("weight").map(Aggregate::Sum));
    let keys = vec![file_number, line_number];
    let pivot = Pivot {
        through: conditions.through,
        filter: conditions.filter,
        levels: keys.len(),
        ..Pivot::new(keys, aggregates)
    };
    let mut found: BTreeMap<String, BTreeMap<u32, Line>> = BTreeMap::new();
    for group in pivot.run(rows, threads())?.groups {
        let [path, Value::Integer(number)] = group.keys[..] else { continue };
        let (Cell::Text(path), Ok(number)) = (fields.cell(&file, path)?, u32::try_from(number)) else {
            continue;
        };
        let weight = match group.values.get(1) {
            Some(Value::Integer(weight)) => *weight as f64,
            _ => 0.0,
        };
        let line = found.entry(path).or_default().entry(number).or_default();
        // Without instructions, rows are frames and not samples.
        line.rows += if has_frames { group.rows } else { 0 };
        line.weight += weight;
    }
    Ok(found)
}

/// Reads a source file.
fn read(file: &str) -> Result<String> {
    let path = Path::new(file);
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if !EXTENSIONS.contains(&extension.as_str()) {
        bail!("{file} is not a source file");
    }
    let opened = etw_sys::open_regular(path).with_context(|| format!("{file} is not on this machine"))?;
    let mut bytes = Vec::new();
    opened.take(MAX_LEN_BYTES + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {file}"))?;
    if bytes.len() as u64 > MAX_LEN_BYTES {
        bail!("{file} has more than {MAX_LEN_BYTES} bytes");
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the lines of a text around those with weights.
fn excerpt(text: &str, weights: &BTreeMap<u32, Line>, hottest: u32) -> Json {
    let (first, last) = match (weights.keys().next(), weights.keys().last()) {
        (Some(first), Some(last)) => (*first, *last),
        _ => (1, 1),
    };
    let mut from = first.saturating_sub(AROUND).max(1);
    let mut to = last.saturating_add(AROUND);
    if to - from > MAX_LINES {
        from = hottest.saturating_sub(MAX_LINES / 2).max(1);
        to = from.saturating_add(MAX_LINES);
    }
    let lines = text.lines().zip(1_u32..).skip(from as usize - 1).take_while(|(_, number)| *number <= to);
    lines.map(|(text, number)| weights.get(&number).copied().unwrap_or_default().json(number, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_source_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        for (name, is_read) in
            [("a.rs", true), ("b.CPP", true), ("passwd", false), ("c.key", false), ("d.rs/", false)]
        {
            let path = folder.path().join(name);
            let made =
                if name.ends_with('/') { std::fs::create_dir(&path) } else { std::fs::write(&path, "x") };
            made.unwrap();
            assert_eq!(read(path.to_str().unwrap().trim_end_matches('/')).is_ok(), is_read, "{name}");
        }
        assert!(read("/none/a.c").unwrap_err().to_string().contains("not on this machine"));
    }

    #[test]
    fn lines_around_the_weights_are_shown() {
        let text: String = (1..=5000).map(|line| format!("line {line}\n")).collect();
        let line = Line { rows: 3, weight: 9.0 };
        let near = excerpt(&text, &BTreeMap::from([(100, line), (103, line)]), 100);
        let near = near.as_array().unwrap();
        assert_eq!((near.len(), near[0]["number"].as_u64()), (28, Some(88)));
        assert_eq!((near[12]["rows"].as_u64(), near[12]["text"].as_str()), (Some(3), Some("line 100")));
        let far = excerpt(&text, &BTreeMap::from([(1, line), (4000, line)]), 3000);
        assert!(far.as_array().unwrap().iter().any(|line| line["number"] == 3000));
        assert!(far.as_array().unwrap().len() <= 1001);
        assert_eq!(excerpt("", &BTreeMap::from([(u32::MAX, line)]), u32::MAX), json!([]));
    }
}
