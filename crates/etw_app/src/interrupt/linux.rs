//! Handling of Ctrl-C with signals.

use std::io;
use std::os::fd::AsFd;

use etw_sys::poll::wait_readable;
use etw_sys::signals::{Signal, watch};

/// Calls `stop` on the first Ctrl-C or termination request instead of ending the process. The second one ends it.
pub(crate) fn on_interrupt(stop: impl Fn() + Send + 'static) -> io::Result<()> {
    let interrupted = watch(&[Signal::Interrupt, Signal::Terminate])?;
    let wait = move || {
        let mut count = 0;
        while count < 2 {
            match wait_readable([interrupted.as_fd()], None) {
                Ok([true]) => {
                    count += interrupted.drain();
                    stop();
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
        std::process::exit(130);
    };
    std::thread::Builder::new().name("interrupt".into()).spawn(wait)?;
    Ok(())
}
