//! What the tasks share.

use std::mem::{size_of, zeroed};

use windows_sys::Win32::System::Diagnostics::Etw::*;
use windows_sys::Win32::System::LibraryLoader::{GetProcAddress, LoadLibraryW};
use windows_sys::core::GUID;

/// Returns a text as UTF-16 with a zero.
pub fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// Returns the number in an argument.
pub fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("not a number: {text}"))
}

/// Returns the GUID in an argument.
pub fn guid(text: &str) -> GUID {
    GUID::from_u128(u128::from_str_radix(&text.replace('-', ""), 16).unwrap())
}

/// Fails unless a function returned 0.
#[track_caller]
pub fn succeed(function: &str, code: u32) {
    expect(function, code, 0);
}

/// Fails unless a function returned this code.
#[track_caller]
pub fn expect(function: &str, code: u32, wanted: u32) {
    assert!(code == wanted, "{function} returned {code}, not {wanted}");
}

/// Checks that a DLL has functions.
pub fn find_functions(dll: &str, names: &[&str]) {
    // SAFETY: the texts end with a zero.
    unsafe {
        let module = LoadLibraryW(wide(dll).as_ptr());
        assert!(!module.is_null(), "no {dll}");
        for name in names {
            let name = format!("{name}\0");
            assert!(GetProcAddress(module, name.as_ptr()).is_some(), "{dll} has no {name}");
        }
    }
    println!("found {}", names.len());
}

/// The properties of a session, with room for its names.
#[repr(C)]
#[derive(Clone)]
pub struct Properties {
    pub fixed: EVENT_TRACE_PROPERTIES,
    pub logger_name: [u16; 256],
    pub file_name: [u16; 512],
}

impl Properties {
    /// Properties of a session in these modes, with a file if one is named.
    pub fn new(mode: u32, file: Option<&str>) -> Properties {
        // SAFETY: zeros are valid for all members.
        let mut fixed: EVENT_TRACE_PROPERTIES = unsafe { zeroed() };
        fixed.Wnode.BufferSize = size_of::<Properties>() as u32;
        fixed.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
        fixed.Wnode.ClientContext = 1;
        fixed.LogFileMode = mode;
        fixed.BufferSize = 64;
        fixed.FlushTimer = 1;
        fixed.LoggerNameOffset = std::mem::offset_of!(Properties, logger_name) as u32;
        let mut file_name = [0; 512];
        if let Some(file) = file {
            fixed.LogFileNameOffset = std::mem::offset_of!(Properties, file_name) as u32;
            for (place, unit) in file_name.iter_mut().zip(wide(file)) {
                *place = unit;
            }
        }
        Properties { fixed, logger_name: [0; 256], file_name }
    }

    pub fn pointer(&mut self) -> *mut EVENT_TRACE_PROPERTIES {
        (&raw mut *self).cast()
    }
}

/// Returns the text up to its zero.
pub fn text(units: &[u16]) -> String {
    let end = units.iter().position(|unit| *unit == 0).unwrap_or(units.len());
    String::from_utf16_lossy(&units[..end])
}

/// Returns a descriptor of the data of an event.
pub fn data<T>(value: &T) -> EVENT_DATA_DESCRIPTOR {
    EVENT_DATA_DESCRIPTOR {
        Ptr: (&raw const *value) as u64,
        Size: size_of::<T>() as u32,
        Anonymous: EVENT_DATA_DESCRIPTOR_0 { Reserved: 0 },
    }
}

/// An event with this id.
pub fn descriptor(id: u16) -> EVENT_DESCRIPTOR {
    EVENT_DESCRIPTOR { Id: id, Version: 0, Channel: 0, Level: 4, Opcode: 0, Task: 0, Keyword: 1 }
}
