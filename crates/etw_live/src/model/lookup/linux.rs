//! Lookup in procfs and the files of programs.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use etw_capture::images::{ImageFiles, LoadedImage};
use openetw::symbols::{KernelSymbols, Module, Symbolizer};
use openetw::{FileTime, ProcessTable};

use super::Found;

/// Lookup on this machine, or in the trace of another one; the default knows nothing.
#[derive(Debug, Default)]
pub(crate) struct Lookup {
    is_here: bool,
    /// The processes of a trace.
    trace: ProcessTable,
    users: HashMap<u32, String>,
    /// Boot time in seconds since 1970.
    boot_seconds: i64,
    /// Kernel functions, loaded on first use.
    kernel: OnceLock<Option<KernelSymbols>>,
    /// Cache of function names by process and address.
    programs: Mutex<HashMap<(u32, u64), Option<String>>>,
}

/// Maximum number of cached addresses.
const MAX_ADDRESSES: usize = 1 << 14;
/// Bit that is set in kernel addresses.
const OF_KERNEL: u64 = 1 << 63;

/// Ticks per second of process start times; the same on all architectures of Linux.
const TICKS_PER_SECOND: i64 = 100;

impl Lookup {
    pub(crate) fn of_this_machine() -> Lookup {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let users = read("/etc/passwd");
        let users = users.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?.to_owned();
            Some((fields.nth(1)?.parse().ok()?, name))
        });
        let stat = read("/proc/stat");
        let boot = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
        Lookup {
            is_here: true,
            trace: ProcessTable::default(),
            users: users.collect(),
            boot_seconds: boot.unwrap_or(0),
            kernel: OnceLock::new(),
            programs: Mutex::default(),
        }
    }

    /// Returns a lookup in the processes of a trace, whose files are all of one machine.
    pub(crate) fn of_trace(processes: ProcessTable) -> Lookup {
        Lookup { trace: processes, ..Lookup::default() }
    }

    /// Returns the process of a thread.
    pub(crate) fn process_of(&self, thread_id: u32) -> Option<u32> {
        let status =
            std::fs::read_to_string(format!("/proc/{thread_id}/status")).ok().filter(|_| self.is_here)?;
        status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
    }

    /// Returns the name of a disk of this machine, by its number in events.
    pub(crate) fn disk(&self, number: u32) -> Option<String> {
        let device = format!("/sys/dev/block/{}:{}", number >> 20, number & 0xF_FFFF);
        let link = std::fs::read_link(device).ok().filter(|_| self.is_here)?;
        Some(link.file_name()?.to_str()?.to_owned())
    }

    /// Returns the properties of a process that runs at a time.
    pub(crate) fn process(&self, process_id: u32, time: FileTime) -> Option<Found> {
        if let Some(image) = self.trace.name(0, process_id, time) {
            return Some(Found { image: image.to_owned(), ..Found::default() });
        }
        let directory = Path::new("/proc").join(process_id.to_string());
        let stat = std::fs::read_to_string(directory.join("stat")).ok().filter(|_| self.is_here)?;
        // The name is in parentheses, and may contain parentheses.
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<i64>().ok();
        let started = number(19).filter(|_| self.boot_seconds > 0).map(|ticks| {
            let nanos = i128::from(self.boot_seconds) * 1_000_000_000;
            FileTime::from_unix_nanos(
                nanos + i128::from(ticks) * i128::from(1_000_000_000 / TICKS_PER_SECOND),
            )
        });
        let uid = std::fs::metadata(&directory).map_or(0, |metadata| metadata.uid());
        let parent_id = number(1).and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
        let image = etw_sys::program_name(&directory).unwrap_or_else(|| name.to_owned());
        Some(Found { image, user: self.user_of_id(uid), parent_id, started })
    }

    /// Returns the function and image of each frame of a stack, innermost first.
    ///
    /// Functions of a program are known only while it runs.
    pub(crate) fn functions(&self, process_id: Option<u32>, frames: &[u64]) -> Vec<Option<String>> {
        // A return address may be after the end of the calling function.
        let places = frames.iter().zip(0..).map(|(frame, depth)| frame.saturating_sub(u64::from(depth > 0)));
        let places: Vec<u64> = places.collect();
        let of_programs: Vec<u64> = places.iter().copied().filter(|place| place & OF_KERNEL == 0).collect();
        let mut known = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(process_id) = process_id.filter(|_| self.is_here) {
            if known.len() > MAX_ADDRESSES {
                known.clear();
            }
            let unknown = |place: &u64| !known.contains_key(&(process_id, *place));
            let new: Vec<u64> = of_programs.into_iter().filter(unknown).collect();
            if !new.is_empty() {
                let found = program_functions(process_id, &new);
                known.extend(new.iter().zip(found).map(|(place, name)| ((process_id, *place), name)));
            }
        }
        let of_program = |place: u64| known.get(&(process_id?, place))?.clone();
        let name = |place: u64| match place & OF_KERNEL {
            0 => of_program(place),
            _ => Some(
                format!("kernel {}", self.kernel_function(place).unwrap_or_default()).trim_end().to_owned(),
            ),
        };
        places.into_iter().map(name).collect()
    }

    /// Returns the kernel function that contains an address.
    fn kernel_function(&self, address: u64) -> Option<String> {
        // Without permission to see kernel addresses, no names are available.
        let load = || self.is_here.then(|| KernelSymbols::of_this_machine().ok()).flatten();
        let kernel = self.kernel.get_or_init(load);
        Some(kernel.as_ref()?.find(address)?.name.to_owned())
    }

    /// Returns the name of a Linux user, whose SID is `S-1-22-1-UID`.
    pub(crate) fn user(&self, sid: &str) -> String {
        match sid.strip_prefix("S-1-22-1-").and_then(|id| id.parse().ok()) {
            Some(uid) => self.user_of_id(uid),
            None => sid.to_owned(),
        }
    }

    fn user_of_id(&self, uid: u32) -> String {
        self.users.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }
}

/// Returns the functions of a process at these addresses, or only the images if functions are unknown.
fn program_functions(process_id: u32, places: &[u64]) -> Vec<Option<String>> {
    let directory = Path::new("/proc").join(process_id.to_string());
    let mut names = vec![None; places.len()];
    // An exited process cannot be read.
    let _ = LoadedImage::for_each(&directory, &mut ImageFiles::default(), |image| {
        let is_inside = |(_, place): &(usize, &u64)| {
            (image.base..image.base.saturating_add(image.len_bytes)).contains(*place)
        };
        let (indexes, offsets): (Vec<usize>, Vec<u64>) = places
            .iter()
            .enumerate()
            .filter(is_inside)
            .map(|(index, place)| (index, place - image.base))
            .unzip();
        if indexes.is_empty() {
            return;
        }
        let path = String::from_utf8_lossy(&image.path);
        let file = path.rsplit('/').next().unwrap_or_default();
        let build_id = image.build_id();
        let build_id = build_id.as_ref().map_or(&[][..], |id| id.as_bytes());
        let module = Module { path: &path, build_id, ..Module::default() };
        let symbols = Symbolizer::new().resolve(&module, &offsets);
        let symbols = symbols.unwrap_or_else(|_| vec![None; offsets.len()]);
        for ((index, offset), symbol) in indexes.into_iter().zip(offsets).zip(symbols) {
            names[index] = Some(match symbol {
                Some(symbol) => format!("{file} {}", symbol.function()),
                None => format!("{file}+{offset:#x}"),
            });
        }
    });
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known() {
        let lookup = Lookup::of_this_machine();
        let found = lookup.process(std::process::id(), FileTime(0)).unwrap();
        let program = std::env::current_exe().unwrap();
        assert_eq!(Some(found.image.as_str()), program.file_name().unwrap().to_str());
        assert!(!found.user.is_empty());
        assert_eq!(found.parent_id, std::os::unix::process::parent_id());
        let started = found.started.unwrap().unix_nanos() / 1_000_000_000;
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as i128;
        assert!((now - 3600..=now + 1).contains(&started), "{started}, {now}");
        let thread = std::thread::spawn(|| {
            let path = std::fs::read_link("/proc/thread-self").unwrap();
            let id = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            Lookup::of_this_machine().process_of(id)
        });
        assert_eq!(thread.join().unwrap(), Some(std::process::id()));
        assert_eq!(
            (lookup.user("S-1-22-1-0"), lookup.user("S-1-5-18")),
            ("root".to_owned(), "S-1-5-18".to_owned())
        );
        let here = Lookup::of_this_machine as *const () as u64;
        let names = lookup.functions(Some(std::process::id()), &[here, 8]);
        assert!(names[0].as_ref().is_some_and(|name| name.ends_with("of_this_machine")), "{names:?}");
        assert_eq!(names[1], None);
        assert_eq!(lookup.functions(None, &[here]), [None]);
        if let Ok(kernel) = KernelSymbols::of_this_machine() {
            let line = std::fs::read_to_string("/proc/kallsyms").unwrap();
            let line = line.lines().find(|line| line.ends_with(" T vfs_read")).unwrap();
            let address = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
            assert!(kernel.base() < address);
            assert_eq!(lookup.kernel_function(address + 1).as_deref(), Some("vfs_read"));
        }
        assert_eq!(
            (lookup.kernel_function(0x1000), Lookup::default().kernel_function(u64::MAX)),
            (None, None)
        );
        assert!(
            Lookup::default().process(1, FileTime(0)).is_none() && Lookup::default().process_of(1).is_none()
        );
    }
}
