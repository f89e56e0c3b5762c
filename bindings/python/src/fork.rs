//! The process that runs this code, which changes in the child of a fork.
//!
//! A child has only the thread that forked, which held the GIL. So a lock that is taken with the GIL alone is free in a
//! child; others are left alone there.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;

use crate::errors::{Failure, code};

static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Returns the id of this process, without a system call.
pub(crate) fn process() -> u32 {
    PROCESS.load(Ordering::Relaxed)
}

/// Fails in the child of the process that made an object.
pub(crate) fn check(maker: u32, what: &str) -> PyResult<()> {
    if maker == process() {
        return Ok(());
    }
    let text = format!("{what} belongs to the parent of a fork; make a new one in the child");
    Err(Failure::new("ForkError", code::BUSY, text).into())
}

#[pyfunction]
fn note_process() {
    PROCESS.store(process::id(), Ordering::Relaxed);
}

/// Keeps the id current.
pub(crate) fn watch(module: &Bound<'_, PyModule>) -> PyResult<()> {
    note_process();
    let os = module.py().import("os")?;
    // Windows has no fork.
    if os.hasattr("register_at_fork")? {
        let options = pyo3::types::PyDict::new(module.py());
        options.set_item("after_in_child", wrap_pyfunction!(note_process, module)?)?;
        os.call_method("register_at_fork", (), Some(&options))?;
    }
    Ok(())
}
