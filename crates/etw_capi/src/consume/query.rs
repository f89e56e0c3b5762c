//! `QueryTraceProcessingHandle`: what is known of an open trace.

// UNSAFETY: writes into buffers of callers.
#![expect(unsafe_code)]

use std::ffi::c_void;

use etw_consumer::Input;
use etw_etl::{BufferFlags, EtlFile};
use etw_event::Fields;
use etw_kernel_events::ids;
use windows_sys::Win32::System::Diagnostics::Etw::{
    ETW_PROCESS_HANDLE_INFO_TYPE, EtwQueryLastDroppedTimes, EtwQueryLogFileHeader,
    EtwQueryPartitionInformation, TRACE_LOGFILE_HEADER,
};

use super::header;
use super::open::{Open, find, open_file};
use crate::error::{
    ERROR_INSUFFICIENT_BUFFER, ERROR_INVALID_DATA, ERROR_INVALID_HANDLE, ERROR_INVALID_PARAMETER,
    ERROR_NOT_SUPPORTED, ERROR_SUCCESS,
};

/// Bytes of an `ETW_TRACE_PARTITION_INFORMATION`.
const PARTITION: usize = 48;

/// Writes what is known of an open trace: its log file header, its partition (zeros unless it was recorded in a virtual machine or
/// container), or the time of the last event that each processor dropped, in raw ticks. `length` gets the size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn QueryTraceProcessingHandle(
    trace: u64,
    class: ETW_PROCESS_HANDLE_INFO_TYPE,
    _in_buffer: *const c_void,
    _in_size: u32,
    out: *mut c_void,
    out_size: u32,
    length: *mut u32,
) -> u32 {
    if length.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    let Some(open) = find(trace) else { return ERROR_INVALID_HANDLE };
    let found = match class {
        EtwQueryPartitionInformation => partition(&open),
        EtwQueryLastDroppedTimes => last_dropped_times(&open),
        EtwQueryLogFileHeader => {
            let Some(header) = open.header.get() else { return ERROR_INVALID_DATA };
            // SAFETY: the caller promises a number, and a buffer of this size or null.
            return unsafe {
                length.write_unaligned(size_of::<TRACE_LOGFILE_HEADER>() as u32);
                if out.is_null() || (out_size as usize) < size_of::<TRACE_LOGFILE_HEADER>() {
                    return ERROR_INSUFFICIENT_BUFFER;
                }
                out.cast::<TRACE_LOGFILE_HEADER>().write_unaligned(header::log_file_header(header));
                ERROR_SUCCESS
            };
        }
        // `EtwQueryPartitionInformationV2` and others.
        _ => Err(ERROR_NOT_SUPPORTED),
    };
    let found = match found {
        Ok(found) => found,
        Err(code) => return code,
    };
    // SAFETY: the caller promises a number, and a buffer of this size or null.
    unsafe {
        length.write_unaligned(found.len() as u32);
        if out.is_null() || (out_size as usize) < found.len() {
            return ERROR_INSUFFICIENT_BUFFER;
        }
        out.cast::<u8>().copy_from_nonoverlapping(found.as_ptr(), found.len());
    }
    ERROR_SUCCESS
}

/// Returns the file of a trace; that of a session or stream cannot be read before its events.
fn input(open: &Open) -> Result<Input, u32> {
    let path = open.logfile.path().ok_or(ERROR_NOT_SUPPORTED)?;
    open_file(path)
}

/// Returns an `ETW_TRACE_PARTITION_INFORMATION` of the event that has it, in the first buffer of the file.
fn partition(open: &Open) -> Result<Vec<u8>, u32> {
    let mut found = vec![0; PARTITION];
    // A session of this system is the host's.
    if open.logfile.is_live() {
        return Ok(found);
    }
    let input = input(open)?;
    let file = EtlFile::open(input.bytes()).map_err(|_| ERROR_INVALID_DATA)?;
    let first = file.buffers().find_map(Result::ok).ok_or(ERROR_INVALID_DATA)?;
    let (origin, mut scratch) = (first.origin(file.clock(), 0), Vec::new());
    let data = first.data(&mut scratch);
    for record in etw_etl::Records::new(data.bytes, &origin, first.place()).filter_map(Result::ok) {
        if record.hook_id() != Some(ids::EventTrace::PARTITION_INFO_EXTENSION.hook_id())
            || record.descriptor().version != 0
        {
            continue;
        }
        // Version and reserved, type, offset, two ids.
        let payload = record.payload();
        if let (Some(kind), Some(offset), Some(ids)) =
            (payload.u32_at(4), payload.i64_at(8), payload.get(16..48))
        {
            found[..32].copy_from_slice(ids);
            found[32..40].copy_from_slice(&offset.to_le_bytes());
            found[40..44].copy_from_slice(&kind.to_le_bytes());
        }
    }
    Ok(found)
}

/// Returns the number of processors and, for each, the time of the last buffer before which events were dropped.
fn last_dropped_times(open: &Open) -> Result<Vec<u8>, u32> {
    let input = input(open)?;
    let file = EtlFile::open(input.bytes()).map_err(|_| ERROR_INVALID_DATA)?;
    // A buffer has 16 bits for its processor.
    let processors = file.header().number_of_processors.min(1 << 16);
    let mut times = vec![0i64; processors as usize];
    for buffer in file.buffers().filter_map(Result::ok) {
        if buffer.header.buffer_flag.contains(BufferFlags::EVENTS_LOST)
            && let Some(time) = times.get_mut(usize::from(buffer.header.processor()))
        {
            *time = buffer.header.time_stamp.0.max(*time);
        }
    }
    // A number, and the times on a multiple of their size.
    let mut found = u64::try_from(times.len()).unwrap_or(0).to_le_bytes().to_vec();
    found.extend(times.iter().flat_map(|time| time.to_le_bytes()));
    Ok(found)
}
