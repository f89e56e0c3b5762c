//! The functions that `etw_win32.dll` has, by the DLL that has them on Windows.

/// DLLs of Windows with functions of ETW. Wine looks for those of the names `api-ms-win-eventing-…` (*API sets*) in them too.
pub(super) const DLLS: [&str; 4] = ["advapi32", "kernelbase", "sechost", "tdh"];

/// Functions of `advapi32.dll` and `sechost.dll`.
const ETW: &[&str] = &[
    "CloseTrace",
    "ControlTraceA",
    "ControlTraceW",
    "CreateTraceInstanceId",
    "CveEventWrite",
    "EnableTrace",
    "EnableTraceEx",
    "EnableTraceEx2",
    "EnumerateTraceGuids",
    "EnumerateTraceGuidsEx",
    "EventAccessControl",
    "EventAccessQuery",
    "EventAccessRemove",
    "EventActivityIdControl",
    "EventEnabled",
    "EventProviderEnabled",
    "EventRegister",
    "EventSetInformation",
    "EventUnregister",
    "EventWrite",
    "EventWriteEx",
    "EventWriteString",
    "EventWriteTransfer",
    "FlushTraceA",
    "FlushTraceW",
    "GetTraceEnableFlags",
    "GetTraceEnableLevel",
    "GetTraceLoggerHandle",
    "OpenTraceA",
    "OpenTraceW",
    "ProcessTrace",
    "QueryAllTracesA",
    "QueryAllTracesW",
    "QueryTraceA",
    "QueryTraceProcessingHandle",
    "QueryTraceW",
    "RegisterTraceGuidsA",
    "RegisterTraceGuidsW",
    "RemoveTraceCallback",
    "SetTraceCallback",
    "StartTraceA",
    "StartTraceW",
    "StopTraceA",
    "StopTraceW",
    "TraceEvent",
    "TraceEventInstance",
    "TraceMessage",
    "TraceMessageVa",
    "TraceQueryInformation",
    "TraceSetInformation",
    "UnregisterTraceGuids",
    "UpdateTraceA",
    "UpdateTraceW",
];

/// Functions of `kernelbase.dll`.
const KERNELBASE: &[&str] = &[
    "EventActivityIdControl",
    "EventEnabled",
    "EventProviderEnabled",
    "EventRegister",
    "EventSetInformation",
    "EventUnregister",
    "EventWrite",
    "EventWriteEx",
    "EventWriteString",
    "EventWriteTransfer",
    "GetTraceEnableFlags",
    "GetTraceEnableLevel",
    "GetTraceLoggerHandle",
    "RegisterTraceGuidsW",
    "TraceEvent",
    "TraceMessage",
    "TraceMessageVa",
    "UnregisterTraceGuids",
];

/// Functions of `sechost.dll` only.
const SECHOST: &[&str] = &[
    "OpenTraceFromBufferStream",
    "OpenTraceFromFile",
    "OpenTraceFromRealTimeLogger",
    "OpenTraceFromRealTimeLoggerWithAllocationOptions",
    "ProcessTraceAddBufferToBufferStream",
    "ProcessTraceBufferDecrementReference",
    "ProcessTraceBufferIncrementReference",
];

/// Functions of `tdh.dll`.
const TDH: &[&str] = &[
    "TdhAggregatePayloadFilters",
    "TdhCleanupPayloadEventFilterDescriptor",
    "TdhCloseDecodingHandle",
    "TdhCreatePayloadFilter",
    "TdhDeletePayloadFilter",
    "TdhEnumerateManifestProviderEvents",
    "TdhEnumerateProviderFieldInformation",
    "TdhEnumerateProviders",
    "TdhEnumerateProvidersForDecodingSource",
    "TdhFormatProperty",
    "TdhGetAllEventsInformation",
    "TdhGetDecodingParameter",
    "TdhGetEventInformation",
    "TdhGetEventMapInformation",
    "TdhGetManifestEventInformation",
    "TdhGetProperty",
    "TdhGetPropertyOffsetAndSize",
    "TdhGetPropertySize",
    "TdhGetWppMessage",
    "TdhGetWppProperty",
    "TdhLoadManifest",
    "TdhLoadManifestFromBinary",
    "TdhLoadManifestFromMemory",
    "TdhOpenDecodingHandle",
    "TdhQueryProviderFieldInformation",
    "TdhSetDecodingParameter",
    "TdhUnloadManifest",
    "TdhUnloadManifestFromMemory",
];

/// Iterates over the functions of ETW that a DLL of Windows has here, such as `advapi32`.
pub(super) fn functions_of(dll: &str) -> impl Iterator<Item = &'static str> {
    let (first, second): (&[&str], &[&str]) = match dll {
        "advapi32" => (ETW, &[]),
        "kernelbase" => (KERNELBASE, &[]),
        "sechost" => (ETW, SECHOST),
        "tdh" => (TDH, &[]),
        _ => (&[], &[]),
    };
    first.iter().chain(second).copied()
}
