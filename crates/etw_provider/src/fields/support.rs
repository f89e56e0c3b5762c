//! Building blocks of the field types.

pub use core::primitive as p;
pub use std::net::{Ipv4Addr, Ipv6Addr};
pub use std::time::SystemTime;

use std::time::UNIX_EPOCH;

pub use etw_event::Guid;

use crate::metadata::Arity;
pub use crate::metadata::{Field, Format, in_type};
pub use crate::payload::{Counted8, Counted16, CountedBytes, Nul8, Nul16, Units16};
use crate::payload::{Payload, PayloadWriter};

/// A field's description without its name.
#[derive(Debug, Clone, Copy)]
pub struct FieldType {
    in_type: u8,
    format: Format,
    arity: Arity,
}

impl FieldType {
    /// A single value.
    pub const fn new(in_type: u8, format: Format) -> FieldType {
        FieldType { in_type, format, arity: Arity::One }
    }

    /// A variable number of values, with their count first.
    pub const fn slice(self) -> FieldType {
        FieldType { arity: Arity::Variable, ..self }
    }

    /// Returns a field of this type.
    pub const fn named(self, name: &str) -> Field<'_> {
        Field::new(name, self.in_type, self.format).arity(self.arity)
    }
}

/// The elements of an array, each encoded by a function.
#[derive(Debug, Clone, Copy)]
pub struct Elements<'a, T, V> {
    elements: &'a [T],
    stored: fn(T) -> V,
}

impl<'a, T, V> Elements<'a, T, V> {
    /// Wraps all elements of a slice.
    #[inline(always)]
    pub fn new(elements: &'a [T], stored: fn(T) -> V) -> Elements<'a, T, V> {
        Elements { elements, stored }
    }
}

impl<T: Copy, V: Payload> Payload for Elements<'_, T, V> {
    #[inline]
    fn len_bytes(&self) -> usize {
        self.elements.iter().map(|element| (self.stored)(*element).len_bytes()).sum()
    }

    #[inline]
    fn put(&self, out: &mut PayloadWriter<'_>) {
        for element in self.elements {
            (self.stored)(*element).put(out);
        }
    }
}

/// Elements after a `u16` count. More than 65535 elements make the event too large, whatever their size.
#[derive(Debug, Clone, Copy)]
pub struct Slice<'a, T, V>(pub Elements<'a, T, V>);

impl<T: Copy, V: Payload> Payload for Slice<'_, T, V> {
    #[inline]
    fn len_bytes(&self) -> usize {
        let too_many = if self.0.elements.len() > usize::from(u16::MAX) { usize::from(u16::MAX) } else { 0 };
        2 + too_many + self.0.len_bytes()
    }

    #[inline]
    fn put(&self, out: &mut PayloadWriter<'_>) {
        out.put(self.0.elements.len() as u64 & 0xFFFF, 2);
        self.0.put(out);
    }
}

/// Bytes whose content determines their length, written unchanged.
#[derive(Debug, Clone, Copy)]
pub struct Raw<'a>(pub &'a [u8]);

impl Payload for Raw<'_> {
    #[inline]
    fn len_bytes(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn put(&self, out: &mut PayloadWriter<'_>) {
        out.put_bytes(self.0);
    }
}

/// An IPv6 address, counted like binary data.
#[derive(Debug, Clone, Copy)]
pub struct Ipv6(pub Ipv6Addr);

impl Payload for Ipv6 {
    #[inline]
    fn len_bytes(&self) -> usize {
        18
    }

    #[inline]
    fn put(&self, out: &mut PayloadWriter<'_>) {
        CountedBytes(&self.0.octets()).put(out);
    }
}

/// Converts a time to a `FILETIME`: 100 ns intervals since 1601. Earlier times become 0.
#[inline]
pub fn file_time(time: SystemTime) -> u64 {
    /// Intervals from 1601 to 1970.
    const UNIX: u64 = 116_444_736_000_000_000;
    let intervals = |time: std::time::Duration| u64::try_from(time.as_nanos() / 100).unwrap_or(u64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => UNIX.saturating_add(intervals(since)),
        Err(before) => UNIX.saturating_sub(intervals(before.duration())),
    }
}
