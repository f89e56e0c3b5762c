//! `EVENT_TRACE_PROPERTIES`: what a session is, and how it is doing.

// UNSAFETY: reads and writes structures of callers, with texts behind them.
#![expect(unsafe_code)]

use etw_controller::{LogFileMode, SessionClock, SessionProperties, SessionStatus, SessionUpdate};
use etw_event::classes::SYSTEM_TRACE;
use windows_sys::Win32::System::Diagnostics::Etw::EVENT_TRACE_PROPERTIES;

use super::connection::handle_of;
use super::information::interval_to_start;
use crate::error::{ERROR_BAD_LENGTH, ERROR_BAD_PATHNAME, ERROR_INVALID_PARAMETER, ERROR_MORE_DATA};
use crate::guest::{name_of, path_of};
use crate::guid;
use crate::wide::Width;

/// The only session that may have the GUID of the system's events (`KERNEL_LOGGER_NAME`).
const KERNEL_LOGGER: &str = "NT Kernel Logger";
/// Bytes of the structure before its texts.
const SIZE: usize = size_of::<EVENT_TRACE_PROPERTIES>();

/// A structure of a caller, whose `Wnode.BufferSize` has been checked.
pub(super) struct Place {
    pointer: *mut EVENT_TRACE_PROPERTIES,
    size: usize,
    width: Width,
}

impl Place {
    /// Checks the structure.
    ///
    /// # Errors
    ///
    /// Fails with an error code if it is null, too small, or has texts outside of it.
    ///
    /// # Safety
    ///
    /// The pointer is null, or to as many bytes as `Wnode.BufferSize` says.
    pub(super) unsafe fn new(pointer: *mut EVENT_TRACE_PROPERTIES, width: Width) -> Result<Place, u32> {
        if pointer.is_null() {
            return Err(ERROR_INVALID_PARAMETER);
        }
        // SAFETY: the size is the first member.
        let size = unsafe { (&raw const (*pointer).Wnode.BufferSize).read_unaligned() } as usize;
        if size < SIZE {
            return Err(ERROR_BAD_LENGTH);
        }
        let place = Place { pointer, size, width };
        let properties = place.get();
        let is_inside = |offset: u32| offset == 0 || (SIZE..size).contains(&(offset as usize));
        if !is_inside(properties.LogFileNameOffset) || !is_inside(properties.LoggerNameOffset) {
            return Err(ERROR_INVALID_PARAMETER);
        }
        Ok(place)
    }

    fn get(&self) -> EVENT_TRACE_PROPERTIES {
        // SAFETY: `new` checked the size.
        unsafe { self.pointer.read_unaligned() }
    }

    /// Returns the text at an offset; `None` if the offset is 0.
    fn text(&self, offset: u32) -> Option<String> {
        let offset = offset as usize;
        if offset == 0 {
            return None;
        }
        // SAFETY: `new` checked that the offset is within the structure; bytes need no alignment.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.pointer.cast::<u8>().add(offset), self.size.checked_sub(offset)?)
        };
        // The text may have no zero, so it is copied with one.
        let mut copy = bytes.to_vec();
        copy.truncate(bytes.len() / self.width.bytes() * self.width.bytes());
        copy.extend([0; 4]);
        // SAFETY: the copy ends with a zero.
        unsafe { self.width.read(copy.as_ptr().cast()) }
    }

    /// Returns the name of the file, if the structure has one.
    pub(super) fn file(&self) -> Option<String> {
        self.text(self.get().LogFileNameOffset).filter(|name| !name.is_empty())
    }

    /// Returns the mode.
    pub(super) fn mode(&self) -> LogFileMode {
        LogFileMode(self.get().LogFileMode)
    }

    /// Returns the properties of a session to start.
    ///
    /// # Errors
    ///
    /// Fails with an error code if a value is invalid, the name does not fit where it is to be copied, or the mode needs
    /// a file and none is named.
    pub(super) fn to_start(&self, name: &str) -> Result<SessionProperties, u32> {
        let given = self.get();
        let room = self.size.saturating_sub(given.LoggerNameOffset as usize);
        if given.LoggerNameOffset != 0 && self.width.encode(name).len() > room {
            return Err(ERROR_BAD_LENGTH);
        }
        if guid::from(&given.Wnode.Guid) == SYSTEM_TRACE && name != KERNEL_LOGGER {
            return Err(ERROR_INVALID_PARAMETER);
        }
        // SAFETY: both members of the union are the same number.
        let flush_threshold = unsafe { given.Anonymous.FlushThreshold };
        let mut mode = LogFileMode(given.LogFileMode);
        // The timer is in seconds, unless this bit is set.
        let in_millis = mode.0 & MS_FLUSH_TIMER != 0;
        mode.0 &= !MS_FLUSH_TIMER;
        let in_memory = LogFileMode::REAL_TIME | LogFileMode::BUFFERING | LogFileMode::DELAY_OPEN;
        if self.file().is_none() && !mode.intersects(in_memory) {
            return Err(ERROR_BAD_PATHNAME);
        }
        Ok(SessionProperties {
            logger_name: name.to_owned(),
            guid: guid::from(&given.Wnode.Guid),
            buffer_size: match given.BufferSize {
                0 => 64,
                // Programs ask for less and more than the documentation allows, and get what there is.
                kib => kib.clamp(4, 16384),
            },
            minimum_buffers: given.MinimumBuffers,
            maximum_buffers: given.MaximumBuffers,
            maximum_file_size: given.MaximumFileSize,
            log_file_mode: mode,
            flush_timer_millis: given.FlushTimer.saturating_mul(if in_millis { 1 } else { 1000 }),
            flush_threshold: flush_threshold.max(0) as u32,
            clock: match given.Wnode.ClientContext {
                0 | 1 => SessionClock::Qpc,
                2 => SessionClock::SystemTime,
                3 => SessionClock::CpuCycle,
                _ => return Err(ERROR_INVALID_PARAMETER),
            },
            enable_flags: given.EnableFlags,
            log_file_name: self.file().map(absolute).unwrap_or_default(),
            sample_interval: if given.EnableFlags == 0 { 0 } else { interval_to_start() },
            ..SessionProperties::default()
        })
    }

    /// Returns the changes of a session: as on Windows, the members that can be changed and are not 0.
    pub(super) fn to_update(&self) -> SessionUpdate {
        let given = self.get();
        let not_zero = |value: u32| (value != 0).then_some(value);
        let is_real_time = LogFileMode(given.LogFileMode).contains(LogFileMode::REAL_TIME);
        SessionUpdate {
            maximum_buffers: not_zero(given.MaximumBuffers),
            flush_timer_millis: not_zero(given.FlushTimer.saturating_mul(1000)),
            log_file_name: self.file().map(absolute),
            real_time: is_real_time.then_some(true),
            enable_flags: not_zero(given.EnableFlags),
            ..SessionUpdate::default()
        }
    }

    /// Writes the status of a session.
    ///
    /// # Errors
    ///
    /// `ERROR_MORE_DATA` if a name does not fit; everything else is written then.
    pub(super) fn put(&self, status: &SessionStatus) -> Result<(), u32> {
        let mut given = self.get();
        let properties = &status.properties;
        let clamp = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        given.Wnode.Guid = guid::windows_guid(properties.guid);
        given.Wnode.Anonymous1.HistoricalContext = handle_of(status);
        given.Wnode.ClientContext = properties.clock as u32;
        given.BufferSize = properties.buffer_size;
        given.MinimumBuffers = properties.minimum_buffers;
        given.MaximumBuffers = properties.maximum_buffers;
        given.MaximumFileSize = properties.maximum_file_size;
        given.LogFileMode = properties.log_file_mode.0;
        given.FlushTimer = properties.flush_timer_millis.div_ceil(1000);
        given.EnableFlags = properties.enable_flags;
        given.Anonymous.FlushThreshold = properties.flush_threshold as i32;
        given.NumberOfBuffers = status.number_of_buffers;
        given.FreeBuffers = status.free_buffers;
        given.EventsLost = clamp(status.events_lost);
        given.BuffersWritten = clamp(status.buffers_written);
        given.LogBuffersLost = clamp(status.log_buffers_lost);
        given.RealTimeBuffersLost = clamp(status.real_time_buffers_lost);
        given.LoggerThreadId = status.logger_thread_id as usize as *mut _;
        // SAFETY: `new` checked the size.
        unsafe { self.pointer.write_unaligned(given) };
        let name = self.put_text(given.LoggerNameOffset, given.LogFileNameOffset, &properties.logger_name);
        let file = self.put_text(
            given.LogFileNameOffset,
            given.LoggerNameOffset,
            &name_of(&properties.log_file_name),
        );
        if name && file { Ok(()) } else { Err(ERROR_MORE_DATA) }
    }

    /// Writes a text at an offset, up to the other text if that comes later. Returns whether it fits.
    fn put_text(&self, offset: u32, other: u32, text: &str) -> bool {
        if offset == 0 {
            return true;
        }
        let end = if other > offset { other as usize } else { self.size };
        let encoded = self.width.encode(text);
        let fits = encoded.len() <= end - offset as usize;
        if fits {
            // SAFETY: `new` checked that the offset is within the structure, and the text ends within it.
            unsafe {
                let place = self.pointer.cast::<u8>().add(offset as usize);
                place.copy_from_nonoverlapping(encoded.as_ptr(), encoded.len());
            }
        }
        fits
    }
}

/// `EVENT_TRACE_USE_MS_FLUSH_TIMER`.
const MS_FLUSH_TIMER: u32 = 0x10;

/// A host has another working directory.
fn absolute(path: String) -> String {
    let path = path_of(path);
    std::path::absolute(&path).map_or(path, |absolute| absolute.to_string_lossy().into_owned())
}
