//! Answers of the program `etw-sql`, mapped into memory.

use std::fs::File;
use std::path::PathBuf;

use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use etw_sys::FileMap;
use pyo3::prelude::*;

use crate::errors::{Failure, OrRaise, code};
use crate::table::Table;

/// A map that owns its file's pages.
struct Answer(FileMap);

impl AsRef<[u8]> for Answer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Returns a stream in Apache Arrow's format, which is in a file that nobody changes any more, as a table without copying
/// it.
#[pyfunction]
pub(crate) fn map_arrow(py: Python<'_>, path: PathBuf) -> PyResult<Table> {
    py.detach(|| map(&path)).or_raise()
}

fn map(path: &PathBuf) -> Result<Table, Failure> {
    let failure = |error: &dyn std::fmt::Display| Failure::new("SqlError", code::INVALID_DATA, error);
    let map = File::open(path).and_then(|file| FileMap::new(&file)).map_err(|error| failure(&error))?;
    let mut rest = Buffer::from(Bytes::from_owner(Answer(map)));
    let mut decoder = StreamDecoder::new();
    let (mut schema, mut batches): (Option<SchemaRef>, Vec<_>) = (None, Vec::new());
    while !rest.is_empty() {
        match decoder.decode(&mut rest)? {
            Some(batch) => batches.push(batch),
            None => break,
        }
        schema = schema.or_else(|| decoder.schema());
    }
    let schema = schema.or_else(|| decoder.schema());
    decoder.finish()?;
    let schema = schema.ok_or_else(|| failure(&"the answer is empty"))?;
    Ok(Table::new("sql", schema, batches))
}
