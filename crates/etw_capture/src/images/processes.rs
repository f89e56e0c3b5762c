//! The images of each process, kept current by the events of the capture.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{ImageFiles, LoadedImage};
use crate::proc;
use crate::records::{Body, Event, ImageChange};

/// The images of all processes.
///
/// Linux creates a process as a copy of its parent, with the parent's images, and most processes then run another
/// program at once. So the images of a copy are reported only when needed. Those of a program, which the kernel maps
/// before it reports the program, are reported with it.
#[derive(Debug)]
pub struct Images {
    proc: PathBuf,
    files: ImageFiles,
    processes: HashMap<u32, Process>,
    /// Existing processes whose images were not read yet.
    unread: BTreeSet<u32>,
    steps: Vec<ImageStep>,
}

/// The load or unload of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageStep {
    /// Whether the image is loaded, not unloaded.
    pub is_load: bool,
    /// The process.
    pub process_id: u32,
    /// The image.
    pub image: Arc<LoadedImage>,
}

#[derive(Debug, Default, Clone)]
struct Process {
    images: Vec<Arc<LoadedImage>>,
    /// Whether the images were reported.
    is_told: bool,
}

impl Images {
    /// Returns the images of the processes that exist, which count as reported.
    ///
    /// They are read when an event of their process arrives, and by [`Images::go_on`].
    pub fn of_this_machine() -> Images {
        let mut images = Images::at(proc::directory_of_processes());
        images.unread = proc::ids(&images.proc).into_iter().flatten().collect();
        images
    }

    /// Reads the images of one more existing process. Returns whether there was one.
    pub fn go_on(&mut self) -> bool {
        let next = self.unread.first().copied();
        next.inspect(|id| self.know(*id)).is_some()
    }

    /// Reads the images of an existing process.
    fn know(&mut self, id: u32) {
        if !self.unread.remove(&id) {
            return;
        }
        let mut process = Process { images: Vec::new(), is_told: true };
        // A process that has ended meanwhile has none.
        let _ = LoadedImage::for_each(&self.proc.join(id.to_string()), &mut self.files, |image| {
            process.images.push(Arc::new(image));
        });
        self.processes.insert(id, process);
    }

    fn at(proc: &Path) -> Images {
        Images {
            proc: proc.to_owned(),
            files: ImageFiles::default(),
            processes: HashMap::new(),
            unread: BTreeSet::new(),
            steps: Vec::new(),
        }
    }

    /// Returns the images of a process.
    pub fn of(&mut self, process_id: u32) -> &[Arc<LoadedImage>] {
        self.know(process_id);
        self.processes.get(&process_id).map_or(&[], |process| &process.images)
    }

    /// Applies an event and returns the loads and unloads to report. The events of all processors must be passed in the
    /// order of time.
    pub fn follow(&mut self, event: &Event<'_>) -> &[ImageStep] {
        self.steps.clear();
        let id = event.process_id;
        self.know(id);
        match event.body {
            Body::Fork(fork) if fork.is_process() => {
                self.know(fork.parent_id);
                self.unread.remove(&fork.process_id);
                let images = self.processes.get(&fork.parent_id).map(|parent| parent.images.clone());
                let child = Process { images: images.unwrap_or_default(), is_told: false };
                self.processes.insert(fork.process_id, child);
            }
            Body::Exec(_) => self.tell_all(id),
            Body::Exit { process_code: Some(_), .. } => {
                self.unload(id, |_| true);
                self.processes.remove(&id);
            }
            Body::Image(ImageChange::Replaced) => {
                self.unload(id, |_| true);
                self.processes.entry(id).or_default().is_told = false;
            }
            Body::Image(ImageChange::Unmapped { address, bytes }) => {
                let end = address.saturating_add(bytes);
                self.unload(id, |image| address <= image.code.start && image.code.end <= end);
            }
            Body::Image(ImageChange::Mapped(mapping)) => {
                let directory = self.proc.join(id.to_string());
                if let Some(image) = LoadedImage::of_mapping(&directory, &mapping, &mut self.files) {
                    self.load(id, image);
                }
            }
            _ => {}
        }
        &self.steps
    }

    /// Returns the loads to report before an event that needs the images of a process.
    pub fn tell(&mut self, process_id: u32) -> &[ImageStep] {
        self.steps.clear();
        self.know(process_id);
        self.tell_all(process_id);
        &self.steps
    }

    fn tell_all(&mut self, process_id: u32) {
        let Some(process) = self.processes.get_mut(&process_id) else { return };
        if !std::mem::replace(&mut process.is_told, true) {
            let step =
                |image: &Arc<LoadedImage>| ImageStep { is_load: true, process_id, image: image.clone() };
            self.steps.extend(process.images.iter().map(step));
        }
    }

    fn load(&mut self, process_id: u32, image: LoadedImage) {
        let images = self.of(process_id);
        if images.iter().any(|known| known.is_same(&image)) {
            // Another part of a known image.
            return;
        }
        // A mapping replaces those that it overlaps.
        self.unload(process_id, |known| known.overlaps(&image));
        let process = self.processes.entry(process_id).or_default();
        let image = Arc::new(image);
        process.images.push(image.clone());
        if process.is_told {
            self.steps.push(ImageStep { is_load: true, process_id, image });
        }
    }

    fn unload(&mut self, process_id: u32, which: impl Fn(&LoadedImage) -> bool) {
        let Some(process) = self.processes.get_mut(&process_id) else { return };
        for image in process.images.extract_if(.., |image| which(image)) {
            if process.is_told {
                self.steps.push(ImageStep { is_load: false, process_id, image });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Exec, FileIdentity, Fork, Mapping};

    const IDENTITY: FileIdentity = FileIdentity::Inode { device: (0, 0), inode: 0 };

    fn event(process_id: u32, body: Body<'_>) -> Event<'_> {
        Event { time: 0, processor: 0, process_id, thread_id: process_id, body }
    }

    fn mapped(address: u64, path: &[u8]) -> Body<'_> {
        let mapping = Mapping { address, bytes: 0x1000, offset: 0, file: IDENTITY, path };
        Body::Image(ImageChange::Mapped(mapping))
    }

    fn fork(parent_id: u32, process_id: u32) -> Body<'static> {
        let (user_id, session_id, priority, name) = (0, 0, 0, &b""[..]);
        Body::Fork(Fork {
            process_id,
            thread_id: process_id,
            parent_id,
            user_id,
            session_id,
            priority,
            name,
            since_boot_nanos: 0,
            control_group: 0,
        })
    }

    fn exec() -> Body<'static> {
        Body::Exec(Exec {
            parent_id: 1,
            user_id: 0,
            session_id: 0,
            old_thread_id: 1,
            path: b"",
            arguments: b"",
            arguments_all_bytes: 0,
            since_boot_nanos: 0,
        })
    }

    /// `+7 /a` for a load of `/a` in process 7.
    fn said(steps: &[ImageStep]) -> Vec<String> {
        let sign = |step: &ImageStep| if step.is_load { '+' } else { '-' };
        let path = |step: &ImageStep| String::from_utf8_lossy(&step.image.path).into_owned();
        steps.iter().map(|step| format!("{}{} {}", sign(step), step.process_id, path(step))).collect()
    }

    #[test]
    fn a_programs_images_are_told_with_it_and_go_with_it() {
        let mut images = Images::at(Path::new("/nowhere"));
        let mut check = |process, body, expected: &[&str]| {
            assert_eq!(said(images.follow(&event(process, body))), expected);
        };
        check(1, fork(1, 7), &[]);
        check(7, Body::Image(ImageChange::Replaced), &[]);
        check(7, mapped(0x1000, b"/program"), &[]);
        check(7, mapped(0x5000, b"//anon"), &[]);
        check(7, mapped(0x9000, b"[vdso]"), &[]);
        check(7, exec(), &["+7 /program", "+7 [vdso]"]);
        check(7, mapped(0x3000, b"/library"), &["+7 /library"]);
        check(7, mapped(0x3000, b"/library"), &[]);
        // A mapping replaces those that it overlaps.
        check(7, mapped(0x3800, b"/other"), &["-7 /library", "+7 /other"]);
        let unmapped = |address, bytes| Body::Image(ImageChange::Unmapped { address, bytes });
        check(7, unmapped(0x3800, 0x800), &[]);
        check(7, unmapped(0x3000, 0x4000), &["-7 /other"]);
        // A copy is reported when needed.
        check(7, fork(7, 8), &[]);
        check(8, Body::Exit { code: 0, process_code: Some(0), kernel_nanos: 0, user_nanos: 0 }, &[]);
        check(7, fork(7, 9), &[]);
        assert_eq!(said(images.tell(9)), ["+9 /program", "+9 [vdso]"]);
        assert_eq!(images.of(9).len(), 2);
        assert!(images.tell(9).is_empty());
        let mut check = |process, body, expected: &[&str]| {
            assert_eq!(said(images.follow(&event(process, body))), expected);
        };
        check(9, Body::Exit { code: 0, process_code: None, kernel_nanos: 0, user_nanos: 0 }, &[]);
        check(
            9,
            Body::Exit { code: 0, process_code: Some(0), kernel_nanos: 0, user_nanos: 0 },
            &["-9 /program", "-9 [vdso]"],
        );
        check(7, Body::Image(ImageChange::Replaced), &["-7 /program", "-7 [vdso]"]);
        check(7, mapped(0x1000, b"/next"), &[]);
        check(7, exec(), &["+7 /next"]);
    }

    #[test]
    fn images_that_are_there_are_known() {
        let mut images = Images::of_this_machine();
        let own = images.of(std::process::id()).to_vec();
        let program = std::env::current_exe().unwrap();
        let is_program = |image: &&Arc<LoadedImage>| {
            image.path[..] == *program.as_os_str().as_encoded_bytes() && image.build_id().is_some()
        };
        assert_eq!(own.iter().filter(is_program).count(), 1, "{own:?}");
        let mut others = 0;
        while images.go_on() {
            others += 1;
        }
        assert_eq!(images.processes.len(), others + 1);
    }
}
