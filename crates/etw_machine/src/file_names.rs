//! Names of files, by the keys that events contain.

use etw_consumer::Event;
use etw_kernel_events::ids::{self, EventId};

use crate::maps::HashMap;
use crate::volumes::Volumes;

/// Number of a file, in order of first appearance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIndex(u32);

impl FileIndex {
    /// Returns the number.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Maximum number of open file objects remembered; names of further ones are known by their keys only.
const MAX_OPENED: usize = 1 << 20;

/// A file.
#[derive(Debug, Clone, Default)]
struct File {
    machine: u32,
    key: u64,
    name: Option<Box<str>>,
    /// The file with the path used to open it.
    opened_as: Option<FileIndex>,
}

/// The files of a trace.
#[derive(Debug, Default)]
pub struct FileNames {
    /// The machine of the current event.
    machine: u32,
    files: Vec<File>,
    /// By machine and key.
    by_key: HashMap<(u32, u64), FileIndex>,
    by_path: HashMap<Box<str>, FileIndex>,
    /// Files by the file objects that were opened for them.
    opened: HashMap<(u32, u64), FileIndex>,
    /// The volumes, whose paths are shown with drive letters.
    pub volumes: Volumes,
}

impl FileNames {
    /// Sets the machine to which keys belong until the next event.
    #[inline]
    pub fn enter(&mut self, machine: u32) {
        self.machine = machine;
    }

    /// Adds the name of a key (types Name, FileCreate, FileDelete and FileRundown of class FileIo).
    pub fn name_event(&mut self, id: EventId, event: &Event<'_>) {
        let Ok(properties) = &event.properties else { return };
        let key = properties.try_get::<u64>("FileObject").or_else(|| properties.try_get("FileKey"));
        let (Some(key), Some(name)) = (key, properties.try_get::<String>("FileName")) else { return };
        let index = self.at_key(key);
        match &self.files[index.0 as usize].name {
            None => self.files[index.0 as usize].name = Some(name.into_boxed_str()),
            // The key was reused for another file.
            Some(known) if **known != *name && matches!(id, ids::FileIo::NAME | ids::FileIo::FILE_CREATE) => {
                let index = self.add(File { key, name: Some(name.into_boxed_str()), ..File::default() });
                self.by_key.insert((self.machine, key), index);
            }
            Some(_) => {}
        }
        if id == ids::FileIo::FILE_DELETE {
            self.by_key.remove(&(self.machine, key));
        }
    }

    /// Returns the file that is opened by a path as a file object.
    pub(crate) fn open(&mut self, object: u64, path: String) -> FileIndex {
        let path = path.into_boxed_str();
        let index = match self.by_path.get(&path) {
            Some(index) => *index,
            None => {
                let index = self.add(File { name: Some(path.clone()), ..File::default() });
                self.by_path.insert(path, index);
                index
            }
        };
        if object != 0 && self.opened.len() < MAX_OPENED {
            self.opened.insert((self.machine, object), index);
        }
        index
    }

    /// Removes a closed file object.
    pub(crate) fn close(&mut self, object: u64) {
        self.opened.remove(&(self.machine, object));
    }

    /// Returns the file of a key.
    pub fn at_key(&mut self, key: u64) -> FileIndex {
        match self.by_key.get(&(self.machine, key)) {
            Some(index) => *index,
            None => {
                let index = self.add(File { key, ..File::default() });
                self.by_key.insert((self.machine, key), index);
                index
            }
        }
    }

    /// Returns the file of a key, or of a file object if there is no key.
    pub fn at(&mut self, key: u64, object: u64) -> FileIndex {
        let opened_as = self.opened.get(&(self.machine, object)).copied();
        if let (0, Some(opened_as)) = (key, opened_as) {
            return opened_as;
        }
        let index = self.at_key(if key == 0 { object } else { key });
        let file = &mut self.files[index.0 as usize];
        file.opened_as = file.opened_as.or(opened_as);
        index
    }

    fn add(&mut self, file: File) -> FileIndex {
        let index = FileIndex(self.files.len() as u32);
        self.files.push(File { machine: self.machine, ..file });
        index
    }

    /// Returns all files.
    pub fn all(&self) -> impl ExactSizeIterator<Item = FileIndex> + use<> {
        (0..self.files.len() as u32).map(FileIndex)
    }

    /// Returns the name of a file, on a volume of Windows by its drive letter if the trace contains it, or its key.
    pub fn label(&self, index: FileIndex) -> String {
        let file = &self.files[index.0 as usize];
        let opened_as = file.opened_as.and_then(|opened_as| self.files[opened_as.0 as usize].name.as_deref());
        match (file.name.as_deref().or(opened_as), file.key) {
            (Some(name), _) => self.volumes.dos_path(file.machine, name),
            (None, 0) => "[unknown]".to_owned(),
            (None, key) => format!("[{key:#x}]"),
        }
    }
}
