//! Types of the fields of TraceLogging events: in-types (`TlgIn*`), and an out-type.

/// Text of bytes with a zero at the end.
pub const ANSI_STRING: u8 = 2;
/// Number of 8 bits.
pub const UINT8: u8 = 4;
/// Number of 16 bits.
pub const UINT16: u8 = 6;
/// Number of 32 bits.
pub const UINT32: u8 = 8;
/// GUID.
pub const GUID: u8 = 15;
/// Number of 32 bits, shown in hexadecimal.
pub const HEX_INT32: u8 = 20;
/// Number of 64 bits, shown in hexadecimal.
pub const HEX_INT64: u8 = 21;
/// Out-type of a text in UTF-8 (`TlgOutUTF8`).
pub const UTF8: u8 = 35;
