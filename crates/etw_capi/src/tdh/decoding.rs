//! Decoding handles: events with files of trace formats that a program names (`TdhOpenDecodingHandle`).

// UNSAFETY: reads what callers point to, and writes into their buffers.
#![expect(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use etw_consumer::SchemaFiles;
use etw_event::{Clock, Origin, Record, Ticks};
use etw_schema::{Event, Located, Providers, Resolver};
use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_RECORD, TDH_CONTEXT, TDH_CONTEXT_PDB_PATH, TDH_CONTEXT_POINTERSIZE, TDH_CONTEXT_WPP_GMT,
    TDH_CONTEXT_WPP_TMFFILE, TDH_CONTEXT_WPP_TMFSEARCHPATH,
};

use super::event::text_at;
use super::out::copy;
use super::wpp::{message, part_of_event, part_of_record};
use crate::consume::rebuild;
use crate::error::{
    ERROR_FILE_NOT_FOUND, ERROR_INVALID_DATA, ERROR_INVALID_HANDLE, ERROR_INVALID_PARAMETER, ERROR_NOT_FOUND,
    ERROR_SUCCESS,
};
use crate::guest::path_of;
use crate::schemas::schemas;
use crate::wide::Width;

/// Most contexts of a call. TDH has five kinds.
const MAX_CONTEXTS: u32 = 64;

static OPEN: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Table {
    last: usize,
    handles: HashMap<usize, Arc<Mutex<Decoding>>>,
}

/// What a handle was given.
#[derive(Default)]
struct Decoding {
    formats: Vec<Arc<Providers>>,
    /// The parameters that are numbers: the size of pointers, and whether times are in UTC.
    numbers: HashMap<i32, u64>,
    resolver: Option<Resolver>,
}

impl Decoding {
    fn resolver(&mut self) -> &mut Resolver {
        let formats = &self.formats;
        self.resolver.get_or_insert_with(|| {
            let mut all = schemas();
            formats.iter().rev().for_each(|providers| all.add(providers.clone()));
            all.resolver()
        })
    }
}

/// The formats that a program named last in the contexts of a call.
static NAMED: Mutex<Option<(Vec<String>, Decoding)>> = Mutex::new(None);

/// Calls `work` with a resolver that knows files of trace formats. Files which cannot be read are left out.
pub(super) fn with_formats<R>(paths: &[String], work: impl FnOnce(&mut Resolver) -> R) -> R {
    let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    if named.as_ref().is_none_or(|(known, _)| known != paths) {
        let mut decoding = Decoding::default();
        decoding.formats.extend(paths.iter().filter_map(|paths| formats(paths)));
        *named = Some((paths.to_vec(), decoding));
    }
    let (_, decoding) = named.get_or_insert_with(Default::default);
    work(decoding.resolver())
}

/// Reads files and directories of trace formats, separated by `;`. Returns `None` if there is no format in them.
fn formats(paths: &str) -> Option<Arc<Providers>> {
    let read = SchemaFiles::read(
        paths.split(';').filter(|path| !path.is_empty()).map(|path| path_of(path.to_owned())),
    );
    (!read.providers.is_empty()).then(|| Arc::new(Providers::from_iter(read.providers)))
}

/// Returns the files of trace formats in the contexts of a call.
///
/// # Errors
///
/// Fails with an error code if there are contexts but no pointer to them.
///
/// # Safety
///
/// The pointer is null or to `count` contexts, whose paths are texts of this width.
pub(super) unsafe fn named_formats(
    count: u32,
    contexts: *const TDH_CONTEXT,
    width: Width,
) -> Result<Vec<String>, u32> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if contexts.is_null() || count > MAX_CONTEXTS {
        return Err(ERROR_INVALID_PARAMETER);
    }
    let mut paths = Vec::new();
    for index in 0..count as usize {
        // SAFETY: the caller's promise.
        let context = unsafe { contexts.add(index).read_unaligned() };
        if let TDH_CONTEXT_WPP_TMFFILE | TDH_CONTEXT_WPP_TMFSEARCHPATH | TDH_CONTEXT_PDB_PATH =
            context.ParameterType
        {
            // SAFETY: the caller's promise.
            paths.push(unsafe { text_at(context.ParameterValue, width) }.ok_or(ERROR_INVALID_PARAMETER)?);
        }
    }
    Ok(paths)
}

fn find(handle: *const c_void) -> Option<Arc<Mutex<Decoding>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).handles.get(&handle.addr()).cloned()
}

/// Creates a handle without parameters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhOpenDecodingHandle(handle: *mut *mut c_void) -> u32 {
    if handle.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    let mut table = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    table.last += 1;
    let own = table.last;
    table.handles.insert(own, Arc::default());
    // SAFETY: the pointer is to a handle.
    unsafe { handle.write_unaligned(std::ptr::without_provenance_mut(own)) };
    ERROR_SUCCESS
}

/// Frees a handle.
#[unsafe(no_mangle)]
pub extern "C" fn TdhCloseDecodingHandle(handle: *const c_void) -> u32 {
    match OPEN.lock().unwrap_or_else(PoisonError::into_inner).handles.remove(&handle.addr()) {
        Some(_) => ERROR_SUCCESS,
        None => ERROR_INVALID_HANDLE,
    }
}

/// Sets a parameter: a file or directories of trace formats, or a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhSetDecodingParameter(handle: *const c_void, context: *const TDH_CONTEXT) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { set_parameter(handle, context, Width::Wide16) }
}

/// [`TdhSetDecodingParameter`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhSetDecodingParameter32(
    handle: *const c_void,
    context: *const TDH_CONTEXT,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { set_parameter(handle, context, Width::Wide32) }
}

/// Returns a parameter that is a number, in `ParameterValue`. Paths are not returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetDecodingParameter(handle: *const c_void, context: *mut TDH_CONTEXT) -> u32 {
    let Some(decoding) = find(handle) else { return ERROR_INVALID_HANDLE };
    // SAFETY: the pointer is null or to a context.
    let Some(context) = (unsafe { context.as_mut() }) else { return ERROR_INVALID_PARAMETER };
    let decoding = decoding.lock().unwrap_or_else(PoisonError::into_inner);
    match (context.ParameterType, decoding.numbers.get(&context.ParameterType)) {
        (TDH_CONTEXT_WPP_GMT | TDH_CONTEXT_POINTERSIZE, number) => {
            context.ParameterValue = number.copied().unwrap_or(0);
            ERROR_SUCCESS
        }
        _ => ERROR_NOT_FOUND,
    }
}

/// Writes the text of a WPP message; the buffer's size is in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetWppMessage(
    handle: *const c_void,
    event: *const EVENT_RECORD,
    size: *mut u32,
    buffer: *mut u8,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { wpp_message(handle, event, size, buffer, Width::Wide16) }
}

/// [`TdhGetWppMessage`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetWppMessage32(
    handle: *const c_void,
    event: *const EVENT_RECORD,
    size: *mut u32,
    buffer: *mut u8,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { wpp_message(handle, event, size, buffer, Width::Wide32) }
}

/// Writes a part of a WPP message: `FormattedString`, `FunctionName`, `ProcessId` and so on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetWppProperty(
    handle: *const c_void,
    event: *const EVENT_RECORD,
    name: *const u16,
    size: *mut u32,
    buffer: *mut u8,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { wpp_property(handle, event, name.cast(), size, buffer, Width::Wide16) }
}

/// [`TdhGetWppProperty`] with characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhGetWppProperty32(
    handle: *const c_void,
    event: *const EVENT_RECORD,
    name: *const u32,
    size: *mut u32,
    buffer: *mut u8,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { wpp_property(handle, event, name.cast(), size, buffer, Width::Wide32) }
}

/// # Safety
///
/// The context is null, or its value is what its type says.
unsafe fn set_parameter(handle: *const c_void, context: *const TDH_CONTEXT, width: Width) -> u32 {
    let Some(decoding) = find(handle) else { return ERROR_INVALID_HANDLE };
    // SAFETY: the pointer is null or to a context.
    let Some(context) = (unsafe { context.as_ref() }) else { return ERROR_INVALID_PARAMETER };
    let mut decoding = decoding.lock().unwrap_or_else(PoisonError::into_inner);
    match context.ParameterType {
        TDH_CONTEXT_WPP_TMFFILE | TDH_CONTEXT_WPP_TMFSEARCHPATH | TDH_CONTEXT_PDB_PATH => {
            // SAFETY: the value is the address of a text of this width.
            let Some(paths) = (unsafe { text_at(context.ParameterValue, width) }) else {
                return ERROR_INVALID_PARAMETER;
            };
            let Some(formats) = formats(&paths) else { return ERROR_FILE_NOT_FOUND };
            decoding.formats.push(formats);
            decoding.resolver = None;
        }
        TDH_CONTEXT_WPP_GMT | TDH_CONTEXT_POINTERSIZE => {
            decoding.numbers.insert(context.ParameterType, context.ParameterValue);
        }
        _ => return ERROR_INVALID_PARAMETER,
    }
    ERROR_SUCCESS
}

/// Calls `work` with a decoded WPP message.
///
/// # Safety
///
/// The record is null, or its pointers are null or to as many bytes as it says.
unsafe fn decode<R>(
    handle: *const c_void,
    event: *const EVENT_RECORD,
    work: impl FnOnce(&Event<'_>) -> Option<R>,
) -> Result<R, u32> {
    let decoding = find(handle).ok_or(ERROR_INVALID_HANDLE)?;
    // SAFETY: the caller's promise.
    let bytes = unsafe {
        let record = event.as_ref().ok_or(ERROR_INVALID_PARAMETER)?;
        rebuild(record).ok_or(ERROR_INVALID_PARAMETER)?
    };
    let origin = Origin { clock: Clock::system_time(), ..Origin::default() };
    let record = Record::parse(&bytes, &origin, Ticks(0)).map_err(|_| ERROR_INVALID_DATA)?;
    let mut located = Located::new();
    let mut decoding = decoding.lock().unwrap_or_else(PoisonError::into_inner);
    work(&decoding.resolver().decode(&record, &mut located)).ok_or(ERROR_NOT_FOUND)
}

/// # Safety
///
/// As of `decode` and `copy`.
unsafe fn wpp_message(
    handle: *const c_void,
    event: *const EVENT_RECORD,
    size: *mut u32,
    buffer: *mut u8,
    width: Width,
) -> u32 {
    // SAFETY: the caller's promise.
    match unsafe { decode(handle, event, message) } {
        // SAFETY: the caller's promise.
        Ok(text) => unsafe { copy(&width.encode(&text), buffer, size) },
        Err(code) => code,
    }
}

/// # Safety
///
/// As of `decode` and `copy`, and the name is null or a text of this width.
unsafe fn wpp_property(
    handle: *const c_void,
    event: *const EVENT_RECORD,
    name: *const c_void,
    size: *mut u32,
    buffer: *mut u8,
    width: Width,
) -> u32 {
    if find(handle).is_none() {
        return ERROR_INVALID_HANDLE;
    }
    // SAFETY: the caller's promise.
    let (name, record) = unsafe { (width.read(name), event.as_ref()) };
    let (Some(name), Some(record)) = (name, record) else { return ERROR_INVALID_PARAMETER };
    let bytes = match part_of_record(record, &name) {
        Some(bytes) => Ok(bytes),
        // SAFETY: the caller's promise.
        None => unsafe { decode(handle, event, |event| part_of_event(event, &name, width)) },
    };
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(code) => return code,
    };
    // SAFETY: the caller's promise.
    unsafe { copy(&bytes, buffer, size) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ERROR_INSUFFICIENT_BUFFER;
    use crate::guid;
    use crate::{TdhGetProperty, TdhGetPropertySize};
    use windows_sys::Win32::System::Diagnostics::Etw::PROPERTY_DATA_DESCRIPTOR;

    const TMF: &str = "// PDB:  app.pdb\n// PDB:  Last Updated :2020-1-1:1:1:1:1 (UTC)\n\
        0102030a-0506-0708-090a-0b0c0d0e0f10 app // SRC=app.cpp MJ= MN=\n\
        #typev app_cpp10 10 \"%0answer is %10!d!\" //   LEVEL=TRACE_LEVEL_INFORMATION FLAGS=ALL FUNC=main\n{\n\
        number, ItemLong -- 10\n}\n";

    #[test]
    fn messages_are_formatted_with_the_files_of_a_handle() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.tmf");
        std::fs::write(&path, TMF).unwrap();
        let path = Width::Wide16.encode(path.to_str().unwrap());
        let number = 42u32.to_le_bytes();
        // SAFETY: zeros are valid for all members.
        let mut record: EVENT_RECORD = unsafe { std::mem::zeroed() };
        record.EventHeader.Flags = 0x48;
        record.EventHeader.EventDescriptor.Id = 10;
        record.EventHeader.ProcessId = 7;
        record.EventHeader.ProviderId =
            guid::windows_guid("0102030a-0506-0708-090a-0b0c0d0e0f10".parse().unwrap());
        record.UserData = number.as_ptr().cast_mut().cast();
        record.UserDataLength = 4;
        let mut handle = std::ptr::null_mut();
        let mut buffer = [0u8; 256];
        // SAFETY: the pointers are valid or null.
        unsafe {
            let mut context: TDH_CONTEXT = std::mem::zeroed();
            context.ParameterType = TDH_CONTEXT_WPP_TMFFILE;
            context.ParameterValue = path.as_ptr().addr() as u64;
            assert_eq!(TdhOpenDecodingHandle(std::ptr::null_mut()), ERROR_INVALID_PARAMETER);
            assert_eq!(TdhOpenDecodingHandle(&mut handle), ERROR_SUCCESS);
            let mut size = 256;
            assert_eq!(TdhGetWppMessage(handle, &record, &mut size, buffer.as_mut_ptr()), ERROR_NOT_FOUND);
            assert_eq!(TdhSetDecodingParameter(handle, std::ptr::null()), ERROR_INVALID_PARAMETER);
            assert_eq!(TdhSetDecodingParameter(handle, &context), ERROR_SUCCESS);
            size = 4;
            let small = TdhGetWppMessage(handle, &record, &mut size, buffer.as_mut_ptr());
            assert_eq!(small, ERROR_INSUFFICIENT_BUFFER);
            assert_eq!(TdhGetWppMessage(handle, &record, &mut size, buffer.as_mut_ptr()), ERROR_SUCCESS);
            let text = Width::Wide16.read(buffer.as_ptr().cast()).unwrap();
            assert!(text.ends_with("answer is 42"), "{text}");
            let name = Width::Wide32.encode("ProcessId");
            let get = |name: &[u8], size: &mut u32, buffer: &mut [u8]| {
                TdhGetWppProperty32(handle, &record, name.as_ptr().cast(), size, buffer.as_mut_ptr())
            };
            size = 256;
            assert_eq!((get(&name, &mut size, &mut buffer), size, buffer[0]), (ERROR_SUCCESS, 4, 7));
            assert_eq!(get(&Width::Wide32.encode("Else"), &mut size, &mut buffer), ERROR_NOT_FOUND);
            for (name, wanted) in
                [("FunctionName", "main"), ("LevelName", "TRACE_LEVEL_INFORMATION"), ("GuidName", "app")]
            {
                size = 256;
                assert_eq!(get(&Width::Wide32.encode(name), &mut size, &mut buffer), ERROR_SUCCESS, "{name}");
                assert_eq!(Width::Wide32.read(buffer.as_ptr().cast()).as_deref(), Some(wanted));
            }
            // With every call, as programs did before there were handles.
            let name = Width::Wide16.encode("FormattedString");
            let step = PROPERTY_DATA_DESCRIPTOR {
                PropertyName: name.as_ptr().addr() as u64,
                ArrayIndex: u32::MAX,
                Reserved: 0,
            };
            let missing = TdhGetPropertySize(&record, 0, std::ptr::null(), 1, &step, &mut size);
            assert_eq!(missing, ERROR_NOT_FOUND);
            assert_eq!(
                TdhGetPropertySize(&record, 1, std::ptr::null(), 1, &step, &mut size),
                ERROR_INVALID_PARAMETER
            );
            assert_eq!(TdhGetPropertySize(&record, 1, &context, 1, &step, &mut size), ERROR_SUCCESS);
            assert_eq!(
                TdhGetProperty(&record, 1, &context, 1, &step, size, buffer.as_mut_ptr()),
                ERROR_SUCCESS
            );
            assert_eq!(Width::Wide16.read(buffer.as_ptr().cast()).as_deref(), Some("answer is 42"));
            context.ParameterType = TDH_CONTEXT_POINTERSIZE;
            context.ParameterValue = 8;
            assert_eq!(TdhSetDecodingParameter(handle, &context), ERROR_SUCCESS);
            context.ParameterValue = 0;
            assert_eq!(TdhGetDecodingParameter(handle, &mut context), ERROR_SUCCESS);
            assert_eq!(context.ParameterValue, 8);
            context.ParameterType = 77;
            assert_eq!(TdhSetDecodingParameter(handle, &context), ERROR_INVALID_PARAMETER);
            assert_eq!(TdhCloseDecodingHandle(handle), ERROR_SUCCESS);
            assert_eq!(TdhCloseDecodingHandle(handle), ERROR_INVALID_HANDLE);
            size = 256;
            let closed = TdhGetWppMessage(handle, &record, &mut size, buffer.as_mut_ptr());
            assert_eq!(closed, ERROR_INVALID_HANDLE);
        }
    }
}
