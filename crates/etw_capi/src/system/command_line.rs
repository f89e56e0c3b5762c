//! The command line, and its parts.

// UNSAFETY: reads and writes texts of callers.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::sync::OnceLock;

use super::text::allocated;
use crate::error::{ERROR_INVALID_PARAMETER, ERROR_NOT_ENOUGH_MEMORY, SetLastError};
use crate::wide::Width;

macro_rules! lines {
    ($($(#[$doc:meta])* $name:ident, $width:expr;)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> *mut c_void {
                static LINE: OnceLock<Vec<u8>> = OnceLock::new();
                LINE.get_or_init(|| $width.encode(&line())).as_ptr().cast_mut().cast()
            }
        )*
    };
}

lines! {
    /// Returns the arguments of this program as one text, quoted where needed.
    GetCommandLineW, Width::Wide16;
    /// [`GetCommandLineW`] with characters of 32 bits.
    GetCommandLineW32, Width::Wide32;
    /// [`GetCommandLineW`] with 8-bit text.
    GetCommandLineA, Width::Narrow;
}

/// Splits a command line. The parts are in one block that `LocalFree` frees.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CommandLineToArgvW(text: *const u16, count: *mut i32) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { split_line(text.cast(), count, Width::Wide16) }
}

/// [`CommandLineToArgvW`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CommandLineToArgvW32(text: *const u32, count: *mut i32) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { split_line(text.cast(), count, Width::Wide32) }
}

fn line() -> String {
    std::env::args_os().map(|part| quoted(&part.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

/// Quotes a part such that [`split`] finds it.
fn quoted(part: &str) -> String {
    if !part.is_empty() && !part.contains([' ', '\t', '"']) {
        return part.to_owned();
    }
    let mut out = String::from('"');
    let mut slashes = 0;
    for character in part.chars() {
        if character == '"' {
            // Backslashes count double before a quote.
            out.extend(std::iter::repeat_n('\\', slashes + 1));
        }
        slashes = if character == '\\' { slashes + 1 } else { 0 };
        out.push(character);
    }
    out.extend(std::iter::repeat_n('\\', slashes));
    out.push('"');
    out
}

/// Splits a command line by the rules of Windows' programs.
fn split(line: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part: Option<String> = None;
    let (mut is_quoted, mut slashes) = (false, 0);
    for character in line.chars() {
        if character == '\\' {
            slashes += 1;
            part.get_or_insert_default();
            continue;
        }
        let before = std::mem::take(&mut slashes);
        if character == '"' {
            let text = part.get_or_insert_default();
            text.extend(std::iter::repeat_n('\\', before / 2));
            match before % 2 {
                0 => is_quoted = !is_quoted,
                _ => text.push('"'),
            }
            continue;
        }
        if before > 0 {
            part.get_or_insert_default().extend(std::iter::repeat_n('\\', before));
        }
        if (character == ' ' || character == '\t') && !is_quoted {
            parts.extend(part.take());
        } else {
            part.get_or_insert_default().push(character);
        }
    }
    if let Some(text) = &mut part {
        text.extend(std::iter::repeat_n('\\', slashes));
    }
    parts.extend(part);
    parts
}

/// # Safety
///
/// The text is null or of this width; `count` is null or to an int.
unsafe fn split_line(text: *const c_void, count: *mut i32, width: Width) -> *mut c_void {
    // SAFETY: the caller's promise.
    let Some(text) = (unsafe { width.read(text) }).filter(|_| !count.is_null()) else {
        SetLastError(ERROR_INVALID_PARAMETER);
        return std::ptr::null_mut();
    };
    let parts = split(&text);
    // The pointers first, then the texts.
    let start = size_of::<usize>() * (parts.len() + 1);
    let mut block = vec![0; start];
    let mut offsets = Vec::new();
    for part in &parts {
        offsets.push(block.len());
        width.append(&mut block, part);
    }
    let Some(memory) = allocated(&block) else {
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
        return std::ptr::null_mut();
    };
    // SAFETY: the block has room for the pointers and the texts.
    unsafe {
        for (index, offset) in offsets.into_iter().enumerate() {
            memory.cast::<*mut u8>().add(index).write_unaligned(memory.add(offset));
        }
        count.write_unaligned(parts.len() as i32);
    }
    memory.cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        let parts = ["program", "", "a b", "say \"hi\"", r"C:\path\", r"C:\my path\", "tab\there", r#"\\"x"#];
        let line = parts.map(quoted).join(" ");
        assert_eq!(split(&line), parts);
        assert_eq!(split("  one   two "), ["one", "two"]);
        assert_eq!(split(r#"a\"b "open"#), ["a\"b", "open"]);
    }
}
