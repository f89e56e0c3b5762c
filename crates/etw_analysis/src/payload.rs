//! Payloads of frequent events, whose layouts are fixed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etw_event::{PointerSize, Record};

/// The lowest kernel address with pointers of 8 bytes; user mode is below.
pub(crate) const KERNEL_64: u64 = 1 << 63;
/// The lowest kernel address with pointers of 4 bytes.
pub(crate) const KERNEL_32: u64 = 1 << 31;

/// A reader of a payload's fields in sequence; its methods return `None` if the payload ends too soon.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payload<'a> {
    rest: &'a [u8],
    has_short_pointers: bool,
}

impl<'a> Payload<'a> {
    #[inline]
    pub(crate) fn of(record: &Record<'a>) -> Payload<'a> {
        Payload { rest: record.payload(), has_short_pointers: record.pointer_size() == PointerSize::Four }
    }

    #[inline]
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.bytes().map(u8::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    #[inline]
    pub(crate) fn pointer(&mut self) -> Option<u64> {
        if self.has_short_pointers { self.u32().map(u64::from) } else { self.u64() }
    }

    #[inline]
    pub(crate) fn port(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_be_bytes)
    }

    pub(crate) fn address(&mut self, is_ipv6: bool) -> Option<IpAddr> {
        match is_ipv6 {
            true => self.bytes::<16>().map(|bytes| Ipv6Addr::from(bytes).into()),
            false => self.bytes::<4>().map(|bytes| Ipv4Addr::from(bytes).into()),
        }
    }

    /// Returns the rest of the payload as pointers.
    pub(crate) fn pointers(mut self) -> impl Iterator<Item = u64> {
        std::iter::from_fn(move || self.pointer())
    }
}
