//! State shared by a logger's thread and its handle.

use std::sync::{Arc, Mutex};

use etw_buffer::Geometry;
use etw_event::Guid;
use etw_sys::EventFd;
use etw_sys::clock::ClockSource;

use super::budget::Budget;
use super::statistics::Counters;
use super::users::Users;

/// State shared by a logger's thread and its handle.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) counters: Counters,
    pub(super) budget: Budget,
    /// Buffers that the session has even if it needs fewer.
    pub(super) minimum_buffers: u32,
    pub(super) users: Users,
    /// Providers that the session has enabled.
    pub(super) enabled: Arc<Mutex<Vec<Guid>>>,
    /// Wakes the logger's thread for commands.
    pub(super) bell: EventFd,
    /// Raised when the session ends.
    pub(super) ended: EventFd,
    pub(super) geometry: Geometry,
    pub(super) clock: ClockSource,
    /// The clock's reading at the start of the session, in ticks.
    pub(super) start: u64,
    /// The same instant as a FILETIME, in units of 100 ns.
    pub(super) start_filetime: u64,
}

/// Number of a region within its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub(super) u64);

/// Number of a consumer within its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(pub(super) u64);
