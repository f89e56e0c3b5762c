//! Assignment of slices to lanes, so that the slices of a lane do not overlap unless nested.

use std::collections::HashMap;

use etw_consumer::Event;
use etw_event::{FileTime, Guid};
use etw_machine::ThreadIndex;

use crate::item::{Owner, Track};

/// Maximum number of open slices; further ones are shown as instants.
const MAX_OPEN: usize = 1 << 16;
/// Maximum number of lanes per owner; further slices are shown as instants.
const MAX_LANES: usize = 256;
/// `win:Start` and `win:Stop`.
const START: u8 = 1;
const STOP: u8 = 2;

/// The key shared by the start and end of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The current system call of a thread.
    Call(ThreadIndex),
    /// An activity of a provider's task.
    Activity(Guid, u16, Guid),
    /// A provider's task on a thread.
    Task(Guid, u16, ThreadIndex),
}

/// The part of a slice that an event marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    Begin(Key),
    End(Key),
}

impl Edge {
    /// Returns the edge that a non-kernel event marks. Start and Stop belong together if they have the same task,
    /// provider and activity, or without an activity the same thread.
    pub(crate) fn from_event(event: &Event<'_>, thread: Option<ThreadIndex>) -> Option<Edge> {
        let record = event.record;
        let descriptor = record.descriptor();
        if record.is_kernel_classic() || !matches!(descriptor.opcode.0, START | STOP) {
            return None;
        }
        let activity = record.activity_id().filter(|id| !id.is_zero());
        let key = match (activity, thread) {
            (Some(activity), _) => Key::Activity(record.provider_id(), descriptor.task, activity),
            (None, Some(thread)) => Key::Task(record.provider_id(), descriptor.task, thread),
            (None, None) => return None,
        };
        Some(if descriptor.opcode.0 == START { Edge::Begin(key) } else { Edge::End(key) })
    }
}

/// The open slices, and their lanes.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    open: HashMap<Key, Vec<Track>>,
    count: usize,
    /// Whether each lane of an owner has an open slice.
    busy: HashMap<Owner, Vec<bool>>,
    /// End of the last slice of each lane, for slices that are known when they end.
    ends: HashMap<Owner, Vec<FileTime>>,
}

impl Lanes {
    /// Starts a slice. Returns `None` if the limits are reached.
    pub(crate) fn begin(&mut self, key: Key, owner: Owner) -> Option<Track> {
        if self.count >= MAX_OPEN {
            return None;
        }
        let lanes = self.busy.entry(owner).or_default();
        let lane = match lanes.iter().position(|busy| !busy) {
            Some(free) => free,
            None if lanes.len() < MAX_LANES => {
                lanes.push(false);
                lanes.len() - 1
            }
            None => return None,
        };
        lanes[lane] = true;
        let track = Track { owner, lane: lane as u32 };
        self.open.entry(key).or_default().push(track);
        self.count += 1;
        Some(track)
    }

    /// Ends the last slice with this key. Returns `None` if there is none.
    pub(crate) fn end(&mut self, key: Key) -> Option<Track> {
        let tracks = self.open.get_mut(&key)?;
        let track = tracks.pop();
        if tracks.is_empty() {
            self.open.remove(&key);
        }
        let track = track?;
        self.count -= 1;
        if let Some(busy) =
            self.busy.get_mut(&track.owner).and_then(|lanes| lanes.get_mut(track.lane as usize))
        {
            *busy = false;
        }
        Some(track)
    }

    /// Adds a complete slice. Returns `None` if the limits are reached.
    pub(crate) fn whole(&mut self, owner: Owner, begin: FileTime, end: FileTime) -> Option<Track> {
        let lanes = self.ends.entry(owner).or_default();
        let lane = match lanes.iter().position(|last| *last <= begin) {
            Some(free) => free,
            None if lanes.len() < MAX_LANES => {
                lanes.push(end);
                lanes.len() - 1
            }
            None => return None,
        };
        lanes[lane] = end;
        Some(Track { owner, lane: lane as u32 })
    }

    /// Returns the number of open slices.
    pub(crate) fn open(&self) -> u64 {
        self.count as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(task: u16) -> Key {
        Key::Activity(Guid::ZERO, task, Guid::ZERO)
    }

    #[test]
    fn overlapping_slices_have_separate_lanes() {
        let mut lanes = Lanes::default();
        let owner = Owner::Machine;
        let lane = |track: Option<Track>| track.map(|track| track.lane);
        assert_eq!(lane(lanes.begin(key(1), owner)), Some(0));
        assert_eq!(lane(lanes.begin(key(2), owner)), Some(1));
        assert_eq!(lane(lanes.end(key(1))), Some(0));
        assert_eq!(lane(lanes.end(key(1))), None, "it has ended");
        assert_eq!(lane(lanes.begin(key(3), owner)), Some(0));
        assert_eq!(lane(lanes.begin(key(3), owner)), Some(2));
        assert_eq!(lane(lanes.end(key(3))), Some(2), "the last one first");
        assert_eq!((lanes.open(), lane(lanes.begin(key(4), Owner::Disk(0, 0)))), (2, Some(0)));
    }

    #[test]
    fn slices_that_are_over() {
        let mut lanes = Lanes::default();
        let mut lane = |begin, end| {
            lanes.whole(Owner::Disk(0, 1), FileTime(begin), FileTime(end)).map(|track| track.lane)
        };
        assert_eq!(lane(0, 10), Some(0));
        assert_eq!(lane(5, 12), Some(1));
        assert_eq!(lane(10, 20), Some(0));
        assert_eq!(lane(11, 21), Some(2));
    }

    #[test]
    fn room_is_bounded() {
        let mut lanes = Lanes::default();
        for _ in 0..MAX_LANES {
            assert!(lanes.begin(key(1), Owner::Machine).is_some());
            assert!(lanes.whole(Owner::Machine, FileTime(0), FileTime(1)).is_some());
        }
        assert_eq!(lanes.begin(key(1), Owner::Machine), None);
        assert_eq!(lanes.whole(Owner::Machine, FileTime(0), FileTime(1)), None);
    }
}
