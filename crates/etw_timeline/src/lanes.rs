//! Slices on lanes, so that none overlaps another without lying in it.

use std::collections::HashMap;

use etw_analysis::ThreadIndex;
use etw_consumer::Event;
use etw_event::{FileTime, Guid};

use crate::item::{Owner, Track};

/// Slices that are open at one time; more are shown as instants.
const MAX_OPEN: usize = 1 << 16;
/// Lanes of one owner; likewise.
const MAX_LANES: usize = 256;
/// `win:Start` and `win:Stop`.
const START: u8 = 1;
const STOP: u8 = 2;

/// What a slice's begin and end have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The system call that a thread is in.
    Call(ThreadIndex),
    /// An activity of a provider's task.
    Activity(Guid, u16, Guid),
    /// A provider's task on a thread.
    Task(Guid, u16, ThreadIndex),
}

/// What an event says of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    Begin(Key),
    End(Key),
}

impl Edge {
    /// Whether an event that is not the kernel's begins or ends something: Start and Stop of one task of one provider,
    /// in one activity, or else on one thread.
    pub(crate) fn of(event: &Event<'_>, thread: Option<ThreadIndex>) -> Option<Edge> {
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

/// The slices that are open, and the lanes they are on.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    open: HashMap<Key, Vec<Track>>,
    count: usize,
    /// Whether each lane of an owner has an open slice.
    busy: HashMap<Owner, Vec<bool>>,
    /// When the last slice of each lane ended, for slices that are known when they end.
    ends: HashMap<Owner, Vec<FileTime>>,
}

impl Lanes {
    /// A slice begins; `None` where there is no room.
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

    /// The last slice of this key ends; `None` if none began.
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

    /// A slice that is over; `None` where there is no room.
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

    /// How many are open.
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
    fn slices_that_overlap_have_lanes_of_their_own() {
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
        assert_eq!((lanes.open(), lane(lanes.begin(key(4), Owner::Disk(0)))), (2, Some(0)));
    }

    #[test]
    fn slices_that_are_over() {
        let mut lanes = Lanes::default();
        let mut lane =
            |begin, end| lanes.whole(Owner::Disk(1), FileTime(begin), FileTime(end)).map(|track| track.lane);
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
