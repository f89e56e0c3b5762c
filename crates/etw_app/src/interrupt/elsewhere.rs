//! Ctrl-C ends the process, as it does by default.

use std::io;

/// Does nothing.
pub(crate) fn on_interrupt(_: impl Fn() + Send + 'static) -> io::Result<()> {
    Ok(())
}
