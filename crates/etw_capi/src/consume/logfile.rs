//! `EVENT_TRACE_LOGFILE`: what a program wants to read, and how.

// UNSAFETY: reads and writes the structure of a caller.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::path::{Path, PathBuf};

use etw_consumer::{InputLimits, Trace, TraceBuilder};
use etw_etl::LogFileHeader;
use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_TRACE_LOGFILEW, EVENT_TRACE_REAL_TIME_MODE, PEVENT_CALLBACK, PEVENT_RECORD_CALLBACK,
    PROCESS_TRACE_MODE_EVENT_RECORD, PROCESS_TRACE_MODE_RAW_TIMESTAMP,
};

use super::clock::RawClock;
use super::raw_buffers::BufferCallback;
use super::{current, header};
use crate::error::{ERROR_BAD_PATHNAME, ERROR_INVALID_PARAMETER};
use crate::guest::path_of;
use crate::schemas::schemas;
use crate::wide::Width;

/// What `OpenTrace` was given.
#[derive(Debug, Clone)]
pub(super) struct Logfile {
    pub(super) source: Source,
    pub(super) mode: u32,
    pub(super) callback: EventCallback,
    /// `PEVENT_TRACE_BUFFER_CALLBACK`.
    pub(super) buffer_callback: Option<unsafe extern "system" fn(*mut EVENT_TRACE_LOGFILEW) -> u32>,
    /// `PETW_BUFFER_CALLBACK`.
    pub(super) raw_buffers: Option<BufferCallback>,
    /// The context, as an address.
    pub(super) context: usize,
    /// The name as the program wrote it, for buffer callbacks.
    pub(super) name: Vec<u8>,
}

#[derive(Debug, Clone)]
pub(super) enum Source {
    File(PathBuf),
    Session(String),
    /// Buffers that the program brings.
    Stream,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum EventCallback {
    None,
    Record(unsafe extern "system" fn(*mut windows_sys::Win32::System::Diagnostics::Etw::EVENT_RECORD)),
    Trace(unsafe extern "system" fn(*mut windows_sys::Win32::System::Diagnostics::Etw::EVENT_TRACE)),
}

impl Logfile {
    /// Reads a structure of either form, which differ in their texts only.
    ///
    /// # Errors
    ///
    /// Fails with an error code if the structure contradicts itself.
    ///
    /// # Safety
    ///
    /// The structure's texts are null, or end with a zero.
    pub(super) unsafe fn read(logfile: &EVENT_TRACE_LOGFILEW, width: Width) -> Result<Logfile, u32> {
        // SAFETY: every value of the union is one of its member.
        let mode = unsafe { logfile.Anonymous1.ProcessTraceMode };
        let is_live = mode & EVENT_TRACE_REAL_TIME_MODE != 0;
        let text = if is_live { logfile.LoggerName } else { logfile.LogFileName };
        // SAFETY: the caller's promise.
        let name = unsafe { width.read(text.cast_const().cast()) }.ok_or(ERROR_INVALID_PARAMETER)?;
        if name.is_empty() {
            return Err(if is_live { ERROR_INVALID_PARAMETER } else { ERROR_BAD_PATHNAME });
        }
        // SAFETY: the members of the union are pointers to functions or null.
        let (record, classic): (PEVENT_RECORD_CALLBACK, PEVENT_CALLBACK) =
            unsafe { (logfile.Anonymous2.EventRecordCallback, logfile.Anonymous2.EventCallback) };
        let callback = match (mode & PROCESS_TRACE_MODE_EVENT_RECORD != 0, record, classic) {
            (true, Some(record), _) => EventCallback::Record(record),
            (false, _, Some(classic)) => EventCallback::Trace(classic),
            _ => EventCallback::None,
        };
        Ok(Logfile {
            name: width.encode(&name),
            source: if is_live { Source::Session(name) } else { Source::File(path_of(name).into()) },
            mode,
            callback,
            buffer_callback: logfile.BufferCallback,
            raw_buffers: None,
            context: logfile.Context.addr(),
        })
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.source, Source::Session(_))
    }

    /// Returns the path of a file.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::File(path) => Some(path),
            Source::Session(_) | Source::Stream => None,
        }
    }

    pub(super) fn is_raw(&self) -> bool {
        self.mode & PROCESS_TRACE_MODE_RAW_TIMESTAMP != 0
    }

    pub(super) fn context(&self) -> *mut c_void {
        self.context as *mut c_void
    }

    /// Adds the source to a trace.
    pub(super) fn add_to(&self, builder: TraceBuilder) -> TraceBuilder {
        match &self.source {
            Source::File(path) => builder.file(path),
            Source::Session(name) if self.raw_buffers.is_some() => {
                builder.session(name).on_buffer(|_, buffer| current::buffer(buffer))
            }
            Source::Session(name) => builder.session(name),
            Source::Stream => builder,
        }
    }

    /// Returns a trace without sources, that decodes with the schemas that TDH has.
    pub(super) fn builder() -> TraceBuilder {
        // Programs may change the payloads that they get.
        let limits = InputLimits { is_writable: true, ..InputLimits::default() };
        Trace::builder().schemas(&schemas()).limits(limits)
    }

    /// Writes what is known of an open trace into the program's structure.
    pub(super) fn describe(&self, logfile: &mut EVENT_TRACE_LOGFILEW, of: &LogFileHeader, is_kernel: bool) {
        logfile.CurrentTime = of.start_time.0;
        logfile.BuffersRead = 0;
        logfile.LogfileHeader = header::log_file_header(of);
        if let Some(frequency) = RawClock::from_header(of, self.is_live()).frequency() {
            logfile.LogfileHeader.PerfFreq = frequency;
        }
        logfile.BufferSize = of.buffer_size;
        logfile.Filled = 0;
        logfile.EventsLost = of.events_lost;
        logfile.IsKernelTrace = is_kernel.into();
    }

    /// Returns the structure for buffer callbacks. Its name points into this.
    pub(super) fn for_callbacks(&mut self, of: &LogFileHeader, is_kernel: bool) -> EVENT_TRACE_LOGFILEW {
        // SAFETY: zeros are valid for all members.
        let mut logfile: EVENT_TRACE_LOGFILEW = unsafe { std::mem::zeroed() };
        let name = self.name.as_mut_ptr().cast();
        match self.source {
            Source::File(_) => logfile.LogFileName = name,
            Source::Session(_) => logfile.LoggerName = name,
            Source::Stream => {}
        }
        logfile.Anonymous1.ProcessTraceMode = self.mode;
        logfile.BufferCallback = self.buffer_callback;
        logfile.Context = self.context();
        self.describe(&mut logfile, of, is_kernel);
        logfile
    }
}
