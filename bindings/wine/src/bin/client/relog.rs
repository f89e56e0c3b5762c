//! Rewrites a file with `ITraceRelogger`: leaves out every other event, and adds one.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use windows_sys::Win32::Foundation::SysAllocString;
use windows_sys::Win32::System::Com::{
    CLSCTX_INPROC_SERVER, COINIT_MULTITHREADED, CoCreateInstance, CoInitializeEx,
};
use windows_sys::Win32::System::Diagnostics::Etw::{EVENT_DESCRIPTOR, EVENT_RECORD};
use windows_sys::core::GUID;

use super::support::{descriptor, wide};

const CLSID: GUID = GUID::from_u128(0x7b40792d_05ff_44c4_9058_f440c71f17d4);
const IID: GUID = GUID::from_u128(0xf754ad43_3bcc_4286_8009_9c5da214e84e);
const ADDED: u16 = 99;

type Method1 = unsafe extern "system" fn(*mut c_void) -> i32;
type Method2 = unsafe extern "system" fn(*mut c_void, *mut c_void) -> i32;
type Method4 = unsafe extern "system" fn(*mut c_void, *mut c_void, *mut c_void, *mut c_void) -> i32;

/// Calls a method of an object by its place in the table.
macro_rules! call {
    ($object:expr, $index:literal: $type:ty $(, $argument:expr)*) => {{
        let object: *mut c_void = $object;
        let table = *object.cast::<*const *const c_void>();
        let method: $type = std::mem::transmute(*table.add($index));
        let result = method(object $(, $argument.cast())*);
        assert!(result >= 0, "method {} returned {result:#x}", $index);
    }};
}

#[repr(C)]
struct Callback {
    methods: *const [*const c_void; 6],
    events: u64,
    begun: u64,
    ended: u64,
}

unsafe extern "system" fn query_interface(
    this: *mut c_void,
    _: *const GUID,
    object: *mut *mut c_void,
) -> i32 {
    // SAFETY: the pointer is valid.
    unsafe { object.write(this) };
    0
}

unsafe extern "system" fn references(_: *mut c_void) -> u32 {
    1
}

unsafe extern "system" fn on_begin(this: *mut Callback, _: *mut c_void, relogger: *mut c_void) -> i32 {
    // SAFETY: the objects live until this returns.
    unsafe {
        (*this).begun += 1;
        let mut event: *mut c_void = null_mut();
        // CreateEventInstance(stream, flags, event), SetEventDescriptor, Inject, Release.
        type Create = unsafe extern "system" fn(*mut c_void, u64, u32, *mut *mut c_void) -> i32;
        let table = *relogger.cast::<*const *const c_void>();
        let create: Create = std::mem::transmute(*table.add(7));
        assert!(create(relogger, 1, 0, &mut event) >= 0);
        let added: EVENT_DESCRIPTOR = descriptor(ADDED);
        call!(event, 7: Method2, (&raw const added).cast_mut());
        call!(relogger, 6: Method2, event);
        let table = *event.cast::<*const *const c_void>();
        let release: Method1 = std::mem::transmute(*table.add(2));
        release(event);
    }
    0
}

unsafe extern "system" fn on_finalize(this: *mut Callback, _: *mut c_void) -> i32 {
    // SAFETY: the object lives until this returns.
    unsafe { (*this).ended += 1 };
    0
}

unsafe extern "system" fn on_event(this: *mut Callback, event: *mut c_void, relogger: *mut c_void) -> i32 {
    // SAFETY: the objects live until this returns.
    unsafe {
        let mut record: *mut EVENT_RECORD = null_mut();
        call!(event, 5: Method2, (&raw mut record));
        if (*record).EventHeader.EventDescriptor.Id == 7 {
            (*this).events += 1;
            if (*this).events % 2 == 0 {
                call!(relogger, 6: Method2, event);
            }
        }
    }
    0
}

pub fn run(directory: &str) {
    let methods = [
        query_interface as *const c_void,
        references as *const c_void,
        references as *const c_void,
        on_begin as *const c_void,
        on_finalize as *const c_void,
        on_event as *const c_void,
    ];
    let mut callback = Callback { methods: &methods, events: 0, begun: 0, ended: 0 };
    // SAFETY: the pointers are valid, and the methods are those of the interfaces.
    unsafe {
        assert!(CoInitializeEx(null(), COINIT_MULTITHREADED as u32) >= 0);
        let mut relogger: *mut c_void = null_mut();
        let code = CoCreateInstance(&CLSID, null_mut(), CLSCTX_INPROC_SERVER, &IID, &mut relogger);
        assert!(code >= 0, "CoCreateInstance returned {code:#x}");
        let text = |name: &str| SysAllocString(wide(&format!("{directory}\\{name}")).as_ptr());
        let (mut stream, from) = (0u64, text("control.etl"));
        call!(relogger, 3: Method4, from.cast_mut(), null_mut::<c_void>(), (&raw mut stream));
        call!(relogger, 5: Method2, (&raw mut callback));
        call!(relogger, 9: Method2, text("relogged.etl").cast_mut());
        call!(relogger, 8: Method1);
        assert_eq!((callback.begun, callback.events, callback.ended), (1, 1000, 1));
    }
    println!("done");
}
