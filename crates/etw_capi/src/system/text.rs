//! GUIDs, SIDs and error codes as text, and conversions of text.

// UNSAFETY: reads and writes texts of callers.
#![expect(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use etw_event::{Guid, Sid};
use etw_provider::activity;
use windows_sys::core::GUID;

use crate::error::{ERROR_INSUFFICIENT_BUFFER, ERROR_INVALID_PARAMETER, ERROR_NOT_ENOUGH_MEMORY, failed};
use crate::guid;
use crate::wide::{Width, character};

/// `E_INVALIDARG` and `CO_E_CLASSSTRING`.
const E_INVALIDARG: i32 = 0x8007_0057_u32 as i32;
const CO_E_CLASSSTRING: i32 = 0x8004_01F3_u32 as i32;
/// `FORMAT_MESSAGE_ALLOCATE_BUFFER` and `FORMAT_MESSAGE_FROM_SYSTEM`.
const ALLOCATE_BUFFER: u32 = 0x100;
const FROM_SYSTEM: u32 = 0x1000;
/// `FORMAT_MESSAGE_IGNORE_INSERTS`, `FORMAT_MESSAGE_FROM_STRING` and `FORMAT_MESSAGE_ARGUMENT_ARRAY`.
const IGNORE_INSERTS: u32 = 0x200;
const FROM_STRING: u32 = 0x400;
const ARRAY: u32 = 0x2000;
/// `CP_UTF8`; the others are UTF-8 here.
const UTF8: u32 = 65001;

/// Makes a new GUID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CoCreateGuid(id: *mut GUID) -> i32 {
    if id.is_null() {
        return E_INVALIDARG;
    }
    // Random, but for the bits that say so (RFC 9562).
    let mut bytes = activity::create().to_bytes();
    for (byte, random) in bytes.iter_mut().zip(random()) {
        *byte ^= random;
    }
    let [_, _, _, _, _, _, _, version, variant, ..] = &mut bytes;
    *version = *version & 0x0F | 0x40;
    *variant = *variant & 0x3F | 0x80;
    // SAFETY: the pointer is to a GUID.
    unsafe { id.write_unaligned(guid::windows_guid(Guid::from_bytes(bytes))) };
    0
}

/// Returns bytes from the keys of the standard library's hash maps, which are random.
fn random() -> [u8; 16] {
    use std::hash::{BuildHasher, RandomState};
    let word = || RandomState::new().hash_one(etw_sys::clock::counter());
    (u128::from(word()) << 64 | u128::from(word())).to_le_bytes()
}

macro_rules! of_two_widths {
    ($($(#[$doc:meta])* fn $wide:ident / $wide32:ident ($($name:ident: $type:ty),* $(,)?) -> $result:ty = $inner:ident;)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $wide($($name: $type),*) -> $result {
                // SAFETY: the caller's promise.
                unsafe { $inner($($name,)* Width::Wide16) }
            }

            #[doc = concat!("[`", stringify!($wide), "`] with characters of 32 bits.")]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $wide32($($name: $type),*) -> $result {
                // SAFETY: the caller's promise.
                unsafe { $inner($($name,)* Width::Wide32) }
            }
        )*
    };
}

of_two_widths! {
    /// Writes `{XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX}` and a zero; returns the number of characters, 0 without room.
    fn StringFromGUID2 / StringFromGUID232(id: *const GUID, text: *mut c_void, size: i32) -> i32 = string_from_guid;
    /// Reads the form of [`StringFromGUID2`].
    fn CLSIDFromString / CLSIDFromString32(text: *const c_void, id: *mut GUID) -> i32 = guid_from_string;
    /// Converts UTF-8 to wide text. Returns the number of characters, of all that there are if `size` is 0.
    fn MultiByteToWideChar / MultiByteToWideChar32(
        page: u32, flags: u32, text: *const c_char, bytes: i32, to: *mut c_void, size: i32,
    ) -> i32 = widen;
    /// Converts wide text to UTF-8. Returns the number of bytes, of all that there are if `size` is 0.
    fn WideCharToMultiByte / WideCharToMultiByte32(
        page: u32, flags: u32, text: *const c_void, length: i32, to: *mut c_char, size: i32, unknown: *const c_char,
        is_unknown: *mut i32,
    ) -> i32 = narrow;
    /// Makes the text of a SID, which `LocalFree` frees.
    fn ConvertSidToStringSidW / ConvertSidToStringSidW32(sid: *const c_void, text: *mut *mut c_void) -> i32 = sid_text;
    /// Writes the name of an error code, or a message with its inserts.
    fn FormatMessageW / FormatMessageW32(
        flags: u32, source: *const c_void, code: u32, language: u32, text: *mut c_void, size: u32,
        arguments: *mut c_void,
    ) -> u32 = format_message;
    /// Returns the arguments of `main` as wide text, which is never freed.
    fn openetw_wide_arguments / openetw_wide_arguments32(
        count: i32, arguments: *const *const c_char,
    ) -> *mut *mut c_void = wide_arguments;
}

/// [`ConvertSidToStringSidW`] with 8-bit text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ConvertSidToStringSidA(sid: *const c_void, text: *mut *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { sid_text(sid, text, Width::Narrow) }
}

/// [`FormatMessageW`] with 8-bit text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn FormatMessageA(
    flags: u32,
    source: *const c_void,
    code: u32,
    language: u32,
    text: *mut c_void,
    size: u32,
    arguments: *mut c_void,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { format_message(flags, source, code, language, text, size, arguments, Width::Narrow) }
}

/// Returns milliseconds since an arbitrary moment, usually the start of the machine.
#[unsafe(no_mangle)]
pub extern "C" fn GetTickCount64() -> u64 {
    let clock = etw_sys::clock::ClockSource::of_performance_counter();
    let (ticks, frequency) = (clock.now(), clock.frequency().max(1));
    (u128::from(ticks) * 1000 / u128::from(frequency)) as u64
}

/// # Safety
///
/// `text` is null or has room for `size` characters.
unsafe fn string_from_guid(id: *const GUID, text: *mut c_void, size: i32, width: Width) -> i32 {
    // SAFETY: the caller's promise.
    let Some(id) = (unsafe { guid::read(id) }) else { return 0 };
    let bytes = width.encode(&id.to_string().to_uppercase());
    let count = (bytes.len() / width.bytes()) as i32;
    if text.is_null() || size < count {
        return 0;
    }
    // SAFETY: there is room for this many characters.
    unsafe { text.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    count
}

/// # Safety
///
/// `text` is null or of this width; `id` is null or to a GUID.
unsafe fn guid_from_string(text: *const c_void, id: *mut GUID, width: Width) -> i32 {
    if id.is_null() {
        return E_INVALIDARG;
    }
    // SAFETY: the caller's promise.
    let text = unsafe { width.read(text) }.unwrap_or_default();
    // Windows wants the braces.
    let is_braced = text.starts_with('{') && text.ends_with('}');
    let parsed = text.parse::<Guid>().ok().filter(|_| is_braced || text.is_empty());
    // SAFETY: the pointer is to a GUID.
    unsafe { id.write_unaligned(guid::windows_guid(parsed.unwrap_or(Guid::ZERO))) };
    // Without text the GUID is zero.
    if parsed.is_some() || text.is_empty() { 0 } else { CO_E_CLASSSTRING }
}

/// # Safety
///
/// The pointers are null or to as many bytes and characters as stated.
unsafe fn widen(
    page: u32,
    _flags: u32,
    text: *const c_char,
    bytes: i32,
    to: *mut c_void,
    size: i32,
    width: Width,
) -> i32 {
    if text.is_null() || bytes == 0 || bytes < -1 || size < 0 || !is_utf8(page) {
        return failed(ERROR_INVALID_PARAMETER);
    }
    // SAFETY: the caller's promise.
    let text = unsafe {
        match bytes {
            -1 => std::ffi::CStr::from_ptr(text).to_bytes_with_nul(),
            _ => std::slice::from_raw_parts(text.cast::<u8>(), bytes as usize),
        }
    };
    let mut out = Vec::new();
    for character in String::from_utf8_lossy(text).chars() {
        match width {
            Width::Wide32 => out.extend(u32::from(character).to_le_bytes()),
            _ => {
                let units = character.encode_utf16(&mut [0; 2]).to_owned();
                out.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { give(&out, width.bytes(), to.cast(), size) }
}

/// # Safety
///
/// As of [`widen`].
#[expect(clippy::too_many_arguments, reason = "they are those of WideCharToMultiByte")]
unsafe fn narrow(
    page: u32,
    _flags: u32,
    text: *const c_void,
    length: i32,
    to: *mut c_char,
    size: i32,
    _unknown: *const c_char,
    is_unknown: *mut i32,
    width: Width,
) -> i32 {
    if text.is_null() || length == 0 || length < -1 || size < 0 || !is_utf8(page) {
        return failed(ERROR_INVALID_PARAMETER);
    }
    // SAFETY: the caller's promise.
    let narrow = unsafe {
        match (length, width) {
            (-1, _) => width.read(text).map(|text| text + "\0").unwrap_or_default(),
            (_, Width::Wide32) => {
                let units = (0..length as usize).map(|index| text.cast::<u32>().add(index).read_unaligned());
                units.map(character).collect()
            }
            _ => {
                let units = (0..length as usize).map(|index| text.cast::<u16>().add(index).read_unaligned());
                String::from_utf16_lossy(&units.collect::<Vec<u16>>())
            }
        }
    };
    if !is_unknown.is_null() {
        // SAFETY: the pointer is to a BOOL.
        unsafe { is_unknown.write_unaligned(0) };
    }
    // SAFETY: the caller's promise.
    unsafe { give(narrow.as_bytes(), 1, to.cast(), size) }
}

/// Writes bytes for a caller that has room for `size` elements, and returns their number.
///
/// # Safety
///
/// The pointer is null or has that room.
unsafe fn give(bytes: &[u8], element: usize, to: *mut u8, size: i32) -> i32 {
    let count = bytes.len() / element;
    if size == 0 {
        return count as i32;
    }
    if to.is_null() {
        return failed(ERROR_INVALID_PARAMETER);
    }
    if count > size as usize {
        return failed(ERROR_INSUFFICIENT_BUFFER);
    }
    // SAFETY: the caller's promise.
    unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    count as i32
}

fn is_utf8(page: u32) -> bool {
    matches!(page, 0 | 1 | 3 | UTF8)
}

/// # Safety
///
/// `sid` is null or to a SID, and `text` is null or to a pointer.
unsafe fn sid_text(sid: *const c_void, text: *mut *mut c_void, width: Width) -> i32 {
    if sid.is_null() || text.is_null() {
        return failed(ERROR_INVALID_PARAMETER);
    }
    // SAFETY: the caller's promise: the second byte is the number of parts.
    let bytes = unsafe {
        let parts = sid.cast::<u8>().add(1).read();
        std::slice::from_raw_parts(sid.cast::<u8>(), 8 + 4 * usize::from(parts))
    };
    let Some(sid) = Sid::parse(bytes) else {
        // `ERROR_INVALID_SID`.
        return failed(1337);
    };
    let mut out = String::new();
    etw_schema::text::write_sid(&mut out, sid);
    match allocated(&width.encode(&out)) {
        Some(pointer) => {
            // SAFETY: the caller's promise.
            unsafe { text.write_unaligned(pointer.cast()) };
            1
        }
        None => failed(ERROR_NOT_ENOUGH_MEMORY),
    }
}

/// Copies bytes into memory that `free` frees.
pub(super) fn allocated(bytes: &[u8]) -> Option<*mut u8> {
    unsafe extern "C" {
        fn malloc(bytes: usize) -> *mut c_void;
    }
    // SAFETY: memory of this size, or null.
    unsafe {
        let memory = malloc(bytes.len().max(1)).cast::<u8>();
        if memory.is_null() {
            return None;
        }
        memory.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        Some(memory)
    }
}

/// # Safety
///
/// `text` is to a pointer or has room for `size` characters, as the flags say.
#[expect(clippy::too_many_arguments, reason = "they are those of FormatMessage")]
unsafe fn format_message(
    flags: u32,
    source: *const c_void,
    code: u32,
    _language: u32,
    text: *mut c_void,
    size: u32,
    arguments: *mut c_void,
    width: Width,
) -> u32 {
    if text.is_null() {
        return failed(ERROR_INVALID_PARAMETER) as u32;
    }
    let found = if flags & FROM_STRING != 0 {
        // Only arrays: a `va_list` cannot be read here.
        if source.is_null() || (arguments.is_null() && flags & IGNORE_INSERTS == 0) || flags & ARRAY == 0 {
            return failed(ERROR_INVALID_PARAMETER) as u32;
        }
        // SAFETY: the caller's promise.
        unsafe { from_string(source, flags, arguments.cast(), width) }
    } else if flags & FROM_SYSTEM != 0 {
        let win32 = if code >> 16 == 0x8007 { code & 0xFFFF } else { code };
        let Some(name) = etw_schema::text::win32_error_name(win32) else {
            // `ERROR_MR_MID_NOT_FOUND`.
            return failed(317) as u32;
        };
        format!("{name}\r\n")
    } else {
        return failed(ERROR_INVALID_PARAMETER) as u32;
    };
    let bytes = width.encode(&found);
    let count = (bytes.len() / width.bytes()) as u32;
    if flags & ALLOCATE_BUFFER != 0 {
        let Some(memory) = allocated(&bytes) else { return failed(ERROR_NOT_ENOUGH_MEMORY) as u32 };
        // SAFETY: with this flag the text is a place for a pointer.
        unsafe { text.cast::<*mut u8>().write_unaligned(memory) };
    } else if size < count {
        return failed(ERROR_INSUFFICIENT_BUFFER) as u32;
    } else {
        // SAFETY: there is room for this many characters.
        unsafe { text.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
    count - 1
}

/// Returns a message with its inserts.
///
/// # Safety
///
/// The message is a text of this width, and there is an argument for each insert, of the kind that its format states: a
/// text, unless it is a number.
unsafe fn from_string(message: *const c_void, flags: u32, arguments: *const usize, width: Width) -> String {
    // SAFETY: the caller's promise.
    let text = unsafe { width.read(message) }.unwrap_or_default();
    super::locale::message(&text, |index, format| {
        if flags & IGNORE_INSERTS != 0 {
            return if format.is_empty() { format!("%{index}") } else { format!("%{index}!{format}!") };
        }
        // SAFETY: the caller's promise.
        let argument = unsafe { arguments.add(index - 1).read_unaligned() };
        match format.trim_start_matches(|letter: char| !letter.is_ascii_alphabetic()) {
            // SAFETY: the caller's promise.
            "" | "s" | "ls" | "ws" => unsafe { width.read(argument as *const c_void) }.unwrap_or_default(),
            // SAFETY: the caller's promise.
            "hs" | "S" => unsafe { Width::Narrow.read(argument as *const c_void) }.unwrap_or_default(),
            "d" | "i" | "ld" | "li" => (argument as i32).to_string(),
            "u" | "lu" => (argument as u32).to_string(),
            "I64d" => (argument as i64).to_string(),
            "x" | "lx" => format!("{:x}", argument as u32),
            "X" | "lX" => format!("{:X}", argument as u32),
            "I64x" => format!("{argument:x}"),
            "I64X" | "p" => format!("{argument:X}"),
            _ => argument.to_string(),
        }
    })
}

/// The arguments of `wmain`.
static ARGUMENTS: AtomicPtr<*mut c_void> = AtomicPtr::new(std::ptr::null_mut());

/// # Safety
///
/// As `main` gets them.
unsafe fn wide_arguments(count: i32, arguments: *const *const c_char, width: Width) -> *mut *mut c_void {
    let mut pointers: Vec<*mut c_void> = (0..usize::try_from(count).unwrap_or(0))
        .map(|index| {
            // SAFETY: the caller's promise.
            let text = unsafe { Width::Narrow.read(arguments.add(index).read().cast()) }.unwrap_or_default();
            // Units of 4 bytes, so that the text is aligned. Never freed: it lives as long as the program.
            let mut words: Vec<u32> = width
                .encode(&text)
                .chunks(4)
                .map(|chunk| {
                    let mut word = [0; 4];
                    word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
                    u32::from_le_bytes(word)
                })
                .collect();
            words.push(0);
            words.leak().as_mut_ptr().cast()
        })
        .collect();
    pointers.push(std::ptr::null_mut());
    let pointers = pointers.leak().as_mut_ptr();
    // Leak checkers find them here. The compiler would remove a static that is never read.
    ARGUMENTS.store(pointers, Ordering::Relaxed);
    std::hint::black_box(&ARGUMENTS);
    pointers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_as_text() {
        let mut id = guid::windows_guid(Guid::ZERO);
        // SAFETY: the pointers are valid.
        unsafe {
            assert_eq!(CoCreateGuid(&mut id), 0);
            for width in [Width::Wide16, Width::Wide32] {
                let mut text = [0u32; 40];
                assert_eq!(string_from_guid(&id, text.as_mut_ptr().cast(), 38, width), 0);
                assert_eq!(string_from_guid(&id, text.as_mut_ptr().cast(), 39, width), 39);
                let mut read = guid::windows_guid(Guid::ZERO);
                assert_eq!(guid_from_string(text.as_ptr().cast(), &mut read, width), 0);
                assert_eq!(guid::from(&read), guid::from(&id));
            }
            let wrong = Width::Wide16.encode("no GUID");
            assert_eq!(guid_from_string(wrong.as_ptr().cast(), &mut id, Width::Wide16), CO_E_CLASSSTRING);
        }
    }

    #[test]
    fn text_is_converted() {
        let text = "ä𝄞";
        // SAFETY: the pointers are valid.
        unsafe {
            for (width, units) in [(Width::Wide16, 3), (Width::Wide32, 2)] {
                let mut wide = [0u32; 8];
                let len = text.len() as i32;
                assert_eq!(widen(UTF8, 0, text.as_ptr().cast(), len, std::ptr::null_mut(), 0, width), units);
                assert_eq!(widen(UTF8, 0, text.as_ptr().cast(), len, wide.as_mut_ptr().cast(), 1, width), 0);
                assert_eq!(
                    widen(UTF8, 0, text.as_ptr().cast(), len, wide.as_mut_ptr().cast(), 8, width),
                    units
                );
                let mut back = [0u8; 8];
                let null = std::ptr::null_mut();
                let from = wide.as_ptr().cast();
                assert_eq!(
                    narrow(0, 0, from, units, back.as_mut_ptr().cast(), 8, null, null.cast(), width),
                    len
                );
                assert_eq!(&back[..text.len()], text.as_bytes());
            }
            assert_eq!(widen(1252, 0, text.as_ptr().cast(), 1, std::ptr::null_mut(), 0, Width::Wide16), 0);
        }
    }

    #[test]
    fn sids_and_errors_as_text() {
        let sid = [1u8, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
        let mut text: *mut c_void = std::ptr::null_mut();
        let mut message = [0u8; 64];
        // SAFETY: the pointers are valid; the test leaks the text.
        unsafe {
            assert_eq!(ConvertSidToStringSidA(sid.as_ptr().cast(), &mut text), 1);
            assert_eq!(Width::Narrow.read(text).as_deref(), Some("S-1-5-18"));
            let null = std::ptr::null_mut();
            let len = FormatMessageA(FROM_SYSTEM, null, 5, 0, message.as_mut_ptr().cast(), 64, null);
            assert_eq!(&message[..len as usize], b"ERROR_ACCESS_DENIED\r\n");
            assert_eq!(FormatMessageA(FROM_SYSTEM, null, 5, 0, message.as_mut_ptr().cast(), 5, null), 0);
            assert_eq!(FormatMessageA(0, null, 5, 0, message.as_mut_ptr().cast(), 64, null), 0);
        }
    }
}
