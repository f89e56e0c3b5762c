//! Runs SQL statements of the page over the opened files, with the program `etw-sql`.

use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use etw_app::beside::Program;
use openetw::FileTime;
use serde::Deserialize;
use serde_json::json;

/// Rows that an answer has at most.
const MAX_ROWS: usize = 100_000;
/// Bytes of rows that an answer has at most, about.
const MAX_BYTES: usize = 64 << 20;
/// Bytes of a message of the program that are shown at most.
const MAX_MESSAGE: u64 = 64 << 10;
/// Whole numbers beyond this are not exact in JavaScript.
const MAX_EXACT: u64 = 1 << 53;

/// A statement.
#[derive(Debug, Deserialize)]
pub(crate) struct QueryRequest {
    sql: String,
}

/// A statement that runs. Dropping it ends the program.
#[derive(Debug)]
pub(crate) struct Query {
    child: Arc<Mutex<Child>>,
    sql: String,
}

impl Query {
    /// Starts a statement over files.
    ///
    /// # Errors
    ///
    /// Fails if the program is missing or cannot be started.
    pub(crate) fn start(request: QueryRequest, program: Option<&Path>, files: &[PathBuf]) -> Result<Query> {
        let program = program.map_or_else(|| Program::Sql.path(), |program| Ok(program.to_owned()))?;
        let mut command = Command::new(&program);
        command
            .args(["--read-only", "--format", "arrow", "-f", "-"])
            .args(files.iter().map(PathBuf::as_path).map(no_option));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // This thread is one of the server's, which live as long as the server.
        etw_sys::end_with_parent(&mut command);
        let child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
        Ok(Query { child: Arc::new(Mutex::new(child)), sql: request.sql })
    }

    /// Returns what reads the answer, on a thread that may wait.
    pub(crate) fn answer(&self) -> impl FnOnce() -> Result<Vec<u8>> + Send + 'static {
        let (child, sql) = (Arc::clone(&self.child), self.sql.clone());
        move || answer(&child, &sql)
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        let mut child = lock(&self.child);
        // It may have ended already.
        let _ended = child.kill();
        let _status = child.wait();
    }
}

fn lock(child: &Mutex<Child>) -> std::sync::MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A path that is no option, whatever it starts with.
fn no_option(path: &Path) -> PathBuf {
    match path.to_string_lossy().starts_with('-') {
        true => Path::new(".").join(path),
        false => path.to_owned(),
    }
}

fn answer(child: &Mutex<Child>, sql: &str) -> Result<Vec<u8>> {
    let (input, output, errors) = {
        let mut child = lock(child);
        let input = child.stdin.take().context("no input")?;
        (input, child.stdout.take().context("no output")?, child.stderr.take().context("no messages")?)
    };
    // A program that fails before it reads says so itself.
    let _closed = { input }.write_all(sql.as_bytes());
    let messages = thread::spawn(move || {
        let mut text = Vec::new();
        let mut errors = errors;
        // What cannot be read is not shown; the rest is read so that the program can go on.
        let _read = errors.by_ref().take(MAX_MESSAGE).read_to_end(&mut text);
        let _rest = std::io::copy(&mut errors, &mut std::io::sink());
        String::from_utf8_lossy(&text).trim().to_owned()
    });
    let rows = read(output);
    if rows.as_ref().is_ok_and(|rows| rows.is_cut) {
        let _ended = lock(child).kill();
    }
    let status = lock(child).wait()?;
    let messages = messages.join().unwrap_or_default();
    match rows {
        Ok(rows) if rows.is_cut || status.success() => rows.stream(&messages),
        _ if !messages.is_empty() => bail!("{messages}"),
        Ok(_) => bail!("etw-sql ended with {status}"),
        Err(error) => Err(error.context("etw-sql gave no answer")),
    }
}

/// The rows of an answer.
struct Rows {
    fields: Vec<Field>,
    batches: Vec<RecordBatch>,
    is_cut: bool,
}

fn read(output: impl Read) -> Result<Rows> {
    let reader = StreamReader::try_new(BufReader::new(output), None)?;
    let fields = reader.schema().fields().iter().map(|field| Field::clone(field)).collect();
    let mut rows = Rows { fields, batches: Vec::new(), is_cut: false };
    let (mut count, mut size) = (0, 0);
    for batch in reader {
        let batch = batch?;
        count += batch.num_rows();
        size += batch.get_array_memory_size();
        let kept = batch.num_rows().saturating_sub(count.saturating_sub(MAX_ROWS));
        rows.batches.push(batch.slice(0, kept));
        if count > MAX_ROWS || size > MAX_BYTES {
            rows.is_cut = true;
            break;
        }
    }
    Ok(rows)
}

impl Rows {
    /// Returns the rows as a stream for the page; times and large numbers are texts in it.
    fn stream(self, messages: &str) -> Result<Vec<u8>> {
        let texts: Vec<bool> = (0..self.fields.len())
            .map(|at| self.batches.iter().any(|batch| needs_text(batch.column(at))))
            .collect();
        let fields = self.fields.iter().zip(&texts).map(|(field, is_text)| match is_text {
            true => Field::new(field.name(), DataType::Utf8, true),
            false => field.clone(),
        });
        // Names may repeat in SQL, but the page finds columns by them.
        let names: Vec<&String> = self.fields.iter().map(Field::name).collect();
        let fields = fields.enumerate().map(|(at, field)| field.with_name(at.to_string()));
        let kinds: Vec<&str> = self.fields.iter().map(|field| kind(field.data_type())).collect();
        let info = json!({ "names": names, "kinds": kinds, "is_cut": self.is_cut, "messages": messages });
        let metadata = [("info".to_owned(), info.to_string())].into();
        let schema = Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), metadata));
        let mut out = Vec::new();
        let mut writer = StreamWriter::try_new(&mut out, &schema)?;
        for batch in &self.batches {
            let columns = batch.columns().iter().zip(&texts).map(|(column, is_text)| match is_text {
                true => text(column),
                false => Ok(Arc::clone(column)),
            });
            writer.write(&RecordBatch::try_new(Arc::clone(&schema), columns.collect::<Result<_>>()?)?)?;
        }
        writer.finish()?;
        drop(writer);
        Ok(out)
    }
}

/// What a column is in the page.
fn kind(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Timestamp(..) => "time",
        number if number.is_integer() || number.is_floating() => "number",
        _ => "text",
    }
}

/// Whether JavaScript would lose digits of a column.
fn needs_text(column: &ArrayRef) -> bool {
    match column.data_type() {
        DataType::Timestamp(..) => true,
        DataType::Int64 => {
            column.as_primitive::<Int64Type>().iter().flatten().any(|value| value.unsigned_abs() > MAX_EXACT)
        }
        DataType::UInt64 => {
            column.as_primitive::<UInt64Type>().iter().flatten().any(|value| value > MAX_EXACT)
        }
        _ => false,
    }
}

/// Returns a column of times or whole numbers as texts.
fn text(column: &ArrayRef) -> Result<ArrayRef> {
    let times = |values: &mut dyn Iterator<Item = Option<i64>>, per_second: i64| -> StringArray {
        values.map(|value| value.map(|value| time(value, per_second))).collect()
    };
    let texts: StringArray = match column.data_type() {
        DataType::Int64 => column
            .as_primitive::<Int64Type>()
            .iter()
            .map(|value| value.map(|value| value.to_string()))
            .collect(),
        DataType::UInt64 => column
            .as_primitive::<UInt64Type>()
            .iter()
            .map(|value| value.map(|value| value.to_string()))
            .collect(),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => times(&mut column.as_primitive::<TimestampSecondType>().iter(), 1),
            TimeUnit::Millisecond => {
                times(&mut column.as_primitive::<TimestampMillisecondType>().iter(), 1000)
            }
            TimeUnit::Microsecond => {
                times(&mut column.as_primitive::<TimestampMicrosecondType>().iter(), 1_000_000)
            }
            TimeUnit::Nanosecond => {
                times(&mut column.as_primitive::<TimestampNanosecondType>().iter(), 1_000_000_000)
            }
        },
        other => bail!("no text of {other}"),
    };
    Ok(Arc::new(texts))
}

/// Returns a time since 1970 as text in UTC.
fn time(value: i64, per_second: i64) -> String {
    let nanoseconds = i128::from(value) * i128::from(1_000_000_000 / per_second);
    FileTime::from_unix_nanos(nanoseconds).to_string()
}
