//! Unwinding rules: how code keeps the way to its caller, in the form that the kernel's programs understand, and where
//! they look the rules up (`bpf/rules.h`).
//!
//! The capture owns the memory that the programs read; the unwinder fills it. Both know this module, and not each
//! other.

mod table;

use std::ops::RangeInclusive;

use crate::python::Interpreter;
use crate::records::Space;

pub use table::RuleTable;

/// Size of a unit of code in bytes. Rules are kept per unit.
pub(crate) const UNIT: u64 = 256;
/// Maximum number of images of a process that the kernel's programs keep.
pub(crate) const IMAGES_MOST: usize = 128;

/// Whether rules exist for the code of this machine's architecture.
pub(crate) const IS_KNOWN_CODE: bool = cfg!(target_arch = "x86_64");

/// Start and end address of an image, and the number of its first unit.
pub type ImageRange = [u64; 3];

/// Receives the images of processes, so that addresses can be related to the rules of a [`RuleTable`], and the interpreters that
/// they run.
pub trait ImageTable {
    /// Replaces the images of a process, at most 128, sorted by address.
    ///
    /// The entry may be lost when there are too many processes; the kernel's programs then report the process as
    /// unknown, and it has to be set again.
    fn set_images(&mut self, space: &Space, images: &[ImageRange]);

    /// Sets the interpreter of Python that a process runs.
    fn set_interpreter(&mut self, space: &Space, interpreter: &Interpreter);
}

/// How x86-64 code keeps the way to its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The caller's stack pointer is a register plus `offset` bytes, a multiple of 8. The return address is in the word
    /// before it. The caller's frame pointer is `frame_pointer` words from there, or still in its register if 0.
    Caller { base: Base, offset: i32, frame_pointer: i16 },
    /// The caller's stack pointer is stored `offset` bytes after the frame pointer, and the caller's frame pointer
    /// where the frame pointer points to. Compilers emit this for frames with variable-sized memory after an alignment.
    Kept { offset: i32 },
    /// There is no caller: the thread started here.
    End,
}

/// The register that a rule starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    StackPointer,
    FramePointer,
}

/// Encodes a rule for these bytes of its unit as the kernel's programs read it. `None` makes them report the address.
pub(crate) fn bits(rule: Option<Rule>, bytes: RangeInclusive<u8>) -> u64 {
    let (base, offset, frame_pointer): (u32, i32, i16) = match rule {
        None => (0, 0, 0),
        Some(Rule::Caller { base: Base::StackPointer, offset, frame_pointer }) => (1, offset, frame_pointer),
        Some(Rule::Caller { base: Base::FramePointer, offset, frame_pointer }) => (2, offset, frame_pointer),
        Some(Rule::End) => (3, 0, 0),
        Some(Rule::Kept { offset }) => (4, offset, 0),
    };
    let (first, last) = bytes.into_inner();
    u64::from(offset.cast_unsigned() | base)
        | u64::from(frame_pointer.cast_unsigned()) << 32
        | u64::from(first) << 48
        | u64::from(last) << 56
}

/// Returns the bytes of a unit that an encoded rule holds for.
pub(crate) fn bytes_of(bits: u64) -> RangeInclusive<u8> {
    (bits >> 48) as u8..=(bits >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_put_as_the_programs_read_them() {
        let rule = Rule::Caller { base: Base::FramePointer, offset: -16, frame_pointer: -2 };
        let put = bits(Some(rule), 5..=255);
        assert_eq!(put.to_le_bytes(), [0xF2, 0xFF, 0xFF, 0xFF, 0xFE, 0xFF, 5, 255]);
        assert_eq!(bytes_of(put), 5..=255);
        assert_eq!(bits(Some(Rule::End), 0..=0).to_le_bytes(), [3, 0, 0, 0, 0, 0, 0, 0]);
    }
}
