//! The addresses of programs in a trace, their images, and the files that their JIT compilers list functions in.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use etw_event::Record;
use etw_kernel_events::ids::{self, EventId};
use etw_kernel_events::read;

use crate::addresses::KERNEL_64;

/// Maximum number of addresses of all processes.
const MAX_ADDRESSES: usize = 1 << 20;
/// Maximum number of images of all processes.
const MAX_IMAGES: usize = 1 << 18;
/// Maximum number of jitdump files.
const MAX_DUMPS: usize = 1 << 12;
/// Number of addresses seen last, most of which come again; a power of two.
const RECENT: usize = 1 << 12;

/// The addresses in stacks of the processes of a Linux trace.
#[derive(Debug, Clone, Default)]
pub struct UserAddresses {
    addresses: BTreeMap<u32, BTreeSet<u64>>,
    count: usize,
    recent: Vec<(u32, u64)>,
    /// By process and base.
    images: BTreeMap<(u32, u64), UserImage>,
    dumps: BTreeSet<(u32, String)>,
}

/// An image that a process of Linux has or had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserImage {
    /// Size in bytes, from its base on.
    pub len_bytes: u64,
    /// Path in the view of the process.
    pub path: String,
    /// The first four bytes of its build id; empty if it has none.
    pub build_id: Vec<u8>,
}

impl UserAddresses {
    /// Adds the addresses of an event's stack, or an image.
    pub fn add(&mut self, record: &Record<'_>) {
        match EventId::from_record(record) {
            Some(ids::StackWalk::STACK) => {
                let stack = read::StackEvent::new(record);
                if let (Some(process), Some(frames)) = (stack.stack_process(), stack.stack()) {
                    frames.for_each(|address| self.insert(process, address));
                }
            }
            Some(ids::Image::LOAD | ids::Image::DC_START | ids::Image::DC_END) => self.add_image(record),
            _ => {
                if let (Some(stack), Some(process)) = (record.stack_trace(), record.process_id()) {
                    stack.addresses().for_each(|address| self.insert(process, address));
                }
            }
        }
    }

    /// Adds an image.
    fn add_image(&mut self, record: &Record<'_>) {
        let image = read::ImageInfo::new(record);
        let (Some(process), Some(path)) = (image.process_id(), image.file_name()) else { return };
        let (units, _) = path.as_chunks::<2>();
        let units = units.iter().map(|unit| u16::from_le_bytes(*unit));
        let path: String =
            char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        if is_dump(&path) && self.dumps.len() < MAX_DUMPS {
            self.dumps.insert((process, path));
        } else if let (Some(base), Some(len_bytes)) = (image.image_base(), image.image_size())
            && self.images.len() < MAX_IMAGES
        {
            let stamp = image.time_date_stamp().unwrap_or(0);
            let build_id = if stamp == 0 { Vec::new() } else { stamp.to_le_bytes().to_vec() };
            self.images.insert((process, base), UserImage { len_bytes, path, build_id });
        }
    }

    /// Adds an address of a process, unless it is one of the kernel.
    #[inline]
    pub fn insert(&mut self, process: u32, address: u64) {
        if address >= KERNEL_64 || self.count >= MAX_ADDRESSES {
            return;
        }
        self.recent.resize(RECENT, (0, 0));
        let hash = (address ^ u64::from(process) << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let slot = &mut self.recent[(hash >> 52) as usize & (RECENT - 1)];
        if *slot == (process, address) {
            return;
        }
        *slot = (process, address);
        self.count += usize::from(self.addresses.entry(process).or_default().insert(address));
    }

    /// Returns the processes that have addresses.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.addresses.keys().copied()
    }

    /// Returns whether a process has an address in this range.
    pub fn has(&self, process: u32, start: u64, end: u64) -> bool {
        let addresses = self.addresses.get(&process);
        start < end && addresses.is_some_and(|addresses| addresses.range(start..end).next().is_some())
    }

    /// Returns the addresses of a process in a range.
    pub fn within(&self, process: u32, range: Range<u64>) -> impl Iterator<Item = u64> {
        let addresses = self.addresses.get(&process).filter(|_| !range.is_empty());
        addresses.into_iter().flat_map(move |addresses| addresses.range(range.clone()).copied())
    }

    /// Returns the images of a process by their bases.
    pub fn images(&self, process: u32) -> impl Iterator<Item = (u64, &UserImage)> {
        self.images.range((process, 0)..=(process, u64::MAX)).map(|((_, base), image)| (*base, image))
    }

    /// Returns the paths of jitdump files that a process has mapped.
    pub fn dumps(&self, process: u32) -> impl Iterator<Item = &str> {
        let of_process = self.dumps.range((process, String::new())..);
        of_process.take_while(move |(id, _)| *id == process).map(|(_, path)| &**path)
    }
}

/// Returns whether a path is that of a jitdump file: `jit-PID.dump`.
fn is_dump(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let number = name.strip_prefix("jit-").and_then(|rest| rest.strip_suffix(".dump"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use etw_etl::encode::RecordBuilder;
    use etw_event::{Origin, PointerSize, Ticks};

    use super::*;

    #[test]
    fn jitdump_files_are_known_by_their_names() {
        let check = |path: &str, expected| assert_eq!(is_dump(path), expected, "{path}");
        check("/tmp/jit-77.dump", true);
        check("jit-77.dump", true);
        check("/root/.debug/jit/x/jit-1.dump", true);
        check("/tmp/jit-.dump", false);
        check("/tmp/jit-77.dump (deleted)", false);
        check("/tmp/jit-7x.dump", false);
        check("/tmp/ajit-7.dump", false);
    }

    #[test]
    fn addresses_are_kept_by_process() {
        let mut all = UserAddresses::default();
        for address in [0x1000, 0x1000, KERNEL_64, 0x2000] {
            all.insert(7, address);
        }
        all.insert(8, 0x3000);
        assert_eq!((all.count, all.processes().collect::<Vec<_>>()), (3, vec![7, 8]));
        assert!(all.has(7, 0x1000, 0x1001) && !all.has(7, 0x1001, 0x2000) && !all.has(8, 0x1000, 0x2000));
        assert!(!all.has(7, 9, 9) && !all.has(7, 0x2000, 0x1000));
        let mut image = vec![0; 56];
        image[16] = 7;
        image.extend("/a/jit-7.dump\0".encode_utf16().flat_map(u16::to_le_bytes));
        for payload in [&image[..], &image[..20]] {
            let builder = RecordBuilder::perf_info(PointerSize::Eight, ids::Image::LOAD.hook_id(), 3);
            let bytes = builder.payload(payload).build().unwrap();
            let origin = Origin::default();
            all.add(&Record::parse(&bytes, &origin, Ticks(0)).unwrap());
        }
        let mut program = image.clone();
        program.truncate(56);
        program[..16].copy_from_slice(&[0x1000_u64, 0x3000].map(u64::to_le_bytes).concat());
        program[24..28].copy_from_slice(&[1, 2, 3, 4]);
        program.extend("/a/app\0".encode_utf16().flat_map(u16::to_le_bytes));
        let builder = RecordBuilder::perf_info(PointerSize::Eight, ids::Image::LOAD.hook_id(), 3);
        let bytes = builder.payload(&program).build().unwrap();
        all.add(&Record::parse(&bytes, &Origin::default(), Ticks(0)).unwrap());
        let app = UserImage { len_bytes: 0x3000, path: "/a/app".to_owned(), build_id: vec![1, 2, 3, 4] };
        assert_eq!(all.images(7).collect::<Vec<_>>(), [(0x1000, &app)]);
        assert_eq!(all.images(8).count(), 0);
        assert_eq!(all.within(7, 0x1001..0x3000).collect::<Vec<_>>(), [0x2000]);
        assert_eq!(all.dumps(7).collect::<Vec<_>>(), ["/a/jit-7.dump"]);
        assert_eq!(all.dumps(8).count(), 0);
    }
}
