//! What the types of fields are made of.

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
    /// One value.
    pub const fn new(in_type: u8, format: Format) -> FieldType {
        FieldType { in_type, format, arity: Arity::One }
    }

    /// As many values as are counted in front of them.
    pub const fn slice(self) -> FieldType {
        FieldType { arity: Arity::Variable, ..self }
    }

    /// A field of this type.
    pub const fn named(self, name: &str) -> Field<'_> {
        Field::new(name, self.in_type, self.format).arity(self.arity)
    }
}

/// Elements of an array, one behind the other, each stored as a function says.
#[derive(Debug, Clone, Copy)]
pub struct Elements<'a, T, V> {
    elements: &'a [T],
    stored: fn(T) -> V,
}

impl<'a, T, V> Elements<'a, T, V> {
    /// All elements of an array.
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

/// Elements behind a `u16` with their number. More than 65535 make the event too large, whatever they are.
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

/// Bytes as they are, of a length that they tell themselves.
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

/// An IPv6 address, counted as binary data is.
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

/// A time as `FILETIME`: 100 ns intervals since 1601. Times before that are 0.
#[inline]
pub fn file_time(time: SystemTime) -> u64 {
    /// From 1601 to 1970.
    const UNIX: u64 = 116_444_736_000_000_000;
    let intervals = |time: std::time::Duration| u64::try_from(time.as_nanos() / 100).unwrap_or(u64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => UNIX.saturating_add(intervals(since)),
        Err(before) => UNIX.saturating_sub(intervals(before.duration())),
    }
}
