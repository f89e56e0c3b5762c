//! The functions of the DLL, and their list.

// UNSAFETY: functions of C, which get pointers of callers.
#![expect(unsafe_code)]

use std::ffi::c_void;

use windows_sys::Win32::Foundation::{FILETIME, HANDLE};
use windows_sys::Win32::System::Diagnostics::Etw::{
    ENABLE_TRACE_PARAMETERS, ETW_BUFFER_HEADER, EVENT_DESCRIPTOR, EVENT_FILTER_DESCRIPTOR,
    EVENT_INSTANCE_HEADER, EVENT_INSTANCE_INFO, EVENT_MAP_INFO, EVENT_RECORD, EVENT_TRACE_HEADER,
    EVENT_TRACE_PROPERTIES, PAYLOAD_FILTER_PREDICATE, PEVENT_CALLBACK, PROPERTY_DATA_DESCRIPTOR,
    PROVIDER_ENUMERATION_INFO, PROVIDER_EVENT_INFO, PROVIDER_FIELD_INFOARRAY, TDH_CONTEXT, TRACE_EVENT_INFO,
    TRACE_GUID_PROPERTIES,
};
use windows_sys::core::GUID;

use crate::arguments::{Argument, NO_ACCESS, has, has_room, is_record};
use crate::{decoding, messages, relogger, special};

/// A function of the DLL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Export {
    /// The name, with a zero.
    pub(crate) name: &'static str,
    pub(crate) function: Function,
}

/// The address of a function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function(pub(crate) *const ());

// SAFETY: code does not change.
unsafe impl Sync for Function {}

macro_rules! export {
    ($name:ident: $($path:tt)+) => {
        Export { name: concat!(stringify!($name), "\0"), function: Function($($path)+::$name as *const ()) }
    };
}

/// Functions that check their arguments and call those of `etw_capi`. A condition checks what a pointer alone does not say.
macro_rules! functions {
    ($(
        $name:ident($($argument:ident: $type:ty),* $(,)?) -> u32 $(if $condition:expr)?;
    )*) => {
        mod plain {
            use super::*;

            $(
                #[allow(unused_unsafe, reason = "some functions take no pointers")]
                pub(super) unsafe extern "win64" fn $name($($argument: $type),*) -> u32 {
                    if [$(Argument::is_readable($argument)),*].contains(&false) $(|| !$condition)? {
                        return NO_ACCESS;
                    }
                    // SAFETY: the caller's promises are those of this function.
                    unsafe { etw_capi::$name($($argument),*) }
                }
            )*
        }

        const PLAIN: &[Export] = &[$(export!($name: plain)),*];
    };
}

functions! {
    EventSetInformation(handle: u64, class: i32, information: *const c_void, size: u32) -> u32
        if has(information, size);
    EventActivityIdControl(code: u32, id: *mut GUID) -> u32;
    EventAccessControl(guid: *const GUID, operation: i32, sid: *const c_void, rights: u32, allow: u8) -> u32
        if has(sid, 8);
    EventAccessQuery(guid: *const GUID, descriptor: *mut c_void, size: *mut u32) -> u32
        if has_room(descriptor, size);
    EventAccessRemove(guid: *const GUID) -> u32;
    TraceEvent(handle: u64, header: *const EVENT_TRACE_HEADER) -> u32;
    TraceEventInstance(
        handle: u64,
        header: *const EVENT_INSTANCE_HEADER,
        instance: *const EVENT_INSTANCE_INFO,
        parent: *const EVENT_INSTANCE_INFO,
    ) -> u32;
    CreateTraceInstanceId(class: HANDLE, instance: *mut EVENT_INSTANCE_INFO) -> u32;
    EnableTraceEx2(
        session: u64,
        provider: *const GUID,
        code: u32,
        level: u8,
        any: u64,
        all: u64,
        timeout: u32,
        parameters: *const ENABLE_TRACE_PARAMETERS,
    ) -> u32;
    EnableTraceEx(
        provider: *const GUID,
        source: *const GUID,
        session: u64,
        is_enabled: u32,
        level: u8,
        any: u64,
        all: u64,
        property: u32,
        filter: *const EVENT_FILTER_DESCRIPTOR,
    ) -> u32;
    EnableTrace(is_enabled: u32, flags: u32, level: u32, provider: *const GUID, session: u64) -> u32;
    EnumerateTraceGuids(properties: *mut *mut TRACE_GUID_PROPERTIES, room: u32, count: *mut u32) -> u32;
    EnumerateTraceGuidsEx(
        class: i32,
        input: *const c_void,
        input_size: u32,
        output: *mut c_void,
        output_size: u32,
        length: *mut u32,
    ) -> u32 if has(input, input_size) && has(output, output_size);
    TraceSetInformation(session: u64, class: i32, information: *const c_void, size: u32) -> u32
        if has(information, size);
    TraceQueryInformation(session: u64, class: i32, information: *mut c_void, size: u32, length: *mut u32) -> u32
        if has(information, size);
    QueryAllTracesW(properties: *mut *mut EVENT_TRACE_PROPERTIES, room: u32, count: *mut u32) -> u32;
    QueryAllTracesA(properties: *mut *mut EVENT_TRACE_PROPERTIES, room: u32, count: *mut u32) -> u32;
    SetTraceCallback(class: *const GUID, callback: PEVENT_CALLBACK) -> u32;
    RemoveTraceCallback(class: *const GUID) -> u32;
    CloseTrace(handle: u64) -> u32;
    ProcessTrace(handles: *const u64, count: u32, start: *const FILETIME, end: *const FILETIME) -> u32
        if has(handles, count.saturating_mul(8));
    TdhOpenDecodingHandle(handle: *mut *mut c_void) -> u32;
    TdhGetEventInformation(
        event: *const EVENT_RECORD,
        contexts: u32,
        context: *const TDH_CONTEXT,
        buffer: *mut TRACE_EVENT_INFO,
        size: *mut u32,
    ) -> u32 if is_record(event) && has_room(buffer, size);
    TdhGetManifestEventInformation(
        provider: *const GUID,
        descriptor: *const EVENT_DESCRIPTOR,
        buffer: *mut TRACE_EVENT_INFO,
        size: *mut u32,
    ) -> u32 if has_room(buffer, size);
    TdhEnumerateManifestProviderEvents(
        provider: *const GUID,
        buffer: *mut PROVIDER_EVENT_INFO,
        size: *mut u32,
    ) -> u32 if has_room(buffer, size);
    TdhFormatProperty(
        event: *const TRACE_EVENT_INFO,
        map: *const EVENT_MAP_INFO,
        pointer_size: u32,
        in_type: u16,
        out_type: u16,
        length: u16,
        data_size: u16,
        data: *const u8,
        size: *mut u32,
        buffer: *mut u16,
        consumed: *mut u16,
    ) -> u32 if has(data, data_size.into()) && has_room(buffer, size);
    TdhGetEventMapInformation(
        event: *const EVENT_RECORD,
        name: *const u16,
        buffer: *mut EVENT_MAP_INFO,
        size: *mut u32,
    ) -> u32 if is_record(event) && has_room(buffer, size);
    TdhCreatePayloadFilter(
        provider: *const GUID,
        event: *const EVENT_DESCRIPTOR,
        match_any: u8,
        count: u32,
        predicates: *const PAYLOAD_FILTER_PREDICATE,
        filter: *mut *mut c_void,
    ) -> u32;
    TdhDeletePayloadFilter(filter: *mut *mut c_void) -> u32;
    TdhAggregatePayloadFilters(
        count: u32,
        filters: *const *const c_void,
        match_all: *const u8,
        descriptor: *mut EVENT_FILTER_DESCRIPTOR,
    ) -> u32;
    TdhCleanupPayloadEventFilterDescriptor(descriptor: *mut EVENT_FILTER_DESCRIPTOR) -> u32;
    TdhGetPropertySize(
        event: *const EVENT_RECORD,
        contexts: u32,
        context: *const TDH_CONTEXT,
        count: u32,
        path: *const PROPERTY_DATA_DESCRIPTOR,
        size: *mut u32,
    ) -> u32 if is_record(event);
    TdhGetProperty(
        event: *const EVENT_RECORD,
        contexts: u32,
        context: *const TDH_CONTEXT,
        count: u32,
        path: *const PROPERTY_DATA_DESCRIPTOR,
        size: u32,
        buffer: *mut u8,
    ) -> u32 if is_record(event) && has(buffer, size);
    TdhEnumerateProviders(buffer: *mut PROVIDER_ENUMERATION_INFO, size: *mut u32) -> u32
        if has_room(buffer, size);
    TdhEnumerateProvidersForDecodingSource(
        kind: i32,
        buffer: *mut PROVIDER_ENUMERATION_INFO,
        size: u32,
        needed: *mut u32,
    ) -> u32 if has(buffer, size);
    TdhEnumerateProviderFieldInformation(
        provider: *const GUID,
        kind: i32,
        buffer: *mut PROVIDER_FIELD_INFOARRAY,
        size: *mut u32,
    ) -> u32 if has_room(buffer, size);
    TdhQueryProviderFieldInformation(
        provider: *const GUID,
        value: u64,
        kind: i32,
        buffer: *mut PROVIDER_FIELD_INFOARRAY,
        size: *mut u32,
    ) -> u32 if has_room(buffer, size);
    TdhGetAllEventsInformation(
        event: *const EVENT_RECORD,
        service: *const c_void,
        index: *mut u32,
        count: *mut u32,
        buffer: *mut *mut TRACE_EVENT_INFO,
        size: *mut u32,
    ) -> u32 if is_record(event) && has_room(buffer, size);
    QueryTraceProcessingHandle(
        trace: u64,
        class: i32,
        in_buffer: *const c_void,
        in_size: u32,
        out: *mut c_void,
        out_size: u32,
        length: *mut u32,
    ) -> u32 if has(out, out_size);
    ProcessTraceAddBufferToBufferStream(trace: u64, buffer: *const ETW_BUFFER_HEADER, size: u32) -> u32
        if has(buffer, size);
    ProcessTraceBufferIncrementReference(trace: u64, buffer: *const ETW_BUFFER_HEADER) -> u32;
    ProcessTraceBufferDecrementReference(buffer: *const ETW_BUFFER_HEADER) -> u32;
    TdhLoadManifest(path: *const u16) -> u32;
    TdhLoadManifestFromBinary(path: *const u16) -> u32;
    TdhLoadManifestFromMemory(data: *const c_void, size: u32) -> u32 if has(data, size);
    TdhUnloadManifest(path: *const u16) -> u32;
}

/// Functions that do something besides: see `special`, `decoding`, `messages` and `relogger`.
const SPECIAL: &[Export] = &[
    export!(EventRegister: special),
    export!(EventUnregister: special),
    export!(EventEnabled: special),
    export!(EventProviderEnabled: special),
    export!(EventWrite: special),
    export!(EventWriteTransfer: special),
    export!(EventWriteEx: special),
    export!(EventWriteString: special),
    export!(RegisterTraceGuidsW: special),
    export!(RegisterTraceGuidsA: special),
    export!(UnregisterTraceGuids: special),
    export!(GetTraceLoggerHandle: special),
    export!(GetTraceEnableLevel: special),
    export!(GetTraceEnableFlags: special),
    export!(StartTraceW: special),
    export!(StartTraceA: special),
    export!(ControlTraceW: special),
    export!(ControlTraceA: special),
    export!(StopTraceW: special),
    export!(StopTraceA: special),
    export!(QueryTraceW: special),
    export!(QueryTraceA: special),
    export!(UpdateTraceW: special),
    export!(UpdateTraceA: special),
    export!(FlushTraceW: special),
    export!(FlushTraceA: special),
    export!(OpenTraceW: special),
    export!(OpenTraceA: special),
    export!(OpenTraceFromFile: special),
    export!(OpenTraceFromRealTimeLogger: special),
    export!(OpenTraceFromRealTimeLoggerWithAllocationOptions: special),
    export!(OpenTraceFromBufferStream: special),
    export!(CveEventWrite: special),
    export!(TdhCloseDecodingHandle: decoding),
    export!(TdhGetDecodingParameter: decoding),
    export!(TdhGetPropertyOffsetAndSize: decoding),
    export!(TdhGetWppMessage: decoding),
    export!(TdhGetWppProperty: decoding),
    export!(TdhSetDecodingParameter: decoding),
    export!(TdhUnloadManifestFromMemory: decoding),
    export!(TraceMessage: messages),
    export!(TraceMessageVa: messages),
    export!(DllCanUnloadNow: relogger),
    export!(DllGetClassObject: relogger),
];

const COUNT: usize = PLAIN.len() + SPECIAL.len();

/// All functions of the DLL.
pub(crate) static EXPORTS: [Export; COUNT] = {
    let mut all = [PLAIN[0]; COUNT];
    let mut index = 0;
    while index < COUNT {
        all[index] = if index < PLAIN.len() { PLAIN[index] } else { SPECIAL[index - PLAIN.len()] };
        index += 1;
    }
    all
};
