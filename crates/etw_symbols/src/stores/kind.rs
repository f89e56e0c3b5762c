//! How long a file may be by its own first bytes, so that an endless one is cut off early.

use super::file::{CABINET, MAX_POINTER_LEN_BYTES};

/// Number of bytes that [`FileKind::max_len`] looks at.
pub(super) const START_LEN_BYTES: usize = 44;
/// Start of a PDB of Windows, with which its first block begins. Source: LLVM, "The PDB Serialized Stream (MSF)".
const MSF: &[u8] = b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0";
/// Start of a portable PDB.
const PORTABLE: &[u8] = b"BSJB";
/// Maximum length in bytes of a portable PDB, which does not say its length.
const MAX_PORTABLE_LEN_BYTES: u64 = 256 << 20;
/// Bytes that an image file may have besides what is loaded, and besides as much again: signatures, data of installers.
const MAX_OVERLAY_LEN_BYTES: u64 = 64 << 20;

/// The format that a file must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Pdb,
    /// An image, with its length in memory in bytes.
    Image(u32),
    Cabinet,
    Pointer,
    Elf,
    /// Any, of any length.
    Any,
}

impl FileKind {
    /// Returns the maximum length in bytes of a file that starts with these bytes, or `None` if they are too few.
    ///
    /// # Errors
    ///
    /// Fails if a file of this kind does not start so.
    pub(super) fn max_len(self, start: &[u8]) -> Result<Option<u64>, String> {
        let word = |at: usize| start.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let product = |a: u32, b: u32| u64::from(a) * u64::from(b);
        let begins = |magic: &[u8]| start.iter().zip(magic).all(|(found, wanted)| found == wanted);
        match self {
            FileKind::Pdb if begins(MSF) => {
                Ok(word(32).zip(word(40)).map(|(block, blocks)| product(block, blocks)))
            }
            FileKind::Pdb if begins(PORTABLE) => Ok(Some(MAX_PORTABLE_LEN_BYTES)),
            FileKind::Pdb => Err("it is not a PDB".to_owned()),
            FileKind::Image(len) if begins(b"MZ") => Ok(Some(product(len, 2) + MAX_OVERLAY_LEN_BYTES)),
            FileKind::Image(_) => Err("it is not an image".to_owned()),
            FileKind::Cabinet if begins(CABINET) => Ok(word(8).map(u64::from)),
            FileKind::Cabinet => Err("it is not a compressed file".to_owned()),
            FileKind::Pointer => Ok(Some(MAX_POINTER_LEN_BYTES)),
            FileKind::Elf if begins(b"\x7fELF") => Ok(Some(u64::MAX)),
            FileKind::Any => Ok(Some(u64::MAX)),
            FileKind::Elf => Err("it is not an ELF file".to_owned()),
        }
    }
}
