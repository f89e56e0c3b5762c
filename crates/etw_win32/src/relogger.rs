//! The class `TraceRelogger`, which programs make with `CoCreateInstance`.

// UNSAFETY: methods of COM, which get pointers of callers, and calls of functions by their address.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::sync::{Mutex, OnceLock, PoisonError};

use windows_sys::core::GUID;

use crate::arguments::Argument;

const S_OK: i32 = 0;
const S_FALSE: i32 = 1;
const E_NOINTERFACE: i32 = 0x8000_4002_u32 as i32;
const E_POINTER: i32 = 0x8000_4003_u32 as i32;
const NO_CLASS: i32 = 0x8004_0111_u32 as i32;

const RELOGGER: u128 = 0x7b40792d_05ff_44c4_9058_f440c71f17d4;
const UNKNOWN: u128 = 0x00000000_0000_0000_c000_000000000046;
const CLASS_FACTORY: u128 = 0x00000001_0000_0000_c000_000000000046;

/// A function of this library, with up to four arguments.
type Method = unsafe extern "C" fn(u64, u64, u64, u64) -> u64;
/// A function for programs.
type Thunk = unsafe extern "win64" fn(u64, u64, u64, u64) -> u64;

/// Most methods of all tables.
const MAX: usize = 32;

/// The functions that [`THUNKS`] call.
static METHODS: [OnceLock<Method>; MAX] = [const { OnceLock::new() }; MAX];
/// The number of those set.
static COUNT: Mutex<usize> = Mutex::new(0);

/// Calls a function of this library.
unsafe extern "win64" fn thunk<const N: usize>(a: u64, b: u64, c: u64, d: u64) -> u64 {
    match METHODS.get(N).and_then(OnceLock::get) {
        // SAFETY: the caller's arguments are those of the function, which ignores what it does not have.
        Some(method) => unsafe { method(a, b, c, d) },
        None => u64::from(E_NOINTERFACE as u32),
    }
}

macro_rules! thunks {
    ($($number:literal)*) => { [$(thunk::<$number>),*] };
}

static THUNKS: [Thunk; MAX] = thunks! {
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
};

/// Returns a table of functions for programs that call these functions. Returns null for more tables than there are.
pub(crate) fn table_of(functions: &[*const c_void]) -> *const c_void {
    let mut count = COUNT.lock().unwrap_or_else(PoisonError::into_inner);
    let range = *count..*count + functions.len();
    let (Some(methods), Some(thunks)) = (METHODS.get(range.clone()), THUNKS.get(range.clone())) else {
        return std::ptr::null();
    };
    for (place, function) in methods.iter().zip(functions) {
        // SAFETY: the address is that of a function with up to four arguments, each in a register.
        let _ = place.set(unsafe { std::mem::transmute::<*const c_void, Method>(*function) });
    }
    *count = range.end;
    thunks.as_ptr().cast()
}

/// `IClassFactory`, whose only object is static.
#[repr(C)]
struct Factory {
    methods: &'static FactoryMethods,
}

#[repr(C)]
struct FactoryMethods {
    query_interface: unsafe extern "win64" fn(*mut Factory, *const GUID, *mut *mut c_void) -> i32,
    add_ref: unsafe extern "win64" fn(*mut Factory) -> u32,
    release: unsafe extern "win64" fn(*mut Factory) -> u32,
    create_instance:
        unsafe extern "win64" fn(*mut Factory, *mut c_void, *const GUID, *mut *mut c_void) -> i32,
    lock_server: unsafe extern "win64" fn(*mut Factory, i32) -> i32,
}

static FACTORY: Factory = Factory {
    methods: &FactoryMethods {
        query_interface,
        add_ref: count,
        release: count,
        create_instance,
        lock_server,
    },
};

/// Returns the object that makes objects of the class.
pub(crate) unsafe extern "win64" fn DllGetClassObject(
    class: *const GUID,
    id: *const GUID,
    object: *mut *mut c_void,
) -> i32 {
    if !class.is_readable() || class.is_null() {
        return E_POINTER;
    }
    // SAFETY: the pointer is to a GUID.
    if !is(&unsafe { class.read_unaligned() }, RELOGGER) {
        return NO_CLASS;
    }
    // SAFETY: the caller's promises are those of the method.
    unsafe { query_interface((&raw const FACTORY).cast_mut(), id, object) }
}

/// The library stays until the process ends.
pub(crate) extern "win64" fn DllCanUnloadNow() -> i32 {
    S_FALSE
}

unsafe extern "win64" fn query_interface(
    this: *mut Factory,
    id: *const GUID,
    object: *mut *mut c_void,
) -> i32 {
    if !id.is_readable() || id.is_null() || !object.is_readable() || object.is_null() {
        return E_POINTER;
    }
    // SAFETY: the pointers are to a GUID and to a pointer.
    unsafe {
        let id = id.read_unaligned();
        let is_known = is(&id, UNKNOWN) || is(&id, CLASS_FACTORY);
        object.write(if is_known { this.cast() } else { std::ptr::null_mut() });
        if is_known { S_OK } else { E_NOINTERFACE }
    }
}

unsafe extern "win64" fn count(_: *mut Factory) -> u32 {
    1
}

unsafe extern "win64" fn create_instance(
    _: *mut Factory,
    outer: *mut c_void,
    id: *const GUID,
    object: *mut *mut c_void,
) -> i32 {
    if !id.is_readable() || !object.is_readable() {
        return E_POINTER;
    }
    // SAFETY: the caller's promises are those of the function.
    unsafe { etw_capi::CoCreateInstance(&GUID::from_u128(RELOGGER), outer, 0, id, object) }
}

unsafe extern "win64" fn lock_server(_: *mut Factory, _: i32) -> i32 {
    S_OK
}

fn is(guid: &GUID, id: u128) -> bool {
    let other = GUID::from_u128(id);
    (guid.data1, guid.data2, guid.data3, guid.data4) == (other.data1, other.data2, other.data3, other.data4)
}
