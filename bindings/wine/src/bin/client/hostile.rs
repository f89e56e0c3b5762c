//! Calls functions with handles, sizes and pointers that are wrong. Each must return an error code.

use std::ffi::c_void;
use std::mem::zeroed;
use std::ptr::{null, null_mut};

use windows_sys::Win32::Foundation::ERROR_NOACCESS;
use windows_sys::Win32::System::Diagnostics::Etw::*;
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_RELEASE, PAGE_READWRITE, VirtualAlloc, VirtualFree,
};
use windows_sys::core::GUID;

use super::support::{Properties, data, descriptor, expect, succeed, wide};

const PROVIDER: GUID = GUID::from_u128(0x8b0e3a5c_0c0d_4a3e_9b8a_1b2c3d4e5f60);

/// Fails if a function succeeded.
#[track_caller]
fn fails(function: &str, code: u32) {
    assert!(code != 0, "{function} succeeded");
}

/// Returns memory that has been freed.
fn freed() -> *mut c_void {
    // SAFETY: the arguments are those of one page, which is not used any more.
    unsafe {
        let page = VirtualAlloc(null(), 0x1000, MEM_COMMIT, PAGE_READWRITE);
        assert!(VirtualFree(page, 0, MEM_RELEASE) != 0);
        page
    }
}

pub fn run() {
    handles();
    pointers();
    sizes();
    println!("done");
}

fn handles() {
    let mut random = 0x9E37_79B9_7F4A_7C15u64;
    let event = descriptor(1);
    let mut properties = Properties::new(0, Some(""));
    for round in 0..2000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let value = [random, round, round << 32, u64::MAX - round][round as usize % 4];
        let (handle, trace) = (value as i64, PROCESSTRACE_HANDLE { Value: value });
        let session = CONTROLTRACE_HANDLE { Value: random | 1 << 40 };
        // SAFETY: the pointers are valid.
        unsafe {
            expect("EventWrite", EventWrite(handle, &event, 0, null()), 6);
            expect("EventUnregister", EventUnregister(handle), 6);
            assert!(!EventEnabled(handle, &event));
            expect("EventSetInformation", EventSetInformation(handle, 2, (&raw const event).cast(), 16), 6);
            fails("TraceEvent", TraceEvent(value, &zeroed()));
            expect("UnregisterTraceGuids", UnregisterTraceGuids(value), 6);
            if round % 100 == 0 {
                expect("ProcessTrace", ProcessTrace(&trace, 1, null(), null()), 6);
                expect("CloseTrace", CloseTrace(trace), 6);
                fails("ControlTraceW", ControlTraceW(session, null(), properties.pointer(), 0));
                fails("EnableTraceEx2", EnableTraceEx2(session, &PROVIDER, 1, 4, 0, 0, 0, null()));
                fails("TdhCloseDecodingHandle", TdhCloseDecodingHandle(random as isize));
            }
        }
    }
}

fn pointers() {
    let (name, mut session, mut handle) = (wide("OpenETW.Wine.Hostile"), CONTROLTRACE_HANDLE::default(), 0);
    let freed = freed();
    // SAFETY: functions must refuse the pointers that are not valid.
    unsafe {
        expect("EventRegister", EventRegister(freed.cast(), None, null(), &mut handle), ERROR_NOACCESS);
        expect("EventRegister", EventRegister(&PROVIDER, None, null(), freed.cast()), ERROR_NOACCESS);
        succeed("EventRegister", EventRegister(&PROVIDER, None, null(), &mut handle));
        let mut properties = Properties::new(EVENT_TRACE_REAL_TIME_MODE, None);
        let start = StartTraceW(&mut session, name.as_ptr(), freed.cast());
        expect("StartTraceW", start, ERROR_NOACCESS);
        fails("StartTraceW", StartTraceW(null_mut(), name.as_ptr(), properties.pointer()));
        fails("StartTraceW", StartTraceW(&mut session, null(), properties.pointer()));
        succeed("StartTraceW", StartTraceW(&mut session, name.as_ptr(), properties.pointer()));
        succeed("EnableTraceEx2", EnableTraceEx2(session, &PROVIDER, 1, 5, 0, 0, 1000, null()));
        let parameters = EnableTraceEx2(session, &PROVIDER, 1, 5, 0, 0, 0, freed.cast());
        expect("EnableTraceEx2", parameters, ERROR_NOACCESS);
        let event = descriptor(1);
        expect("EventWrite", EventWrite(handle, &event, 1, freed.cast()), ERROR_NOACCESS);
        let mut bad = data(&0u64);
        bad.Ptr = freed as u64;
        expect("EventWrite", EventWrite(handle, &event, 1, &bad), ERROR_NOACCESS);
        bad.Ptr = u64::MAX - 3;
        expect("EventWrite", EventWrite(handle, &event, 1, &bad), ERROR_NOACCESS);
        fails("EventWrite", EventWrite(handle, &event, u32::MAX, &bad));
        expect("EventWriteString", EventWriteString(handle, 4, 1, freed.cast()), ERROR_NOACCESS);
        // What is right still works.
        succeed("EventWrite", EventWrite(handle, &event, 1, &data(&1u64)));
        assert_eq!(OpenTraceW(freed.cast()).Value, u64::MAX);
        assert_eq!(OpenTraceW(null_mut()).Value, u64::MAX);
        let code = ControlTraceW(session, null(), freed.cast(), EVENT_TRACE_CONTROL_QUERY);
        expect("ControlTraceW", code, ERROR_NOACCESS);
        let mut size = 0;
        fails("TdhGetEventInformation", TdhGetEventInformation(null(), 0, null(), null_mut(), &mut size));
        let event_info = TdhGetEventInformation(freed.cast(), 0, null(), null_mut(), &mut size);
        expect("TdhGetEventInformation", event_info, ERROR_NOACCESS);
        succeed("EventUnregister", EventUnregister(handle));
        expect("EventWrite", EventWrite(handle, &event, 0, null()), 6);
        let code = ControlTraceW(session, null(), properties.pointer(), EVENT_TRACE_CONTROL_STOP);
        succeed("ControlTraceW", code);
    }
}

fn sizes() {
    let (name, mut session) = (wide("OpenETW.Wine.Sizes"), CONTROLTRACE_HANDLE::default());
    // SAFETY: functions must refuse the sizes that are wrong.
    unsafe {
        for size in [0, 1, 47, 119] {
            let mut properties = Properties::new(EVENT_TRACE_REAL_TIME_MODE, None);
            properties.fixed.Wnode.BufferSize = size;
            expect("StartTraceW", StartTraceW(&mut session, name.as_ptr(), properties.pointer()), 24);
        }
        // The end is in memory that the process does not have.
        let mut properties = Properties::new(EVENT_TRACE_REAL_TIME_MODE, None);
        properties.fixed.Wnode.BufferSize = u32::MAX;
        fails("StartTraceW", StartTraceW(&mut session, name.as_ptr(), properties.pointer()));
        for offset in [1, 119, u32::MAX, u32::MAX - 1] {
            let mut properties = Properties::new(EVENT_TRACE_REAL_TIME_MODE, None);
            properties.fixed.LoggerNameOffset = offset;
            fails("StartTraceW", StartTraceW(&mut session, name.as_ptr(), properties.pointer()));
        }
        let mut length = 0;
        fails(
            "EnumerateTraceGuidsEx",
            EnumerateTraceGuidsEx(TraceGuidQueryInfo, null(), 3, null_mut(), 0, &mut length),
        );
        fails(
            "TraceSetInformation",
            TraceSetInformation(CONTROLTRACE_HANDLE { Value: 1 }, -1, (&raw const length).cast(), 4),
        );
    }
}
