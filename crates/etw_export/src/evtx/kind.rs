//! The types of values in binary XML.

/// The type of a value. Source: MS-EVEN6, 2.2.12.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind(pub(super) u8);

impl Kind {
    pub(super) const NULL: Kind = Kind(0x00);
    pub(super) const STRING: Kind = Kind(0x01);
    pub(super) const INT8: Kind = Kind(0x03);
    pub(super) const UINT8: Kind = Kind(0x04);
    pub(super) const INT16: Kind = Kind(0x05);
    pub(super) const UINT16: Kind = Kind(0x06);
    pub(super) const INT32: Kind = Kind(0x07);
    pub(super) const UINT32: Kind = Kind(0x08);
    pub(super) const INT64: Kind = Kind(0x09);
    pub(super) const UINT64: Kind = Kind(0x0A);
    pub(super) const REAL32: Kind = Kind(0x0B);
    pub(super) const REAL64: Kind = Kind(0x0C);
    pub(super) const BOOL: Kind = Kind(0x0D);
    pub(super) const BINARY: Kind = Kind(0x0E);
    pub(super) const GUID: Kind = Kind(0x0F);
    pub(super) const FILETIME: Kind = Kind(0x11);
    pub(super) const SID: Kind = Kind(0x13);
    pub(super) const HEX32: Kind = Kind(0x14);
    pub(super) const HEX64: Kind = Kind(0x15);
    pub(super) const BINXML: Kind = Kind(0x21);
}
