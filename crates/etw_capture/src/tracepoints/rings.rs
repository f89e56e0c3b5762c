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
    /// Opens the rings on all processors, each with `bytes`, and with the stack of each event if
    /// `has_stacks`. Nothing is captured until they are part of a
    /// [`Capture`](crate::capture::Capture). Also returns the tracepoints that cannot be opened, by their places in the list.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the rings cannot be created: `PermissionDenied` without `CAP_PERFMON`.
    pub fn open(
        tracepoints: &[TracepointEvent],
        bytes: usize,
        has_stacks: bool,
    ) -> io::Result<(TracepointRings, Vec<(usize, io::Error)>)> {
        let (mut rings, mut failed) = (Vec::new(), Vec::new());
        for processor in online_cpus().map_err(|(_, error)| error)? {
            let (ring, failed_here) = TracepointRing::open(processor, tracepoints, bytes, has_stacks)?;
            rings.extend(ring.map(|ring| (processor, ring)));
            failed.extend(failed_here);
        }
        failed.sort_by_key(|(at, _)| *at);
        failed.dedup_by_key(|(at, _)| *at);
        Ok((TracepointRings { rings }, failed))
    }

    /// Makes the kernel write events from now on.
    pub(crate) fn enable(&self) -> io::Result<()> {
        self.rings.iter().try_for_each(|(_, ring)| ring.enable())
    }

    /// Checks whether the kernel accepts a tracepoint and its filter.
    ///
    /// # Errors
    ///
    /// Returns the system's error: `PermissionDenied` without `CAP_PERFMON`, `InvalidInput` for a filter that the kernel does
    /// not accept.
    pub fn check(tracepoint: &TracepointEvent) -> io::Result<()> {
        let online = online_cpus().map_err(|(_, error)| error)?;
        let first = online.first().copied().unwrap_or_default();
        TracepointRing::check(first, tracepoint)
    }
}
