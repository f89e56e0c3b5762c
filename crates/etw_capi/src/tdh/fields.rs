//! The fields of a record as JSON, for bindings of other languages (`openetw.h`).

// UNSAFETY: reads what callers point to.
#![expect(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::ptr;

use etw_export::{JsonWriter, Options};
use etw_schema::Event;
use windows_sys::Win32::System::Diagnostics::Etw::EVENT_RECORD;

use super::event::decode;

thread_local! {
    /// The writer, and the text that the last call returned. The writer is in a box, since a program that loads the library
    /// while it runs has little room for variables of threads.
    static STATE: RefCell<(Box<JsonWriter>, CString)> =
        RefCell::new((Box::new(JsonWriter::new(&Options::default())), CString::default()));
}

/// Returns the fields of a record as one JSON object, until this thread's next call; null if it cannot be decoded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openetw_record_fields(record: *const EVENT_RECORD) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { decode(record, &[], fields) }.ok().flatten().unwrap_or(ptr::null())
}

fn fields(event: &Event<'_>) -> Option<*const c_char> {
    event.properties.as_ref().ok()?;
    STATE.with_borrow_mut(|(writer, text)| {
        let mut bytes = std::mem::take(text).into_bytes();
        bytes.clear();
        writer.put_fields(&mut bytes, event);
        // JSON has no zeros.
        *text = CString::new(bytes).ok()?;
        Some(text.as_ptr())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_cannot_be_decoded_has_no_fields() {
        // SAFETY: zeros are valid for all members, and the pointer is null or valid.
        unsafe {
            assert!(openetw_record_fields(ptr::null()).is_null());
            let mut record: EVENT_RECORD = std::mem::zeroed();
            assert!(openetw_record_fields(&record).is_null());
            record.UserDataLength = 8;
            assert!(openetw_record_fields(&record).is_null());
        }
    }
}
