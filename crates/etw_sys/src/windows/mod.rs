//! What live sessions need from Windows: its own ETW, behind safe functions.
//!
//! Failures are [`std::io::Error`]s whose `raw_os_error` is the Windows code.

pub mod autologger;
pub mod classic;
pub mod console;
pub mod consumer;
pub mod filters;
pub mod ids;
pub mod process;
mod properties;
pub mod provider;
pub mod registered;
pub mod session;
pub mod tdh;
mod text;

use std::io;

use windows_sys::core::GUID;

pub use properties::Properties;

use etw_event::Guid;

/// Returns the failure that a Windows code stands for.
fn check(code: u32) -> io::Result<()> {
    match code {
        0 => Ok(()),
        code => Err(failure(code)),
    }
}

/// Returns a Windows code as an error.
fn failure(code: u32) -> io::Error {
    io::Error::from_raw_os_error(code.cast_signed())
}

/// Returns a GUID as Windows has it.
fn windows_guid(guid: &Guid) -> GUID {
    let [a, b, c, d, e, f, g, h, data4 @ ..] = guid.to_bytes();
    GUID {
        data1: u32::from_le_bytes([a, b, c, d]),
        data2: u16::from_le_bytes([e, f]),
        data3: u16::from_le_bytes([g, h]),
        data4,
    }
}

/// Returns a GUID of Windows.
fn guid_of(guid: &GUID) -> Guid {
    let [a, b, c, d] = guid.data1.to_le_bytes();
    let ([e, f], [g, h]) = (guid.data2.to_le_bytes(), guid.data3.to_le_bytes());
    let [i, j, k, l, m, n, o, p] = guid.data4;
    Guid::from_bytes([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p])
}

/// Returns the GUID that two words of a record are.
fn guid_of_words([low, high]: [u64; 2]) -> GUID {
    let [a, b, c, d, e, f, g, h] = low.to_le_bytes();
    GUID {
        data1: u32::from_le_bytes([a, b, c, d]),
        data2: u16::from_le_bytes([e, f]),
        data3: u16::from_le_bytes([g, h]),
        data4: high.to_le_bytes(),
    }
}

/// Returns a GUID as two words of a record.
fn words_of_guid(guid: &GUID) -> [u64; 2] {
    let low = u64::from(guid.data1) | u64::from(guid.data2) << 32 | u64::from(guid.data3) << 48;
    [low, u64::from_le_bytes(guid.data4)]
}
