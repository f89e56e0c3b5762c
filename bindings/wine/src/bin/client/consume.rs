//! Reads the events of a session as they happen.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::mem::zeroed;
use std::ptr::null;
use std::time::Duration;

use windows_sys::Win32::System::Diagnostics::Etw::*;
use windows_sys::core::GUID;

use super::support::{guid, wide};

/// Time limit.
const PATIENCE: Duration = Duration::from_secs(60);

struct State {
    handle: PROCESSTRACE_HANDLE,
    id: GUID,
    wanted: u64,
    next: u64,
    gaps: u64,
    writers: BTreeSet<(u32, u32)>,
    buffers: u64,
}

unsafe extern "system" fn record(record: *mut EVENT_RECORD) {
    // SAFETY: the record and its context live until this returns.
    let (record, state) = unsafe { (&*record, &mut *(*record).UserContext.cast::<State>()) };
    let header = &record.EventHeader;
    if !same(&header.ProviderId, &state.id) || header.EventDescriptor.Id != 1 {
        return;
    }
    assert!(record.UserDataLength == 8);
    // SAFETY: the data has this size.
    let number = unsafe { record.UserData.cast::<u64>().read_unaligned() };
    // Several programs may write, each from 0 on.
    if number != state.next && number != 0 {
        state.gaps += 1;
    }
    state.next = number + 1;
    state.writers.insert((header.ProcessId, header.ThreadId));
    state.wanted -= 1;
    if state.wanted == 0 {
        // SAFETY: the handle is open.
        unsafe { CloseTrace(state.handle) };
    }
}

unsafe extern "system" fn buffer(logfile: *mut EVENT_TRACE_LOGFILEW) -> u32 {
    // SAFETY: the structure and its context live until this returns.
    unsafe { (*(*logfile).Context.cast::<State>()).buffers += 1 };
    1
}

/// Reads `count` events with numbers.
pub fn run(session: &str, id: &str, count: u64) {
    let mut state = State {
        handle: PROCESSTRACE_HANDLE::default(),
        id: guid(id),
        wanted: count,
        next: 0,
        gaps: 0,
        writers: BTreeSet::new(),
        buffers: 0,
    };
    let mut name = wide(session);
    // SAFETY: zeros are valid for all members, and the pointers live until ProcessTrace returns.
    let code = unsafe {
        let mut logfile: EVENT_TRACE_LOGFILEW = zeroed();
        logfile.LoggerName = name.as_mut_ptr();
        logfile.Anonymous1.ProcessTraceMode = PROCESS_TRACE_MODE_REAL_TIME | PROCESS_TRACE_MODE_EVENT_RECORD;
        logfile.Anonymous2.EventRecordCallback = Some(record);
        logfile.BufferCallback = Some(buffer);
        logfile.Context = (&raw mut state).cast::<c_void>();
        state.handle = OpenTraceW(&mut logfile);
        assert!(state.handle.Value != u64::MAX, "OpenTraceW: {}", std::io::Error::last_os_error());
        println!("open");
        std::thread::spawn(|| {
            std::thread::sleep(PATIENCE);
            println!("no end within {PATIENCE:?}");
            std::process::exit(1);
        });
        ProcessTrace(&state.handle, 1, null(), null())
    };
    let State { wanted, gaps, writers, buffers, .. } = state;
    println!("code {code} missing {wanted} gaps {gaps} buffers {} writers {writers:?}", buffers > 0);
}

fn same(a: &GUID, b: &GUID) -> bool {
    (a.data1, a.data2, a.data3, a.data4) == (b.data1, b.data2, b.data3, b.data4)
}
