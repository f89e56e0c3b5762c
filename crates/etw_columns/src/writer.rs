//! Writing tables: rows become chunks, and full chunks go to the file.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use etw_event::{FileTime, Guid};
use etw_sys::FileMap;
use tempfile::NamedTempFile;

use crate::ColumnsError;
use crate::dictionary::{GuidInterner, StackInterner, StackNode, TextInterner};
use crate::encoding::{CHUNK_ROWS, encode};
use crate::format::{self, DictionaryPlace, Directory, HEADER_LEN, TableEntry};
use crate::index::{Index, Storage};
use crate::pivot::{BATCH_ROWS, CountedRows, Pivot};
use crate::schema::{ColumnType, TableSchema};
use crate::value::{word_of_f64, word_of_i64};

/// Writes an index: tables, row by row, in a file or in memory.
///
/// Only the open chunk of each table (at most 65,536 rows of 8 bytes for each column), the dictionaries and the directory
/// are in memory. A file gets its name when it is complete; until then it is a temporary file beside its place, which is
/// removed if the writer is dropped or fails.
#[derive(Debug)]
pub struct IndexWriter {
    output: Output,
    identity: Vec<u8>,
    tables: Vec<TableBuilder>,
    texts: TextInterner,
    guids: GuidInterner,
    stacks: StackInterner,
}

/// Where chunks are written.
#[derive(Debug)]
struct Output {
    target: Target,
    /// Bytes written so far.
    len: u64,
    /// Bytes of the chunk being encoded.
    scratch: Vec<u8>,
    /// True after a failed write, which may have written a part.
    broken: bool,
}

/// A table of an [`IndexWriter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TableId(usize);

#[derive(Debug)]
enum Target {
    Memory(Vec<u8>),
    File { file: NamedTempFile, path: PathBuf },
}

impl Target {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ColumnsError> {
        match self {
            Target::Memory(memory) => memory.extend_from_slice(bytes),
            Target::File { file, .. } => file.as_file_mut().write_all(bytes)?,
        }
        Ok(())
    }
}

impl IndexWriter {
    /// Starts an index in a file, which replaces the one at `path` when it is finished. On Unix only its owner can read it.
    ///
    /// `identity` says what the index is made from, such as size, time and hash of a trace; [`Index::open`] compares it.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Io`] if no file can be created beside `path`.
    pub fn create(path: &Path, identity: &[u8]) -> Result<IndexWriter, ColumnsError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new().prefix(".etw-index-").tempfile_in(folder)?;
        // Without its magic number, an incomplete file is no index.
        file.as_file_mut().write_all(&[0; HEADER_LEN])?;
        Ok(IndexWriter::new(Target::File { file, path: path.to_owned() }, identity))
    }

    /// Starts an index in memory, with an empty identity.
    pub fn in_memory() -> IndexWriter {
        IndexWriter::new(Target::Memory(vec![0; HEADER_LEN]), &[])
    }

    fn new(target: Target, identity: &[u8]) -> IndexWriter {
        IndexWriter {
            output: Output { target, len: HEADER_LEN as u64, scratch: Vec::new(), broken: false },
            identity: identity.to_vec(),
            tables: Vec::new(),
            texts: TextInterner::default(),
            guids: GuidInterner::default(),
            stacks: StackInterner::default(),
        }
    }

    /// Adds a table. Rows of several tables may be appended in turn.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Schema`] if the table has no columns, or a name is used twice.
    pub fn table(&mut self, schema: &TableSchema) -> Result<TableId, ColumnsError> {
        let error = |what| Err(ColumnsError::Schema { table: schema.name.to_string(), what });
        if self.tables.iter().any(|table| table.entry.schema.name == schema.name) {
            return error("a table of this name exists already");
        }
        if schema.columns.is_empty() {
            return error("no columns");
        }
        for (number, column) in schema.columns.iter().enumerate() {
            if schema.column(&column.name) != Some(number) {
                return error("two columns of one name");
            }
        }
        self.tables.push(TableBuilder {
            entry: TableEntry { schema: schema.clone(), rows: 0, blocks: Vec::new() },
            columns: schema.columns.iter().map(|column| OpenColumn::new(column.column_type)).collect(),
            rows: 0,
            capacity: CHUNK_ROWS,
            filled: 0,
            wanted: schema.columns.len(),
            mismatch: None,
            counted: None,
        });
        Ok(TableId(self.tables.len() - 1))
    }

    /// Counts the rows of a table for some pivots from now on, instead of keeping them; the table of the index has only the
    /// rows before. [`IndexWriter::finish_counted`] returns the counts. Keys and conditions may be paths to other tables, but the
    /// values of aggregates are in the table itself.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::NoEntry`] if the table is one of another writer, [`ColumnsError::Pivot`] if the values of an
    /// aggregate are in another table, and [`ColumnsError::Io`] if the rows before cannot be written.
    pub fn count_rows(&mut self, table: TableId, pivots: &[Pivot]) -> Result<(), ColumnsError> {
        let no_table = ColumnsError::NoEntry { what: "table", code: table.0 as u64 };
        let builder = self.tables.get_mut(table.0).ok_or(no_table)?;
        let counted = CountedRows::new(&builder.entry.schema, pivots)?;
        builder.start_row();
        if builder.rows > 0 {
            builder.spill(&mut self.output)?;
        }
        for (number, column) in builder.columns.iter_mut().enumerate() {
            column.is_wanted = counted.needs(number);
        }
        builder.wanted = builder.columns.iter().filter(|column| column.is_wanted).count();
        builder.capacity = BATCH_ROWS;
        builder.counted = Some(counted);
        Ok(())
    }

    /// Starts a row of a table. [`Row::end`] appends it; a row that is dropped before is not appended.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::NoEntry`] if the table is one of another writer.
    pub fn row(&mut self, table: TableId) -> Result<Row<'_>, ColumnsError> {
        let IndexWriter { output, tables, texts, guids, .. } = self;
        let Some(builder) = tables.get_mut(table.0) else {
            return Err(ColumnsError::NoEntry { what: "table", code: table.0 as u64 });
        };
        builder.start_row();
        Ok(Row { table: builder, output, texts, guids })
    }

    /// Returns the number of rows appended to a table, which is also the number of its next row.
    pub fn rows(&self, table: TableId) -> u64 {
        self.tables.get(table.0).map_or(0, |builder| builder.entry.rows + builder.rows as u64)
    }

    /// Returns the code of a text, for [`Row::code`].
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::DictionaryFull`] after `u32::MAX` texts.
    pub fn text(&mut self, text: &str) -> Result<u32, ColumnsError> {
        self.texts.intern(text)
    }

    /// Returns the code of a GUID, for [`Row::code`].
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::DictionaryFull`] after `u32::MAX` GUIDs.
    pub fn guid(&mut self, guid: Guid) -> Result<u32, ColumnsError> {
        self.guids.intern(guid)
    }

    /// Returns the code of a stack, for [`Row::code`] and as the parent of other stacks. Stacks are added from the
    /// outermost frame to the innermost.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::NoEntry`] if there is no such parent, and [`ColumnsError::DictionaryFull`] after
    /// `u32::MAX` stacks.
    pub fn stack(&mut self, parent: Option<u32>, frame: u64) -> Result<u32, ColumnsError> {
        self.stacks.intern(StackNode { parent, frame })
    }

    /// Completes the index and opens it.
    ///
    /// Nothing is flushed to the disk: an index can be made again, and checksums show if the system crashed meanwhile.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Io`] if the file cannot be written or renamed, and [`ColumnsError::NoEntry`] if a row
    /// refers to a code or to a row of another table that does not exist. Then no file is left behind, and an earlier
    /// index at the path stays.
    pub fn finish(self) -> Result<Index, ColumnsError> {
        Ok(self.finish_counted()?.0)
    }

    /// Completes the index and opens it, and returns the tables whose rows were counted instead of being kept.
    ///
    /// # Errors
    ///
    /// Returns what [`IndexWriter::finish`] does.
    pub fn finish_counted(mut self) -> Result<(Index, Vec<(TableId, CountedRows)>), ColumnsError> {
        if self.output.broken {
            return Err(std::io::Error::other("an earlier write of the index failed").into());
        }
        for table in self.tables.iter_mut().filter(|table| table.rows > 0) {
            table.spill(&mut self.output)?;
        }
        let texts = std::mem::take(&mut self.texts);
        let texts = self.output.dictionary(texts.len(), &texts.into_parts())?;
        let guids = std::mem::take(&mut self.guids);
        let guids = self.output.dictionary(guids.len(), &guids.into_parts())?;
        let stacks = std::mem::take(&mut self.stacks);
        let stacks = self.output.dictionary(stacks.len(), &stacks.into_parts())?;
        let (mut tables, mut counted) = (Vec::new(), Vec::new());
        for (number, table) in std::mem::take(&mut self.tables).into_iter().enumerate() {
            tables.push(table.entry);
            counted.extend(table.counted.map(|rows| (TableId(number), rows)));
        }
        let identity = std::mem::take(&mut self.identity);
        let directory = Directory { identity, texts, guids, stacks, tables };
        if let Some((what, code)) = directory.dangling_code() {
            return Err(ColumnsError::NoEntry { what, code });
        }
        let bytes = directory.encode();
        self.output.target.write(&bytes)?;
        let header = format::header(self.output.len, &bytes);
        let index = match self.output.target {
            Target::Memory(mut memory) => {
                memory[..HEADER_LEN].copy_from_slice(&header);
                Index::new(Storage::Memory(memory), directory)
            }
            Target::File { mut file, path } => {
                file.as_file_mut().seek(SeekFrom::Start(0))?;
                file.as_file_mut().write_all(&header)?;
                let written: File = file.persist(&path).map_err(|error| error.error)?;
                Index::new(Storage::Map(FileMap::new(&written)?), directory)
            }
        };
        Ok((index, counted))
    }
}

impl Output {
    fn dictionary(&mut self, count: usize, parts: &[Vec<u8>; 2]) -> Result<DictionaryPlace, ColumnsError> {
        let mut checksum = crc32fast::Hasher::new();
        let offset = self.len;
        for part in parts {
            checksum.update(part);
            self.target.write(part)?;
            self.len += part.len() as u64;
        }
        Ok(DictionaryPlace {
            offset,
            len: self.len - offset,
            count: count as u32,
            checksum: checksum.finalize(),
        })
    }
}

/// The open chunk of a table.
#[derive(Debug)]
struct TableBuilder {
    /// The table as written so far.
    entry: TableEntry,
    columns: Vec<OpenColumn>,
    /// Complete rows of the open chunk.
    rows: usize,
    /// Number of rows with which the open chunk is full.
    capacity: usize,
    /// Number of columns that the current row has, and could have.
    filled: usize,
    wanted: usize,
    /// The first mistake in the current row.
    mismatch: Option<(usize, &'static str)>,
    /// The rows so far, if they are not kept.
    counted: Option<CountedRows>,
}

#[derive(Debug)]
struct OpenColumn {
    column_type: ColumnType,
    /// False if the values are neither kept nor counted.
    is_wanted: bool,
    words: Vec<u64>,
    /// The rows without a value.
    missing: Vec<u32>,
}

impl OpenColumn {
    fn new(column_type: ColumnType) -> OpenColumn {
        OpenColumn { column_type, is_wanted: true, words: Vec::new(), missing: Vec::new() }
    }

    /// Moves the words out, with 1 for each value that is there, or nothing if all are.
    fn take(&mut self, words: &mut Vec<u64>, valid: &mut Vec<u8>) {
        valid.clear();
        if !self.missing.is_empty() {
            valid.resize(self.words.len(), 1);
            self.missing.drain(..).for_each(|row| valid[row as usize] = 0);
        }
        std::mem::swap(words, &mut self.words);
        self.words.clear();
    }

    /// Sets the value of a row; returns the number of values that are added.
    #[inline]
    fn set(&mut self, row: usize, word: u64) -> usize {
        match self.words.get_mut(row) {
            _ if !self.is_wanted => 0,
            Some(old) => {
                *old = word;
                0
            }
            None => {
                self.words.push(word);
                1
            }
        }
    }
}

impl TableBuilder {
    /// Removes what a dropped row left.
    #[inline]
    fn start_row(&mut self) {
        if self.filled > 0 || self.mismatch.is_some() {
            self.drop_row();
        }
    }

    #[cold]
    fn drop_row(&mut self) {
        self.mismatch = None;
        self.filled = 0;
        for column in &mut self.columns {
            column.words.truncate(self.rows);
        }
    }

    #[inline]
    fn end_row(&mut self) -> Result<(), ColumnsError> {
        if let Some((number, what)) = self.mismatch {
            self.drop_row();
            let table = self.entry.schema.name.to_string();
            return Err(match self.entry.schema.columns.get(number) {
                Some(column) => ColumnsError::Type { column: column.name.to_string(), what },
                None => ColumnsError::NoColumn { table, column: number },
            });
        }
        if self.filled < self.wanted {
            for column in &mut self.columns {
                if column.words.len() == self.rows && column.is_wanted {
                    column.words.push(0);
                    column.missing.push(self.rows as u32);
                }
            }
        }
        self.rows += 1;
        self.filled = 0;
        Ok(())
    }

    /// Encodes the open chunk and writes it, or counts its rows.
    fn spill(&mut self, output: &mut Output) -> Result<(), ColumnsError> {
        if let Some(counted) = &mut self.counted {
            let rows = std::mem::take(&mut self.rows);
            return counted.add(rows, |column, words, valid| self.columns[column].take(words, valid));
        }
        output.scratch.clear();
        for column in &mut self.columns {
            let start = output.scratch.len() as u64;
            let mut block = encode(&mut column.words, &column.missing, &mut output.scratch);
            block.offset = output.len + start;
            self.entry.blocks.push(block);
            column.words.clear();
            column.missing.clear();
        }
        self.entry.rows += self.rows as u64;
        self.rows = 0;
        output.len += output.scratch.len() as u64;
        output.target.write(&output.scratch).inspect_err(|_| output.broken = true)
    }
}

/// A row that is being filled. Columns that are not set have a missing value.
///
/// Setters take the number of the column. A value of another type than the column's is reported by [`Row::end`].
#[derive(Debug)]
pub struct Row<'w> {
    table: &'w mut TableBuilder,
    output: &'w mut Output,
    texts: &'w mut TextInterner,
    guids: &'w mut GuidInterner,
}

impl Row<'_> {
    #[inline]
    fn set(&mut self, column: usize, word: u64, fits: impl Fn(ColumnType) -> bool) -> &mut Self {
        match self.table.columns.get_mut(column) {
            Some(open) if fits(open.column_type) => self.table.filled += open.set(self.table.rows, word),
            _ => self.mismatch(column, "a value of another type was set"),
        }
        self
    }

    #[cold]
    fn mismatch(&mut self, column: usize, what: &'static str) {
        self.table.mismatch.get_or_insert((column, what));
    }

    /// Sets a value of [`ColumnType::U64`], or of [`ColumnType::U32`] if it is not greater than `u32::MAX`.
    #[inline]
    pub fn u64(&mut self, column: usize, value: u64) -> &mut Self {
        self.set(column, value, |column_type| {
            matches!(column_type, ColumnType::U64 | ColumnType::U32) && value <= column_type.max_word()
        })
    }

    /// Sets a value of [`ColumnType::U32`] or [`ColumnType::U64`].
    #[inline]
    pub fn u32(&mut self, column: usize, value: u32) -> &mut Self {
        self.u64(column, value.into())
    }

    /// Sets a value of [`ColumnType::I64`].
    #[inline]
    pub fn i64(&mut self, column: usize, value: i64) -> &mut Self {
        self.set(column, word_of_i64(value), |column_type| column_type == ColumnType::I64)
    }

    /// Sets a value of [`ColumnType::F64`].
    #[inline]
    pub fn f64(&mut self, column: usize, value: f64) -> &mut Self {
        self.set(column, word_of_f64(value), |column_type| column_type == ColumnType::F64)
    }

    /// Sets a value of [`ColumnType::Bool`].
    #[inline]
    pub fn bool(&mut self, column: usize, value: bool) -> &mut Self {
        self.set(column, value.into(), |column_type| column_type == ColumnType::Bool)
    }

    /// Sets a value of [`ColumnType::Time`].
    #[inline]
    pub fn time(&mut self, column: usize, value: FileTime) -> &mut Self {
        self.set(column, word_of_i64(value.0), |column_type| column_type == ColumnType::Time)
    }

    /// Sets a value of [`ColumnType::Duration`], in nanoseconds.
    #[inline]
    pub fn duration(&mut self, column: usize, nanoseconds: i64) -> &mut Self {
        self.set(column, word_of_i64(nanoseconds), |column_type| column_type == ColumnType::Duration)
    }

    /// Sets a code: of a text, GUID or stack from the writer's dictionaries, or the number of a row of another table.
    #[inline]
    pub fn code(&mut self, column: usize, code: u32) -> &mut Self {
        self.set(column, code.into(), ColumnType::is_code)
    }

    /// Sets a value of [`ColumnType::Text`]. Only a new text is copied.
    pub fn text(&mut self, column: usize, text: &str) -> &mut Self {
        let open = self.table.columns.get(column);
        if open.is_some_and(|open| !open.is_wanted && open.column_type == ColumnType::Text) {
            return self;
        }
        match self.texts.intern(text) {
            Ok(code) => self.set(column, code.into(), |column_type| column_type == ColumnType::Text),
            Err(_) => {
                self.mismatch(column, "no room for another text");
                self
            }
        }
    }

    /// Sets a value of [`ColumnType::Guid`].
    pub fn guid(&mut self, column: usize, guid: Guid) -> &mut Self {
        match self.guids.intern(guid) {
            Ok(code) => self.set(column, code.into(), |column_type| column_type == ColumnType::Guid),
            Err(_) => {
                self.mismatch(column, "no room for another GUID");
                self
            }
        }
    }

    /// Appends the row, after which the setters fill the next one. When a chunk is full, it is written.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Type`] or [`ColumnsError::NoColumn`] if a setter did not fit its column; then the row is
    /// not appended. Returns [`ColumnsError::Io`] if the chunk cannot be written; then the writer is of no use any more.
    #[inline]
    pub fn end(&mut self) -> Result<(), ColumnsError> {
        self.table.end_row()?;
        if self.table.rows == self.table.capacity { self.table.spill(self.output) } else { Ok(()) }
    }
}
