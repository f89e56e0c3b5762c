//! Statistics of a timeline.

/// Statistics of a written timeline. Each event is in one of the counts from `switches` to `without_place`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Events in the trace.
    pub events: u64,
    /// Context switches.
    pub switches: u64,
    /// Threads made ready.
    pub wakeups: u64,
    /// Samples.
    pub samples: u64,
    /// Starts and ends of slices (system calls, activities), and disk requests, each of which is a slice.
    pub of_slices: u64,
    /// Events shown as instants or markers.
    pub instants: u64,
    /// Events used only for names and stacks.
    pub context: u64,
    /// Events that are not selected.
    pub left_out: u64,
    /// Events that the format does not support.
    pub without_place: u64,
    /// Slices written.
    pub slices: u64,
    /// Slices without an end in the trace.
    pub unfinished: u64,
    /// Events that could not be decoded, shown without their fields.
    pub undecoded: u64,
}
