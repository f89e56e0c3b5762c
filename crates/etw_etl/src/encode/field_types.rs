//! Types of the fields of TraceLogging events: in-types (`TlgIn*`), and out-types (`TlgOut*`).

/// Text of bytes with a zero at the end.
pub const ANSI_STRING: u8 = 2;
/// Signed number of 8 bits.
pub const INT8: u8 = 3;
/// Number of 8 bits.
pub const UINT8: u8 = 4;
/// Signed number of 16 bits.
pub const INT16: u8 = 5;
/// Number of 16 bits.
pub const UINT16: u8 = 6;
/// Signed number of 32 bits.
pub const INT32: u8 = 7;
/// Number of 32 bits.
pub const UINT32: u8 = 8;
/// Signed number of 64 bits.
pub const INT64: u8 = 9;
/// Number of 64 bits.
pub const UINT64: u8 = 10;
/// Bytes, preceded by their number in 16 bits.
pub const BINARY: u8 = 14;
/// GUID.
pub const GUID: u8 = 15;
/// Number of 32 bits, shown in hexadecimal.
pub const HEX_INT32: u8 = 20;
/// Number of 64 bits, shown in hexadecimal.
pub const HEX_INT64: u8 = 21;
/// Out-type of a truth value (`TlgOutBOOLEAN`).
pub const BOOLEAN: u8 = 13;
/// Out-type of a text in UTF-8 (`TlgOutUTF8`).
pub const UTF8: u8 = 35;
