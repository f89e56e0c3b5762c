//! In-memory sessions for testing what a program writes, without a host or privileges.
//!
//! ```
//! use etw_provider::testing::Capture;
//! use etw_provider::{Keyword, Level, event, provider};
//!
//! provider!(static APP: "MyCompany.MyApp");
//! let mut capture = Capture::new()?;
//! capture.enable(&APP, Level::INFORMATION, Keyword(0), 0);
//! event!(APP, "Seen", level: Level::ERROR, u32("a", 5));
//! event!(APP, "Not", level: Level::VERBOSE, u32("a", 5));
//! assert_eq!(capture.records().len(), 1);
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use etw_buffer::{Geometry, Region, RegionReader};
use etw_event::{Keyword, Level};
use etw_sys::clock::ClockSource;
use etw_sys::{Doorbell, SharedWords, cpu};

use crate::enables::{Enable, SessionKey};
use crate::extras;
use crate::filters::Filters;
use crate::provider::Provider;
use crate::sink::Sink;

/// The host number that marks this process.
const HOST: u8 = 0xFF;

/// A session whose events stay in this process. It stops when dropped.
#[derive(Debug)]
pub struct Capture {
    key: SessionKey,
    sink: &'static Sink,
    reader: RegionReader<SharedWords>,
    providers: Vec<&'static Provider>,
}

impl Capture {
    const EPOCH: u8 = 1;

    /// Starts a session with sixteen buffers of 64 KiB.
    ///
    /// # Errors
    ///
    /// Fails if the memory cannot be allocated.
    pub fn new() -> io::Result<Capture> {
        Capture::with_buffers(16)
    }

    /// Starts a session with `buffers` buffers of 64 KiB, at most 4094. Events are lost when all are full.
    ///
    /// # Errors
    ///
    /// Fails if the memory cannot be allocated.
    pub fn with_buffers(buffers: u16) -> io::Result<Capture> {
        static SLOTS: AtomicU8 = AtomicU8::new(0);
        static DOORBELL: Doorbell = Doorbell::new();
        let processors = u16::try_from(cpu::possible()).unwrap_or(u16::MAX);
        let geometry = Geometry { processors, buffers, buffer_bytes: 0x1_0000 };
        let (words, file) = SharedWords::create("openetw-capture", geometry.len_words())?;
        let clock = ClockSource::of_performance_counter();
        let (process, start) = (std::process::id(), clock.now());
        let mut reader =
            RegionReader::format(words, geometry, clock as u8, Capture::EPOCH, process, start, u64::MAX)
                .map_err(io::Error::other)?;
        reader.grant(usize::from(buffers));
        let region = Region::attach(SharedWords::map(&file)?).map_err(io::Error::other)?;
        region.words().populate(region.buffers());
        let sink = Sink::open(region, &DOORBELL).ok_or(io::ErrorKind::Unsupported)?;
        let key = SessionKey { host: HOST, slot: SLOTS.fetch_add(1, Ordering::Relaxed) };
        Ok(Capture { key, sink, reader, providers: Vec::new() })
    }

    /// Enables a provider for a level (0: all), keywords (0: all) and `ENABLE_PROPERTY_*` (0: none), replacing the
    /// previous settings. Returns `false` if eight sessions have already enabled the provider.
    pub fn enable(
        &mut self,
        provider: &'static Provider,
        level: Level,
        any: Keyword,
        properties: u32,
    ) -> bool {
        self.enable_filtered(provider, level, any, properties, None)
    }

    pub(crate) fn enable_filtered(
        &mut self,
        provider: &'static Provider,
        level: Level,
        any: Keyword,
        properties: u32,
        filters: Option<&'static Filters>,
    ) -> bool {
        if properties & extras::KNOWN != 0 {
            extras::learn_identity();
        }
        let (epoch, all) = (Capture::EPOCH, Keyword(0));
        let enable = Enable { epoch, level, any, all, properties, filters };
        self.providers.push(provider);
        provider.enables.enable(self.key, self.sink, &enable)
    }

    /// Disables a provider.
    pub fn disable(&mut self, provider: &'static Provider) {
        provider.enables.disable(|key| key == self.key);
    }

    /// Returns the records written since the last call, each as in a trace file, in the order of each processor.
    pub fn records(&mut self) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        let mut words = Vec::new();
        self.read(&mut words);
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        let mut rest = bytes.as_slice();
        while let Some([low, high]) = rest.first_chunk::<2>().copied() {
            let size = usize::from(u16::from_le_bytes([low, high]));
            let (Some(record), Some(behind)) =
                (rest.get(..size), rest.get(size.next_multiple_of(8).max(8)..))
            else {
                break;
            };
            records.push(record.to_vec());
            rest = behind;
        }
        records
    }

    /// Appends the records written since the last call, each a multiple of words long, and returns their number.
    pub fn read(&mut self, out: &mut Vec<u64>) -> u64 {
        let now = ClockSource::of_performance_counter().now();
        let processors = usize::from(self.reader.geometry().processors);
        (0..processors).map(|cpu| self.reader.read(cpu, now, u64::MAX, usize::MAX, out).records).sum()
    }

    /// Returns the number of events lost since the last call, for lack of buffers or because they are too large.
    pub fn lost(&mut self) -> u64 {
        self.reader.lost()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        for provider in &self.providers {
            provider.enables.disable(|key| key == self.key);
        }
        self.sink.close();
    }
}
