//! What the interfaces of COM share: results, ids, and the first three methods.

// UNSAFETY: views tables of functions as arrays of pointers.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use windows_sys::core::GUID;

use crate::guest::guest;

pub(super) const S_OK: i32 = 0;
pub(super) const E_NOTIMPL: i32 = 0x8000_4001_u32 as i32;
pub(super) const E_NOINTERFACE: i32 = 0x8000_4002_u32 as i32;
pub(super) const E_POINTER: i32 = 0x8000_4003_u32 as i32;
pub(super) const E_INVALIDARG: i32 = 0x8007_0057_u32 as i32;
/// `REGDB_E_CLASSNOTREG` and `CLASS_E_NOAGGREGATION`.
pub(super) const NO_CLASS: i32 = 0x8004_0154_u32 as i32;
pub(super) const NO_AGGREGATION: i32 = 0x8004_0110_u32 as i32;

pub(super) const IID_UNKNOWN: u128 = 0x00000000_0000_0000_c000_000000000046;
pub(super) const IID_EVENT: u128 = 0x8cc97f40_9028_4ff3_9b62_7d1f79ca7bcb;
pub(super) const IID_RELOGGER: u128 = 0xf754ad43_3bcc_4286_8009_9c5da214e84e;
pub(super) const CLSID_RELOGGER: u128 = 0x7b40792d_05ff_44c4_9058_f440c71f17d4;

/// Returns an error code of Windows as a result (`HRESULT_FROM_WIN32`).
pub(super) fn result_of(code: u32) -> i32 {
    if code == 0 { S_OK } else { (0x8007_0000 | code & 0xFFFF) as i32 }
}

/// The methods of `IUnknown`, with which every table of methods starts.
#[repr(C)]
#[derive(Debug)]
pub(super) struct UnknownMethods {
    pub(super) query_interface:
        unsafe extern "C" fn(this: *mut c_void, id: *const GUID, object: *mut *mut c_void) -> i32,
    pub(super) add_ref: unsafe extern "C" fn(this: *mut c_void) -> u32,
    pub(super) release: unsafe extern "C" fn(this: *mut c_void) -> u32,
}

/// Returns the table of methods for new objects: these, or what a guest has in their place, which is made once.
///
/// # Safety
///
/// The table consists of functions only, each with at most four arguments.
pub(super) unsafe fn table_of<T>(methods: &'static T, of_guest: &OnceLock<usize>) -> *const T {
    let Some(guest) = guest() else { return methods };
    let address = of_guest.get_or_init(|| {
        let count = size_of::<T>() / size_of::<*const c_void>();
        // SAFETY: the caller promises a table of pointers.
        let functions = unsafe { std::slice::from_raw_parts((&raw const *methods).cast(), count) };
        guest.table_of(functions).addr()
    });
    *address as *const T
}

/// The number of references to an object.
#[derive(Debug)]
pub(super) struct References(AtomicU32);

impl References {
    pub(super) const fn one() -> References {
        References(AtomicU32::new(1))
    }

    pub(super) fn add(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns how many are left; without one the object is to be freed.
    pub(super) fn release(&self) -> u32 {
        self.0.fetch_sub(1, Ordering::AcqRel) - 1
    }
}
