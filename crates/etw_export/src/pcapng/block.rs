//! The blocks of a pcapng file.
//!
//! Source: the IETF draft "PCAP Now Generic (pcapng) Capture File Format" (draft-ietf-opsawg-pcapng), sections 3 and 4.

use std::io::{self, Write};

/// Block types.
const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// Marks the byte order.
const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;

/// Options. The same number has a different meaning in each kind of block.
pub(super) const COMMENT: u16 = 1;
pub(super) const HARDWARE_FLAGS: u16 = 2;
const IF_NAME: u16 = 2;
const USER_APPLICATION: u16 = 4;
const IF_TIME_RESOLUTION: u16 = 9;
/// Limit of the length of an option's value.
const MAX_OPTION_BYTES: usize = 4096;

/// A block being built, in a reused buffer.
#[derive(Debug, Default)]
pub(super) struct Block {
    bytes: Vec<u8>,
    has_options: bool,
}

impl Block {
    fn begin(&mut self, kind: u32) {
        self.bytes.clear();
        self.has_options = false;
        self.u32(kind);
        // The length is filled in later.
        self.u32(0);
    }

    fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    pub(super) fn option(&mut self, code: u16, value: &[u8]) {
        let value = value.get(..MAX_OPTION_BYTES).unwrap_or(value);
        self.has_options = true;
        self.u16(code);
        self.u16(value.len() as u16);
        self.bytes.extend_from_slice(value);
        self.pad();
    }

    /// Writes the block.
    pub(super) fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.has_options {
            self.u32(0);
        }
        let len = (self.bytes.len() + 4) as u32;
        self.u32(len);
        if let Some(place) = self.bytes.get_mut(4..8) {
            place.copy_from_slice(&len.to_le_bytes());
        }
        out.write_all(&self.bytes)
    }

    /// Starts the first block of a file.
    pub(super) fn section_header(&mut self) {
        self.begin(SECTION_HEADER);
        self.u32(BYTE_ORDER_MAGIC);
        self.u16(1);
        self.u16(0);
        // The length of the section is not specified.
        self.bytes.extend_from_slice(&u64::MAX.to_le_bytes());
        self.option(USER_APPLICATION, concat!("OpenETW ", env!("CARGO_PKG_VERSION")).as_bytes());
    }

    /// Starts an interface block; times are in nanoseconds.
    pub(super) fn interface(&mut self, link_type: u16, snap_len: u32, name: &str) {
        self.begin(INTERFACE_DESCRIPTION);
        self.u16(link_type);
        self.u16(0);
        self.u32(snap_len);
        self.option(IF_NAME, name.as_bytes());
        self.option(IF_TIME_RESOLUTION, &[9]);
    }

    /// Starts a packet block, without its options.
    pub(super) fn packet(&mut self, interface: u32, unix_nanos: u64, bytes: &[u8], original_len: u32) {
        self.begin(ENHANCED_PACKET);
        self.u32(interface);
        self.u32((unix_nanos >> 32) as u32);
        self.u32(unix_nanos as u32);
        self.u32(bytes.len() as u32);
        self.u32(original_len);
        self.bytes.extend_from_slice(bytes);
        self.pad();
    }
}
