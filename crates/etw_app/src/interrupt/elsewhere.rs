//! No handling of Ctrl-C: it ends the process, as by default.

use std::io;

/// Does nothing.
pub(crate) fn on_interrupt(_: impl Fn() + Send + 'static) -> io::Result<()> {
    Ok(())
}
