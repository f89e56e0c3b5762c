//! The providers that processes have registered, and the sessions that have enabled them (`EnumerateTraceGuidsEx`).

// UNSAFETY: calls a function of ETW.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::ptr;

use etw_event::Guid;
use windows_sys::Win32::Foundation::ERROR_INSUFFICIENT_BUFFER;
use windows_sys::Win32::System::Diagnostics::Etw::{
    EnumerateTraceGuidsEx, TRACE_QUERY_INFO_CLASS, TraceGuidQueryInfo, TraceGuidQueryList,
};

use super::check;

/// Attempts while the answer grows.
const ATTEMPTS: usize = 8;
/// Size of `TRACE_GUID_INFO`, of `TRACE_PROVIDER_INSTANCE_INFO` and of `TRACE_ENABLE_INFO`.
const INFO_BYTES: usize = 8;
const INSTANCE_BYTES: usize = 16;
const ENABLE_BYTES: usize = 32;

/// A registration of a provider by a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// The process; 0 for a driver.
    pub pid: u32,
    /// The sessions that have enabled it.
    pub enables: Vec<Enabled>,
}

/// How a session has enabled a provider (`TRACE_ENABLE_INFO`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enabled {
    /// Maximum level.
    pub level: u8,
    /// Number of the session.
    pub logger_id: u16,
    /// `EVENT_ENABLE_PROPERTY_*`.
    pub properties: u32,
    /// Keywords of which an event must have one.
    pub any: u64,
    /// Keywords that an event must have.
    pub all: u64,
}

/// Returns the GUIDs of all registered providers.
///
/// # Errors
///
/// Returns the error of Windows.
pub fn providers() -> io::Result<Vec<Guid>> {
    let bytes = query(TraceGuidQueryList, &[])?;
    Ok(bytes.as_chunks().0.iter().map(|bytes| Guid::from_bytes(*bytes)).collect())
}

/// Returns the registrations of a provider.
///
/// # Errors
///
/// Returns the error of Windows.
pub fn instances(provider: &Guid) -> io::Result<Vec<Instance>> {
    let bytes = query(TraceGuidQueryInfo, &provider.to_bytes())?;
    Ok(parse(&bytes))
}

fn query(class: TRACE_QUERY_INFO_CLASS, input: &[u8]) -> io::Result<Vec<u8>> {
    let mut out: Vec<u8> = vec![0; 0x4000];
    for _ in 0..ATTEMPTS {
        let mut needed = 0;
        let start: *const c_void = if input.is_empty() { ptr::null() } else { input.as_ptr().cast() };
        // SAFETY: both buffers are as large as said.
        let code = unsafe {
            EnumerateTraceGuidsEx(
                class,
                start,
                input.len() as u32,
                out.as_mut_ptr().cast(),
                out.len() as u32,
                &raw mut needed,
            )
        };
        if code != ERROR_INSUFFICIENT_BUFFER {
            check(code)?;
            out.truncate(needed as usize);
            return Ok(out);
        }
        // Others may register meanwhile.
        out.resize((needed as usize).max(out.len()) + 0x1000, 0);
    }
    check(ERROR_INSUFFICIENT_BUFFER).map(|()| Vec::new())
}

/// Reads `TRACE_GUID_INFO` and what follows it.
fn parse(bytes: &[u8]) -> Vec<Instance> {
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..)?.first_chunk().map(|four: &[u8; 4]| u32::from_le_bytes(*four))
    };
    let long = |bytes: &[u8], at: usize| {
        bytes.get(at..)?.first_chunk().map(|eight: &[u8; 8]| u64::from_le_bytes(*eight))
    };
    let mut instances = Vec::new();
    let count = word(bytes, 0).unwrap_or(0);
    let mut rest = bytes.get(INFO_BYTES..).unwrap_or_default();
    for _ in 0..count {
        let [Some(next), Some(enables), Some(pid)] = [0, 4, 8].map(|at| word(rest, at)) else { break };
        let of_sessions = rest.get(INSTANCE_BYTES..).unwrap_or_default().chunks_exact(ENABLE_BYTES);
        let enables = of_sessions.take(enables as usize).filter_map(|enable| {
            // Whether it is enabled, level, a reserved byte and the session's number.
            if word(enable, 0)? == 0 {
                return None;
            }
            Some(Enabled {
                level: *enable.get(4)?,
                logger_id: (word(enable, 4)? >> 16) as u16,
                properties: word(enable, 8)?,
                any: long(enable, 16)?,
                all: long(enable, 24)?,
            })
        });
        instances.push(Instance { pid, enables: enables.collect() });
        match rest.get(next as usize..) {
            Some(others) if next != 0 => rest = others,
            _ => break,
        }
    }
    instances
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_read_within_their_bytes() {
        let mut bytes = Vec::new();
        let words = |bytes: &mut Vec<u8>, words: &[u32]| {
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        };
        words(&mut bytes, &[2, 0, 48, 1, 4711, 0]);
        words(&mut bytes, &[1, 7 << 16 | 4, 0x10, 0, 0xF0, 0, 0x30, 0]);
        words(&mut bytes, &[0, 0, 8, 0]);
        let enabled = Enabled { level: 4, logger_id: 7, properties: 0x10, any: 0xF0, all: 0x30 };
        let expected =
            [Instance { pid: 4711, enables: vec![enabled] }, Instance { pid: 8, enables: Vec::new() }];
        assert_eq!(parse(&bytes), expected);
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end]).len() <= 2);
        }
        bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(parse(&bytes).len(), 1);
    }
}
