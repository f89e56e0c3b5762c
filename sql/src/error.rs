//! Errors as one line, and the place in the SQL text that they are about.

use datafusion::common::DataFusionError;

/// What the engine says of its own settings, and the same with the options of the command.
const OPTIONS: [(&str, &str); 2] = [
    ("datafusion.runtime.max_temp_directory_size", "the query needs more temporary files than --disk allows"),
    (
        "DiskManager is disabled",
        "the query needs temporary files, and none can be made; name another directory with --temp-dir, or more memory with --memory",
    ),
];

/// Wraps an error of reading a trace.
pub(crate) fn of_trace(error: anyhow::Error) -> DataFusionError {
    DataFusionError::External(error.into_boxed_dyn_error())
}

/// An error of a statement, which shows the place in the text.
#[derive(Debug)]
pub(crate) struct StatementError {
    pub(crate) text: String,
}

impl std::fmt::Display for StatementError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for StatementError {}

/// Returns the error of a statement; `sql` is its text.
pub(crate) fn of_statement(error: &DataFusionError, sql: &str) -> StatementError {
    let place = place(error);
    let mut text = message(error);
    if let Some((line, column)) = place
        && let Some(source) = sql.lines().nth(line - 1)
    {
        // Tabs stay tabs, so that the caret is below its place.
        let indent: String =
            source.chars().take(column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        text.push_str(&format!(" (line {line}, column {column})\n  {source}\n  {indent}^"));
    }
    StatementError { text }
}

/// Returns the line and the column that an error is about, both from 1.
fn place(error: &DataFusionError) -> Option<(usize, usize)> {
    if let Some(span) = error.diagnostic().and_then(|diagnostic| diagnostic.span) {
        let (line, column) = (span.start.line as usize, span.start.column as usize);
        return (line > 0 && column > 0).then_some((line, column));
    }
    let text = error.to_string();
    // Of the parser, or in the tree of what the engine does not have.
    let (line, rest) = match text.rsplit_once("at Line: ") {
        Some((_, rest)) => rest.split_once(", Column: ")?,
        None => text.split_once("Span(Location(")?.1.split_once(',')?,
    };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (line, column) = (line.parse().ok()?, rest[..digits].parse().ok()?);
    (line > 0 && column > 0).then_some((line, column))
}

/// Returns the message in one line, without the place and without the kinds of errors around it.
pub(crate) fn message(error: &DataFusionError) -> String {
    let inner = match error.find_root() {
        DataFusionError::Diagnostic(_, inner) => inner.find_root(),
        root => root,
    };
    let text = match inner {
        DataFusionError::SQL(error, _) => error.to_string(),
        DataFusionError::External(error) => error.to_string(),
        DataFusionError::SchemaError(error, _) => error.to_string(),
        DataFusionError::NotImplemented(text) => unsupported(text).unwrap_or_else(|| text.clone()),
        DataFusionError::Plan(text)
        | DataFusionError::Execution(text)
        | DataFusionError::Configuration(text)
        | DataFusionError::ResourcesExhausted(text) => text.clone(),
        other => other.to_string(),
    };
    let text = text.strip_prefix("sql parser error: ").unwrap_or(&text);
    let text = match text.rsplit_once(" at Line: ") {
        Some((before, _)) => before,
        None => text,
    };
    if let Some((_, own)) = OPTIONS.iter().find(|(of_engine, _)| text.contains(of_engine)) {
        return (*own).to_owned();
    }
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" ")
}

/// Returns the message for syntax that the engine does not have, of which it only shows the tree; `None` for other texts.
fn unsupported(text: &str) -> Option<String> {
    let says_so = text.contains("not ") || text.contains("support");
    let name = match text.split_once(" {") {
        Some((before, _)) if text.starts_with("Unsupported ") => keywords(before.rsplit(' ').next()?),
        _ if !says_so => text.to_owned(),
        _ => return None,
    };
    Some(format!("{name} is not supported"))
}

/// Returns the name of a part of the syntax tree as SQL has it.
fn keywords(name: &str) -> String {
    match name {
        "AsOf" => return "ASOF JOIN".to_owned(),
        "RLike" => return "RLIKE".to_owned(),
        _ => {}
    }
    let mut words = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.push(c.to_ascii_uppercase());
    }
    words
}

/// Returns the name of the table that an error says is missing.
pub(crate) fn unknown_table(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("table '")?;
    let (name, rest) = rest.split_once('\'')?;
    let is_missing = rest.starts_with(" not found");
    is_missing.then(|| name.to_owned())
}
