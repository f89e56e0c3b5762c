//! The rings of tracepoints, one for each processor.

use std::io;

use aya::util::online_cpus;
use etw_sys::{TracepointEvent, TracepointRing};

/// The rings that the events of some tracepoints come from. The kernel registers and removes tracepoints slowly, so opening
/// and dropping this takes milliseconds for each.
#[derive(Debug)]
pub struct TracepointRings {
    pub(crate) rings: Vec<(u32, TracepointRing)>,
}

impl TracepointRings {
    /// Opens the rings on all processors, each with `bytes`. Nothing is captured until they are part of a
    /// [`Capture`](crate::capture::Capture).
    ///
    /// # Errors
    ///
    /// Returns the system's error: `PermissionDenied` without `CAP_PERFMON`, `InvalidInput` for a filter that the kernel
    /// does not accept, and others if there are too many tracepoints for this process.
    pub fn open(tracepoints: &[TracepointEvent], bytes: usize) -> io::Result<TracepointRings> {
        let online = online_cpus().map_err(|(_, error)| error)?;
        let open = |processor: u32| Ok((processor, TracepointRing::open(processor, tracepoints, bytes)?));
        Ok(TracepointRings { rings: online.into_iter().map(open).collect::<io::Result<_>>()? })
    }

    /// Makes the kernel write events from now on.
    pub(crate) fn enable(&self) -> io::Result<()> {
        self.rings.iter().try_for_each(|(_, ring)| ring.enable())
    }

    /// Checks whether the kernel accepts a tracepoint and its filter.
    ///
    /// # Errors
    ///
    /// As [`TracepointRings::open`].
    pub fn check(tracepoint: &TracepointEvent) -> io::Result<()> {
        let online = online_cpus().map_err(|(_, error)| error)?;
        let first = online.first().copied().unwrap_or_default();
        TracepointRing::check(first, tracepoint)
    }
}
