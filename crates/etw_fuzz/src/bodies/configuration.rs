//! Fuzz body for the configuration of a daemon.

use std::hint::black_box;

use etw_session::host::{Access, Autologger};

/// An access list, and the file of an autologger.
pub fn configuration(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for error in [
        Access::from_list(&text).map(black_box).err(),
        Autologger::from_text(&text, "Session").map(black_box).err(),
    ] {
        assert!(error.is_none_or(|error| !error.is_empty() && !error.contains('\n')));
    }
}
