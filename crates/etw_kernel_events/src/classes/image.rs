//! Classes Image and ImageID, which identifies an image's symbols.

use etw_event::{Guid, HeaderKind, HookId, classes};

use super::field::{Narrow, Wide};
use super::{Field, KernelEvent, Payload, layout};
use crate::ids::{self, Class, EventId};

/// The kind of event about an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ImageEvent {
    /// A process maps it.
    Load = 10,
    /// It is unmapped, or its process has ended.
    Unload = 2,
    /// It existed when the session started.
    DcStart = 3,
    /// It existed when the session stopped.
    DcEnd = 4,
}

/// The identity of a program or library: the note `NT_GNU_BUILD_ID` of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BuildId {
    bytes: [u8; 20],
    len: u8,
}

impl BuildId {
    /// Creates a build id from these bytes; `None` if there are none. Linkers create ids of 20 bytes or fewer; of
    /// longer ones the first 20 are used.
    pub fn new(bytes: &[u8]) -> Option<BuildId> {
        let mut id = BuildId::default();
        let len = bytes.len().min(id.bytes.len());
        id.bytes[..len].copy_from_slice(&bytes[..len]);
        id.len = len as u8;
        (len > 0).then_some(id)
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns the first 16 bytes, which [`ImageDebugId`] stores in place of a PDB's signature.
    pub fn guid(&self) -> Guid {
        let mut first = [0; 16];
        first.copy_from_slice(&self.bytes[..16]);
        Guid::from_bytes(first)
    }

    /// Returns the other bytes, which [`ImageDebugId`] stores in place of a PDB's age.
    pub fn age(&self) -> u32 {
        self.word(16)
    }

    /// Returns the first bytes, which [`Image`] stores in place of the time stamp. In reproducible builds of Windows
    /// that is part of a hash too.
    pub fn time_date_stamp(&self) -> u32 {
        self.word(0)
    }

    fn word(&self, at: usize) -> u32 {
        self.bytes[at..at + 4].iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
    }
}

/// An image of a process (`Image_Load`).
///
/// Images of the kernel belong to process 0. Only their rundown has thread and process in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image<'a> {
    /// The kind of event.
    pub event: ImageEvent,
    /// Lowest address of its mappings.
    pub base: u64,
    /// Size in bytes up to the end of its highest mapping.
    pub len_bytes: u64,
    /// The process; 0 for the kernel.
    pub process_id: u32,
    /// The file's build id.
    pub build_id: Option<BuildId>,
    /// Path of the file in the process's view.
    pub file_name: &'a [u8],
}

layout! {
    Image<'_>, version 3, |e| kind = match e.event {
        ImageEvent::DcStart | ImageEvent::DcEnd if e.process_id != 0 => PerfInfo64,
        _ => System64,
    }, match e.event {
        // Loads are in the group of processes.
        ImageEvent::Load => ids::Image::LOAD,
        other => EventId::new(Class::Image, other as u8),
    };
    e.base, e.len_bytes, e.process_id, 0_u32, e.build_id.map_or(0, |id| id.time_date_stamp()),
    // Signature level and type, which ELF files do not have.
    0_u8, 0_u8, 0_u16, e.base, [0_u32; 4], Wide(e.file_name),
}

/// The address of the kernel (`KernelImageBase`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelBase {
    /// Lowest address of its code.
    pub base: u64,
}

layout! { KernelBase, version 2, |e| PerfInfo64 ids::Image::IMAGE_KERNEL_BASE; e.base }

/// The build id of an image (`ImageID/DbgID_RSDS`), in the form in which the merge step of Windows writes identities of
/// PDBs.
///
/// `GuidSig` has the first 16 bytes in memory order; `Age` the next four, little-endian. The name of the PDB is the
/// path of the file itself, which debug files are found by together with the build id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageDebugId<'a> {
    /// Base of the image.
    pub base: u64,
    /// The process; 0 for the kernel.
    pub process_id: u32,
    /// The file's build id.
    pub build_id: BuildId,
    /// Path of the file.
    pub file_name: &'a [u8],
}

impl KernelEvent for ImageDebugId<'_> {
    const VERSION: u8 = 2;

    /// The class has no group; the type is its opcode.
    fn hook_id(&self) -> HookId {
        HookId(36)
    }

    fn kind(&self) -> HeaderKind {
        HeaderKind::Full64
    }

    fn class(&self) -> Guid {
        classes::IMAGE_ID
    }

    fn put_payload(&self, to: &mut Payload<'_>) {
        self.base.put(to);
        self.process_id.put(to);
        self.build_id.guid().put(to);
        self.build_id.age().put(to);
        Narrow(self.file_name).put(to);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::check;
    use super::*;

    #[test]
    fn fields_are_read_back() {
        let id: Vec<u8> = (1..=20).collect();
        let id = BuildId::new(&id).unwrap();
        for event in [ImageEvent::Load, ImageEvent::Unload, ImageEvent::DcStart, ImageEvent::DcEnd] {
            for process_id in [0, 77] {
                let image = Image {
                    event,
                    base: 0x7F00_0000_0000,
                    len_bytes: 0x21000,
                    process_id,
                    build_id: Some(id),
                    file_name: b"/usr/lib/libm.so.6",
                };
                check(
                    &image,
                    &[
                        ("ImageBase", "0x7f0000000000"),
                        ("ImageSize", "0x21000"),
                        ("ProcessId", if process_id == 0 { "0" } else { "77" }),
                        ("ImageChecksum", "0"),
                        ("TimeDateStamp", "67305985"),
                        ("SignatureLevel", "0"),
                        ("SignatureType", "0"),
                        ("Reserved0", "0"),
                        ("DefaultBase", "0x7f0000000000"),
                        ("Reserved1", "0"),
                        ("Reserved2", "0"),
                        ("Reserved3", "0"),
                        ("Reserved4", "0"),
                        ("FileName", "/usr/lib/libm.so.6"),
                    ],
                );
            }
        }
        check(&KernelBase { base: 0xFFFF_FFFF_8100_0000 }, &[("ImageBase", "0xffffffff81000000")]);
        let debug_id = ImageDebugId { base: 0x1000, process_id: 77, build_id: id, file_name: b"/bin/sh" };
        check(
            &debug_id,
            &[
                ("ImageBase", "0x1000"),
                ("ProcessId", "77"),
                ("GuidSig", "{04030201-0605-0807-090a-0b0c0d0e0f10}"),
                ("Age", "336794129"),
                ("PdbFileName", "/bin/sh"),
            ],
        );
    }

    #[test]
    fn build_ids_keep_their_length() {
        assert_eq!(BuildId::new(&[]), None);
        assert_eq!(BuildId::new(&[1, 0]).unwrap().as_bytes(), [1, 0]);
        assert_eq!(BuildId::new(&[7; 32]).unwrap().as_bytes(), [7; 20]);
        assert_eq!(BuildId::new(&[7; 8]).unwrap().age(), 0);
    }
}
