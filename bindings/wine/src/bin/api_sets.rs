//! A program that reaches ETW through API sets, as those linked with `OneCore.lib` and `WindowsApp.lib` do: it records its
//! own events in a file, and reads that.

use std::ffi::c_void;
use std::mem::{offset_of, size_of, zeroed};
use std::ptr::{null, null_mut};

use windows_sys::Win32::System::Diagnostics::Etw::{
    CONTROLTRACE_HANDLE, ENABLE_TRACE_PARAMETERS, EVENT_CONTROL_CODE_ENABLE_PROVIDER, EVENT_DATA_DESCRIPTOR,
    EVENT_DATA_DESCRIPTOR_0, EVENT_DESCRIPTOR, EVENT_RECORD, EVENT_TRACE_CONTROL_STOP,
    EVENT_TRACE_FILE_MODE_SEQUENTIAL, EVENT_TRACE_LOGFILEW, EVENT_TRACE_PROPERTIES, PENABLECALLBACK,
    PROCESS_TRACE_MODE_EVENT_RECORD, PROCESSTRACE_HANDLE, REGHANDLE, TDH_CONTEXT, TRACE_EVENT_INFO,
    WNODE_FLAG_TRACED_GUID,
};
use windows_sys::core::GUID;

#[link(name = "api-ms-win-eventing-provider-l1-1-0", kind = "raw-dylib")]
unsafe extern "system" {
    fn EventRegister(
        id: *const GUID,
        callback: PENABLECALLBACK,
        context: *const c_void,
        handle: *mut REGHANDLE,
    ) -> u32;
    fn EventUnregister(handle: REGHANDLE) -> u32;
    fn EventProviderEnabled(handle: REGHANDLE, level: u8, keyword: u64) -> u8;
    fn EventWriteTransfer(
        handle: REGHANDLE,
        descriptor: *const EVENT_DESCRIPTOR,
        activity: *const GUID,
        related: *const GUID,
        count: u32,
        data: *const EVENT_DATA_DESCRIPTOR,
    ) -> u32;
}

#[link(name = "api-ms-win-eventing-controller-l1-1-0", kind = "raw-dylib")]
unsafe extern "system" {
    fn StartTraceW(
        handle: *mut CONTROLTRACE_HANDLE,
        name: *const u16,
        properties: *mut EVENT_TRACE_PROPERTIES,
    ) -> u32;
    fn ControlTraceW(
        handle: CONTROLTRACE_HANDLE,
        name: *const u16,
        properties: *mut EVENT_TRACE_PROPERTIES,
        code: u32,
    ) -> u32;
    fn EnableTraceEx2(
        handle: CONTROLTRACE_HANDLE,
        provider: *const GUID,
        code: u32,
        level: u8,
        any: u64,
        all: u64,
        timeout: u32,
        parameters: *const ENABLE_TRACE_PARAMETERS,
    ) -> u32;
}

#[link(name = "api-ms-win-eventing-consumer-l1-1-0", kind = "raw-dylib")]
unsafe extern "system" {
    fn OpenTraceW(logfile: *mut EVENT_TRACE_LOGFILEW) -> PROCESSTRACE_HANDLE;
    fn ProcessTrace(
        handles: *const PROCESSTRACE_HANDLE,
        count: u32,
        start: *const c_void,
        end: *const c_void,
    ) -> u32;
    fn CloseTrace(handle: PROCESSTRACE_HANDLE) -> u32;
}

#[link(name = "api-ms-win-eventing-tdh-l1-1-0", kind = "raw-dylib")]
unsafe extern "system" {
    fn TdhGetEventInformation(
        event: *const EVENT_RECORD,
        contexts: u32,
        context: *const TDH_CONTEXT,
        buffer: *mut TRACE_EVENT_INFO,
        size: *mut u32,
    ) -> u32;
}

#[link(name = "api-ms-win-eventing-classicprovider-l1-1-0", kind = "raw-dylib")]
unsafe extern "system" {
    fn GetTraceEnableLevel(handle: u64) -> u8;
}

#[link(name = "api-ms-win-eventing-legacy-l1-1-0", kind = "raw-dylib")]
unsafe extern "system" {
    fn FlushTraceW(
        handle: CONTROLTRACE_HANDLE,
        name: *const u16,
        properties: *mut EVENT_TRACE_PROPERTIES,
    ) -> u32;
}

const PROVIDER: GUID = GUID::from_u128(0x7f0e3a5c_0c0d_4a3e_9b8a_1b2c3d4e5f61);
const COUNT: u64 = 100;

#[repr(C)]
struct Properties {
    fixed: EVENT_TRACE_PROPERTIES,
    name: [u16; 64],
    file: [u16; 512],
}

fn main() {
    let file: Vec<u16> = std::env::args().nth(1).expect("a file").encode_utf16().chain([0]).collect();
    let name: Vec<u16> = "OpenETW.Wine.ApiSets\0".encode_utf16().collect();
    // SAFETY: zeros are valid for all members, the pointers are valid, and texts end with a zero.
    unsafe {
        let mut properties: Properties = zeroed();
        properties.fixed.Wnode.BufferSize = size_of::<Properties>() as u32;
        properties.fixed.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
        properties.fixed.LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL;
        properties.fixed.LoggerNameOffset = offset_of!(Properties, name) as u32;
        properties.fixed.LogFileNameOffset = offset_of!(Properties, file) as u32;
        properties.file[..file.len()].copy_from_slice(&file);
        let (mut session, mut provider) = (CONTROLTRACE_HANDLE::default(), 0);
        succeed("EventRegister", EventRegister(&PROVIDER, None, null(), &mut provider));
        assert_eq!(EventProviderEnabled(provider, 4, 1), 0);
        succeed("StartTraceW", StartTraceW(&mut session, name.as_ptr(), (&raw mut properties).cast()));
        let code = EVENT_CONTROL_CODE_ENABLE_PROVIDER;
        succeed("EnableTraceEx2", EnableTraceEx2(session, &PROVIDER, code, 4, 1, 0, 1000, null()));
        assert_eq!(EventProviderEnabled(provider, 4, 1), 1);
        let descriptor =
            EVENT_DESCRIPTOR { Id: 1, Version: 0, Channel: 0, Level: 4, Opcode: 0, Task: 0, Keyword: 1 };
        for number in 0..COUNT {
            let data = EVENT_DATA_DESCRIPTOR {
                Ptr: (&raw const number) as u64,
                Size: 8,
                Anonymous: EVENT_DATA_DESCRIPTOR_0 { Reserved: 0 },
            };
            let code = EventWriteTransfer(provider, &descriptor, null(), null(), 1, &data);
            succeed("EventWriteTransfer", code);
        }
        succeed("EventUnregister", EventUnregister(provider));
        assert_eq!(GetTraceEnableLevel(0), 0);
        succeed("FlushTraceW", FlushTraceW(session, null(), (&raw mut properties).cast()));
        let stop = EVENT_TRACE_CONTROL_STOP;
        succeed("ControlTraceW", ControlTraceW(session, null(), (&raw mut properties).cast(), stop));
        read(file);
    }
    println!("done");
}

/// Reads the file, whose events no manifest describes.
unsafe fn read(mut file: Vec<u16>) {
    let mut next = 0u64;
    // SAFETY: as above; the context lives until ProcessTrace returns.
    unsafe {
        let mut logfile: EVENT_TRACE_LOGFILEW = zeroed();
        logfile.LogFileName = file.as_mut_ptr();
        logfile.Anonymous1.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
        logfile.Anonymous2.EventRecordCallback = Some(on_event);
        logfile.Context = (&raw mut next).cast();
        let trace = OpenTraceW(&mut logfile);
        assert!(trace.Value != u64::MAX, "OpenTraceW: {}", std::io::Error::last_os_error());
        succeed("ProcessTrace", ProcessTrace(&trace, 1, null(), null()));
        succeed("CloseTrace", CloseTrace(trace));
    }
    assert_eq!(next, COUNT);
}

unsafe extern "system" fn on_event(event: *mut EVENT_RECORD) {
    const NOT_FOUND: u32 = 1168;
    // SAFETY: the record and its context live until this returns.
    unsafe {
        if (*event).EventHeader.ProviderId.data1 != PROVIDER.data1 {
            return;
        }
        let next = (*event).UserContext.cast::<u64>();
        assert_eq!((*event).UserData.cast::<u64>().read_unaligned(), *next);
        *next += 1;
        let mut size = 0;
        assert_eq!(TdhGetEventInformation(event, 0, null(), null_mut(), &mut size), NOT_FOUND);
    }
}

fn succeed(function: &str, code: u32) {
    assert!(code == 0, "{function} returned {code}");
}
