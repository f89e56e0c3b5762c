//! Buffers as `PETW_BUFFER_CALLBACK` gets them: whole, with their headers, and counted by reference.

// UNSAFETY: calls callbacks of C.
#![expect(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use etw_consumer::Input;
use etw_etl::{BufferFlags, BufferHeader, EtlFile, LogFileHeader};
use etw_event::FileTime;
use etw_sys::{bytes_of, bytes_of_mut};
use windows_sys::Win32::System::Diagnostics::Etw::{
    ETW_BUFFER_CALLBACK_INFORMATION, ETW_BUFFER_HEADER, TRACE_LOGFILE_HEADER,
};

use super::header;
use super::open::{find, open_file};
use crate::error::{ERROR_INVALID_HANDLE, ERROR_INVALID_PARAMETER, ERROR_SUCCESS};
use crate::guest::guest;

type Function = unsafe extern "system" fn(
    *const ETW_BUFFER_HEADER,
    u32,
    *const ETW_BUFFER_CALLBACK_INFORMATION,
    *const c_void,
) -> i32;

/// The callback of a trace for its buffers.
#[derive(Debug, Clone, Copy)]
pub(super) struct BufferCallback {
    pub(super) function: Function,
    /// The context, as an address.
    pub(super) context: usize,
}

/// The buffers that programs have references to, by their addresses.
static KEPT: LazyLock<Mutex<HashMap<usize, Kept>>> = LazyLock::new(Mutex::default);
/// Notified when a buffer is let go.
static LET_GO: Condvar = Condvar::new();

/// A buffer with a reference.
struct Kept {
    /// The buffer, which is not read here again.
    _words: Vec<u64>,
    trace: u64,
    references: u32,
}

fn kept() -> MutexGuard<'static, HashMap<usize, Kept>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a buffer of a trace beyond its callback. `ProcessTrace` does not return before it is let go.
#[unsafe(no_mangle)]
pub extern "C" fn ProcessTraceBufferIncrementReference(trace: u64, buffer: *const ETW_BUFFER_HEADER) -> u32 {
    if find(trace).is_none() {
        return ERROR_INVALID_HANDLE;
    }
    match kept().get_mut(&buffer.addr()) {
        Some(kept) if kept.trace == trace => {
            kept.references = kept.references.saturating_add(1);
            ERROR_SUCCESS
        }
        _ => ERROR_INVALID_PARAMETER,
    }
}

/// Lets a buffer go that [`ProcessTraceBufferIncrementReference`] kept.
#[unsafe(no_mangle)]
pub extern "C" fn ProcessTraceBufferDecrementReference(buffer: *const ETW_BUFFER_HEADER) -> u32 {
    let mut kept = kept();
    let Some(one) = kept.get_mut(&buffer.addr()) else { return ERROR_INVALID_PARAMETER };
    one.references -= 1;
    if one.references == 0 {
        kept.remove(&buffer.addr());
        LET_GO.notify_all();
    }
    ERROR_SUCCESS
}

/// Waits until the program has let go all buffers of a trace.
fn wait_for_references(trace: u64) {
    let mut kept = kept();
    while kept.values().any(|kept| kept.trace == trace) {
        kept = LET_GO.wait(kept).unwrap_or_else(PoisonError::into_inner);
    }
}

/// The delivery of the buffers of one trace.
pub(super) struct RawBuffers {
    callback: BufferCallback,
    trace: u64,
    header: Box<TRACE_LOGFILE_HEADER>,
    read: u32,
    /// The file; `None` for a session.
    file: Option<Input>,
    /// The buffers of the file that are left: when each ends, and its offset. In the order in which they were flushed, as those
    /// of a session come.
    left: VecDeque<(FileTime, u64)>,
}

impl RawBuffers {
    /// Returns the delivery of the buffers of a trace, that of a file if it has a path. A file of another format than `.etl` has
    /// none. Fails if the file cannot be opened.
    pub(super) fn new(
        callback: BufferCallback,
        trace: u64,
        header: &LogFileHeader,
        path: Option<&std::path::Path>,
    ) -> Result<RawBuffers, u32> {
        let file = path.map(open_file).transpose()?;
        let mut left = Vec::new();
        if let Some(file) = file.as_ref().and_then(|input| EtlFile::open(input.bytes()).ok()) {
            let buffers = file.buffers().filter_map(Result::ok);
            left.extend(
                buffers.map(|buffer| (file.clock().to_filetime(buffer.header.time_stamp), buffer.offset)),
            );
            // The first one has the log file header.
            if let Some((first, others)) = left.split_first_mut() {
                first.0 = FileTime(i64::MIN);
                others.sort_by_key(|(end, _)| *end);
            }
        }
        let header = Box::new(header::log_file_header(header));
        Ok(RawBuffers { callback, trace, header, read: 0, file, left: left.into() })
    }

    /// Delivers the buffers of a file that end before a time. Returns false if the callback wants no more.
    #[inline]
    pub(super) fn deliver_before(&mut self, time: FileTime) -> bool {
        self.left.front().is_none_or(|(end, _)| *end >= time) || self.deliver_of_file(time)
    }

    /// Delivers the buffers of a file that are left, and waits for what the program keeps. Returns false as above.
    pub(super) fn finish(&mut self) -> bool {
        let goes_on = self.deliver_of_file(FileTime(i64::MAX));
        wait_for_references(self.trace);
        goes_on
    }

    /// Delivers nothing more, and waits for what the program keeps.
    pub(super) fn cancel(&mut self) {
        self.left.clear();
        wait_for_references(self.trace);
    }

    #[cold]
    fn deliver_of_file(&mut self, time: FileTime) -> bool {
        let Some(input) = self.file.take() else { return true };
        let goes_on = EtlFile::open(input.bytes()).is_ok_and(|file| self.deliver_of(&file, time));
        self.file = Some(input);
        goes_on
    }

    fn deliver_of(&mut self, file: &EtlFile<'_>, time: FileTime) -> bool {
        let mut scratch = Vec::new();
        while let Some((end, at)) = self.left.front().copied()
            && end < time
        {
            self.left.pop_front();
            let Some(buffer) = file.buffer_at(at) else { continue };
            let events = buffer.data(&mut scratch).bytes;
            let used = (BufferHeader::LEN_BYTES + events.len()) as u32;
            let mut header = buffer.header;
            header.buffer_flag.0 &= !BufferFlags::COMPRESSED.0;
            (header.offset, header.saved_offset) = (used, used);
            header.buffer_size = header.buffer_size.max(used);
            if !self.deliver(&[&header.to_bytes(), events], header.buffer_size as usize) {
                return false;
            }
        }
        true
    }

    /// Delivers a buffer that consists of parts, and of zeros up to its size. Returns false if the callback wants no more.
    pub(super) fn deliver(&mut self, parts: &[&[u8]], size: usize) -> bool {
        let mut words = vec![0u64; size.div_ceil(8)];
        let mut rest = bytes_of_mut(&mut words);
        for part in parts {
            let Some((room, behind)) = rest.split_at_mut_checked(part.len()) else { break };
            room.copy_from_slice(part);
            rest = behind;
        }
        let buffer = bytes_of(&words).as_ptr();
        kept().insert(buffer.addr(), Kept { _words: words, trace: self.trace, references: 1 });
        self.read = self.read.wrapping_add(1);
        let information = ETW_BUFFER_CALLBACK_INFORMATION {
            TraceHandle: self.trace,
            LogfileHeader: &raw const *self.header,
            BuffersRead: self.read,
        };
        let BufferCallback { function, context } = self.callback;
        let information = &raw const information;
        // SAFETY: the program gave this function for buffers, and this one lives as long as a reference to it.
        let result = unsafe {
            match guest() {
                None => function(buffer.cast(), size as u32, information, context as *const c_void),
                Some(guest) => {
                    let arguments =
                        [buffer.addr() as u64, size as u64, information.addr() as u64, context as u64];
                    guest.call(function as *const c_void, &arguments) as i32
                }
            }
        };
        ProcessTraceBufferDecrementReference(buffer.cast());
        result != 0
    }
}
