//! Answers as text for people, and in formats for programs.

use std::fs::Metadata;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;
use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::arrow::json::writer::{JsonArray, Writer, WriterBuilder};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use etw_app::text::csv_field;
use etw_app::{UsageError, output as files};
use etw_export::PlainWriter;
use etw_schema::text::is_disruptive;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tempfile::NamedTempFile;

/// Rows that decide about the widths of columns; wider cells in later ones move the rest of their line.
const MEASURED_ROWS: usize = 1000;
/// Most characters that a column is padded to.
const MAX_WIDTH: usize = 100;

/// The format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns of text.
    Table,
    /// One array of objects.
    Json,
    /// Comma-separated values.
    Csv,
    /// A Parquet file.
    Parquet,
    /// Arrow's stream format.
    Arrow,
    /// A table of Markdown.
    Markdown,
}

impl Format {
    /// Whether an answer is bytes that a terminal cannot show.
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Format::Parquet | Format::Arrow)
    }

    /// Returns the format that a file's name says; `None` if it has no extension.
    ///
    /// # Errors
    ///
    /// Fails if the extension is unknown.
    pub(crate) fn of_path(path: &Path) -> Result<Option<Format>> {
        let Some(extension) = path.extension() else { return Ok(None) };
        Ok(Some(match extension.to_ascii_lowercase().to_str() {
            Some("json") => Format::Json,
            Some("csv") => Format::Csv,
            Some("parquet") => Format::Parquet,
            Some("arrow" | "arrows") => Format::Arrow,
            Some("md") => Format::Markdown,
            Some("txt") => Format::Table,
            _ => {
                let text = format!(
                    "{}: unknown extension; use --format table|json|csv|parquet|arrow|markdown",
                    path.display()
                );
                return Err(UsageError(text).into());
            }
        }))
    }
}

/// Standard output, or a file that replaces an earlier one when it is complete.
pub(crate) enum Output {
    Direct(Box<dyn Write + Send>),
    File(BufWriter<NamedTempFile>, PathBuf),
}

impl Output {
    /// Opens standard output if there is no path, or it is `-`.
    ///
    /// # Errors
    ///
    /// Fails if the file is a trace, or cannot be written.
    pub(crate) fn open(path: Option<&Path>, format: Format) -> Result<Output> {
        let found = path.and_then(|path| std::fs::symlink_metadata(path).ok());
        match path {
            // Pipes and devices are written as they are, and links checked when they are opened.
            Some(path) if path != Path::new("-") && found.as_ref().is_none_or(Metadata::is_file) => {
                files::check_no_trace(path)?;
                let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
                let mut builder = tempfile::Builder::new();
                builder.prefix(".etw-sql-");
                // A new file is its owner's only.
                if let Some(found) = found {
                    builder.permissions(found.permissions());
                }
                let file = builder.tempfile_in(directory.unwrap_or(Path::new(".")));
                let file = file.with_context(|| format!("{}: cannot be written", path.display()))?;
                Ok(Output::File(BufWriter::new(file), path.to_owned()))
            }
            path => Ok(Output::Direct(match format {
                Format::Table | Format::Markdown => files::open(path)?,
                Format::Csv => files::open_csv(path)?,
                Format::Json | Format::Parquet | Format::Arrow => files::open_data(path)?,
            })),
        }
    }

    /// Completes the output.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written.
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Output::Direct(mut out) => Ok(out.flush()?),
            Output::File(out, path) => {
                let failed = || format!("{}: cannot be written", path.display());
                let file = out.into_inner().map_err(|error| error.into_error()).with_context(failed)?;
                file.persist(&path).map_err(|error| error.error).with_context(failed)?;
                Ok(())
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Output::Direct(out) => out.write(bytes),
            Output::File(out, _) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Output::Direct(out) => out.flush(),
            Output::File(out, _) => out.flush(),
        }
    }
}

/// Writes one answer, batch by batch.
pub(crate) struct Answer<'w> {
    schema: SchemaRef,
    form: Form<'w>,
}

type Out<'w> = &'w mut (dyn Write + Send);

enum Form<'w> {
    Text { out: Out<'w>, is_markdown: bool, first: Vec<Vec<String>>, widths: Vec<usize>, is_measured: bool },
    Csv { out: Out<'w>, has_header: bool },
    Json(Box<Writer<PlainWriter<Out<'w>>, JsonArray>>),
    Parquet(Box<ArrowWriter<Out<'w>>>),
    Arrow(Box<StreamWriter<Out<'w>>>),
}

impl<'w> Answer<'w> {
    /// Starts an answer.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub(crate) fn new(format: Format, schema: &SchemaRef, out: Out<'w>) -> Result<Answer<'w>> {
        let (schema, form) = match format {
            Format::Table | Format::Markdown => {
                let is_markdown = format == Format::Markdown;
                let text = Form::Text {
                    out,
                    is_markdown,
                    first: Vec::new(),
                    widths: Vec::new(),
                    is_measured: false,
                };
                (schema.clone(), text)
            }
            Format::Csv => (schema.clone(), Form::Csv { out, has_header: false }),
            Format::Json => {
                let writer = WriterBuilder::new()
                    .with_explicit_nulls(true)
                    .build::<_, JsonArray>(PlainWriter::new(out));
                (schema.clone(), Form::Json(Box::new(writer)))
            }
            Format::Parquet => {
                let schema = of_parquet(schema);
                let snappy = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                let writer = ArrowWriter::try_new(out, schema.clone(), Some(snappy))?;
                (schema, Form::Parquet(Box::new(writer)))
            }
            Format::Arrow => (schema.clone(), Form::Arrow(Box::new(StreamWriter::try_new(out, schema)?))),
        };
        Ok(Answer { schema, form })
    }

    /// Adds rows.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub(crate) fn put(&mut self, batch: &RecordBatch) -> Result<()> {
        let schema = &self.schema;
        match &mut self.form {
            Form::Text { out, is_markdown, first, widths, is_measured } => {
                for row in cells(batch)? {
                    if *is_measured {
                        write_row(*out, &row, widths, *is_markdown)?;
                        continue;
                    }
                    first.push(row);
                    if first.len() >= MEASURED_ROWS {
                        *is_measured = true;
                        start(*out, schema, first, widths, *is_markdown)?;
                    }
                }
            }
            Form::Csv { out, has_header } => {
                if !std::mem::replace(has_header, true) {
                    let names = schema.fields().iter().map(|field| field.name().as_str());
                    write_csv(*out, names)?;
                }
                for row in cells(batch)? {
                    write_csv(*out, row.iter().map(String::as_str))?;
                }
            }
            Form::Json(writer) => writer.write(batch)?,
            Form::Parquet(writer) => {
                let columns: Result<Vec<ArrayRef>, ArrowError> = batch
                    .columns()
                    .iter()
                    .zip(schema.fields())
                    .map(|(column, field)| cast(column, field.data_type()))
                    .collect();
                writer.write(&RecordBatch::try_new(schema.clone(), columns?)?)?;
            }
            Form::Arrow(writer) => writer.write(batch)?,
        }
        Ok(())
    }

    /// Completes the answer.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub(crate) fn finish(self) -> Result<()> {
        match self.form {
            Form::Text { out, is_markdown, mut first, mut widths, is_measured } => {
                if !is_measured {
                    start(out, &self.schema, &mut first, &mut widths, is_markdown)?;
                }
            }
            Form::Csv { out, has_header: false } => {
                write_csv(out, self.schema.fields().iter().map(|field| field.name().as_str()))?;
            }
            Form::Csv { .. } => {}
            Form::Json(mut writer) => {
                writer.finish()?;
                writer.into_inner().write_all(b"\n")?;
            }
            Form::Parquet(writer) => drop(writer.close()?),
            Form::Arrow(mut writer) => writer.finish()?,
        }
        Ok(())
    }
}

/// Returns the schema with types that Parquet has: durations become nanoseconds.
fn of_parquet(schema: &SchemaRef) -> SchemaRef {
    let field = |field: &std::sync::Arc<Field>| match field.data_type() {
        DataType::Duration(_) | DataType::Interval(_) => {
            Field::new(field.name(), DataType::Int64, field.is_nullable())
        }
        _ => (**field).clone(),
    };
    std::sync::Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

/// Returns the rows of a batch as texts; missing values are empty.
fn cells(batch: &RecordBatch) -> Result<Vec<Vec<String>>, ArrowError> {
    let options = FormatOptions::default();
    let columns: Vec<ArrayFormatter<'_>> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
        .collect::<Result<_, _>>()?;
    let row = |row: usize| -> Result<Vec<String>, ArrowError> {
        columns
            .iter()
            .zip(batch.columns())
            .map(|(formatter, column)| match column.is_null(row) {
                true => Ok(String::new()),
                false => formatter.value(row).try_to_string(),
            })
            .collect()
    };
    (0..batch.num_rows()).map(row).collect()
}

/// Writes the names of the columns and the rows that were kept.
fn start(
    out: Out<'_>,
    schema: &SchemaRef,
    rows: &mut Vec<Vec<String>>,
    widths: &mut Vec<usize>,
    is_markdown: bool,
) -> std::io::Result<()> {
    let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    *widths = names.iter().map(|name| name.chars().count()).collect();
    for row in rows.iter() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count()).min(MAX_WIDTH);
        }
    }
    write_row(out, &names, widths, is_markdown)?;
    if is_markdown {
        let lines: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        writeln!(out, "|{}|", lines.iter().map(|line| format!("-{line}-")).collect::<Vec<_>>().join("|"))?;
    } else {
        let lines: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        writeln!(out, "{}", lines.join("──"))?;
    }
    rows.drain(..).try_for_each(|row| write_row(out, &row, widths, is_markdown))
}

fn write_row(out: Out<'_>, row: &[String], widths: &[usize], is_markdown: bool) -> std::io::Result<()> {
    let mut line = String::new();
    for (number, (cell, width)) in row.iter().zip(widths).enumerate() {
        // One row is one line.
        let cell: String = cell.chars().map(|c| if is_disruptive(c) { ' ' } else { c }).collect();
        let cell = if is_markdown { cell.replace('|', "\\|") } else { cell };
        let padding = width.saturating_sub(cell.chars().count());
        match is_markdown {
            true => line.push_str("| "),
            false if number > 0 => line.push_str("  "),
            false => {}
        }
        line.push_str(&cell);
        line.extend(std::iter::repeat_n(' ', padding));
        if is_markdown {
            line.push(' ');
        }
    }
    match is_markdown {
        true => writeln!(out, "{line}|"),
        false => writeln!(out, "{}", line.trim_end()),
    }
}

fn write_csv<'c>(out: Out<'_>, cells: impl Iterator<Item = &'c str>) -> std::io::Result<()> {
    let mut line = String::new();
    for (number, cell) in cells.enumerate() {
        if number > 0 {
            line.push(',');
        }
        line.push_str(&csv_field(cell));
    }
    line.push('\n');
    out.write_all(line.as_bytes())
}
