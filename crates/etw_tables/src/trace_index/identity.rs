//! What an index is made from: the files, the program, and where names of functions come from.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use etw_consumer::Input;

use super::IndexProblem;
use crate::rows::row_tables;

/// Version of what the tables hold, for changes that their declarations do not show.
const VERSION: u32 = 2;

/// Bytes at the start and at the end of a file that are hashed.
const EDGE_BYTES: u64 = 64 << 10;
/// Number of blocks between them that are hashed.
const BLOCKS: u64 = 16;
/// Bytes of such a block.
const BLOCK_BYTES: u64 = 4 << 10;

/// The identity of an index: a text of one line for the program, one for the source of names, and one for each file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity(String);

impl Identity {
    /// Reads what identifies the files.
    pub(super) fn from_files(files: &[PathBuf], names: &str) -> io::Result<Identity> {
        let mut text = format!("{}\n{}\n", program(), one_line(names));
        for file in files {
            text.push_str(&of_file(file)?);
        }
        Ok(Identity(text))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Returns a text that stands for the contents of the files, as far as they are hashed.
    pub(super) fn of_contents(&self) -> String {
        let mut hash = crc32fast::Hasher::new();
        let mut bytes = 0_u64;
        for line in without_times(&self.0).lines().skip(2) {
            hash.update(line.as_bytes());
            let len = line.split(' ').next().and_then(|len| len.parse::<u64>().ok());
            bytes = bytes.wrapping_add(len.unwrap_or(0));
        }
        format!("{:08x}-{bytes:x}", hash.finalize())
    }

    /// Returns why an index with another identity does not serve; `None` if it does. The times of a copy do not count.
    pub(super) fn mismatch(&self, found: &[u8], is_copy: bool) -> Option<IndexProblem> {
        if found == self.as_bytes() {
            return None;
        }
        let (own, found) = (self.0.as_str(), String::from_utf8_lossy(found));
        let (own, found) = match is_copy {
            true => (without_times(own), without_times(&found)),
            false => (own.to_owned(), found.into_owned()),
        };
        if own == found {
            return None;
        }
        let mut lines = own.splitn(3, '\n').zip(found.splitn(3, '\n'));
        match lines.position(|(own, other)| own != other) {
            Some(0) => Some(IndexProblem::OtherProgram),
            Some(1) => Some(IndexProblem::OtherNames),
            _ => Some(IndexProblem::Changed),
        }
    }
}

/// Returns the version of the tables: that of the program, and a hash of their declarations.
fn program() -> String {
    let mut hash = crc32fast::Hasher::new();
    for table in row_tables() {
        hash.update(format!("{table:?}\n").as_bytes());
    }
    format!("openetw {} tables {VERSION}-{:08x}", env!("CARGO_PKG_VERSION"), hash.finalize())
}

fn of_file(path: &Path) -> io::Result<String> {
    let mut file = etw_sys::open_regular(&Input::file_of(path))?;
    let metadata = file.metadata()?;
    let modified = metadata.modified()?;
    // The sign does not matter: times before 1970 only need to differ from others.
    let nanos = match modified.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_nanos(),
        Err(before) => before.duration().as_nanos(),
    };
    let len = metadata.len();
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(format!("{len} {nanos} {:08x} {}\n", sample(&mut file, len)?, one_line(&name)))
}

/// Returns an identity without the times of the files, which are the second words of their lines.
fn without_times(identity: &str) -> String {
    let line = |(number, line): (usize, &str)| match line.splitn(3, ' ').collect::<Vec<_>>()[..] {
        [len, _, rest] if number > 1 => format!("{len} {rest}\n"),
        _ => format!("{line}\n"),
    };
    identity.lines().enumerate().map(line).collect()
}

/// Returns the places of a file of some length that are hashed: its start, its end and some blocks.
pub(super) fn sampled(len: u64) -> impl Iterator<Item = Range<u64>> {
    let middle = (1..=BLOCKS).map(move |number| (len / (BLOCKS + 1) * number, BLOCK_BYTES));
    let edges = [(0, EDGE_BYTES), (len.saturating_sub(EDGE_BYTES), EDGE_BYTES)];
    edges.into_iter().chain(middle).map(move |(offset, count)| offset..(offset + count).min(len))
}

/// Returns a hash of the start, the end and some blocks of a file.
fn sample(file: &mut File, len: u64) -> io::Result<u32> {
    let mut hash = crc32fast::Hasher::new();
    let mut bytes = Vec::new();
    for place in sampled(len) {
        file.seek(SeekFrom::Start(place.start))?;
        bytes.clear();
        file.by_ref().take(place.end - place.start).read_to_end(&mut bytes)?;
        hash.update(&bytes);
    }
    Ok(hash.finalize())
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
