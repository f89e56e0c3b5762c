//! Encoding of values in payloads.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etw_event::{Guid, Ticks};

use super::Payload;

/// Maximum number of UTF-16 units of a text (bytes, for the one 8-bit text of these classes) without its terminator.
///
/// The longest texts are command lines; the limit keeps the largest record below 24 KiB.
pub const MAX_TEXT_UNITS: usize = 8_191;

/// A value that can be written to a payload.
pub trait Field {
    /// Writes the value after the previous one, without padding.
    fn put(&self, to: &mut Payload<'_>);
}

macro_rules! integers {
    ($($type:ident as $unsigned:ident),*) => {
        $(impl Field for $type {
            #[inline(always)]
            fn put(&self, to: &mut Payload<'_>) {
                to.put_low_bytes(*self as $unsigned as u64, size_of::<$type>() as u32);
            }
        })*
    };
}
integers!(u8 as u8, i8 as u8, u16 as u16, i16 as u16, u32 as u32, i32 as u32, u64 as u64, i64 as u64);

impl Field for Ticks {
    #[inline(always)]
    fn put(&self, to: &mut Payload<'_>) {
        self.0.put(to);
    }
}

impl<F: Field> Field for &F {
    #[inline(always)]
    fn put(&self, to: &mut Payload<'_>) {
        (**self).put(to);
    }
}

impl<F: Field> Field for [F] {
    fn put(&self, to: &mut Payload<'_>) {
        for field in self {
            field.put(to);
        }
    }
}

impl<F: Field, const N: usize> Field for [F; N] {
    fn put(&self, to: &mut Payload<'_>) {
        self[..].put(to);
    }
}

impl Field for Guid {
    fn put(&self, to: &mut Payload<'_>) {
        self.to_bytes().put(to);
    }
}

/// Bytes in network order.
impl Field for Ipv4Addr {
    fn put(&self, to: &mut Payload<'_>) {
        u32::from_le_bytes(self.octets()).put(to);
    }
}

/// Bytes in network order.
impl Field for Ipv6Addr {
    fn put(&self, to: &mut Payload<'_>) {
        self.octets().put(to);
    }
}

/// The address alone; the event's type has its family.
impl Field for IpAddr {
    fn put(&self, to: &mut Payload<'_>) {
        match self {
            IpAddr::V4(address) => address.put(to),
            IpAddr::V6(address) => address.put(to),
        }
    }
}

/// A port in network order.
pub(super) struct Port(pub u16);

impl Field for Port {
    fn put(&self, to: &mut Payload<'_>) {
        self.0.swap_bytes().put(to);
    }
}

/// A user as `TOKEN_USER` and SID: S-1-22-1-UID, by which Samba names users of Unix.
pub(super) struct UserSid(pub u32);

impl Field for UserSid {
    fn put(&self, to: &mut Payload<'_>) {
        // The pointer to the SID, which readers only compare with zero: its offset.
        0x10_u64.put(to);
        // Attributes, padding.
        0_u64.put(to);
        // Revision 1, two sub-authorities, authority 22; 1, the user.
        [1_u8, 2, 0, 0, 0, 0, 0, 22].put(to);
        1_u32.put(to);
        self.0.put(to);
    }
}

/// An integrity level as SID: S-1-16-8192, medium, or S-1-16-12288, high.
pub(crate) struct MandatoryLabel {
    pub(crate) is_high: bool,
}

impl Field for MandatoryLabel {
    fn put(&self, to: &mut Payload<'_>) {
        // Revision 1, one sub-authority, authority 16.
        [1_u8, 1, 0, 0, 0, 0, 0, 16].put(to);
        let level: u32 = if self.is_high { 12_288 } else { 8_192 };
        level.put(to);
    }
}

/// UTF-16 with terminator.
pub(crate) struct Wide<'a>(pub &'a [u8]);

impl Field for Wide<'_> {
    fn put(&self, to: &mut Payload<'_>) {
        let mut units = Units::new(MAX_TEXT_UNITS);
        units.put(self.0, to);
        units.end(to);
    }
}

/// 8-bit text with terminator.
pub(crate) struct Narrow<'a>(pub &'a [u8]);

impl Field for Narrow<'_> {
    fn put(&self, to: &mut Payload<'_>) {
        for byte in self.0.iter().take(MAX_TEXT_UNITS).take_while(|byte| **byte != 0) {
            byte.put(to);
        }
        0_u8.put(to);
    }
}

/// UTF-16 in a field of a fixed number of units, of which the last is zero.
pub(super) struct Fixed<'a, const N: usize>(pub &'a [u8]);

impl<const N: usize> Field for Fixed<'_, N> {
    fn put(&self, to: &mut Payload<'_>) {
        let mut units = Units::new(N - 1);
        units.put(self.0, to);
        let written = units.written;
        for _ in written..N {
            0_u16.put(to);
        }
    }
}

/// Arguments, each terminated by a zero byte, as one UTF-16 text with terminator.
///
/// Arguments are separated by spaces. An empty argument, or one with a space, tab, line end, quotation mark or
/// backslash, is put in quotation marks, with backslashes before its quotation marks and backslashes.
pub(super) struct CommandLine<'a>(pub &'a [u8]);

impl Field for CommandLine<'_> {
    fn put(&self, to: &mut Payload<'_>) {
        let mut units = Units::new(MAX_TEXT_UNITS);
        let arguments = self.0.strip_suffix(&[0]).unwrap_or(self.0);
        if self.0.is_empty() {
            units.end(to);
            return;
        }
        let mut is_first = true;
        for argument in arguments.split(|byte| *byte == 0) {
            if units.is_full() {
                break;
            }
            if !is_first {
                units.put(b" ", to);
            }
            is_first = false;
            // A text without zeros is a title that the process has set.
            let is_title = arguments.len() == argument.len() && self.0.last() != Some(&0);
            if is_title || !needs_quotes(argument) {
                units.put(argument, to);
                continue;
            }
            units.put(b"\"", to);
            for part in argument.split_inclusive(|byte| matches!(byte, b'"' | b'\\')) {
                match part.split_last() {
                    Some((mark @ (b'"' | b'\\'), before)) => {
                        units.put(before, to);
                        units.put(&[b'\\', *mark], to);
                    }
                    _ => units.put(part, to),
                }
            }
            units.put(b"\"", to);
        }
        units.end(to);
    }
}

fn needs_quotes(argument: &[u8]) -> bool {
    argument.is_empty()
        || argument.iter().any(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'\\'))
}

/// Writes UTF-16 units up to a maximum number.
struct Units {
    written: usize,
    max: usize,
    is_full: bool,
}

impl Units {
    fn new(max: usize) -> Units {
        Units { written: 0, max, is_full: false }
    }

    fn is_full(&self) -> bool {
        self.is_full
    }

    /// Writes text up to its end, a zero, or the room for an ellipsis.
    fn put(&mut self, text: &[u8], to: &mut Payload<'_>) {
        if self.is_full {
            return;
        }
        // Most texts are ASCII and certain to fit.
        if text.len() < self.max - self.written && text.iter().all(|byte| matches!(byte, 1..0x80)) {
            for byte in text {
                to.put_low_bytes((*byte).into(), 2);
            }
            self.written += text.len();
            return;
        }
        for chunk in text.utf8_chunks() {
            let replacement = (!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER);
            for character in chunk.valid().chars().chain(replacement) {
                if character == '\0' {
                    return;
                }
                // One unit is kept for the ellipsis.
                if self.written + character.len_utf16() >= self.max {
                    '…'.encode_utf16(&mut [0; 2]).iter().for_each(|unit| unit.put(to));
                    self.written += 1;
                    self.is_full = true;
                    return;
                }
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    unit.put(to);
                    self.written += 1;
                }
            }
        }
    }

    fn end(self, to: &mut Payload<'_>) {
        0_u16.put(to);
    }
}
