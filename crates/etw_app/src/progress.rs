//! Progress of long operations, shown on standard error if that is a terminal.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openetw::FileTime;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Number of events between two steps of a bar.
const EVENTS_PER_STEP: u64 = 1 << 14;

/// A progress bar; hidden if standard error is not a terminal, and removed when the work is done.
pub struct Progress {
    bar: ProgressBar,
    /// The value at the start of the bar.
    start: i64,
    /// Number of events that were read.
    events: AtomicU64,
}

impl Progress {
    /// Returns a bar for reading `bytes` bytes of the file `name`.
    pub fn of_bytes(name: &str, bytes: u64) -> Progress {
        // Short operations need no bar.
        let wanted = std::io::stderr().is_terminal() && bytes > 16 << 20;
        Progress::new(name, 0, bytes, wanted, "{msg} {wide_bar} {percent} % {bytes_per_sec} {eta}")
    }

    /// Returns a bar for events from `start` to `end` in time order. Pass `visible` as false if events are printed to
    /// the same terminal.
    pub fn of_time(start: FileTime, end: FileTime, visible: bool) -> Progress {
        let length = end.0.saturating_sub(start.0);
        let wanted = visible && length > 0 && std::io::stderr().is_terminal();
        let template = "{wide_bar} {percent} % {eta}";
        Progress::new("", start.0, u64::try_from(length).unwrap_or(0), wanted, template)
    }

    /// Returns an activity indicator for work of unknown length on `bytes` bytes.
    pub fn of_search(what: &str, bytes: u64) -> Progress {
        let wanted = std::io::stderr().is_terminal() && bytes > 16 << 20;
        Progress::new(what, 0, 0, wanted, "{spinner} {msg} ({elapsed})")
    }

    /// Returns a bar for reading many files. It shows nothing before the first call of [`reach_file`](Self::reach_file).
    pub fn of_files() -> Progress {
        let wanted = std::io::stderr().is_terminal();
        Progress::new("", 0, 0, wanted, "{wide_bar} {human_pos} of {human_len} files {eta}")
    }

    /// Returns a bar for `total` downloads, of which [`add`](Self::add) counts the completed ones.
    pub fn of_downloads(total: usize) -> Progress {
        let wanted = std::io::stderr().is_terminal();
        Progress::new("", 0, total as u64, wanted, "{wide_bar} {human_pos} of {human_len} modules, {msg}")
    }

    /// Shows the number of bytes received.
    pub fn receive(&self, bytes: u64) {
        self.bar.set_message(format!("{:.1} MB", bytes as f64 / 1e6));
    }

    fn new(name: &str, start: i64, length: u64, wanted: bool, template: &str) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::hidden());
        if wanted {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_message(name.to_owned());
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        Progress { bar, start, events: AtomicU64::new(0) }
    }

    /// Counts an event of this time, and sets the bar to it once in a while.
    pub fn read(&self, time: FileTime) {
        // Threads may count over each other's numbers; the bar is moved a little later then.
        let events = self.events.load(Ordering::Relaxed) + 1;
        self.events.store(events, Ordering::Relaxed);
        if events.is_multiple_of(EVENTS_PER_STEP) {
            self.reach(time);
        }
    }

    /// Sets the bar to this time.
    pub fn reach(&self, time: FileTime) {
        self.bar.set_position(u64::try_from(time.0.saturating_sub(self.start)).unwrap_or(0));
    }

    /// Sets the bar to `done` of `total` files.
    pub fn reach_file(&self, done: usize, total: usize) {
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
    }

    /// Advances the bar by this many bytes.
    pub fn add(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
