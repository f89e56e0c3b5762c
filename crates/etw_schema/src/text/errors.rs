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
        return write_hex_code(out, bits, |code| hresult_name(code).or_else(|| ntstatus_name(code)));
    }
    write_decimal(out, bits);
    write_name(out, code_of(bits).and_then(win32_error_name));
}

/// Writes `0xC0000022 (STATUS_ACCESS_DENIED)`.
pub(crate) fn write_hex_code(
    out: &mut (impl TextOut + ?Sized),
    bits: u64,
    name: impl Fn(u32) -> Option<&'static str>,
) {
    out.put("0x");
    put_hex_digits(out, bits, 8, true);
    write_name(out, code_of(bits).and_then(name));
}

/// Returns the code in the bits of an integer of at most 64 bits; `None` if it is neither 32 bits nor extended from them.
fn code_of(bits: u64) -> Option<u32> {
    let code = (bits & 0xFFFF_FFFF) as u32;
    let extended = i64::from(code as i32) as u64;
    (bits == u64::from(code) || bits == extended).then_some(code)
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
    fn only_32_bits_are_a_code() {
        let check = |bits: u64, expected: &str| {
            let mut out = String::new();
            write_win32(&mut out, bits);
            assert_eq!(out, expected);
        };
        check(5, "5 (ERROR_ACCESS_DENIED)");
        check(0xC000_0005, "0xC0000005 (STATUS_ACCESS_VIOLATION)");
        check(0xFFFF_FFFF_C000_0005, "0xFFFFFFFFC0000005 (STATUS_ACCESS_VIOLATION)");
        check(0x0000_0001_C000_0005, "0x1C0000005");
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
