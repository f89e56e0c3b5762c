//! The shares of users in a session: whoever takes more than a share takes it from itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use etw_buffer::Geometry;
use etw_protocol::UserStatus;
use etw_protocol::limits::MAX_REFUSED_LISTED;

/// Regions that the processes of one user may have in a session, with those that are read to their end.
const MAX_REGIONS: u32 = 256;
/// Users that a session remembers; more are forgotten once they have no region.
const MAX_USERS: usize = 256;
/// Processes of a user whose refused records are remembered.
const MAX_REFUSED: usize = 64;

/// A user with regions in a session.
#[derive(Debug)]
pub(super) struct User {
    uid: u32,
    /// Whether it is bound to a share; the host's own user and root are not.
    is_bound: bool,
    regions: AtomicU32,
    /// Sum of the buffers in the memory of its regions, which bounds what its processes can touch.
    buffers: AtomicU32,
    pub(super) granted: AtomicU32,
    pub(super) written: AtomicU64,
    pub(super) lost: AtomicU64,
    refused: AtomicU64,
    /// The same by process, of as many as are remembered.
    refused_by_process: Mutex<BTreeMap<u32, u64>>,
    regions_refused: AtomicU64,
}

/// The users of a session.
#[derive(Debug, Default)]
pub(super) struct Users(Mutex<BTreeMap<u32, Arc<User>>>);

/// A region's place among those of its user, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) user: Arc<User>,
    process_id: u32,
    buffers: u32,
}

impl Users {
    /// Returns a place for a region of a process and the number of buffers that its memory may have; `None` if the user has no more
    /// regions.
    ///
    /// The memory of all regions of a bound user together has a quarter of the session's buffers. Each new region has a
    /// quarter of what is left of that, and at least what a process needs that writes on all processors.
    pub(super) fn place(
        &self,
        uid: u32,
        process_id: u32,
        is_bound: bool,
        of_session: Geometry,
    ) -> Option<(Place, u16)> {
        let user = {
            let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if users.len() >= MAX_USERS {
                users.retain(|_, user| user.regions.load(Relaxed) > 0);
            }
            users.entry(uid).or_insert_with(|| Arc::new(User::new(uid, is_bound))).clone()
        };
        if !is_bound {
            return Some((Place::new(user, process_id, of_session.buffers), of_session.buffers));
        }
        if user.regions.load(Relaxed) >= MAX_REGIONS {
            user.regions_refused.fetch_add(1, Relaxed);
            return None;
        }
        let least = (u32::from(of_session.processors) + 2).max(4);
        let left = (u32::from(of_session.buffers) / 4).saturating_sub(user.buffers.load(Relaxed));
        let buffers = (left / 4).max(least).min(of_session.buffers.into()) as u16;
        Some((Place::new(user, process_id, buffers), buffers))
    }

    /// Returns what each user has.
    pub(super) fn list(&self) -> Vec<UserStatus> {
        let users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        users.values().map(|user| user.statistics()).collect()
    }
}

impl User {
    fn new(uid: u32, is_bound: bool) -> User {
        let (count, total) = (|| AtomicU32::new(0), || AtomicU64::new(0));
        User {
            uid,
            is_bound,
            regions: count(),
            buffers: count(),
            granted: count(),
            written: total(),
            lost: total(),
            refused: total(),
            refused_by_process: Mutex::default(),
            regions_refused: total(),
        }
    }

    pub(super) fn uid(&self) -> u32 {
        self.uid
    }

    pub(super) fn is_bound(&self) -> bool {
        self.is_bound
    }

    fn refuse(&self, process_id: u32, records: u64) {
        self.refused.fetch_add(records, Relaxed);
        let mut processes = self.refused_by_process.lock().unwrap_or_else(PoisonError::into_inner);
        if processes.len() >= MAX_REFUSED && !processes.contains_key(&process_id) {
            // Those with the most are of interest.
            let least = processes.iter().min_by_key(|(_, count)| **count).map(|(process, _)| *process);
            least.and_then(|process| processes.remove(&process));
        }
        *processes.entry(process_id).or_default() += records;
    }

    fn statistics(&self) -> UserStatus {
        let processes = self.refused_by_process.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut refused_by_process: Vec<(u32, u64)> = processes.into_iter().collect();
        refused_by_process.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        refused_by_process.truncate(MAX_REFUSED_LISTED);
        UserStatus {
            uid: self.uid,
            regions: self.regions.load(Relaxed),
            buffers: self.granted.load(Relaxed),
            events_written: self.written.load(Relaxed),
            events_lost: self.lost.load(Relaxed),
            events_refused: self.refused.load(Relaxed),
            refused_by_process,
            regions_refused: self.regions_refused.load(Relaxed),
        }
    }
}

impl Place {
    fn new(user: Arc<User>, process_id: u32, buffers: u16) -> Place {
        user.regions.fetch_add(1, Relaxed);
        user.buffers.fetch_add(buffers.into(), Relaxed);
        Place { user, process_id, buffers: buffers.into() }
    }
}

impl Place {
    /// Counts records that the process may not write.
    pub(super) fn refuse(&self, records: u64) {
        self.user.refuse(self.process_id, records);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.user.regions.fetch_sub(1, Relaxed);
        self.user.buffers.fetch_sub(self.buffers, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: Geometry = Geometry { processors: 2, buffers: 2048, buffer_bytes: 0x1_0000 };

    #[test]
    fn the_memory_of_a_users_regions_is_bounded() {
        let users = Users::default();
        let places: Vec<(Place, u16)> = std::iter::from_fn(|| users.place(1000, 1, true, SESSION)).collect();
        let sizes: Vec<u16> = places.iter().map(|(_, buffers)| *buffers).collect();
        assert_eq!((sizes.len(), sizes[0], sizes[1], sizes[255]), (256, 128, 96, 4));
        assert!(sizes.iter().map(|size| u32::from(*size)).sum::<u32>() < 512 + 4 * 256);
        assert_eq!(users.list()[0].regions_refused, 1);
        let (_other, buffers) = users.place(1001, 2, true, SESSION).unwrap();
        assert_eq!(buffers, 128, "another user has its own share");
        let (_root, buffers) = users.place(0, 3, false, SESSION).unwrap();
        assert_eq!(buffers, 2048);
        drop(places);
        let (_again, buffers) = users.place(1000, 1, true, SESSION).unwrap();
        assert_eq!(buffers, 128);
        let small = Geometry { buffers: 2, ..SESSION };
        assert_eq!(users.place(1002, 4, true, small).unwrap().1, 2);
    }

    #[test]
    fn those_with_the_most_refused_records_are_remembered() {
        let users = Users::default();
        let refuse = |process_id: u32, records: u64| {
            users.place(1000, process_id, true, SESSION).unwrap().0.refuse(records);
        };
        refuse(7, 1000);
        (100..1100).for_each(|process_id| refuse(process_id, 1));
        refuse(7, 1000);
        refuse(8, 500);
        let user = users.list().remove(0);
        assert_eq!(user.events_refused, 3500);
        assert_eq!((user.refused_by_process[0], user.refused_by_process[1]), ((7, 2000), (8, 500)));
        assert_eq!(user.refused_by_process.len(), MAX_REFUSED_LISTED);
    }

    #[test]
    fn users_without_regions_are_forgotten_when_there_are_many() {
        let users = Users::default();
        let _one = users.place(0, 3, false, SESSION);
        for uid in 1..1000 {
            users.place(uid, 5, true, SESSION).unwrap();
        }
        assert!(users.list().len() <= MAX_USERS && users.list()[0].uid == 0);
    }
}
