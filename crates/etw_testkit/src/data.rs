//! Real traces, which are stored outside the workspace.
//!
//! `OPENETW_DATA` names their directory (the one with `etl/README.md` in it); the default is `../shared` relative to
//! the workspace's root. Tests that need them print a message and skip if there are none.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Returns the workspace's root directory.
pub fn workspace_root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// Returns the directory of the real data; prints a message if there is none.
pub fn data_dir() -> Option<PathBuf> {
    let directory = match std::env::var_os("OPENETW_DATA") {
        Some(named) => PathBuf::from(named),
        None => workspace_root().join("../shared"),
    };
    if directory.join("etl/README.md").is_file() {
        return Some(directory);
    }
    crate::skip!("no real traces in {} (OPENETW_DATA names another directory)", directory.display());
    None
}

/// A real trace file and its known properties: a row of the table in `etl/README.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceFile {
    /// Path relative to `etl`, which identifies the file; ends in `.zst` if the file is stored compressed.
    pub name: String,
    /// Full path of the file.
    pub path: PathBuf,
    /// Size of the trace itself in bytes.
    pub len_bytes: u64,
    /// Version of the system in the log file header, as `10.0.18362`.
    pub os: String,
    /// Pointer size in the log file header.
    pub pointer_size: u8,
    /// Processors in the log file header.
    pub processors: u32,
    /// `LogFileMode` of the log file header.
    pub log_file_mode: u32,
    /// Buffer size in the log file header, in bytes.
    pub buffer_size: u32,
    /// Number of buffers in the file.
    pub buffers: u64,
    /// Number of compressed buffers.
    pub compressed_buffers: u64,
    /// Whether the file was merged, and so contains events of KernelTraceControl.
    pub merged: bool,
    /// Number of records, including the log file header.
    pub records: u64,
    /// Lost events according to the log file header.
    pub events_lost: u64,
    /// Counts of record kinds, schema kinds and extended items, in words.
    pub contents: String,
}

impl TraceFile {
    /// Returns the bytes of the trace, decompressed if the file is stored compressed.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or decompressed; the message names it.
    pub fn read(&self) -> Result<Vec<u8>, String> {
        match self.path.extension().is_some_and(|extension| extension == "zst") {
            true => unpacked(&self.path),
            false => fs::read(&self.path).map_err(|error| format!("{}: {error}", self.path.display())),
        }
    }

    /// Returns the count in `contents` for a kind such as `EVENT64`; 0 if it is missing.
    pub fn count_of(&self, kind: &str) -> u64 {
        let parts = self.contents.split([',', ';', '(', ')']).map(str::trim);
        let mut count = parts.filter_map(|part| {
            let part =
                part.strip_prefix("record headers ").or(part.strip_prefix("extended items ")).unwrap_or(part);
            part.strip_prefix(kind)?.trim_start_matches(':').trim().parse().ok()
        });
        count.next().unwrap_or(0)
    }
}

/// A real trace of .NET.
#[derive(Debug, Clone)]
pub struct NetTrace {
    /// Name of the file, without `.zst`.
    pub name: String,
    /// The bytes of the trace.
    pub bytes: Vec<u8>,
    /// What another reader shows: a line for each kind of event, with its count and one event.
    pub baseline: Option<String>,
}

/// Returns the real traces of .NET, sorted by name; prints a message and returns `None` if there are none.
///
/// # Panics
///
/// Panics if one of them cannot be read.
pub fn nettraces() -> Option<Vec<NetTrace>> {
    let directory = data_dir()?.join("nettrace");
    let files = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let names = files.flatten().filter_map(|file| file.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".zst")?.to_owned())).collect();
    names.sort();
    let read = |name: String| NetTrace {
        bytes: unpacked(&directory.join(format!("{name}.zst"))).unwrap_or_else(|error| panic!("{error}")),
        baseline: fs::read_to_string(directory.join(format!("{name}.baseline.txt"))).ok(),
        name,
    };
    Some(names.into_iter().map(read).collect())
}

/// Reads a file and decompresses it.
fn unpacked(path: &Path) -> Result<Vec<u8>, String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = fs::read(path).map_err(|error| named(&error))?;
    let mut bytes = Vec::new();
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(&file[..]).map_err(|error| named(&error))?;
    decoder.read_to_end(&mut bytes).map_err(|error| named(&error))?;
    Ok(bytes)
}

/// Returns all real traces, sorted by name; prints a message and returns `None` if there are none.
///
/// # Panics
///
/// Panics if the table exists but cannot be read: a test must not pass because its expectations are missing.
pub fn traces() -> Option<Vec<TraceFile>> {
    let directory = data_dir()?.join("etl");
    let path = directory.join("README.md");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    match parse_table(&text, &directory) {
        Ok(traces) => Some(traces),
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

/// Returns the real trace with a name (`microsoft-Tx/HTTP_Server.etl`); prints a message and returns `None` if there
/// are none.
///
/// # Panics
///
/// Panics if there are traces, but none with that name.
pub fn trace(name: &str) -> Option<TraceFile> {
    let found = traces()?.into_iter().find(|trace| trace.name == name || trace.name == format!("{name}.zst"));
    Some(found.unwrap_or_else(|| panic!("no trace is named {name}")))
}

fn parse_table(text: &str, directory: &Path) -> Result<Vec<TraceFile>, String> {
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let mut rows = rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let columns = rows.next().ok_or("no table")?;
    let mut traces = Vec::new();
    for row in rows.skip(1) {
        let cell = |column: &str| -> Result<&str, String> {
            let index = columns.iter().position(|name| name.starts_with(column));
            let index = index.ok_or_else(|| format!("the table has no column `{column}`"))?;
            row.get(index).copied().ok_or_else(|| format!("a row of {} cells", row.len()))
        };
        let number = |column: &str| -> Result<u64, String> {
            let text = cell(column)?;
            let digits = text.split(' ').next().unwrap_or(text);
            let value = match digits.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => digits.parse(),
            };
            value.map_err(|error| format!("column `{column}`: `{text}`: {error}"))
        };
        let narrow = |column: &str| -> Result<u32, String> {
            u32::try_from(number(column)?).map_err(|error| format!("column `{column}`: {error}"))
        };
        let name = cell("file")?.to_owned();
        let buffers = cell("buffers")?;
        let compressed = buffers.split_once('(').and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        traces.push(TraceFile {
            path: directory.join(&name),
            len_bytes: number("bytes (")?,
            os: cell("OS in")?.to_owned(),
            pointer_size: narrow("pointer size")? as u8,
            processors: narrow("CPUs")?,
            log_file_mode: narrow("log file mode")?,
            buffer_size: narrow("buffer size")?,
            buffers: number("buffers")?,
            compressed_buffers: compressed.unwrap_or(0),
            merged: cell("merged")?.starts_with("yes"),
            records: number("records")?,
            events_lost: number("events lost")?,
            contents: cell("what is in it")?.to_owned(),
            name,
        });
    }
    Ok(traces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read() {
        let text = "text\n| file | origin | bytes (uncompressed) | OS in the header | pointer size in the header | \
            CPUs | log file mode | buffer size in the header | buffers | merged (x) | records | events lost | what is \
            in it |\n|---|---|\n| a/b.etl.zst | c | 12 | 10.0.1 | 8 | 2 | 0x10 | 65536 | 88 (87 compressed) | yes | \
            17 | 3 | kernel classic 4; extended items type 12: 43; record headers SYSTEM64 1, EVENT64 16 |\n";
        let traces = parse_table(text, Path::new("/d")).unwrap();
        let [trace] = &traces[..] else { panic!("{traces:?}") };
        assert_eq!((trace.name.as_str(), trace.records, trace.events_lost), ("a/b.etl.zst", 17, 3));
        assert_eq!((trace.buffers, trace.compressed_buffers, trace.log_file_mode), (88, 87, 16));
        assert_eq!((trace.count_of("EVENT64"), trace.count_of("SYSTEM64")), (16, 1));
        assert_eq!((trace.count_of("type 12"), trace.count_of("FULL32")), (43, 0));
        assert!(trace.merged);
        assert!(parse_table("| file |\n|---|\n| x |", Path::new("")).is_err());
    }

    #[test]
    fn real_traces_match_their_table() {
        let Some(traces) = traces() else { return };
        assert!(!traces.is_empty());
        for trace in &traces {
            let bytes = trace.read().unwrap();
            assert_eq!(bytes.len() as u64, trace.len_bytes, "{}", trace.name);
            assert!(trace.records > 0 && trace.buffers > 0, "{}", trace.name);
        }
    }
}
