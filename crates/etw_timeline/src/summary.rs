//! What came of the events.

/// What came of writing a timeline: each event is in one of the counts from `switches` to `without_place`.
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
    /// Begins and ends of slices: system calls, activities; and requests to disks, each a slice.
    pub of_slices: u64,
    /// Events shown as instants or markers.
    pub instants: u64,
    /// Events of which names and stacks were taken.
    pub context: u64,
    /// Events that the selection leaves out.
    pub left_out: u64,
    /// Events that the format has no place for.
    pub without_place: u64,
    /// Slices.
    pub slices: u64,
    /// Slices whose end is not in the trace.
    pub unfinished: u64,
    /// Events shown without their fields, since nothing tells what these mean.
    pub undecoded: u64,
}
