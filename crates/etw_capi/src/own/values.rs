//! Values of events by their paths: `Field`, `Struct.Member`, `Array[3].Member`.

use std::ffi::{c_char, c_int};
use std::ptr;

use etw_schema::text::Text;
use etw_schema::{Event, Format, FromValue, PropertyValue, Value};

use super::{CEvent, c_text, fail, text, text_of};

/// A value in an event, and how it is shown.
enum Located<'a> {
    Property(PropertyValue<'a>),
    Element(Value<'a>, Format),
}

impl<'a> Located<'a> {
    /// Finds the value at a path. A name may itself contain dots and brackets.
    fn find(event: &Event<'a>, path: &str) -> Option<Located<'a>> {
        if let Some(found) = event.find(path) {
            return Some(Located::Property(found));
        }
        let mut found: Option<Located<'a>> = None;
        for part in path.split('.') {
            let (name, indexes) = part.split_once('[').map_or((part, ""), |(name, rest)| (name, rest));
            let next = match found.map(|found| found.value()) {
                None => event.find(name)?,
                Some(Value::Struct(members)) => members.find(name)?,
                Some(_) => return None,
            };
            let mut at = Located::Property(next);
            for index in indexes.split_terminator(']').map(|index| index.trim_start_matches('[')) {
                let Value::Array(array) = at.value() else { return None };
                at = Located::Element(array.get(index.parse().ok()?)?, array.format());
            }
            found = Some(at);
        }
        found
    }

    /// Returns the value, with times of every form as those of Windows.
    fn value(&self) -> Value<'a> {
        let value = match self {
            Located::Property(property) => property.value(),
            Located::Element(value, _) => *value,
        };
        match value {
            Value::RawTime(_, time) => Value::FileTime(time),
            Value::SystemTime(time) => time.to_filetime().map_or(Value::Null, Value::FileTime),
            value => value,
        }
    }

    fn text(&self) -> String {
        match self {
            Located::Property(property) => property.text().to_string(),
            Located::Element(value, format) => Text::new(*value, *format, None).to_string(),
        }
    }
}

/// Calls a function with the value at a path.
///
/// # Safety
///
/// The pointers are null or valid.
unsafe fn with_value<R>(
    event: *const CEvent<'_>,
    path: *const c_char,
    look: impl FnOnce(Located<'_>) -> Option<R>,
) -> Option<R> {
    // SAFETY: the caller's promise.
    let (event, path) = unsafe { (event.as_ref()?, text(path)?) };
    look(Located::find(event.event?, &path)?)
}

/// Returns the type of a value (`enum openetw_type`).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn openetw_event_type(event: *const CEvent<'_>, path: *const c_char) -> c_int {
    let type_of = |found: Located<'_>| {
        Some(match found.value() {
            Value::Null => 0,
            Value::I8(_) | Value::I16(_) | Value::I32(_) | Value::I64(_) => 1,
            Value::U8(_) | Value::U16(_) | Value::U32(_) | Value::U64(_) | Value::Pointer(..) => 2,
            Value::F32(_) | Value::F64(_) => 3,
            Value::Bool(_) => 4,
            Value::Guid(_) => 6,
            Value::FileTime(_) => 7,
            Value::Binary(_) | Value::SocketAddress(_) => 8,
            Value::Array(_) => 9,
            Value::Struct(_) => 10,
            // Texts, and what is shown as one: SIDs and addresses.
            _ => 5,
        })
    };
    // SAFETY: the pointers are null or valid.
    unsafe { with_value(event, path, type_of) }.unwrap_or(0)
}

/// Returns the number of elements of an array, of members of a struct, or of the fields of the event.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn openetw_event_count(event: *const CEvent<'_>, path: *const c_char) -> i64 {
    // SAFETY: the pointers are null or valid.
    let count = unsafe {
        match text(path).as_deref() {
            None | Some("") => {
                event.as_ref().and_then(|event| Some(event.event?.properties.as_ref().ok()?.len()))
            }
            Some(_) => with_value(event, path, |found| match found.value() {
                Value::Array(array) => Some(array.len()),
                Value::Struct(members) => Some(members.iter().count()),
                _ => None,
            }),
        }
    };
    count.and_then(|count| i64::try_from(count).ok()).unwrap_or(-1)
}

/// Returns the name of a member of a struct, or of a field of the event.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn openetw_event_member(
    event: *const CEvent<'_>,
    path: *const c_char,
    number: u32,
) -> *const c_char {
    let number = number as usize;
    // SAFETY: the pointers are null or valid.
    unsafe {
        let path = text(path).unwrap_or_default();
        text_of(event, |event| {
            let decoded = event.event?;
            let name = match &*path {
                "" => decoded.properties.as_ref().ok()?.iter().nth(number)?.name(),
                path => match Located::find(decoded, path)?.value() {
                    Value::Struct(members) => members.iter().nth(number)?.name(),
                    _ => return None,
                },
            };
            Some(c_text(name))
        })
    }
}

/// Returns a value as text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn openetw_event_text(
    event: *const CEvent<'_>,
    path: *const c_char,
) -> *const c_char {
    // SAFETY: the pointers are null or valid.
    unsafe {
        let Some(path) = text(path) else { return ptr::null() };
        text_of(event, |event| Some(c_text(&Located::find(event.event?, &path)?.text())))
    }
}

/// Writes where the bytes of a value are, and their number.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn openetw_event_bytes(
    event: *const CEvent<'_>,
    path: *const c_char,
    bytes: *mut *const u8,
    size: *mut usize,
) -> c_int {
    if bytes.is_null() || size.is_null() {
        return fail(&"a pointer is null");
    }
    // SAFETY: the pointers are null or valid.
    let Some(of) = (unsafe { event.as_ref() }) else { return fail(&"a pointer is null") };
    let put = |found: Located<'_>| {
        let (start, len) = match found.value() {
            Value::Binary(found) | Value::SocketAddress(found) => (found.as_ptr(), found.len()),
            Value::Sid(sid) => (sid.as_bytes().as_ptr(), sid.as_bytes().len()),
            Value::Guid(guid) => {
                let kept: Box<[u8]> = Box::new(guid.to_bytes());
                let found = (kept.as_ptr(), kept.len());
                of.state.borrow_mut().bytes.push(kept);
                found
            }
            _ => return None,
        };
        // SAFETY: neither pointer is null; the caller's promise.
        unsafe {
            bytes.write_unaligned(start);
            size.write_unaligned(len);
        }
        Some(())
    };
    // SAFETY: the pointers are null or valid.
    match unsafe { with_value(event, path, put) } {
        Some(()) => 0,
        None => fail(&"there is no such value, or it has no bytes: only GUIDs, SIDs and binary values have"),
    }
}

macro_rules! numbers {
    ($($name:ident: $type:ty;)*) => {
        $(
            /// Writes a value as a number.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(
                event: *const CEvent<'_>,
                path: *const c_char,
                value: *mut $type,
            ) -> c_int {
                // SAFETY: the caller's promise.
                unsafe { number(event, path, value) }
            }
        )*
    };
}

numbers! {
    openetw_event_int64: i64;
    openetw_event_uint64: u64;
    openetw_event_double: f64;
}

/// # Safety
///
/// The pointers are null or valid.
unsafe fn number<T: for<'a> FromValue<'a>>(
    event: *const CEvent<'_>,
    path: *const c_char,
    value: *mut T,
) -> c_int {
    // SAFETY: the caller's promise.
    let (Some(event), Some(path)) = (unsafe { (event.as_ref(), text(path)) }) else {
        return fail(&"a pointer is null");
    };
    let Some(event @ Event { properties: Ok(properties), .. }) = event.event else {
        return fail(&"the event is not decoded");
    };
    let found = Located::find(event, &path).and_then(|found| T::from_value(found.value()));
    match found {
        Some(_) if value.is_null() => fail(&"a pointer is null"),
        Some(found) => {
            // SAFETY: the caller's promise.
            unsafe { value.write_unaligned(found) };
            0
        }
        None => match properties.get::<T>(&path) {
            Err(error) if !path.contains(['.', '[']) => fail(&error),
            _ => fail(&format_args!("'{path}' is missing, or no {}", T::NAME)),
        },
    }
}
