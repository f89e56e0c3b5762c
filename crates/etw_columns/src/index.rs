//! Reading tables: an index in a file or in memory.

use std::io::Read;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use etw_sys::{FileMap, open_regular};

use crate::ColumnsError;
use crate::dictionary::{Guids, Stacks, Texts};
use crate::encoding::{Block, CHUNK_ROWS};
use crate::format::{self, DictionaryPlace, Directory, TableEntry};
use crate::parts::FetchParts;
use crate::schema::{Column, ColumnType, TableSchema};
use crate::value::Value;

/// Tables and dictionaries that were written by an [`IndexWriter`](crate::IndexWriter).
///
/// A file is mapped; only its directory is read when it is opened. Each block of values and each dictionary is verified
/// when it is first used, so damage is an error of the first call that needs it.
///
/// Files are replaced, not changed, so an open index stays as it is when another one takes its name. No process may
/// change or shorten the file itself, as for every [`FileMap`](etw_sys::FileMap#contract).
#[derive(Debug)]
pub struct Index {
    storage: Storage,
    /// Fetches what is not in the file yet.
    parts: Option<FetchParts>,
    directory: Directory,
    /// For each table, for each of its blocks, whether it has been verified.
    blocks: Vec<Vec<AtomicBool>>,
    /// The same for texts, GUIDs and stacks.
    dictionaries: [AtomicBool; 3],
}

#[derive(Debug)]
pub(crate) enum Storage {
    Memory(Vec<u8>),
    Map(FileMap),
}

impl Deref for Storage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Storage::Memory(bytes) => bytes,
            Storage::Map(map) => map,
        }
    }
}

impl Index {
    /// Opens an index file that was made from the source with this identity.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Io`] if the file cannot be read, [`NotAnIndex`](ColumnsError::NotAnIndex),
    /// [`OtherVersion`](ColumnsError::OtherVersion), [`Cut`](ColumnsError::Cut) or
    /// [`Damaged`](ColumnsError::Damaged) if it is no complete index of this version, and
    /// [`Stale`](ColumnsError::Stale) if it has another identity. In all these cases the index can be made again.
    pub fn open(path: &Path, identity: &[u8]) -> Result<Index, ColumnsError> {
        let index = Index::open_any(path)?;
        if index.identity() != identity {
            return Err(ColumnsError::Stale);
        }
        Ok(index)
    }

    /// Opens an index file whatever it was made from; [`identity`](Index::identity) says what that was.
    ///
    /// # Errors
    ///
    /// As for [`open`](Index::open), but never [`Stale`](ColumnsError::Stale).
    pub fn open_any(path: &Path) -> Result<Index, ColumnsError> {
        let storage = Storage::Map(FileMap::new(&open_regular(path)?)?);
        let directory = format::open(&storage, |_| Ok(()))?;
        Ok(Index::new(storage, directory))
    }

    /// Does what [`open_any`](Index::open_any) does, for a file of which only parts are there: fetches each part before its
    /// first use. A part that was not fetched fails its checksum, which is reported as damage.
    ///
    /// # Errors
    ///
    /// As for [`open_any`](Index::open_any), and if a part cannot be fetched.
    pub fn open_parts(path: &Path, parts: &FetchParts) -> Result<Index, ColumnsError> {
        let storage = Storage::Map(FileMap::new(&open_regular(path)?)?);
        let directory = format::open(&storage, |place| parts.fetch(place))?;
        Ok(Index { parts: Some(parts.clone()), ..Index::new(storage, directory) })
    }

    /// Returns whether a file starts as an index does, whatever the rest of it is.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub fn is_index(path: &Path) -> std::io::Result<bool> {
        let mut start = Vec::new();
        open_regular(path)?.take(format::MAGIC.len() as u64).read_to_end(&mut start)?;
        Ok(start == format::MAGIC)
    }

    /// Opens an index whose bytes are in memory.
    ///
    /// # Errors
    ///
    /// As for [`open`](Index::open).
    pub fn from_bytes(bytes: Vec<u8>, identity: &[u8]) -> Result<Index, ColumnsError> {
        let storage = Storage::Memory(bytes);
        let directory = format::open(&storage, |_| Ok(()))?;
        if directory.identity != identity {
            return Err(ColumnsError::Stale);
        }
        Ok(Index::new(storage, directory))
    }

    /// Creates an index from its bytes and the directory that is in them.
    pub(crate) fn new(storage: Storage, directory: Directory) -> Index {
        let flags = |table: &TableEntry| table.blocks.iter().map(|_| AtomicBool::new(false)).collect();
        Index {
            blocks: directory.tables.iter().map(flags).collect(),
            dictionaries: Default::default(),
            parts: None,
            storage,
            directory,
        }
    }

    /// Verifies everything that is otherwise verified when it is first used.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Damaged`] for the first part that is not what was written.
    pub fn verify(&self) -> Result<(), ColumnsError> {
        self.texts()?;
        self.guids()?;
        self.stacks()?;
        for table in self.tables() {
            for column in 0..table.schema().columns.len() {
                let reader = table.column(column)?;
                for chunk in 0..table.chunks() {
                    reader.block(chunk)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the identity of the source, as given to [`IndexWriter::create`](crate::IndexWriter::create).
    pub fn identity(&self) -> &[u8] {
        &self.directory.identity
    }

    /// Returns the size of the index in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.storage.len() as u64
    }

    /// Returns the tables in the order in which they were added.
    pub fn tables(&self) -> impl ExactSizeIterator<Item = Table<'_>> {
        (0..self.directory.tables.len()).map(|number| Table { index: self, number })
    }

    /// Returns the table called `name`.
    pub fn table(&self, name: &str) -> Option<Table<'_>> {
        self.tables().find(|table| table.schema().name == name)
    }

    /// Returns the texts.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Damaged`] if they are not what was written.
    pub fn texts(&self) -> Result<Texts<'_>, ColumnsError> {
        let place = &self.directory.texts;
        self.dictionary(0, place, Texts::new(self.part(place), place.count as usize), Texts::defect)
    }

    /// Returns the GUIDs.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Damaged`] if they are not what was written.
    pub fn guids(&self) -> Result<Guids<'_>, ColumnsError> {
        let place = &self.directory.guids;
        let (guids, rest) = self.part(place).as_chunks();
        let guids = (guids.len() == place.count as usize && rest.is_empty()).then_some(Guids(guids));
        self.dictionary(1, place, guids, |_| None)
    }

    /// Returns the stacks.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Damaged`] if they are not what was written.
    pub fn stacks(&self) -> Result<Stacks<'_>, ColumnsError> {
        let place = &self.directory.stacks;
        self.dictionary(2, place, Stacks::new(self.part(place), place.count as usize), Stacks::defect)
    }

    fn dictionary<T>(
        &self,
        number: usize,
        place: &DictionaryPlace,
        dictionary: Option<T>,
        defect: impl Fn(&T) -> Option<&'static str>,
    ) -> Result<T, ColumnsError> {
        let damaged = |what| ColumnsError::Damaged { offset: place.offset, what };
        let dictionary = dictionary.ok_or(damaged("dictionary of another size"))?;
        if !self.dictionaries[number].load(Ordering::Relaxed) {
            self.fetch(place.offset, place.len)?;
            if crc32fast::hash(self.part(place)) != place.checksum {
                return Err(damaged("dictionary"));
            }
            if let Some(what) = defect(&dictionary) {
                return Err(damaged(what));
            }
            self.dictionaries[number].store(true, Ordering::Relaxed);
        }
        Ok(dictionary)
    }

    /// Fetches a part that is used for the first time.
    fn fetch(&self, offset: u64, len: u64) -> Result<(), ColumnsError> {
        match &self.parts {
            Some(parts) => Ok(parts.fetch(offset..offset.saturating_add(len))?),
            None => Ok(()),
        }
    }

    fn part(&self, place: &DictionaryPlace) -> &[u8] {
        self.bytes(place.offset, place.len as usize).unwrap_or_default()
    }

    fn bytes(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        self.storage.get(start..start.checked_add(len)?)
    }
}

/// Most references that the name of a column is looked for behind.
const MAX_STEPS: usize = 4;

/// A table of an index.
#[derive(Debug, Clone, Copy)]
pub struct Table<'i> {
    index: &'i Index,
    number: usize,
}

impl<'i> Table<'i> {
    /// Rows of each chunk but the last of a table.
    pub const CHUNK_ROWS: usize = CHUNK_ROWS;

    fn entry(&self) -> &'i TableEntry {
        &self.index.directory.tables[self.number]
    }

    /// Returns the index of the table.
    pub fn index(&self) -> &'i Index {
        self.index
    }

    /// Returns the description of the table.
    pub fn schema(&self) -> &'i TableSchema {
        &self.entry().schema
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        self.entry().rows
    }

    /// Returns the size of the table's blocks in bytes, without dictionaries.
    pub fn len_bytes(&self) -> u64 {
        let columns = self.schema().columns.len();
        let blocks = self.entry().blocks.iter().enumerate();
        blocks.map(|(number, block)| block.len(self.chunk_rows(number / columns)) as u64).sum()
    }

    /// Returns the number of chunks.
    pub fn chunks(&self) -> usize {
        self.entry().chunks()
    }

    /// Returns the number of rows of a chunk; 0 if there is no such chunk.
    pub fn chunk_rows(&self, chunk: usize) -> usize {
        self.entry().chunk_rows(chunk)
    }

    /// Returns a reader of a column.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::NoColumn`].
    pub fn column(&self, column: usize) -> Result<ColumnReader<'i>, ColumnsError> {
        let schema = self.schema();
        match schema.columns.get(column) {
            Some(description) => Ok(ColumnReader { table: *self, number: column, column: description }),
            None => Err(ColumnsError::NoColumn { table: schema.name.to_string(), column }),
        }
    }

    /// Returns one value, without decoding the values around it.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::NoColumn`], [`ColumnsError::NoRow`], and [`ColumnsError::Damaged`] if the chunk is not
    /// what was written.
    pub fn value(&self, row: u64, column: usize) -> Result<Value, ColumnsError> {
        let reader = self.column(column)?;
        if row >= self.rows() {
            return Err(self.no_row("row", row));
        }
        let chunk = (row / CHUNK_ROWS as u64) as usize;
        let row = (row % CHUNK_ROWS as u64) as usize;
        let (block, bytes) = reader.block(chunk)?;
        let (mut valid, mut words) = (Vec::new(), Vec::new());
        let start = row / 8 * 8;
        block.validity(bytes, self.chunk_rows(chunk), start..row + 1, &mut valid);
        if valid.get(row - start) == Some(&0) {
            return Ok(Value::Null);
        }
        block.words(bytes, row..row + 1, &mut words);
        Ok(words.first().map_or(Value::Null, |word| reader.column.column_type.value(*word)))
    }

    /// Finds a column by its name, also in the tables that rows refer to; returns the path that
    /// [`Pivot::through`](crate::Pivot::through) takes.
    ///
    /// A dot separates the columns of a path, such as `thread.process.name`. A name that is not a column of the table is
    /// looked for in the tables that its rows refer to, nearest first and in the order of columns, so that `name` may be
    /// enough.
    pub fn path(&self, name: &str) -> Option<Vec<usize>> {
        let mut parts = name.split('.');
        let mut path = self.nearest(parts.next()?)?;
        for part in parts {
            let target = self.index.table(&self.path_column(&path)?.table)?;
            path.push(target.schema().column(part)?);
        }
        Some(path)
    }

    /// Returns the path to the nearest column with a name.
    fn nearest(&self, name: &str) -> Option<Vec<usize>> {
        let mut paths = vec![(*self, Vec::new())];
        for _ in 0..MAX_STEPS {
            let found = paths.iter().find_map(|(table, path): &(Table<'_>, Vec<usize>)| {
                let column = table.schema().column(name)?;
                Some(path.iter().copied().chain([column]).collect())
            });
            if found.is_some() {
                return found;
            }
            let mut next = Vec::new();
            for (table, path) in &paths {
                let references = table.schema().columns.iter().enumerate();
                for (number, column) in references.filter(|(_, column)| column.column_type == ColumnType::Row)
                {
                    if let Some(target) = self.index.table(&column.table) {
                        next.push((target, path.iter().copied().chain([number]).collect()));
                    }
                }
            }
            paths = next;
        }
        None
    }

    /// Returns the column at the end of a path; `None` if the path leads nowhere.
    pub fn path_column(&self, path: &[usize]) -> Option<&'i Column> {
        let (first, rest) = path.split_first()?;
        let mut column = self.schema().columns.get(*first)?;
        for step in rest {
            column = self.index.table(&column.table)?.schema().columns.get(*step)?;
        }
        Some(column)
    }

    /// Returns the value at the end of a path from a row; [`Value::Null`] if a reference on the way is missing.
    ///
    /// # Errors
    ///
    /// As [`Table::value`].
    pub fn path_value(&self, row: u64, path: &[usize]) -> Result<Value, ColumnsError> {
        let (mut table, mut value) = (*self, Value::Code(0));
        let mut row = Some(row);
        for step in path {
            let Some(at) = row else { return Ok(Value::Null) };
            value = table.value(at, *step)?;
            row = match value {
                Value::Code(code) => Some(code.into()),
                _ => None,
            };
            let target = table.schema().columns.get(*step).and_then(|column| self.index.table(&column.table));
            table = target.unwrap_or(table);
        }
        Ok(value)
    }

    fn no_row(&self, what: &'static str, number: u64) -> ColumnsError {
        ColumnsError::NoRow { table: self.schema().name.to_string(), what, number }
    }
}

/// A reader of one column.
#[derive(Debug, Clone, Copy)]
pub struct ColumnReader<'i> {
    table: Table<'i>,
    number: usize,
    column: &'i Column,
}

/// What is known of the values of one column in one chunk without reading them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChunkStatistics {
    /// Least value; [`Value::Null`] if all are missing.
    pub min: Value,
    /// Greatest value; [`Value::Null`] if all are missing.
    pub max: Value,
    /// Number of missing values.
    pub nulls: u32,
}

impl<'i> ColumnReader<'i> {
    /// Returns the description of the column.
    pub fn column(&self) -> &'i Column {
        self.column
    }

    /// Returns the statistics of a chunk; `None` if there is no such chunk.
    pub fn statistics(&self, chunk: usize) -> Option<ChunkStatistics> {
        let block = self.description(chunk)?;
        let value = |word| match block.nulls as usize == self.table.chunk_rows(chunk) {
            true => Value::Null,
            false => self.column.column_type.value(word),
        };
        Some(ChunkStatistics { min: value(block.min), max: value(block.max), nulls: block.nulls })
    }

    /// Decodes the values of a chunk into a buffer, which is reused.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::Type`] if the column's type cannot be read as `T`, [`ColumnsError::NoRow`] if there is no
    /// such chunk, and [`ColumnsError::Damaged`] if it is not what was written.
    pub fn read<T: Element>(&self, chunk: usize, out: &mut Values<T>) -> Result<(), ColumnsError> {
        let column_type = self.column.column_type;
        if !T::accepts(column_type) {
            let column = self.column.name.to_string();
            return Err(ColumnsError::Type { column, what: "read as a type that cannot hold its values" });
        }
        let (block, bytes) = self.block(chunk)?;
        let rows = self.table.chunk_rows(chunk);
        out.values.clear();
        for start in (0..rows).step_by(STEP) {
            block.words(bytes, start..rows.min(start + STEP), &mut out.words);
            T::append(column_type, &out.words, &mut out.values);
        }
        block.validity(bytes, rows, 0..rows, &mut out.valid);
        Ok(())
    }

    /// Returns the block of a chunk, without verifying its bytes.
    pub(crate) fn description(&self, chunk: usize) -> Option<&'i Block> {
        self.table.entry().blocks.get(self.place(chunk)?)
    }

    /// Returns the block of a chunk and its verified bytes.
    pub(crate) fn block(&self, chunk: usize) -> Result<(&'i Block, &'i [u8]), ColumnsError> {
        let index = self.table.index;
        let verified = self.place(chunk).and_then(|place| index.blocks[self.table.number].get(place));
        let (Some(block), Some(verified)) = (self.description(chunk), verified) else {
            return Err(self.table.no_row("chunk", chunk as u64));
        };
        let rows = self.table.chunk_rows(chunk);
        let damaged = |what| ColumnsError::Damaged { offset: block.offset, what };
        let bytes = index.bytes(block.offset, block.len(rows)).ok_or(damaged("chunk"))?;
        if !verified.load(Ordering::Relaxed) {
            index.fetch(block.offset, bytes.len() as u64)?;
            if crc32fast::hash(bytes) != block.checksum {
                return Err(damaged("chunk"));
            }
            if let Some(what) = block.defect(bytes, rows) {
                return Err(damaged(what));
            }
            verified.store(true, Ordering::Relaxed);
        }
        Ok((block, bytes))
    }

    fn place(&self, chunk: usize) -> Option<usize> {
        chunk.checked_mul(self.table.schema().columns.len())?.checked_add(self.number)
    }
}

/// The values of one column in one chunk.
#[derive(Debug, Clone, Default)]
pub struct Values<T> {
    values: Vec<T>,
    /// 1 for each value that is there; empty if all are.
    valid: Vec<u8>,
    /// Some words before they become values; so few that they stay in the cache.
    words: Vec<u64>,
}

/// Words that become values at once.
const STEP: usize = 1024;

impl<T: Copy> Values<T> {
    /// Returns the value of each row; of a missing value it is any value.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Returns for each row 1 if its value is there and 0 if it is missing; `None` if no value is missing.
    pub fn validity(&self) -> Option<&[u8]> {
        (!self.valid.is_empty()).then_some(&self.valid)
    }

    /// Returns the value of a row of the chunk; `None` if it is missing.
    pub fn get(&self, row: usize) -> Option<T> {
        let value = self.values.get(row)?;
        self.valid.get(row).is_none_or(|valid| *valid == 1).then_some(*value)
    }
}

/// Types that values are decoded to.
///
/// | type | columns |
/// |---|---|
/// | `u32` | `U32`, `Bool`, `Text`, `Guid`, `Stack`, `Row` |
/// | `u64` | those, and `U64` |
/// | `i64` | `I64`, `Time` in 100 ns, `Duration` in ns |
/// | `f64` | all numbers and `Duration`, rounded where needed |
pub trait Element: Copy + sealed::Decode {}

impl Element for u32 {}
impl Element for u64 {}
impl Element for i64 {}
impl Element for f64 {}

mod sealed {
    use crate::schema::ColumnType;
    use crate::value::{f64_of, i64_of};

    pub trait Decode: Sized {
        /// Returns true if the type can hold the values of a column.
        fn accepts(column_type: ColumnType) -> bool;
        /// Appends the values of words.
        fn append(column_type: ColumnType, words: &[u64], out: &mut Vec<Self>);
    }

    impl Decode for u32 {
        fn accepts(column_type: ColumnType) -> bool {
            column_type.max_word() <= u64::from(u32::MAX)
        }

        fn append(_: ColumnType, words: &[u64], out: &mut Vec<u32>) {
            out.extend(words.iter().map(|word| *word as u32));
        }
    }

    impl Decode for u64 {
        fn accepts(column_type: ColumnType) -> bool {
            column_type == ColumnType::U64 || u32::accepts(column_type)
        }

        fn append(_: ColumnType, words: &[u64], out: &mut Vec<u64>) {
            out.extend_from_slice(words);
        }
    }

    impl Decode for i64 {
        fn accepts(column_type: ColumnType) -> bool {
            column_type.is_signed()
        }

        fn append(_: ColumnType, words: &[u64], out: &mut Vec<i64>) {
            out.extend(words.iter().map(|word| i64_of(*word)));
        }
    }

    impl Decode for f64 {
        fn accepts(column_type: ColumnType) -> bool {
            column_type.is_number()
        }

        fn append(column_type: ColumnType, words: &[u64], out: &mut Vec<f64>) {
            match column_type {
                ColumnType::F64 => out.extend(words.iter().map(|word| f64_of(*word))),
                _ if column_type.is_signed() => out.extend(words.iter().map(|word| i64_of(*word) as f64)),
                _ => out.extend(words.iter().map(|word| *word as f64)),
            }
        }
    }
}
