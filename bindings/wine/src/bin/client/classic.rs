//! Classic providers: `RegisterTraceGuids`, `TraceEvent` and `TraceMessage`.

use std::ffi::c_void;
use std::mem::{size_of, zeroed};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use windows_sys::Win32::System::Diagnostics::Etw::*;
use windows_sys::core::GUID;

use super::support::{Properties, expect, succeed, wide};

const CONTROL: GUID = GUID::from_u128(0x7a1e3a5c_0c0d_4a3e_9b8a_1b2c3d4e5f61);
const CLASS: GUID = GUID::from_u128(0x7a1e3a5c_0c0d_4a3e_9b8a_1b2c3d4e5f62);
const MESSAGE: GUID = GUID::from_u128(0x7a1e3a5c_0c0d_4a3e_9b8a_1b2c3d4e5f63);

static LOGGER: AtomicU64 = AtomicU64::new(0);

unsafe extern "system" fn request(
    code: i32,
    context: *const c_void,
    size: *mut u32,
    buffer: *mut c_void,
) -> u32 {
    assert_eq!(context.addr(), 0x77);
    // SAFETY: the buffer is a WNODE_HEADER.
    unsafe {
        assert!(*size as usize >= size_of::<WNODE_HEADER>());
        if code == WMI_ENABLE_EVENTS {
            let logger = GetTraceLoggerHandle(buffer);
            assert_eq!((GetTraceEnableLevel(logger), GetTraceEnableFlags(logger)), (5, 0x12));
            LOGGER.store(logger, Ordering::Release);
        }
    }
    0
}

#[repr(C)]
struct Event {
    header: EVENT_TRACE_HEADER,
    number: u64,
}

pub fn run(directory: &str) {
    let (name, mut session, mut registration) =
        (wide("OpenETW.Wine.Classic"), CONTROLTRACE_HANDLE::default(), 0);
    let file = format!("{directory}\\classic.etl");
    // SAFETY: the pointers are valid, zeros are valid for all members, and texts end with a zero.
    unsafe {
        let mut properties = Properties::new(EVENT_TRACE_FILE_MODE_SEQUENTIAL, Some(&file));
        succeed("StartTraceW", StartTraceW(&mut session, name.as_ptr(), properties.pointer()));
        let mut class = TRACE_GUID_REGISTRATION { Guid: &CLASS, RegHandle: null_mut() };
        let code = RegisterTraceGuidsW(
            Some(request),
            std::ptr::without_provenance(0x77),
            &CONTROL,
            1,
            &mut class,
            null(),
            null(),
            &mut registration,
        );
        succeed("RegisterTraceGuidsW", code);
        succeed("EnableTrace", EnableTrace(1, 0x12, 5, &CONTROL, session));
        let logger = LOGGER.load(Ordering::Acquire);
        assert!(logger != 0, "the callback did not run");
        for number in 0..10 {
            let mut event = Event { header: zeroed(), number };
            event.header.Size = size_of::<Event>() as u16;
            event.header.Anonymous2.Class.Type = 7;
            event.header.Anonymous3.Guid = CLASS;
            event.header.Anonymous4.Anonymous2.Flags = WNODE_FLAG_TRACED_GUID;
            succeed("TraceEvent", TraceEvent(logger, &event.header));
        }
        let (first, second) = (42u32, *b"text");
        let flags =
            TRACE_MESSAGE_GUID | TRACE_MESSAGE_TIMESTAMP | TRACE_MESSAGE_SYSTEMINFO | TRACE_MESSAGE_SEQUENCE;
        // The function takes any number of arguments, which the declaration omits.
        type Message = unsafe extern "C" fn(u64, u32, *const GUID, u16, ...) -> u32;
        let message: Message = std::mem::transmute(TraceMessage as *const ());
        let code =
            message(logger, flags, &MESSAGE, 10, &raw const first, 4usize, &raw const second, 4usize, 0usize);
        succeed("TraceMessage", code);
        succeed("UnregisterTraceGuids", UnregisterTraceGuids(registration));
        let stop = ControlTraceW(session, null(), properties.pointer(), EVENT_TRACE_CONTROL_STOP);
        succeed("ControlTraceW", stop);
    }
    read(&file);
    println!("done");
}

static EVENTS: AtomicU64 = AtomicU64::new(0);
static CLASSES: AtomicU64 = AtomicU64::new(0);

unsafe extern "system" fn event(event: *mut EVENT_TRACE) {
    // SAFETY: the event lives until this returns.
    let event = unsafe { &*event };
    // SAFETY: every value of the unions is one of their members.
    let (class, kind) = unsafe { (event.Header.Anonymous3.Guid, event.Header.Anonymous2.Class.Type) };
    if class.data4 == CLASS.data4 && class.data1 == CLASS.data1 && kind == 7 {
        assert_eq!(event.MofLength, 8);
        EVENTS.fetch_add(1, Ordering::Relaxed);
    }
}

unsafe extern "system" fn of_class(_: *mut EVENT_TRACE) {
    CLASSES.fetch_add(1, Ordering::Relaxed);
}

fn read(file: &str) {
    let mut name = wide(file);
    // SAFETY: zeros are valid for all members, and the pointers live until ProcessTrace returns.
    unsafe {
        let mut logfile: EVENT_TRACE_LOGFILEW = zeroed();
        logfile.LogFileName = name.as_mut_ptr();
        logfile.Anonymous2.EventCallback = Some(event);
        let handle = OpenTraceW(&mut logfile);
        assert!(handle.Value != u64::MAX, "OpenTraceW: {}", std::io::Error::last_os_error());
        succeed("SetTraceCallback", SetTraceCallback(&CLASS, Some(of_class)));
        succeed("ProcessTrace", ProcessTrace(&handle, 1, null(), null()));
        succeed("RemoveTraceCallback", RemoveTraceCallback(&CLASS));
        expect("RemoveTraceCallback again", RemoveTraceCallback(&CLASS), 4200);
        succeed("CloseTrace", CloseTrace(handle));
    }
    assert_eq!((EVENTS.load(Ordering::Relaxed), CLASSES.load(Ordering::Relaxed)), (10, 10));
}
