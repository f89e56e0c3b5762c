//! `EVENT_TRACE_PROPERTIES` and the two names that follow it.

// UNSAFETY: makes a structure of C, for which zeros are valid, and reads its unions.
#![expect(unsafe_code)]

use std::io;
use std::mem::{offset_of, size_of};

use etw_event::Guid;
use windows_sys::Win32::System::Diagnostics::Etw::{EVENT_TRACE_PROPERTIES, WNODE_FLAG_TRACED_GUID};

use super::text::{put, text_of};
use super::{guid_of, windows_guid};

/// Maximum length of the names in characters, with their zeros.
const MAX_NAME: usize = 1024;

/// Properties and counts of a session. Fields have the names of `evntrace.h`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Properties {
    /// `Wnode.Guid`.
    pub guid: Guid,
    /// Handle of the session (`Wnode.HistoricalContext`); 0 before it is started.
    pub handle: u64,
    /// Clock of the time stamps: 1 performance counter, 2 system time, 3 cycle counter (`Wnode.ClientContext`).
    pub client_context: u32,
    /// Size of a buffer in KiB.
    pub buffer_size: u32,
    /// Minimum number of buffers.
    pub minimum_buffers: u32,
    /// Maximum number of buffers.
    pub maximum_buffers: u32,
    /// Maximum size of the file in MiB, or in KiB, as the mode says.
    pub maximum_file_size: u32,
    /// `EVENT_TRACE_*_MODE`.
    pub log_file_mode: u32,
    /// Seconds after which buffers are flushed, or milliseconds, as the mode says.
    pub flush_timer: u32,
    /// `EVENT_TRACE_FLAG_*`.
    pub enable_flags: u32,
    /// Number of full buffers that are written together.
    pub flush_threshold: u32,
    /// Number of buffers.
    pub number_of_buffers: u32,
    /// Number of free buffers.
    pub free_buffers: u32,
    /// Number of lost events.
    pub events_lost: u32,
    /// Number of buffers written.
    pub buffers_written: u32,
    /// Number of buffers that could not be written to the file.
    pub log_buffers_lost: u32,
    /// Number of buffers that no consumer got.
    pub real_time_buffers_lost: u32,
    /// Thread that writes the buffers.
    pub logger_thread_id: u32,
    /// Name of the session.
    pub logger_name: String,
    /// The file; empty for none.
    pub log_file_name: String,
}

/// The structure with room for its names.
#[repr(C)]
pub(super) struct Block {
    pub(super) properties: EVENT_TRACE_PROPERTIES,
    logger_name: [u16; MAX_NAME],
    log_file_name: [u16; MAX_NAME],
}

impl Block {
    /// Returns a structure without values, for results.
    pub(super) fn empty() -> Box<Block> {
        let mut block = Box::new(Block {
            // SAFETY: zeros are valid in all members, pointers included.
            properties: unsafe { std::mem::zeroed() },
            logger_name: [0; MAX_NAME],
            log_file_name: [0; MAX_NAME],
        });
        let properties = &mut block.properties;
        properties.Wnode.BufferSize = size_of::<Block>() as u32;
        properties.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
        properties.LoggerNameOffset = offset_of!(Block, logger_name) as u32;
        properties.LogFileNameOffset = offset_of!(Block, log_file_name) as u32;
        block
    }

    /// Returns the structure of these properties.
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` if a name is too long or contains a zero.
    pub(super) fn new(values: &Properties) -> io::Result<Box<Block>> {
        let mut block = Block::empty();
        put(&mut block.logger_name, &values.logger_name)?;
        put(&mut block.log_file_name, &values.log_file_name)?;
        let properties = &mut block.properties;
        properties.Wnode.Guid = windows_guid(&values.guid);
        properties.Wnode.Anonymous1.HistoricalContext = values.handle;
        properties.Wnode.ClientContext = values.client_context;
        properties.BufferSize = values.buffer_size;
        properties.MinimumBuffers = values.minimum_buffers;
        properties.MaximumBuffers = values.maximum_buffers;
        properties.MaximumFileSize = values.maximum_file_size;
        properties.LogFileMode = values.log_file_mode;
        properties.FlushTimer = values.flush_timer;
        properties.EnableFlags = values.enable_flags;
        properties.Anonymous.FlushThreshold = values.flush_threshold.cast_signed();
        if values.log_file_name.is_empty() {
            // An offset of a file would mean that there is one.
            properties.LogFileNameOffset = 0;
        }
        Ok(block)
    }

    /// Returns the values.
    pub(super) fn values(&self) -> Properties {
        let properties = &self.properties;
        // SAFETY: both members of each union are plain integers of the same bytes.
        let (handle, threshold) =
            unsafe { (properties.Wnode.Anonymous1.HistoricalContext, properties.Anonymous.FlushThreshold) };
        Properties {
            guid: guid_of(&properties.Wnode.Guid),
            handle,
            client_context: properties.Wnode.ClientContext,
            buffer_size: properties.BufferSize,
            minimum_buffers: properties.MinimumBuffers,
            maximum_buffers: properties.MaximumBuffers,
            maximum_file_size: properties.MaximumFileSize,
            log_file_mode: properties.LogFileMode,
            flush_timer: properties.FlushTimer,
            enable_flags: properties.EnableFlags,
            flush_threshold: threshold.max(0).cast_unsigned(),
            number_of_buffers: properties.NumberOfBuffers,
            free_buffers: properties.FreeBuffers,
            events_lost: properties.EventsLost,
            buffers_written: properties.BuffersWritten,
            log_buffers_lost: properties.LogBuffersLost,
            real_time_buffers_lost: properties.RealTimeBuffersLost,
            // An id in a member of the type of a handle.
            logger_thread_id: properties.LoggerThreadId.addr() as u32,
            logger_name: text_of(&self.logger_name),
            log_file_name: text_of(&self.log_file_name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let values = Properties {
            guid: Guid::from_bytes([7; 16]),
            handle: 9,
            buffer_size: 64,
            flush_threshold: 3,
            logger_name: "Sitzung ü".to_owned(),
            log_file_name: "C:\\t.etl".to_owned(),
            ..Properties::default()
        };
        assert_eq!(Block::new(&values).unwrap().values(), values);
        let long = Properties { logger_name: "x".repeat(MAX_NAME), ..Properties::default() };
        assert!(Block::new(&long).is_err());
        let zero = Properties { logger_name: "x\0".to_owned(), ..Properties::default() };
        assert!(Block::new(&zero).is_err());
    }
}
