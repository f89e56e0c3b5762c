//! Error codes with their symbolic names.

use super::number::put_hex_digits;
use super::{TextOut, write_decimal};
use crate::tables::errors::{HRESULT, NTSTATUS, WIN32};

/// Returns the symbolic name of a common Win32 error.
pub fn win32_error_name(code: u32) -> Option<&'static str> {
    lookup(WIN32, code)
}

/// Returns the symbolic name of a common NTSTATUS.
pub fn ntstatus_name(code: u32) -> Option<&'static str> {
    lookup(NTSTATUS, code)
}

/// Returns the symbolic name of a common HRESULT, or of the Win32 error in it.
pub fn hresult_name(code: u32) -> Option<&'static str> {
    lookup(HRESULT, code).or_else(|| {
        // FACILITY_WIN32: HRESULT_FROM_WIN32 (`winerror.h`).
        if code >> 16 == 0x8007 { win32_error_name(code & 0xFFFF) } else { None }
    })
}

fn lookup(table: &[(u32, &'static str)], code: u32) -> Option<&'static str> {
    let index = table.binary_search_by_key(&code, |entry| entry.0).ok()?;
    table.get(index).map(|entry| entry.1)
}

/// Writes `5 (ERROR_ACCESS_DENIED)`. Win32 errors that are really HRESULTs or NTSTATUSes are written in hexadecimal.
pub(crate) fn write_win32(out: &mut (impl TextOut + ?Sized), bits: u64) {
    if bits > 0xFFFF {
        let code = bits as u32;
        return write_hex_code(out, bits, hresult_name(code).or_else(|| ntstatus_name(code)));
    }
    write_decimal(out, bits);
    write_name(out, win32_error_name(bits as u32));
}

/// Writes `0xC0000022 (STATUS_ACCESS_DENIED)`.
pub(crate) fn write_hex_code(out: &mut (impl TextOut + ?Sized), bits: u64, name: Option<&str>) {
    out.put("0x");
    put_hex_digits(out, bits, 8, true);
    write_name(out, name);
}

fn write_name(out: &mut (impl TextOut + ?Sized), name: Option<&str>) {
    if let Some(name) = name {
        out.put(" (");
        out.put(name);
        out.put(")");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        for table in [WIN32, NTSTATUS, HRESULT] {
            assert!(table.is_sorted_by(|a, b| a.0 < b.0));
        }
    }

    #[test]
    fn names() {
        assert_eq!(win32_error_name(5), Some("ERROR_ACCESS_DENIED"));
        assert_eq!(ntstatus_name(0xC000_0005), Some("STATUS_ACCESS_VIOLATION"));
        assert_eq!(hresult_name(0x8007_0005), Some("E_ACCESSDENIED"));
        assert_eq!(hresult_name(0x8007_0002), Some("ERROR_FILE_NOT_FOUND"));
        assert_eq!(win32_error_name(0xFFFF), None);
    }
}
