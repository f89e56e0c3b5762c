//! Sizes, offsets and constants of the headers, compared with Microsoft's metadata of Windows (the crate `windows-sys`).

use std::fmt::Write;
use std::fs;
use std::mem::offset_of;

use windows_sys::Win32::Foundation::*;
use windows_sys::Win32::System::Diagnostics::Etw::*;
use windows_sys::Win32::System::Time::*;

use crate::constants::{keywords, numbers};
use crate::support::{Workshop, available};

/// Calls `$check` for each structure and its members.
macro_rules! table {
    ($($name:ident { $($field:ident),* $(,)? })*) => {
        /// Returns the rows: what C is asked, and what is expected.
        fn rows() -> Vec<(String, usize)> {
            let mut rows = Vec::new();
            $(
                rows.push((format!("sizeof({})", stringify!($name)), size_of::<$name>()));
                $(
                    let question = format!("offsetof({}, {})", stringify!($name), stringify!($field));
                    rows.push((question, offset_of!($name, $field)));
                )*
            )*
            rows
        }
    };
}

table! {
    CLASSIC_EVENT_ID { EventGuid, Type, Reserved }
    ENABLE_TRACE_PARAMETERS { Version, EnableProperty, ControlFlags, SourceId, EnableFilterDesc, FilterDescCount }
    ENABLE_TRACE_PARAMETERS_V1 { Version, EnableProperty, ControlFlags, SourceId, EnableFilterDesc }
    ETW_BUFFER_CALLBACK_INFORMATION { TraceHandle, LogfileHeader, BuffersRead }
    ETW_BUFFER_CONTEXT { LoggerId }
    ETW_BUFFER_HEADER { Reserved1, TimeStamp, Reserved2, ClientContext, Reserved3, FilledBytes, Reserved4 }
    ETW_OPEN_TRACE_OPTIONS { ProcessTraceModes, EventCallback, EventCallbackContext, BufferCallback, BufferCallbackContext }
    EVENT_DATA_DESCRIPTOR { Ptr, Size }
    EVENT_DESCRIPTOR { Id, Version, Channel, Level, Opcode, Task, Keyword }
    EVENT_EXTENDED_ITEM_EVENT_KEY { Key }
    EVENT_EXTENDED_ITEM_INSTANCE { InstanceId, ParentInstanceId, ParentGuid }
    EVENT_EXTENDED_ITEM_PEBS_INDEX { PebsIndex }
    EVENT_EXTENDED_ITEM_PMC_COUNTERS { Counter }
    EVENT_EXTENDED_ITEM_PROCESS_START_KEY { ProcessStartKey }
    EVENT_EXTENDED_ITEM_RELATED_ACTIVITYID { RelatedActivityId }
    EVENT_EXTENDED_ITEM_STACK_KEY32 { MatchId, StackKey, Padding }
    EVENT_EXTENDED_ITEM_STACK_KEY64 { MatchId, StackKey }
    EVENT_EXTENDED_ITEM_STACK_TRACE32 { MatchId, Address }
    EVENT_EXTENDED_ITEM_STACK_TRACE64 { MatchId, Address }
    EVENT_EXTENDED_ITEM_TS_ID { SessionId }
    EVENT_FILTER_DESCRIPTOR { Ptr, Size, Type }
    EVENT_FILTER_EVENT_ID { FilterIn, Reserved, Count, Events }
    EVENT_FILTER_EVENT_NAME { MatchAnyKeyword, MatchAllKeyword, Level, FilterIn, NameCount, Names }
    EVENT_FILTER_HEADER { Id, Version, Reserved, InstanceId, Size, NextOffset }
    EVENT_FILTER_LEVEL_KW { MatchAnyKeyword, MatchAllKeyword, Level, FilterIn }
    EVENT_HEADER { Size, HeaderType, Flags, EventProperty, ThreadId, ProcessId, TimeStamp, ProviderId, EventDescriptor, ActivityId }
    EVENT_HEADER_EXTENDED_DATA_ITEM { Reserved1, ExtType, DataSize, DataPtr }
    EVENT_INSTANCE_HEADER { Size, ThreadId, ProcessId, TimeStamp, RegHandle, InstanceId, ParentInstanceId, ParentRegHandle }
    EVENT_INSTANCE_INFO { RegHandle, InstanceId }
    EVENT_MAP_ENTRY { OutputOffset }
    EVENT_MAP_INFO { NameOffset, Flag, EntryCount, MapEntryArray }
    EVENT_PROPERTY_INFO { Flags, NameOffset }
    EVENT_RECORD { EventHeader, BufferContext, ExtendedDataCount, UserDataLength, ExtendedData, UserData, UserContext }
    EVENT_TRACE { Header, InstanceId, ParentInstanceId, ParentGuid, MofData, MofLength }
    EVENT_TRACE_HEADER { Size, ThreadId, ProcessId, TimeStamp }
    EVENT_TRACE_LOGFILEA { LogFileName, LoggerName, CurrentTime, BuffersRead, CurrentEvent, LogfileHeader, BufferCallback, BufferSize, Filled, EventsLost, IsKernelTrace, Context }
    EVENT_TRACE_LOGFILEW { LogFileName, LoggerName, CurrentTime, BuffersRead, CurrentEvent, LogfileHeader, BufferCallback, BufferSize, Filled, EventsLost, IsKernelTrace, Context }
    EVENT_TRACE_PROPERTIES { Wnode, BufferSize, MinimumBuffers, MaximumBuffers, MaximumFileSize, LogFileMode, FlushTimer, EnableFlags, NumberOfBuffers, FreeBuffers, EventsLost, BuffersWritten, LogBuffersLost, RealTimeBuffersLost, LoggerThreadId, LogFileNameOffset, LoggerNameOffset }
    EVENT_TRACE_PROPERTIES_V2 { Wnode, BufferSize, MinimumBuffers, MaximumBuffers, MaximumFileSize, LogFileMode, FlushTimer, EnableFlags, NumberOfBuffers, FreeBuffers, EventsLost, BuffersWritten, LogBuffersLost, RealTimeBuffersLost, LoggerThreadId, LogFileNameOffset, LoggerNameOffset, FilterDescCount, FilterDesc }
    FILETIME { dwLowDateTime, dwHighDateTime }
    MOF_FIELD { DataPtr, Length, DataType }
    PROPERTY_DATA_DESCRIPTOR { PropertyName, ArrayIndex, Reserved }
    PROVIDER_ENUMERATION_INFO { NumberOfProviders, Reserved, TraceProviderInfoArray }
    PROVIDER_EVENT_INFO { NumberOfEvents, Reserved, EventDescriptorsArray }
    PROVIDER_FIELD_INFO { NameOffset, DescriptionOffset, Value }
    PROVIDER_FIELD_INFOARRAY { NumberOfElements, FieldType, FieldInfoArray }
    SYSTEMTIME { wYear, wMonth, wDayOfWeek, wDay, wHour, wMinute, wSecond, wMilliseconds }
    TDH_CONTEXT { ParameterValue, ParameterType, ParameterSize }
    TIME_ZONE_INFORMATION { Bias, StandardName, StandardDate, StandardBias, DaylightName, DaylightDate, DaylightBias }
    TRACE_ENABLE_INFO { IsEnabled, Level, Reserved1, LoggerId, EnableProperty, Reserved2, MatchAnyKeyword, MatchAllKeyword }
    TRACE_EVENT_INFO { ProviderGuid, EventGuid, EventDescriptor, DecodingSource, ProviderNameOffset, LevelNameOffset, ChannelNameOffset, KeywordsNameOffset, TaskNameOffset, OpcodeNameOffset, EventMessageOffset, ProviderMessageOffset, BinaryXMLOffset, BinaryXMLSize, PropertyCount, TopLevelPropertyCount, EventPropertyInfoArray }
    PROFILE_SOURCE_INFO { NextEntryOffset, Source, MinInterval, MaxInterval, Reserved, Description }
    TRACE_GUID_INFO { InstanceCount, Reserved }
    TRACE_GUID_PROPERTIES { Guid, GuidType, LoggerId, EnableLevel, EnableFlags, IsEnable }
    TRACE_GUID_REGISTRATION { Guid, RegHandle }
    TRACE_LOGFILE_HEADER { BufferSize, ProviderVersion, NumberOfProcessors, EndTime, TimerResolution, MaximumFileSize, LogFileMode, BuffersWritten, LoggerName, LogFileName, TimeZone, BootTime, PerfFreq, StartTime, ReservedFlags, BuffersLost }
    TRACE_PERIODIC_CAPTURE_STATE_INFO { CaptureStateFrequencyInSeconds, ProviderCount, Reserved }
    TRACE_PROFILE_INTERVAL { Source, Interval }
    TRACE_PROVIDER_INFO { ProviderGuid, SchemaSource, ProviderNameOffset }
    TRACE_PROVIDER_INSTANCE_INFO { NextOffset, EnableCount, Pid, Flags }
    TRACE_STACK_CACHING_INFO { Enabled, CacheSize, BucketCount }
    TRACE_VERSION_INFO { EtwTraceProcessingVersion, Reserved }
    UNICODE_STRING { Length, MaximumLength, Buffer }
    WNODE_HEADER { BufferSize, ProviderId, Guid, ClientContext, Flags }
}

#[test]
fn structures_are_those_of_windows() {
    let workshop = Workshop::new();
    let (rows, numbers, keywords) = (rows(), numbers(), keywords());
    let mut text = "#include <stddef.h>\n#include <stdio.h>\n#include <tdh.h>\n#include <evntcons.h>\n\
        #include <evntprov.h>\n#include <wmistr.h>\nint main(void) {\n"
        .to_owned();
    for (question, _) in &rows {
        writeln!(text, "  printf(\"{question} = %zu\\n\", (size_t){question});").unwrap();
    }
    for (name, _) in &numbers {
        writeln!(text, "  printf(\"{name} = %u\\n\", (unsigned){name});").unwrap();
    }
    for (name, _) in &keywords {
        writeln!(text, "  printf(\"{name} = %llu\\n\", (unsigned long long){name});").unwrap();
    }
    text.push_str("}\n");
    let source = workshop.path("layout.c");
    fs::write(&source, text).unwrap();
    let mut expected: String =
        rows.iter().map(|(question, number)| format!("{question} = {number}\n")).collect();
    expected.extend(numbers.iter().chain(&keywords).map(|(name, number)| format!("{name} = {number}\n")));
    assert!(rows.len() > 300 && numbers.len() > 500, "{} and {} rows", rows.len(), numbers.len());
    for compiler in available(&[&["gcc"], &["g++", "-x", "c++"], &["clang", "-fshort-wchar"]]) {
        let program = workshop.compile(compiler, &source);
        assert_eq!(workshop.run(&program, &[]), expected, "{compiler:?}");
    }
}
