//! What Windows knows of the providers that are registered on the machine (TDH).

// UNSAFETY: calls functions of TDH, which fill buffers.
#![expect(unsafe_code)]

use std::io;

use etw_event::{EventDescriptor, Guid};
use windows_sys::Win32::Foundation::ERROR_INSUFFICIENT_BUFFER;
use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_DESCRIPTOR, EVENT_RECORD, TdhEnumerateProviders, TdhGetEventMapInformation,
    TdhGetManifestEventInformation,
};

use super::text::{text_of, wide};
use super::{check, windows_guid};
use crate::words::bytes_of;

/// Attempts while the answer grows.
const ATTEMPTS: usize = 8;
/// Largest answer.
const MAX_BYTES: u32 = 64 << 20;

/// A provider that is registered on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredProvider {
    /// The provider.
    pub guid: Guid,
    /// Whether it has a manifest; otherwise a MOF class.
    pub has_manifest: bool,
    /// Its name.
    pub name: String,
}

/// Returns the providers that are registered on the machine.
///
/// # Errors
///
/// Returns the error of Windows.
pub fn providers() -> io::Result<Vec<RegisteredProvider>> {
    // SAFETY: the buffer is as large as said.
    let words = grown(|buffer, size| unsafe { TdhEnumerateProviders(buffer.cast(), size) })?;
    Ok(parse_providers(bytes_of(&words)))
}

/// Returns the description of an event by its provider's manifest (`TRACE_EVENT_INFO`).
///
/// # Errors
///
/// Returns the error of Windows, such as `ERROR_NOT_FOUND` without a manifest or event.
pub fn manifest_event(provider: &Guid, event: &EventDescriptor) -> io::Result<Vec<u64>> {
    let (provider, event) = (windows_guid(provider), descriptor(event));
    // SAFETY: the buffer is as large as said, and the other pointers live until the call returns.
    grown(|buffer, size| unsafe {
        TdhGetManifestEventInformation(&raw const provider, &raw const event, buffer.cast(), size)
    })
}

/// Returns the values of a map of an event's provider (`EVENT_MAP_INFO`).
///
/// # Errors
///
/// Returns the error of Windows.
pub fn map(provider: &Guid, event: &EventDescriptor, name: &str) -> io::Result<Vec<u64>> {
    let name = wide(name)?;
    // SAFETY: zeros are valid in all members.
    let mut record: EVENT_RECORD = unsafe { std::mem::zeroed() };
    record.EventHeader.ProviderId = windows_guid(provider);
    record.EventHeader.EventDescriptor = descriptor(event);
    // SAFETY: the buffer is as large as said, and the other pointers live until the call returns.
    grown(|buffer, size| unsafe {
        TdhGetEventMapInformation(&raw const record, name.as_ptr(), buffer.cast(), size)
    })
}

fn descriptor(event: &EventDescriptor) -> EVENT_DESCRIPTOR {
    let EventDescriptor { id, version, channel, level, opcode, task, keyword } = *event;
    EVENT_DESCRIPTOR {
        Id: id,
        Version: version,
        Channel: channel,
        Level: level.0,
        Opcode: opcode.0,
        Task: task,
        Keyword: keyword.0,
    }
}

/// Calls a function with larger buffers until its answer fits.
fn grown(call: impl Fn(*mut u64, *mut u32) -> u32) -> io::Result<Vec<u64>> {
    let mut words: Vec<u64> = vec![0; 512];
    for _ in 0..ATTEMPTS {
        let mut size = size_of_val(&*words) as u32;
        let code = call(words.as_mut_ptr(), &raw mut size);
        if code != ERROR_INSUFFICIENT_BUFFER || size > MAX_BYTES {
            check(code)?;
            return Ok(words);
        }
        words.resize((size as usize).div_ceil(8).max(words.len()) + 64, 0);
    }
    check(ERROR_INSUFFICIENT_BUFFER).map(|()| Vec::new())
}

/// Reads `PROVIDER_ENUMERATION_INFO`.
fn parse_providers(bytes: &[u8]) -> Vec<RegisteredProvider> {
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|four: &[u8; 4]| u32::from_le_bytes(*four));
    let count = word(0).unwrap_or(0) as usize;
    let one = |index: usize| {
        let at = index.checked_mul(24)?.checked_add(8)?;
        let guid = Guid::from_bytes(*bytes.get(at..)?.first_chunk()?);
        let text = bytes.get(word(at + 20)? as usize..)?;
        let units: Vec<u16> = text
            .as_chunks::<2>()
            .0
            .iter()
            .map(|unit| u16::from_le_bytes(*unit))
            .take_while(|unit| *unit != 0)
            .collect();
        Some(RegisteredProvider { guid, has_manifest: word(at + 16)? == 0, name: text_of(&units) })
    };
    (0..count).map_while(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_read_within_their_bytes() {
        let mut bytes = Vec::new();
        bytes.extend(1u32.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend([7; 16]);
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(32u32.to_le_bytes());
        bytes.extend("Ab\0".encode_utf16().flat_map(u16::to_le_bytes));
        let expected =
            RegisteredProvider { guid: Guid::from_bytes([7; 16]), has_manifest: true, name: "Ab".into() };
        assert_eq!(parse_providers(&bytes), [expected]);
        for end in 0..bytes.len() {
            assert!(parse_providers(&bytes[..end]).len() <= 1);
        }
        bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(parse_providers(&bytes).len(), 1);
    }
}
