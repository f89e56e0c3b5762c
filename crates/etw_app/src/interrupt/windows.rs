//! Handling of Ctrl-C by the console.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Calls `stop` on the first Ctrl-C instead of ending the process. The second one ends it.
pub(crate) fn on_interrupt(stop: impl Fn() + Send + Sync + 'static) -> io::Result<()> {
    let is_second = AtomicBool::new(false);
    etw_sys::console::on_interrupt(move || {
        if is_second.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        stop();
    })
}
