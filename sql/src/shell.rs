//! The shell: statements line by line, with history and completion.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use etw_app::UsageError;
use etw_export::{PlainWriter, plain_line};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};
use tokio::runtime::Runtime;

use crate::database::Database;
use crate::engine::Engine;
use crate::functions;
use crate::output::Format;

const HELP: &str = "\
SELECT …;      a statement, which may have several lines and ends with a semicolon
\\d             the tables
\\d TABLE       the columns of a table
\\f FORMAT      table, json, csv or markdown
\\q             the end (or Ctrl-D)";

/// Words of SQL that are completed.
const WORDS: [&str; 31] = [
    "and", "as", "between", "by", "case", "count", "desc", "distinct", "else", "end", "explain", "from",
    "group", "having", "in", "is", "join", "left", "like", "limit", "not", "null", "on", "or", "order",
    "select", "sum", "then", "union", "when", "where",
];

/// Reads and runs statements until the end of the input. Errors of statements are printed.
///
/// # Errors
///
/// Fails if the terminal cannot be used.
pub(crate) fn run(engine: &Engine, runtime: &Runtime) -> Result<()> {
    let Engine::Here(database) = engine else {
        return Err(UsageError(
            "the shell reads local traces; give the cluster a query or -f SCRIPT".to_owned(),
        )
        .into());
    };
    let config = Config::builder().max_history_size(1000)?.auto_add_history(true).build();
    let mut editor: Editor<Words, FileHistory> = Editor::with_config(config)?;
    editor.set_helper(Some(Words::new(database, runtime)));
    let history = history_file();
    if let Some(history) = &history {
        // There is none at first.
        let _ = editor.load_history(history);
    }
    println!("Statements end with a semicolon; \\d lists the tables, \\h helps.");
    let mut format = Format::Table;
    loop {
        match editor.readline("sql> ") {
            Ok(line) => {
                let line = line.trim();
                if line.is_empty() {
                    continue;
                }
                let done = match line.strip_prefix('\\') {
                    Some(command) => match run_command(command, database, runtime, &mut format) {
                        Ok(true) => break,
                        other => other.map(|_| ()),
                    },
                    None => {
                        let mut out = PlainWriter::new(std::io::stdout());
                        runtime.block_on(async {
                            tokio::select! {
                                done = crate::run_script(engine, line, format, false, &mut out) => done,
                                _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
                            }
                        })
                    }
                };
                if let Err(error) = done {
                    etw_app::say!("{}", etw_app::output::with_causes(&error));
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(history) = &history {
        let kept = history.parent().map_or(Ok(()), std::fs::create_dir_all);
        if let Err(error) = kept.map_err(ReadlineError::from).and_then(|()| editor.save_history(history)) {
            etw_app::output::warn(&format_args!("the history cannot be kept: {error}"));
        }
    }
    Ok(())
}

/// Runs a command of the shell. Returns whether it is the end.
fn run_command(command: &str, database: &Database, runtime: &Runtime, format: &mut Format) -> Result<bool> {
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let rest = rest.trim().trim_end_matches(';').trim_matches('"');
    match name.trim_end_matches(';') {
        "q" => return Ok(true),
        "d" if rest.is_empty() => database.names().iter().for_each(|name| println!("{}", plain_line(name))),
        "d" => {
            let columns = runtime.block_on(database.columns(rest))?;
            let width =
                |place: usize| columns.iter().map(|column| column[place].chars().count()).max().unwrap_or(0);
            let (names, types) = (width(0), width(1));
            for [name, of, summary] in &columns {
                let line = format!("{name:names$}  {of:types$}  {summary}");
                println!("{}", plain_line(line.trim_end()));
            }
        }
        "f" => match <Format as clap::ValueEnum>::from_str(rest, true) {
            Ok(wanted) if !wanted.is_binary() => *format = wanted,
            _ => println!("table, json, csv or markdown"),
        },
        _ => println!("{HELP}"),
    }
    Ok(false)
}

/// Returns where the history is kept.
fn history_file() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = match cfg!(windows) {
        true => variable("LOCALAPPDATA")?,
        false => variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")))?,
    };
    Some(directory.join("openetw").join("sql_history"))
}

/// The words that the shell completes.
struct Words {
    /// With the text that is inserted.
    words: BTreeMap<String, String>,
}

impl Words {
    fn new(database: &Database, runtime: &Runtime) -> Words {
        let mut words = BTreeMap::new();
        for word in WORDS.iter().chain(&functions::NAMES) {
            words.insert((*word).to_owned(), (*word).to_owned());
        }
        for table in database.near_names() {
            // A table that cannot be described has no columns to complete.
            for [column, ..] in runtime.block_on(database.columns(&table)).unwrap_or_default() {
                words.insert(column.to_lowercase(), quoted(&column));
            }
            words.insert(table.to_lowercase(), quoted(&table));
        }
        Words { words }
    }
}

/// Returns a name as SQL has it.
fn quoted(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))
        && !name.starts_with(|c: char| c.is_ascii_digit());
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, end: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = line.get(..end).unwrap_or_default();
        // Names of kinds of events have slashes, dashes and blanks, inside of quotes.
        let is_quoted = before.matches('"').count() % 2 == 1;
        let start = match is_quoted {
            true => before.rfind('"').unwrap_or(0),
            false => before.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |place| {
                place + before.get(place..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
            }),
        };
        let word = before.get(start..).unwrap_or_default().trim_start_matches('"').to_lowercase();
        if word.is_empty() {
            return Ok((start, Vec::new()));
        }
        let found = self.words.range(word.clone()..).take_while(|(known, _)| known.starts_with(&word));
        Ok((start, found.map(|(_, text)| text.clone()).collect()))
    }
}

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let line = context.input().trim();
        let is_complete = line.is_empty() || line.starts_with('\\') || line.ends_with(';');
        Ok(if is_complete { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}

impl Helper for Words {}
