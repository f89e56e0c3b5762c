//! `TRACE_LOGFILE_HEADER` of an open trace.

// UNSAFETY: makes structures of C, for which zeros are valid.
#![expect(unsafe_code)]

use etw_etl::LogFileHeader;
use windows_sys::Win32::System::Diagnostics::Etw::{
    TRACE_LOGFILE_HEADER, TRACE_LOGFILE_HEADER_0, TRACE_LOGFILE_HEADER_0_0, TRACE_LOGFILE_HEADER_1,
    TRACE_LOGFILE_HEADER_1_0,
};
use windows_sys::Win32::System::Time::TIME_ZONE_INFORMATION;

/// Returns the header as C has it, without names.
pub(super) fn log_file_header(header: &LogFileHeader) -> TRACE_LOGFILE_HEADER {
    let zone = header.time_zone.to_bytes();
    const { assert!(size_of::<TIME_ZONE_INFORMATION>() == 172) };
    // SAFETY: the bytes are those of the structure, all of whose members may have any value.
    let time_zone = unsafe { zone.as_ptr().cast::<TIME_ZONE_INFORMATION>().read_unaligned() };
    TRACE_LOGFILE_HEADER {
        BufferSize: header.buffer_size,
        Anonymous1: TRACE_LOGFILE_HEADER_0 {
            VersionDetail: TRACE_LOGFILE_HEADER_0_0 {
                MajorVersion: header.major_version,
                MinorVersion: header.minor_version,
                SubVersion: header.sub_version,
                SubMinorVersion: header.sub_minor_version,
            },
        },
        ProviderVersion: header.provider_version,
        NumberOfProcessors: header.number_of_processors,
        EndTime: header.end_time.0,
        TimerResolution: header.timer_resolution,
        MaximumFileSize: header.maximum_file_size,
        LogFileMode: header.log_file_mode.0,
        BuffersWritten: header.buffers_written,
        Anonymous2: TRACE_LOGFILE_HEADER_1 {
            Anonymous: TRACE_LOGFILE_HEADER_1_0 {
                StartBuffers: header.start_buffers,
                PointerSize: header.pointer_size,
                EventsLost: header.events_lost,
                CpuSpeedInMHz: header.cpu_speed_in_mhz,
            },
        },
        LoggerName: std::ptr::null_mut(),
        LogFileName: std::ptr::null_mut(),
        TimeZone: time_zone,
        BootTime: header.boot_time.0,
        PerfFreq: header.perf_freq,
        StartTime: header.start_time.0,
        ReservedFlags: header.reserved_flags,
        BuffersLost: header.buffers_lost,
    }
}
