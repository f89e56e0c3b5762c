//! The registered providers (`EnumerateTraceGuidsEx`).

// UNSAFETY: reads what callers point to, and writes into their buffers.
#![expect(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::c_void;

use etw_controller::{Controller, ProviderStatus};
use windows_sys::Win32::System::Diagnostics::Etw::{
    TRACE_GUID_PROPERTIES, TraceGroupQueryList, TraceGuidQueryInfo, TraceGuidQueryList, TraceGuidQueryProcess,
};
use windows_sys::core::GUID;

use super::connection::{Hosting, connected};
use super::sessions::code;
use crate::error::{
    ERROR_INSUFFICIENT_BUFFER, ERROR_INVALID_PARAMETER, ERROR_MORE_DATA, ERROR_NOT_SUPPORTED,
    ERROR_WMI_INSTANCE_NOT_FOUND,
};
use crate::guest::{guest_process_of, process_of};
use crate::guid;

/// `ERROR_WMI_GUID_NOT_FOUND`.
const GUID_NOT_FOUND: u32 = 4200;

/// Writes the GUIDs of all registered providers (`TraceGuidQueryList`), of those of a process (`TraceGuidQueryProcess`, with
/// its id, or without one for the caller's) or of their groups (`TraceGroupQueryList`); or the processes that have registered
/// one and the sessions that have enabled it (`TraceGuidQueryInfo`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EnumerateTraceGuidsEx(
    class: i32,
    input: *const c_void,
    input_size: u32,
    output: *mut c_void,
    output_size: u32,
    length: *mut u32,
) -> u32 {
    let encoded = match class {
        TraceGuidQueryList => registered().map(|providers| list(&providers)),
        TraceGroupQueryList => registered().map(|providers| groups(&providers)),
        TraceGuidQueryProcess => {
            let process = match input_size {
                0 => std::process::id(),
                // SAFETY: the caller promises as many bytes.
                4 if !input.is_null() => process_of(unsafe { input.cast::<u32>().read_unaligned() }),
                _ => return ERROR_INVALID_PARAMETER,
            };
            registered().map(|mut providers| {
                providers.retain(|provider| provider.pids.contains(&process));
                list(&providers)
            })
        }
        TraceGuidQueryInfo => {
            let id = match input_size {
                // SAFETY: the caller promises as many bytes.
                16 => unsafe { guid::read(input.cast::<GUID>()) },
                _ => None,
            };
            let Some(id) = id else { return ERROR_INVALID_PARAMETER };
            registered().and_then(|providers| {
                let found = providers.iter().find(|provider| provider.guid == id);
                found.map(information).ok_or(GUID_NOT_FOUND)
            })
        }
        _ => return ERROR_NOT_SUPPORTED,
    };
    code(encoded.and_then(|bytes| {
        if length.is_null() || (output.is_null() && output_size != 0) {
            return Err(ERROR_INVALID_PARAMETER);
        }
        // SAFETY: the caller's promise.
        unsafe {
            length.write_unaligned(bytes.len() as u32);
            if (output_size as usize) < bytes.len() {
                return Err(ERROR_INSUFFICIENT_BUFFER);
            }
            output.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        Ok(())
    }))
}

/// Writes the registered providers into structures of the caller, with what one of the sessions that enable them has set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EnumerateTraceGuids(
    properties: *mut *mut TRACE_GUID_PROPERTIES,
    room: u32,
    count: *mut u32,
) -> u32 {
    if count.is_null() || (properties.is_null() && room != 0) {
        return ERROR_INVALID_PARAMETER;
    }
    code(registered().and_then(|providers| {
        // SAFETY: the caller promises `room` pointers to structures.
        unsafe {
            count.write_unaligned(providers.len() as u32);
            for (index, provider) in providers.iter().take(room as usize).enumerate() {
                let place = properties.add(index).read_unaligned();
                if place.is_null() {
                    return Err(ERROR_INVALID_PARAMETER);
                }
                let enable = provider.enables.first();
                place.write_unaligned(TRACE_GUID_PROPERTIES {
                    Guid: guid::windows_guid(provider.guid),
                    GuidType: 0,
                    LoggerId: enable.map_or(0, |enable| enable.logger_id.into()),
                    EnableLevel: enable.map_or(0, |enable| enable.level.0.into()),
                    EnableFlags: enable.map_or(0, |enable| enable.any.0 as u32),
                    IsEnable: enable.is_some(),
                });
            }
        }
        if (room as usize) < providers.len() { Err(ERROR_MORE_DATA) } else { Ok(()) }
    }))
}

/// Without a host nothing is registered.
fn registered() -> Result<Vec<ProviderStatus>, u32> {
    match connected(Hosting::Never, Controller::providers) {
        Err(ERROR_WMI_INSTANCE_NOT_FOUND) => Ok(Vec::new()),
        providers => providers,
    }
}

fn list(providers: &[ProviderStatus]) -> Vec<u8> {
    providers.iter().flat_map(|provider| provider.guid.to_bytes()).collect()
}

/// Returns the GUIDs of the providers' groups, each once.
fn groups(providers: &[ProviderStatus]) -> Vec<u8> {
    let groups: BTreeSet<[u8; 16]> = providers
        .iter()
        .filter(|provider| !provider.group.is_zero())
        .map(|one| one.group.to_bytes())
        .collect();
    groups.into_iter().flatten().collect()
}

/// Returns `TRACE_GUID_INFO` with a `TRACE_PROVIDER_INSTANCE_INFO` for each process, and its `TRACE_ENABLE_INFO`.
fn information(provider: &ProviderStatus) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend((provider.pids.len() as u32).to_le_bytes());
    out.extend([0; 4]);
    for (index, pid) in provider.pids.iter().enumerate() {
        let enables: Vec<_> = provider.enables.iter().filter(|enable| enable.pids.contains(pid)).collect();
        let size = 16 + 32 * enables.len() as u32;
        let next = if index + 1 < provider.pids.len() { size } else { 0 };
        for word in [next, enables.len() as u32, guest_process_of(*pid), 0] {
            out.extend(word.to_le_bytes());
        }
        for enable in enables {
            out.extend(1u32.to_le_bytes());
            out.extend([enable.level.0, 0]);
            out.extend(enable.logger_id.to_le_bytes());
            out.extend(enable.properties.0.to_le_bytes());
            out.extend([0; 4]);
            out.extend(enable.any.0.to_le_bytes());
            out.extend(enable.all.0.to_le_bytes());
        }
    }
    out
}
