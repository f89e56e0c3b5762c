//! A trace that is an object, and the index beside it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use etw_app::index::{IndexOfCopy, IndexOptions};
use etw_columns::FetchParts;
use etw_consumer::{Input, InputError, InputLimits, Statistics, Trace};
use etw_etl::EtlFile;
use etw_sys::FileMap;
use etw_tables::{IndexHome, IndexPlace};

use super::Remote;
use super::address::Address;
use super::object::Object;
use crate::once::{Once, once};

/// Least bytes that are fetched of an index.
const INDEX_BYTES: u64 = 64 << 10;

/// A trace at a URL. The files of it and of its index are in a directory of their own.
#[derive(Debug)]
pub(crate) struct RemoteTrace {
    remote: Arc<Remote>,
    address: Address,
    directory: PathBuf,
    object: Object,
    index: Once<IndexOptions>,
}

impl RemoteTrace {
    /// Opens a trace at a URL: fetches its start or, if ranges of time cannot be read from it, all of it.
    ///
    /// # Errors
    ///
    /// Fails if there is no such object, if it cannot be fetched, or if the URL is wrong.
    pub(crate) fn open(remote: &Arc<Remote>, url: &str) -> Result<RemoteTrace> {
        let address = Address::parse(url)?;
        let directory = remote.directory()?;
        let object = Object::open(remote, address.clone(), &directory)?;
        let Some(object) = object else {
            bail!("{}: there is no such object, or no access to it", address.shown());
        };
        let (remote, index) = (remote.clone(), Once::new());
        let trace = RemoteTrace { remote, address, directory, object, index };
        if trace.is_read_as_a_whole()? {
            trace.object.fetch_all()?;
        }
        Ok(trace)
    }

    /// Whether the file is packed or of another format than `.etl`, by its start.
    fn is_read_as_a_whole(&self) -> Result<bool> {
        let file = std::fs::File::open(self.path()).context("a temporary file")?;
        let map = FileMap::new(&file).context("a temporary file")?;
        let is_no_trace = || {
            let opened = Input::open(self.path(), &InputLimits::default());
            matches!(opened, Err(InputError::NotATrace { .. }))
        };
        Ok(EtlFile::open(&map).is_err() && !is_no_trace())
    }

    /// Returns the file, which has only parts of the trace.
    pub(crate) fn path(&self) -> &Path {
        self.object.path()
    }

    /// Returns the size of the object and the tag of its state; `None` if its server has no tags.
    pub(crate) fn state(&self) -> Option<(u64, &str)> {
        Some((self.object.len_bytes(), self.object.tag()?))
    }

    /// Whether the server still has the same state of the object.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached.
    pub(crate) fn is_current(&self) -> Result<bool> {
        self.object.is_current()
    }

    /// Returns how the index is opened. If there is one, and it may be used, it is opened in parts; otherwise, the whole trace
    /// is fetched.
    ///
    /// # Errors
    ///
    /// Fails if a server fails.
    pub(crate) fn index(&self, options: &IndexOptions) -> Result<&IndexOptions> {
        once(&self.index, || {
            let found = match options.disabled {
                true => None,
                false => Object::open(&self.remote, self.address.of_index(), &self.directory)?,
            };
            let Some(index) = found else {
                self.object.fetch_all()?;
                return Ok(IndexOptions { home: Some(IndexHome::Beside), ..options.clone() });
            };
            self.object.fetch(IndexPlace::sampled(self.object.len_bytes()))?;
            // Blocks of columns that are read together are neighbours.
            let wider = |place: Range<u64>| place.start..place.end.max(place.start + INDEX_BYTES);
            let fetch = move |place| index.fetch([wider(place)]).map_err(std::io::Error::other);
            let shown = self.address.of_index().shown();
            let copy = IndexOfCopy { shown, parts: FetchParts::new(fetch) };
            Ok(IndexOptions { disabled: false, home: Some(IndexHome::Beside), of_copy: Some(copy) })
        })
    }

    /// Fetches what reading a trace with this file touches.
    ///
    /// # Errors
    ///
    /// Fails if the object has changed, or if a server fails.
    pub(crate) fn fetch_for(&self, trace: &Trace) -> Result<()> {
        match self.object.is_whole() {
            true => Ok(()),
            false => self.object.fetch(trace.extents()?.into_iter().flatten()),
        }
    }

    /// Fetches what says which events and processes the trace has.
    ///
    /// # Errors
    ///
    /// Fails as [`RemoteTrace::fetch_for`] does.
    pub(crate) fn fetch_metadata(&self, trace: &Trace) -> Result<()> {
        match self.object.is_whole() {
            true => Ok(()),
            false => self.object.fetch(trace.metadata_extents()?.into_iter().flatten()),
        }
    }

    /// Fetches all of the trace.
    ///
    /// # Errors
    ///
    /// Fails as [`RemoteTrace::fetch_for`] does.
    pub(crate) fn fetch_all(&self) -> Result<()> {
        self.object.fetch_all()
    }

    /// Whether everything was fetched.
    pub(crate) fn is_whole(&self) -> bool {
        self.object.is_whole()
    }

    /// Checks what a pass over parts of the trace has met. They are fetched only from traces that are intact by their index, so
    /// damage is a place that was not fetched, or the index is of another trace.
    ///
    /// # Errors
    ///
    /// Fails if there is damage although not everything was fetched.
    pub(crate) fn check(&self, statistics: &Statistics) -> Result<()> {
        match statistics.damage.first() {
            Some((_, damage)) if !self.is_whole() => bail!(
                "{}: {damage}, where its index says that the trace is intact; make the index again",
                self.shown()
            ),
            _ => Ok(()),
        }
    }

    /// Returns the URL without what only its owner should see.
    pub(crate) fn shown(&self) -> String {
        self.address.shown()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use etw_app::index::{open_for_times, place};
    use etw_app::symbols::SymbolOptions;
    use etw_consumer::testing::EventBuilder;
    use etw_etl::{EtlWriter, WriterOptions};
    use etw_event::{Clock, FileTime};

    use super::*;
    use crate::opened::Files;
    use crate::remote::testing::bucket;
    use crate::source::{OpenOptions, Source};

    const EVENTS: u32 = 40_000;

    fn beside() -> IndexOptions {
        IndexOptions { home: Some(IndexHome::Beside), ..IndexOptions::default() }
    }

    fn time(number: u32) -> FileTime {
        FileTime(134_117_966_450_000_000 + i64::from(number) * 10_000)
    }

    /// Writes a trace and its index, and returns them.
    fn write(path: &Path, events: u32) -> [Vec<u8>; 2] {
        let options = WriterOptions::new(Clock::system_time(), 65_536, 2);
        let mut writer = EtlWriter::new(std::fs::File::create(path).unwrap(), options).unwrap();
        for number in 0..events {
            let record = EventBuilder::built_in("Microsoft-Windows-Kernel-Process", 1, 0).unwrap();
            let record = record
                .property("ProcessID", number)
                .property("ImageName", "a.exe")
                .time(time(number))
                .pack_incomplete()
                .unwrap();
            writer.write((number % 2) as u16, record.as_bytes()).unwrap();
        }
        writer.finish(time(events)).unwrap();
        let symbols = SymbolOptions::default();
        let place = place(&[path.to_owned()], &beside(), &symbols).unwrap();
        let mut trace = Trace::open_file(path).unwrap();
        let index = place.build(&mut trace, &symbols.symbolizer().unwrap(), &mut |_| {}).unwrap();
        [path, index.path().unwrap()].map(|path| std::fs::read(path).unwrap())
    }

    fn count(mut trace: Trace) -> (u64, Statistics) {
        let mut count = 0;
        trace.for_each_record(|_| count += 1).unwrap();
        (count, trace.statistics().clone())
    }

    #[test]
    fn a_place_that_was_not_fetched_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let [bytes, index] = write(&folder.path().join("t.etl"), EVENTS);
        let files = Files::new(OpenOptions::default(), Some(folder.path()), 1 << 30);
        let remote = files.remote().unwrap();
        bucket(remote, "b", &[("t.etl", &bytes), ("t.etl.etwindex", &index)]);
        let trace = RemoteTrace::open(remote, "s3://b/t.etl").unwrap();
        let options = trace.index(&beside()).unwrap();
        let index = open_for_times(&[trace.path().to_owned()], options).unwrap();
        let opened = Trace::builder().file(trace.path()).overview(index.overview()).open().unwrap();
        trace.fetch_metadata(&opened).unwrap();
        // Without what `fetch_for` does, holes are damage, which is an error.
        let middle = (Some(time(EVENTS / 2)), Some(time(EVENTS / 2 + 4000)));
        let (found, statistics) = count(opened.range(middle.0, middle.1));
        assert!(found < 4000 && statistics.damage_count > 0, "{found} {statistics:?}");
        let error = trace.check(&statistics).unwrap_err().to_string();
        assert!(error.contains("its index says that the trace is intact"), "{error}");
        let mut unordered = opened.range(middle.0, middle.1);
        unordered.for_each_record_unordered(&mut [()], |(), _| {}).unwrap();
        assert!(trace.check(unordered.statistics()).is_err());
        // With it, everything is there, and no more than a part.
        let range = opened.range(middle.0, middle.1);
        trace.fetch_for(&range).unwrap();
        let (found, statistics) = count(range);
        assert_eq!(found, 4000);
        trace.check(&statistics).unwrap();
        assert!(!trace.is_whole());
    }

    #[test]
    fn unused_objects_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let [bytes, _] = write(&folder.path().join("t.etl"), 10_000);
        // Room for two of these.
        let files = Files::new(OpenOptions::default(), Some(folder.path()), bytes.len() as u64 * 5 / 2);
        let names = ["a.etl", "b.etl", "c.etl", "d.etl"];
        bucket(files.remote().unwrap(), "b", &names.map(|name| (name, &*bytes)));
        let open = |name: &str| files.open(format!("s3://b/{name}").into());
        let read = |name: &str| {
            let source = Source::new(open(name)?, None, 0);
            let mut trace = source.range(None, None)?;
            let mut count = 0;
            trace.for_each_record(|_| count += 1)?;
            anyhow::Ok((source, count))
        };
        let kept = || files_below(folder.path()).iter().filter(|name| names.contains(&name.as_str())).count();
        // As long as nobody uses the others, they go; the one that was used the longest ago first.
        let (_, all) = read("a.etl").unwrap();
        assert!(all >= 10_000, "{all}");
        for name in ["a.etl", "b.etl", "a.etl", "c.etl"] {
            assert_eq!(read(name).unwrap().1, all);
            assert!(kept() <= 2);
        }
        let mut names = files_below(folder.path());
        names.retain(|name| name.len() == 5 && !name.starts_with('t'));
        names.sort();
        assert_eq!(names, ["a.etl", "c.etl"]);
        // What is used stays, and there is an error if that is too much.
        let (_used, _) = read("a.etl").unwrap();
        let (other, _) = read("d.etl").unwrap();
        let error = read("b.etl").unwrap_err().to_string();
        assert!(error.contains("--disk"), "{error}");
        drop(other);
        assert_eq!(read("b.etl").unwrap().1, all);
    }

    /// Returns the names of all files in a directory and in those below it.
    fn files_below(directory: &Path) -> Vec<String> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => names.extend(files_below(&path)),
                false => names.push(path.file_name().unwrap().to_str().unwrap().to_owned()),
            }
        }
        names
    }
}
