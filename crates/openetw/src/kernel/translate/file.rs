//! Class FileIo.

use std::collections::{HashMap, VecDeque};

use etw_kernel::EnableFlags;
use etw_kernel::capture::File;
use etw_kernel::classes::{FileIoName, NameEvent, Stamp};

use super::Counted;

/// Most files whose names are kept, as many as the kernel's side does.
const NAMES_MOST: usize = 65_536;

/// The flags that names of files are told with.
const NAMED: EnableFlags =
    EnableFlags(EnableFlags::DISK_FILE_IO.0 | EnableFlags::MEMORY_HARD_FAULTS.0 | EnableFlags::VAMAP.0);

/// What is known of files, for all sessions together: the names that their keys stand for.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Files {
    names: HashMap<u64, Box<[u8]>>,
    /// The keys, those that were told first in front.
    order: VecDeque<u64>,
    path: Vec<u8>,
}

impl Files {
    /// Whether a session with these flags is told names.
    pub(in crate::kernel) fn are_named(flags: EnableFlags) -> bool {
        flags & NAMED != EnableFlags::NONE
    }

    /// Takes in what an event says. To be called when it has been translated for all.
    pub(super) fn remember(&mut self, file: &File<'_>) {
        match file {
            File::Name(name) => {
                self.path.clear();
                name.put_path(&mut self.path);
                self.name(name.key);
            }
        }
    }

    /// Gives a key the name that `path` has.
    fn name(&mut self, key: u64) {
        if self.names.insert(key, self.path.as_slice().into()).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > NAMES_MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
    }

    /// Puts what an event is for a session with these flags.
    pub(super) fn put(
        &mut self,
        file: &File<'_>,
        flags: EnableFlags,
        stamp: &Stamp,
        records: &mut Counted<'_>,
    ) {
        match file {
            File::Name(name) if Files::are_named(flags) => {
                self.path.clear();
                name.put_path(&mut self.path);
                records.put(stamp, &named(NameEvent::FileCreate, name.key, &self.path));
            }
            File::Name(_) => {}
        }
    }

    /// The keys whose names are known, those that were told first in front.
    pub(in crate::kernel) fn keys(&self) -> impl Iterator<Item = u64> {
        self.order.iter().copied()
    }

    /// The name of a key, if it is still known.
    pub(in crate::kernel) fn name_of(&self, event: NameEvent, key: u64) -> Option<FileIoName<'_>> {
        Some(named(event, key, self.names.get(&key)?))
    }
}

fn named(event: NameEvent, key: u64, path: &[u8]) -> FileIoName<'_> {
    FileIoName { event, file_object: key, file_name: path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_names_go_when_there_are_too_many() {
        let mut files = Files::default();
        for key in (0..NAMES_MOST as u64 + 10).chain([20]) {
            files.path = format!("/{key}").into_bytes();
            files.name(key);
        }
        assert_eq!((files.keys().count(), files.names.len()), (NAMES_MOST, NAMES_MOST));
        assert_eq!(files.keys().next(), Some(10));
        assert_eq!(files.name_of(NameEvent::Name, 9), None);
        let name = files.name_of(NameEvent::FileRundown, 20).unwrap();
        assert_eq!((name.file_object, name.file_name), (20, &b"/20"[..]));
    }
}
