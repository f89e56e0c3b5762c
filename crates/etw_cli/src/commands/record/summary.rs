//! The summary printed after a recording.

use std::path::Path;
use std::time::Duration;

use etw_app::recording::verdict;
use etw_app::text::{grouped, size_text};
use openetw::recording::Contents;

/// Results of a finished recording.
pub(super) struct Summary<'s> {
    pub(super) contents: &'s Contents,
    pub(super) took: Duration,
    pub(super) path: &'s Path,
    /// Error during the recording.
    pub(super) error: Option<String>,
    /// The requested providers, kernel flags and profiles.
    pub(super) asked: &'s [&'s str],
    /// Whether kernel events were requested.
    pub(super) is_of_kernel: bool,
}

impl Summary<'_> {
    /// Prints the summary to standard error, because standard output belongs to the recorded program.
    pub(super) fn print(&self) {
        let Summary { contents, path, .. } = self;
        let path = path.display();
        if let Some(error) = &self.error {
            etw_app::say!("etw: {error}");
        }
        let size = size_text(std::fs::metadata(self.path).map_or(0, |file| file.len()));
        let (events, seconds) = (grouped(contents.events), self.took.as_secs_f64());
        let plural = if contents.events == 1 { "" } else { "s" };
        etw_app::say!("etw: recorded {events} event{plural} in {seconds:.2} s: {}", verdict(contents));
        // What was lost was written.
        if contents.events == 0 && contents.events_lost == 0 && contents.buffers_lost == 0 {
            let names = self.asked.join(", ");
            etw_app::say!(
                "etw: no program wrote a requested event ({names}); check the name (`etw provider list --registered` \
                                 while the program runs), the level and the keywords"
            );
        }
        let command = if self.is_of_kernel { "report" } else { "dump" };
        etw_app::say!("etw: {path} ({size}); see it with: etw {command} {path}");
    }
}
