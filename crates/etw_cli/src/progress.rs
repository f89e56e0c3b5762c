//! Progress of long work, on standard error when that is a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that counts bytes; silent where nobody watches, and gone when the work is done.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar for `bytes` bytes of what `name` names.
    pub(crate) fn new(name: &str, bytes: u64) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::hidden());
        // Short work needs no bar.
        if std::io::stderr().is_terminal() && bytes > 16 << 20 {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
            if let Ok(style) =
                ProgressStyle::with_template("{msg} {wide_bar} {percent} % {bytes_per_sec} {eta}")
            {
                bar.set_style(style);
            }
            bar.set_message(name.to_owned());
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        Progress(bar)
    }

    /// That many bytes more are done.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
