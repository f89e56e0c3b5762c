//! Events, threads and tokens by handle, and waiting for them.

// UNSAFETY: calls functions of C, and writes through pointers of callers.
#![expect(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{WAIT_FAILED, WAIT_OBJECT_0, WAIT_TIMEOUT};

use crate::error::{
    ERROR_INVALID_HANDLE, ERROR_INVALID_PARAMETER, ERROR_NOT_ENOUGH_MEMORY, ERROR_NOT_SUPPORTED,
    SetLastError, failed,
};

/// `STILL_ACTIVE`: the exit code of a thread that runs.
const STILL_ACTIVE: u32 = 259;
/// `INFINITE`.
const INFINITE: u32 = u32::MAX;
/// `MAXIMUM_WAIT_OBJECTS`.
const MAX_OBJECTS: u32 = 64;

static OBJECTS: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);
/// Notified when an object becomes signaled.
static CHANGED: Condvar = Condvar::new();

#[derive(Default)]
struct Table {
    last: usize,
    objects: HashMap<usize, Object>,
}

#[derive(Debug, Clone, Copy)]
enum Object {
    /// An event; one that is not manual is reset by the thread that it releases.
    Event { is_manual: bool, is_set: bool },
    /// A thread, and its exit code once it has one.
    Thread { code: Option<u32> },
    /// The access token of this process.
    Token,
}

impl Object {
    fn is_signaled(self) -> bool {
        matches!(self, Object::Event { is_set: true, .. } | Object::Thread { code: Some(_) })
    }
}

impl Table {
    /// Adds an object. Handles are multiples of 4, as on Windows.
    fn add(&mut self, object: Object) -> usize {
        self.last += 4;
        self.objects.insert(self.last, object);
        self.last
    }

    /// Resets an event that has released a thread.
    fn take(&mut self, handle: usize) {
        if let Some(Object::Event { is_manual: false, is_set }) = self.objects.get_mut(&handle) {
            *is_set = false;
        }
    }
}

fn objects() -> MutexGuard<'static, Table> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes an event of this process; attributes and name are ignored.
#[unsafe(no_mangle)]
pub extern "C" fn CreateEventW(
    _: *const c_void,
    is_manual: i32,
    is_set: i32,
    _: *const c_void,
) -> *mut c_void {
    objects().add(Object::Event { is_manual: is_manual != 0, is_set: is_set != 0 }) as *mut c_void
}

/// [`CreateEventW`] with 8-bit text.
#[unsafe(no_mangle)]
pub extern "C" fn CreateEventA(
    _: *const c_void,
    is_manual: i32,
    is_set: i32,
    _: *const c_void,
) -> *mut c_void {
    CreateEventW(std::ptr::null(), is_manual, is_set, std::ptr::null())
}

/// Sets an event.
#[unsafe(no_mangle)]
pub extern "C" fn SetEvent(event: *mut c_void) -> i32 {
    set(event.addr(), true)
}

/// Resets an event.
#[unsafe(no_mangle)]
pub extern "C" fn ResetEvent(event: *mut c_void) -> i32 {
    set(event.addr(), false)
}

fn set(handle: usize, value: bool) -> i32 {
    match objects().objects.get_mut(&handle) {
        Some(Object::Event { is_set, .. }) => *is_set = value,
        _ => return failed(ERROR_INVALID_HANDLE),
    }
    CHANGED.notify_all();
    1
}

/// Starts a thread. Flags must be 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CreateThread(
    _: *const c_void,
    stack_size: usize,
    function: Option<unsafe extern "C" fn(*mut c_void) -> u32>,
    parameter: *mut c_void,
    flags: u32,
    id: *mut u32,
) -> *mut c_void {
    let Some(function) = function else {
        SetLastError(ERROR_INVALID_PARAMETER);
        return std::ptr::null_mut();
    };
    // Flags say how the stack's size counts, or that the thread starts suspended.
    if flags & 4 != 0 {
        SetLastError(ERROR_NOT_SUPPORTED);
        return std::ptr::null_mut();
    }
    let handle = objects().add(Object::Thread { code: None });
    let (sender, receiver) = mpsc::channel();
    let parameter = parameter.expose_provenance();
    let mut builder = std::thread::Builder::new();
    if stack_size >= 64 << 10 {
        builder = builder.stack_size(stack_size);
    }
    let started = builder.spawn(move || {
        let _ = sender.send(etw_sys::ids::thread_and_process() as u32);
        // SAFETY: the program gave this function for this parameter.
        let code = unsafe { function(std::ptr::with_exposed_provenance_mut(parameter)) };
        if let Some(Object::Thread { code: place }) = objects().objects.get_mut(&handle) {
            *place = Some(code);
        }
        CHANGED.notify_all();
    });
    if started.is_err() {
        objects().objects.remove(&handle);
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
        return std::ptr::null_mut();
    }
    if !id.is_null() {
        // SAFETY: the pointer is to a DWORD.
        unsafe { id.write_unaligned(receiver.recv().unwrap_or(0)) };
    }
    handle as *mut c_void
}

/// Writes the exit code of a thread, `STILL_ACTIVE` while it runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetExitCodeThread(thread: *mut c_void, code: *mut u32) -> i32 {
    let Some(Object::Thread { code: found }) = objects().objects.get(&thread.addr()).copied() else {
        return failed(ERROR_INVALID_HANDLE);
    };
    if code.is_null() {
        return failed(ERROR_INVALID_PARAMETER);
    }
    // SAFETY: the pointer is to a DWORD.
    unsafe { code.write_unaligned(found.unwrap_or(STILL_ACTIVE)) };
    1
}

/// Returns a new handle of this process's token.
pub(super) fn new_token() -> *mut c_void {
    objects().add(Object::Token) as *mut c_void
}

/// Returns whether a handle is that of a token.
pub(super) fn is_token(handle: *mut c_void) -> bool {
    matches!(objects().objects.get(&handle.addr()), Some(Object::Token))
}

/// Frees a handle. A thread goes on.
#[unsafe(no_mangle)]
pub extern "C" fn CloseHandle(handle: *mut c_void) -> i32 {
    match objects().objects.remove(&handle.addr()) {
        Some(_) => 1,
        None => failed(ERROR_INVALID_HANDLE),
    }
}

/// Waits for an event to be set or a thread to end.
#[unsafe(no_mangle)]
pub extern "C" fn WaitForSingleObject(handle: *mut c_void, milliseconds: u32) -> u32 {
    wait(&[handle.addr()], false, milliseconds)
}

/// Waits for one of several objects, or for all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn WaitForMultipleObjects(
    count: u32,
    handles: *const *mut c_void,
    all: i32,
    milliseconds: u32,
) -> u32 {
    if handles.is_null() || count == 0 || count > MAX_OBJECTS {
        failed(ERROR_INVALID_PARAMETER);
        return WAIT_FAILED;
    }
    // SAFETY: the caller promises `count` handles.
    let handles: Vec<usize> =
        (0..count as usize).map(|index| unsafe { handles.add(index).read_unaligned() }.addr()).collect();
    wait(&handles, all != 0, milliseconds)
}

fn wait(handles: &[usize], all: bool, milliseconds: u32) -> u32 {
    let end = (milliseconds != INFINITE).then(|| Instant::now() + Duration::from_millis(milliseconds.into()));
    let mut table = objects();
    loop {
        let Some(found) = handles
            .iter()
            .map(|handle| table.objects.get(handle).map(|object| object.is_signaled()))
            .collect::<Option<Vec<bool>>>()
        else {
            failed(ERROR_INVALID_HANDLE);
            return WAIT_FAILED;
        };
        if all && !found.contains(&false) {
            handles.iter().for_each(|handle| table.take(*handle));
            return WAIT_OBJECT_0;
        }
        if let (false, Some(index)) = (all, found.iter().position(|is_signaled| *is_signaled)) {
            handles.get(index).into_iter().for_each(|handle| table.take(*handle));
            return WAIT_OBJECT_0 + index as u32;
        }
        table = match end.map(|end| end.saturating_duration_since(Instant::now())) {
            None => CHANGED.wait(table).unwrap_or_else(PoisonError::into_inner),
            Some(Duration::ZERO) => return WAIT_TIMEOUT,
            Some(left) => CHANGED.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn set_it(event: *mut c_void) -> u32 {
        SetEvent(event);
        7
    }

    #[test]
    fn threads_and_events() {
        let null = std::ptr::null;
        let event = CreateEventW(null(), 0, 0, null());
        assert_eq!(WaitForSingleObject(event, 0), WAIT_TIMEOUT);
        let mut id = 0;
        // SAFETY: the pointers are valid.
        let thread = unsafe { CreateThread(null(), 0, Some(set_it), event, 0, &mut id) };
        assert!(!thread.is_null() && id != 0);
        assert_eq!(WaitForSingleObject(event, 10_000), WAIT_OBJECT_0);
        // The wait has reset the event.
        assert_eq!(WaitForSingleObject(event, 1), WAIT_TIMEOUT);
        let both = [event, thread];
        // SAFETY: the pointers are valid.
        unsafe {
            assert_eq!(WaitForMultipleObjects(2, both.as_ptr(), 0, 10_000), WAIT_OBJECT_0 + 1);
            assert_eq!(WaitForMultipleObjects(2, both.as_ptr(), 1, 1), WAIT_TIMEOUT);
            SetEvent(event);
            assert_eq!(WaitForMultipleObjects(2, both.as_ptr(), 1, 1), WAIT_OBJECT_0);
            let mut code = 0;
            assert_eq!((GetExitCodeThread(thread, &mut code), code), (1, 7));
            assert_eq!(GetExitCodeThread(event, &mut code), 0);
            assert!(CreateThread(null(), 0, Some(set_it), event, 4, std::ptr::null_mut()).is_null());
        }
        for handle in both {
            assert_eq!(CloseHandle(handle), 1);
            assert_eq!(CloseHandle(handle), 0);
            assert_eq!(WaitForSingleObject(handle, 0), WAIT_FAILED);
        }
    }
}
