//! Columns by their names, also those of the tables that rows refer to, and their values as texts, numbers and keys.

use anyhow::{Context, Result, bail};
use openetw::FileTime;
use openetw::tables::{Column, ColumnType, Table, Unit, Value, row_label};

use super::Heading;
use crate::model::Model;

/// A column, reached from the rows of a table.
#[derive(Debug, Clone)]
pub(crate) struct Field<'m> {
    pub(crate) name: String,
    pub(crate) path: Vec<usize>,
    pub(crate) column: &'m Column,
}

/// What a cell shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    None,
    Number(f64),
    Text(String),
}

/// The columns of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'m> {
    pub(crate) model: &'m Model,
    pub(crate) table: Table<'m>,
}

impl<'m> Fields<'m> {
    pub(crate) fn new(model: &'m Model, table: Table<'m>) -> Fields<'m> {
        Fields { model, table }
    }

    /// Returns the column with a name such as `thread.process.name`.
    ///
    /// # Errors
    ///
    /// Fails if there is no such column.
    pub(crate) fn get(&self, name: &str) -> Result<Field<'m>> {
        let found = self.table.path(name);
        let found = found.and_then(|path| Some((self.table.path_column(&path)?, path)));
        let Some((column, path)) = found else {
            bail!("table {} has no column '{name}'", self.table.schema().name);
        };
        Ok(Field { name: name.to_owned(), path, column })
    }

    /// Returns the column with the process that rows are about: that of their thread, or of what they tell of.
    pub(crate) fn process(&self) -> Option<Field<'m>> {
        const NAMES: [&str; 5] =
            ["process", "thread.process", "new_thread.process", "owning_process", "creating_thread.process"];
        let mut fields = NAMES.iter().filter_map(|name| self.get(name).ok());
        fields.find(|field| field.column.table == "processes")
    }

    /// Returns the column whose texts stand for a column: for a reference that of the names of its rows.
    pub(crate) fn text_of(&self, field: &Field<'m>) -> Option<Field<'m>> {
        let label = match field.column.column_type {
            ColumnType::Text => return Some(field.clone()),
            ColumnType::Row => row_label(&field.column.table)?,
            _ => return None,
        };
        self.get(&format!("{}.{}", field.name, label.text)).ok()
    }

    /// Returns the column that rows are grouped by: most rows of one name are one group, as in reports.
    pub(crate) fn grouping(&self, field: &Field<'m>) -> Field<'m> {
        let by_name = row_label(&field.column.table).is_some_and(|label| label.is_group);
        let text = if by_name { self.text_of(field) } else { None };
        text.unwrap_or_else(|| field.clone())
    }

    /// Returns what a cell shows.
    ///
    /// # Errors
    ///
    /// Fails if a chunk is damaged.
    pub(crate) fn cell(&self, field: &Field<'_>, value: Value) -> Result<Cell> {
        let column = field.column;
        Ok(match value {
            Value::Null => Cell::None,
            Value::Bool(value) => Cell::Text(if value { "yes" } else { "no" }.to_owned()),
            Value::Time(time) => Cell::Number(self.model.since_start(time) as f64),
            Value::Integer(value) => match column.unit {
                Unit::Address | Unit::Hex => Cell::Text(format!("{value:#x}")),
                _ => Cell::Number(value as f64),
            },
            Value::Float(value) => Cell::Number(value),
            Value::Code(code) => {
                let index = &self.model.index();
                match column.column_type {
                    ColumnType::Text => Cell::Text(index.texts()?.get(code).unwrap_or_default().to_owned()),
                    ColumnType::Guid => {
                        Cell::Text(index.guids()?.get(code).map(|guid| guid.to_string()).unwrap_or_default())
                    }
                    ColumnType::Stack => Cell::Text(self.stack(code)?),
                    _ => Cell::Text(self.label(&column.table, code)?),
                }
            }
        })
    }

    /// Returns the functions of a stack, innermost first.
    fn stack(&self, code: u32) -> Result<String> {
        let frames: Vec<u64> = self.model.index().stacks()?.frames(code).collect();
        let mut names = Vec::with_capacity(frames.len());
        for frame in frames {
            names.push(self.label("frames", u32::try_from(frame)?)?);
        }
        Ok(names.join(" ← "))
    }

    /// Returns what a row of a table is called.
    pub(crate) fn label(&self, table: &str, row: u32) -> Result<String> {
        let Some(label) = row_label(table) else { return Ok(row.to_string()) };
        let table = super::table(self.model, table)?;
        let fields = Fields { model: self.model, table };
        let mut parts = Vec::new();
        for column in label.columns {
            let field = fields.get(column)?;
            match fields.cell(&field, table.path_value(row.into(), &field.path)?)? {
                Cell::Text(text) if !text.is_empty() => parts.push(text),
                Cell::Number(number) => parts.push(format!("{number}")),
                _ => {}
            }
        }
        if let Some(otherwise) = label.otherwise.filter(|_| parts.is_empty()) {
            let field = fields.get(otherwise)?;
            if let Cell::Text(text) = fields.cell(&field, table.path_value(row.into(), &field.path)?)? {
                parts.push(text);
            }
        }
        Ok(parts.join(label.separator))
    }

    /// Returns a value as a text that [`Fields::value`] reads.
    ///
    /// # Errors
    ///
    /// Fails if the dictionary of texts is damaged.
    pub(crate) fn key(&self, field: &Field<'_>, value: Value) -> Result<String> {
        Ok(match value {
            Value::Null => "n".to_owned(),
            Value::Bool(value) => format!("b{}", u8::from(value)),
            Value::Time(time) => format!("t{}", time.0),
            Value::Integer(value) => format!("i{value}"),
            Value::Float(value) => format!("f{value}"),
            Value::Code(code) if field.column.column_type == ColumnType::Text => {
                format!("s{}", self.model.index().texts()?.get(code).unwrap_or_default())
            }
            Value::Code(code) => format!("c{code}"),
        })
    }

    /// Returns the value of a key; `None` for a text that the trace does not contain.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a key.
    pub(crate) fn value(&self, key: &str) -> Result<Option<Value>> {
        let kind = key.chars().next().context("empty key")?;
        let rest = &key[kind.len_utf8()..];
        let wrong = || format!("'{key}' is not a key");
        Ok(Some(match kind {
            'n' => Value::Null,
            'b' => Value::Bool(rest == "1"),
            't' => Value::Time(FileTime(rest.parse().with_context(wrong)?)),
            'i' => Value::Integer(rest.parse().with_context(wrong)?),
            'f' => Value::Float(rest.parse().with_context(wrong)?),
            'c' => Value::Code(rest.parse().with_context(wrong)?),
            's' => {
                let texts = self.model.index().texts()?;
                let code = texts.iter().zip(0..).find(|(text, _)| *text == rest);
                return Ok(code.map(|(_, code)| Value::Code(code)));
            }
            _ => bail!(wrong()),
        }))
    }
}

impl Field<'_> {
    /// Returns how the values are shown.
    pub(crate) fn kind(&self) -> &'static str {
        match (self.column.column_type, self.column.unit) {
            (ColumnType::Time, _) => "time",
            (_, Unit::Nanoseconds) => "duration",
            (_, Unit::Bytes) => "bytes",
            (_, Unit::Percent) => "percent",
            (_, Unit::Count) => "count",
            (_, Unit::Id) => "id",
            (_, Unit::Address | Unit::Hex) => "text",
            (column_type, _) if column_type.is_number() => "number",
            _ => "text",
        }
    }

    pub(crate) fn heading(&self) -> Heading {
        Heading {
            name: self.name.clone(),
            title: title(&self.name),
            kind: self.kind(),
            summary: plain(&self.column.summary),
        }
    }
}

/// Returns a sentence without the marks of code.
pub(crate) fn plain(text: &str) -> String {
    text.replace('`', "")
}

/// Returns the title of a column: `New thread › Process` for `new_thread.process`.
pub(crate) fn title(name: &str) -> String {
    let mut parts: Vec<&str> = name.split('.').collect();
    // The process of the thread is the process.
    if parts.len() > 1 && parts[0] == "thread" {
        parts.remove(0);
    }
    if parts.len() > 1 && parts[0] == "kind" {
        parts.remove(0);
    }
    let words = parts.iter().map(|part| {
        let text = part.replace('_', " ");
        let mut letters = text.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    });
    words.collect::<Vec<String>>().join(" › ")
}
