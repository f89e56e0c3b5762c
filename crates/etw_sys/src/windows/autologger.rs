//! Sessions that Windows starts at boot: `HKLM\SYSTEM\CurrentControlSet\Control\WMI\Autologger`.

// UNSAFETY: calls functions of the registry.
#![expect(unsafe_code)]

use std::io;
use std::ptr;

use windows_sys::Win32::Foundation::{ERROR_FILE_NOT_FOUND, ERROR_MORE_DATA, ERROR_NO_MORE_ITEMS};
use windows_sys::Win32::System::Registry::{
    HKEY, HKEY_LOCAL_MACHINE, KEY_ENUMERATE_SUB_KEYS, KEY_READ, KEY_SET_VALUE, REG_BINARY, REG_DWORD,
    REG_QWORD, REG_SZ, RRF_RT_ANY, RegCloseKey, RegCreateKeyExW, RegDeleteTreeW, RegEnumKeyExW, RegGetValueW,
    RegOpenKeyExW, RegSetValueExW,
};

use super::check;
use super::text::{text_of, wide};

/// The key under which each session has its own.
const ROOT: &str = r"SYSTEM\CurrentControlSet\Control\WMI\Autologger";
/// Maximum length of a key's name.
const MAX_NAME: usize = 256;

/// A value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `REG_DWORD`.
    Number(u32),
    /// `REG_QWORD`.
    Long(u64),
    /// `REG_SZ`.
    Text(String),
    /// `REG_BINARY`.
    Bytes(Vec<u8>),
}

/// A key that is closed when dropped.
#[derive(Debug)]
pub struct Key(HKEY);

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: the handle is this value's own.
        unsafe { RegCloseKey(self.0) };
    }
}

/// Returns the names of the sessions.
///
/// # Errors
///
/// Returns the error of Windows.
pub fn names() -> io::Result<Vec<String>> {
    match Key::open(HKEY_LOCAL_MACHINE, ROOT) {
        Ok(root) => root.children(),
        Err(error) if is_missing(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Opens the key of a session; `None` if there is no such session.
///
/// # Errors
///
/// Returns the error of Windows.
pub fn open(session: &str) -> io::Result<Option<Key>> {
    optional(Key::open(HKEY_LOCAL_MACHINE, &path(session)?))
}

/// Opens the key of a session for changes, and creates it if needed.
///
/// # Errors
///
/// Returns the error of Windows: only administrators may do this.
pub fn create(session: &str) -> io::Result<Key> {
    Key::create(HKEY_LOCAL_MACHINE, &path(session)?)
}

/// Removes a session with all it enables. A running one goes on.
///
/// # Errors
///
/// Returns the error of Windows.
pub fn remove(session: &str) -> io::Result<()> {
    let path = wide(&path(session)?)?;
    // SAFETY: the path ends with a zero.
    check(unsafe { RegDeleteTreeW(HKEY_LOCAL_MACHINE, path.as_ptr()) })
}

fn path(session: &str) -> io::Result<String> {
    if session.is_empty() || session.contains('\\') || session.len() >= MAX_NAME {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a name of an autologger"));
    }
    Ok(format!(r"{ROOT}\{session}"))
}

impl Key {
    fn open(parent: HKEY, path: &str) -> io::Result<Key> {
        let path = wide(path)?;
        let mut key: HKEY = ptr::null_mut();
        let rights = KEY_READ | KEY_ENUMERATE_SUB_KEYS;
        // SAFETY: the path ends with a zero, and the parent is open.
        check(unsafe { RegOpenKeyExW(parent, path.as_ptr(), 0, rights, &raw mut key) })?;
        Ok(Key(key))
    }

    fn create(parent: HKEY, path: &str) -> io::Result<Key> {
        let path = wide(path)?;
        let mut key: HKEY = ptr::null_mut();
        let (none, rights) = (ptr::null(), KEY_READ | KEY_SET_VALUE);
        // SAFETY: the path ends with a zero, the parent is open, and the others may be null.
        check(unsafe {
            RegCreateKeyExW(
                parent,
                path.as_ptr(),
                0,
                none,
                0,
                rights,
                ptr::null(),
                &raw mut key,
                ptr::null_mut(),
            )
        })?;
        Ok(Key(key))
    }

    /// Opens a key below this one, or returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns the error of Windows.
    pub fn child(&self, name: &str) -> io::Result<Option<Key>> {
        optional(Key::open(self.0, name))
    }

    /// Opens a key below this one for changes, and creates it if needed.
    ///
    /// # Errors
    ///
    /// Returns the error of Windows.
    pub fn create_child(&self, name: &str) -> io::Result<Key> {
        Key::create(self.0, name)
    }

    /// Removes a key below this one with all it contains.
    ///
    /// # Errors
    ///
    /// Returns the error of Windows.
    pub fn remove_child(&self, name: &str) -> io::Result<()> {
        let name = wide(name)?;
        // SAFETY: the name ends with a zero, and the key is open.
        check(unsafe { RegDeleteTreeW(self.0, name.as_ptr()) })
    }

    /// Returns the names of the keys below this one.
    ///
    /// # Errors
    ///
    /// Returns the error of Windows.
    pub fn children(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for index in 0.. {
            let mut name = [0; MAX_NAME];
            let mut len = name.len() as u32;
            let none = ptr::null_mut();
            // SAFETY: the key is open, the name has room for `len` characters, and the others may be null.
            let code = unsafe {
                RegEnumKeyExW(
                    self.0,
                    index,
                    name.as_mut_ptr(),
                    &raw mut len,
                    ptr::null(),
                    none,
                    ptr::null_mut(),
                    ptr::null_mut(),
                )
            };
            if code == ERROR_NO_MORE_ITEMS {
                break;
            }
            check(code)?;
            names.push(text_of(&name));
        }
        Ok(names)
    }

    /// Returns a value, or `None` if it does not exist or its type is not one of [`Value`].
    ///
    /// # Errors
    ///
    /// Returns the error of Windows.
    pub fn value(&self, name: &str) -> io::Result<Option<Value>> {
        let name = wide(name)?;
        let mut bytes = vec![0u8; 512];
        loop {
            let (mut kind, mut len) = (0, bytes.len() as u32);
            let place = bytes.as_mut_ptr().cast();
            // SAFETY: the name ends with a zero, the key is open, and the place has `len` bytes.
            let code = unsafe {
                RegGetValueW(
                    self.0,
                    ptr::null(),
                    name.as_ptr(),
                    RRF_RT_ANY,
                    &raw mut kind,
                    place,
                    &raw mut len,
                )
            };
            match code {
                ERROR_FILE_NOT_FOUND => return Ok(None),
                ERROR_MORE_DATA if len as usize > bytes.len() => bytes.resize(len as usize, 0),
                code => {
                    check(code)?;
                    bytes.truncate(len as usize);
                    return Ok(value_of(kind, bytes));
                }
            }
        }
    }

    /// Sets a value.
    ///
    /// # Errors
    ///
    /// Returns the error of Windows.
    pub fn set(&self, name: &str, value: &Value) -> io::Result<()> {
        let name = wide(name)?;
        let (kind, bytes) = match value {
            Value::Number(number) => (REG_DWORD, number.to_le_bytes().to_vec()),
            Value::Long(number) => (REG_QWORD, number.to_le_bytes().to_vec()),
            Value::Text(text) => (REG_SZ, wide(text)?.iter().flat_map(|unit| unit.to_le_bytes()).collect()),
            Value::Bytes(bytes) => (REG_BINARY, bytes.clone()),
        };
        // SAFETY: the name ends with a zero, the key is open, and the bytes are as many as said.
        check(unsafe { RegSetValueExW(self.0, name.as_ptr(), 0, kind, bytes.as_ptr(), bytes.len() as u32) })
    }
}

fn value_of(kind: u32, bytes: Vec<u8>) -> Option<Value> {
    match kind {
        REG_DWORD => bytes.first_chunk().map(|four| Value::Number(u32::from_le_bytes(*four))),
        REG_QWORD => bytes.first_chunk().map(|eight| Value::Long(u64::from_le_bytes(*eight))),
        REG_SZ => {
            let units: Vec<u16> =
                bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
            Some(Value::Text(text_of(&units)))
        }
        REG_BINARY => Some(Value::Bytes(bytes)),
        _ => None,
    }
}

fn optional(key: io::Result<Key>) -> io::Result<Option<Key>> {
    match key {
        Ok(key) => Ok(Some(key)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_missing(error: &io::Error) -> bool {
    error.raw_os_error() == Some(ERROR_FILE_NOT_FOUND.cast_signed())
}
