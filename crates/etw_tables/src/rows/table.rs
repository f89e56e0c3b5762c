//! Tables whose rows are structs, and the writer of their rows.

use etw_columns::{ColumnsError, CountedRows, Index, IndexWriter, Pivot, Row, TableId, TableSchema};

use super::labels::RowLabel;
use super::summary::Grouping;

/// A row of a table that [`table!`] declares.
pub(in crate::rows) trait TableRow {
    const SCHEMA: &'static TableSchema;
    /// What rows are called where others refer to them.
    const LABEL: Option<RowLabel>;
    /// How rows are grouped at first.
    const SUMMARY: Option<Grouping>;

    fn put(&self, row: &mut Row<'_>);
}

/// A row of a table in the list of all.
pub(in crate::rows) trait ListedRow: TableRow {
    /// Place in the list.
    const NUMBER: usize;
}

/// Declares a table, and the struct of its rows with a field for each column.
///
/// Comments are the sentences that describe the table and its columns; the types of fields are kinds of columns
/// ([`ColumnKind`](super::columns::ColumnKind)), which say type, unit and role. An optional label says what rows are called,
/// and an optional summary how they are grouped at first.
macro_rules! table {
    (
        $(#[doc = $summary:literal])+
        $row:ident: $name:literal, $title:literal $(, label $label:expr)?;
        $(summary by [$($key:literal),+] values [$($value:literal),+];)?
        $($(#[doc = $about:literal])+ $field:ident: $kind:ty,)+
    ) => {
        $(#[doc = $summary])+
        #[derive(Debug, Clone, Copy)]
        pub(in crate::rows) struct $row<'r> {
            $(
                $(#[doc = $about])+
                pub(in crate::rows) $field: <$kind as $crate::rows::columns::ColumnKind>::Value<'r>,
            )+
        }

        impl $crate::rows::table::TableRow for $row<'_> {
            const SCHEMA: &'static etw_columns::TableSchema = &etw_columns::TableSchema::new(
                $name,
                $title,
                $crate::rows::columns::sentence(concat!($($summary),+)),
                {
                    const COLUMNS: &[etw_columns::Column] = &[$(
                        $crate::rows::columns::column::<$kind>(stringify!($field), concat!($($about),+))
                    ),+];
                    COLUMNS
                },
            );
            const LABEL: Option<$crate::rows::labels::RowLabel> = [$(Some($label),)? None][0];
            const SUMMARY: Option<$crate::rows::summary::Grouping> = [
                $(Some($crate::rows::summary::Grouping { by: &[$($key),+], values: &[$($value),+] }),)?
                None,
            ][0];

            #[inline]
            fn put(&self, row: &mut etw_columns::Row<'_>) {
                let mut column = 0;
                $(
                    <$kind as $crate::rows::columns::ColumnKind>::put(self.$field, column, row);
                    column += 1;
                )+
                let _ = column;
            }
        }
    };
}
pub(in crate::rows) use table;

/// Writes rows. After an error it does nothing more, and [`RowWriter::finish`] returns the error.
#[derive(Debug)]
pub(in crate::rows) struct RowWriter {
    index: IndexWriter,
    /// The tables of [`ListedRow`], by their places; `None` for those that are not written.
    tables: Vec<Option<TableId>>,
    error: Option<ColumnsError>,
}

impl RowWriter {
    /// Adds tables to an index: of the list, those that are wanted.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Schema`] if the index has one of them already.
    pub(in crate::rows) fn new(
        mut index: IndexWriter,
        tables: &[&'static TableSchema],
        is_wanted: impl Fn(&TableSchema) -> bool,
    ) -> Result<RowWriter, ColumnsError> {
        let tables = tables.iter().map(|schema| is_wanted(schema).then(|| index.table(schema)).transpose());
        let tables = tables.collect::<Result<_, _>>()?;
        Ok(RowWriter { index, tables, error: None })
    }

    /// Whether the rows of a table are written.
    #[inline]
    pub(in crate::rows) fn has<R: ListedRow>(&self) -> bool {
        self.tables[R::NUMBER].is_some()
    }

    /// Counts the rows of a table in the list instead of keeping them.
    ///
    /// # Errors
    ///
    /// Returns what [`IndexWriter::count_rows`] does.
    pub(in crate::rows) fn count(
        &mut self,
        table: usize,
        pivots: &[Pivot],
    ) -> Result<Option<TableId>, ColumnsError> {
        let id = self.tables.get(table).copied().flatten();
        id.map(|id| self.index.count_rows(id, pivots)).transpose()?;
        Ok(id)
    }

    /// Adds a table of another kind.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Schema`] if the index has it already.
    pub(in crate::rows) fn table(&mut self, schema: &TableSchema) -> Result<TableId, ColumnsError> {
        self.index.table(schema)
    }

    /// Adds a row.
    #[inline]
    pub(in crate::rows) fn add<R: ListedRow>(&mut self, row: R) {
        if let Some(table) = self.tables[R::NUMBER] {
            self.add_to(table, |to| row.put(to));
        }
    }

    /// Adds a row to a table.
    #[inline]
    pub(in crate::rows) fn add_to(&mut self, table: TableId, put: impl FnOnce(&mut Row<'_>)) {
        if self.error.is_some() {
            return;
        }
        let result = self.index.row(table).and_then(|mut row| {
            put(&mut row);
            row.end()
        });
        self.note(result);
    }

    /// Returns the number of the next row of a table.
    pub(in crate::rows) fn next<R: ListedRow>(&self) -> u32 {
        self.tables[R::NUMBER].map_or(0, |table| self.index.rows(table) as u32)
    }

    /// Returns the code of a text; 0 after an error.
    pub(in crate::rows) fn text(&mut self, text: &str) -> u32 {
        let code = self.index.text(text);
        self.note(code)
    }

    /// Returns the code of a GUID; 0 after an error.
    pub(in crate::rows) fn guid(&mut self, guid: etw_event::Guid) -> u32 {
        let code = self.index.guid(guid);
        self.note(code)
    }

    /// Returns the code of a stack that continues another one; 0 after an error.
    pub(in crate::rows) fn stack(&mut self, outer: Option<u32>, frame: u32) -> u32 {
        if self.error.is_some() {
            return 0;
        }
        let code = self.index.stack(outer, frame.into());
        self.note(code)
    }

    /// Whether a row could not be written.
    pub(in crate::rows) fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Completes the index; returns the counted tables too.
    ///
    /// # Errors
    ///
    /// Returns the first error.
    pub(in crate::rows) fn finish(self) -> Result<(Index, Vec<(TableId, CountedRows)>), ColumnsError> {
        match self.error {
            Some(error) => Err(error),
            None => self.index.finish_counted(),
        }
    }

    /// Keeps the first error.
    #[inline]
    fn note<T: Default>(&mut self, result: Result<T, ColumnsError>) -> T {
        result.unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            T::default()
        })
    }
}
