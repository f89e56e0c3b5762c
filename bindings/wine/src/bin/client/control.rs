//! Starts, queries, changes and stops a session, and reads the file that it wrote.

use std::ffi::c_void;
use std::mem::zeroed;
use std::ptr::{null, null_mut};

use windows_sys::Win32::Foundation::{ERROR_ALREADY_EXISTS, ERROR_WMI_INSTANCE_NOT_FOUND};
use windows_sys::Win32::System::Diagnostics::Etw::*;
use windows_sys::Win32::System::Threading::{GetCurrentProcessId, GetCurrentThreadId};
use windows_sys::core::GUID;

use super::support::{Properties, data, descriptor, expect, succeed, text, wide};

const PROVIDER: GUID = GUID::from_u128(0x6f0e3a5c_0c0d_4a3e_9b8a_1b2c3d4e5f60);
const NAME: &str = "OpenETW.Wine.Control";

pub fn run(directory: &str) {
    let file = format!("{directory}\\control.etl");
    let (name, mut session) = (wide(NAME), CONTROLTRACE_HANDLE::default());
    // SAFETY: the pointers are valid, and texts end with a zero.
    unsafe {
        let mut properties = Properties::new(EVENT_TRACE_FILE_MODE_SEQUENTIAL, Some(&file));
        succeed("StartTraceW", StartTraceW(&mut session, name.as_ptr(), properties.pointer()));
        assert!(session.Value != 0 && session.Value != u64::MAX);
        assert_eq!(text(&properties.logger_name), NAME);
        let (mut again, mut second) =
            (Properties::new(EVENT_TRACE_FILE_MODE_SEQUENTIAL, Some(&file)), session);
        let code = StartTraceW(&mut second, name.as_ptr(), again.pointer());
        expect("StartTraceW of a running session", code, ERROR_ALREADY_EXISTS);

        let mut queried = Properties::new(0, Some(""));
        let code = ControlTraceW(session, null(), queried.pointer(), EVENT_TRACE_CONTROL_QUERY);
        succeed("ControlTraceW", code);
        assert_eq!(text(&queried.logger_name), NAME);
        assert_eq!(text(&queried.file_name).to_lowercase(), file.to_lowercase());
        assert_eq!((queried.fixed.BufferSize, queried.fixed.FlushTimer), (64, 1));
        list(true);

        let mut handle = 0;
        succeed("EventRegister", EventRegister(&PROVIDER, None, null(), &mut handle));
        assert!(!EventProviderEnabled(handle, 4, 1));
        let code = EVENT_CONTROL_CODE_ENABLE_PROVIDER;
        let enabled = EnableTraceEx2(session, &PROVIDER, code, 4, 0x1, 0, 1000, null());
        succeed("EnableTraceEx2", enabled);
        assert!(EventProviderEnabled(handle, 4, 1));
        assert!(!EventProviderEnabled(handle, 5, 1));
        assert!(EventEnabled(handle, &descriptor(1)));
        registered();
        for number in 0..1000u64 {
            succeed("EventWrite", EventWrite(handle, &descriptor(7), 1, &data(&number)));
        }
        let message = wide("text of an event");
        succeed("EventWriteString", EventWriteString(handle, 4, 1, message.as_ptr()));
        activities(handle);
        succeed("EventUnregister", EventUnregister(handle));
        let code = ControlTraceW(
            CONTROLTRACE_HANDLE::default(),
            name.as_ptr(),
            queried.pointer(),
            EVENT_TRACE_CONTROL_STOP,
        );
        succeed("ControlTraceW", code);
        assert_eq!(queried.fixed.EventsLost, 0);
        list(false);
        let code = ControlTraceW(
            CONTROLTRACE_HANDLE::default(),
            name.as_ptr(),
            queried.pointer(),
            EVENT_TRACE_CONTROL_QUERY,
        );
        expect("ControlTraceW of a stopped session", code, ERROR_WMI_INSTANCE_NOT_FOUND);
    }
    read(&file);
    println!("done");
}

/// Checks whether the session is in the list of all.
fn list(is_expected: bool) {
    let mut all: Vec<Properties> = (0..64).map(|_| Properties::new(0, Some(""))).collect();
    let mut pointers: Vec<*mut EVENT_TRACE_PROPERTIES> = all.iter_mut().map(Properties::pointer).collect();
    let mut count = 0;
    // SAFETY: the pointers are valid.
    succeed("QueryAllTracesW", unsafe { QueryAllTracesW(pointers.as_mut_ptr(), 64, &mut count) });
    let found = all[..count as usize].iter().any(|one| text(&one.logger_name) == NAME);
    assert_eq!(found, is_expected, "{count} sessions");
}

/// Checks that the provider is known, and that the process is known by its id of Windows.
fn registered() {
    let (mut needed, mut room) = (0, vec![0u8; 1 << 16]);
    // SAFETY: the pointers are valid.
    unsafe {
        let size = room.len() as u32;
        let id = PROVIDER;
        let code = EnumerateTraceGuidsEx(
            TraceGuidQueryInfo,
            (&raw const id).cast(),
            16,
            room.as_mut_ptr().cast(),
            size,
            &mut needed,
        );
        succeed("EnumerateTraceGuidsEx", code);
        let pid = u32::from_le_bytes(room[16..20].try_into().unwrap());
        assert_eq!(pid, GetCurrentProcessId());
        let code = EnumerateTraceGuidsEx(TraceGuidQueryList, null(), 0, null_mut(), 0, &mut needed);
        assert!(code == 122 && needed >= 16, "{code} {needed}");
    }
}

/// Writes an event of an activity.
fn activities(handle: REGHANDLE) {
    // SAFETY: the pointers are valid.
    unsafe {
        let mut id = GUID::from_u128(0);
        let create = EventActivityIdControl(EVENT_ACTIVITY_CTRL_CREATE_ID, &mut id);
        succeed("EventActivityIdControl", create);
        assert!(id.data1 != 0 || id.data4 != [0; 8]);
        let related = GUID::from_u128(9);
        let code = EventWriteTransfer(handle, &descriptor(8), &id, &related, 0, null());
        succeed("EventWriteTransfer", code);
    }
}

#[derive(Default)]
struct Read {
    numbers: u64,
    others: Vec<u16>,
    strings: u64,
    ids: Option<(u32, u32)>,
    headers: u64,
}

unsafe extern "system" fn record(record: *mut EVENT_RECORD) {
    // SAFETY: the record and its context live until this returns.
    let (event, read) = unsafe { (&*record, &mut *(*record).UserContext.cast::<Read>()) };
    let header = &event.EventHeader;
    if header.ProviderId.data1 != PROVIDER.data1 {
        read.headers += 1;
        return;
    }
    read.ids = Some((header.ProcessId, header.ThreadId));
    if u32::from(header.Flags) & EVENT_HEADER_FLAG_STRING_ONLY != 0 {
        read.strings += 1;
    } else if header.EventDescriptor.Id == 7 {
        read.numbers += 1;
    } else {
        read.others.push(header.EventDescriptor.Id);
    }
}

fn read(file: &str) {
    let (mut read, mut name) = (Read::default(), wide(file));
    // SAFETY: zeros are valid for all members, and the pointers live until ProcessTrace returns.
    unsafe {
        let mut logfile: EVENT_TRACE_LOGFILEW = zeroed();
        logfile.LogFileName = name.as_mut_ptr();
        logfile.Anonymous1.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
        logfile.Anonymous2.EventRecordCallback = Some(record);
        logfile.Context = (&raw mut read).cast::<c_void>();
        let handle = OpenTraceW(&mut logfile);
        assert!(handle.Value != u64::MAX, "OpenTraceW: {}", std::io::Error::last_os_error());
        assert!(logfile.LogfileHeader.PerfFreq > 0 && logfile.LogfileHeader.NumberOfProcessors > 0);
        succeed("ProcessTrace", ProcessTrace(&handle, 1, null(), null()));
        succeed("CloseTrace", CloseTrace(handle));
        expect("CloseTrace again", CloseTrace(handle), 6);
        let ids = (GetCurrentProcessId(), GetCurrentThreadId());
        assert_eq!((read.numbers, read.strings, read.ids), (1000, 1, Some(ids)));
        assert_eq!(read.others, [8]);
        assert!(read.headers >= 1);
        let mut missing = wide("C:\\no\\such\\file.etl");
        logfile.LogFileName = missing.as_mut_ptr();
        assert_eq!(OpenTraceW(&mut logfile).Value, u64::MAX);
        let code = std::io::Error::last_os_error().raw_os_error();
        assert!(matches!(code, Some(2 | 3)), "OpenTraceW of a missing file: {code:?}");
    }
}
