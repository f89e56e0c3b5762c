//! Handling of Ctrl-C with signals.

use std::io;
use std::os::fd::AsFd;

use etw_sys::poll::wait_readable;
use etw_sys::signals::{Signal, watch};

/// Calls `stop` on the first Ctrl-C or termination request, or at the end of the terminal, instead of ending the process.
/// The second request ends it.
pub(crate) fn on_interrupt(stop: impl Fn() + Send + 'static) -> io::Result<()> {
    let interrupted = watch(&[Signal::Interrupt, Signal::Terminate])?;
    // A shell and the terminal may both send one, which is no impatience.
    let hung_up = watch(&[Signal::Hangup])?;
    let wait = move || {
        let mut count = 0;
        while count < 2 {
            let Ok(_) = wait_readable([interrupted.as_fd(), hung_up.as_fd()], None) else { return };
            count += interrupted.drain();
            hung_up.drain();
            stop();
        }
        std::process::exit(130);
    };
    std::thread::Builder::new().name("interrupt".into()).spawn(wait)?;
    Ok(())
}
