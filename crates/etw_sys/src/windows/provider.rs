//! Registrations of providers, and writing events.

// UNSAFETY: calls functions of ETW, which call back.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicI64, Ordering};

use etw_event::Guid;
use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_DATA_DESCRIPTOR, EVENT_DATA_DESCRIPTOR_0, EVENT_DATA_DESCRIPTOR_0_0,
    EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA, EVENT_DATA_DESCRIPTOR_TYPE_NONE,
    EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA, EVENT_DESCRIPTOR, EVENT_FILTER_DESCRIPTOR,
    EVENT_FILTER_TYPE_NONE, EventProviderSetTraits, EventRegister, EventSetInformation, EventUnregister,
    EventWriteString, EventWriteTransfer,
};
use windows_sys::core::GUID;

use super::text::wide;
use super::{check, guid_of, guid_of_words, windows_guid};

/// `ERROR_INVALID_HANDLE`: the provider is not registered.
pub const NOT_REGISTERED: u32 = 6;
/// `ERROR_ARITHMETIC_OVERFLOW`: the event is larger than 64 KiB.
pub const TOO_LARGE: u32 = 534;
/// `ERROR_MORE_DATA`: the event is larger than a buffer of a session.
pub const LARGER_THAN_BUFFER: u32 = 234;

/// A registration that changes over time. Writing takes no lock.
#[derive(Debug)]
pub struct Registration(AtomicI64);

/// A registration that ends when it is dropped. That waits for callbacks that are running.
#[derive(Debug)]
#[must_use = "the registration ends at once"]
pub struct Registered(i64);

impl Drop for Registered {
    fn drop(&mut self) {
        if self.0 != 0 {
            // SAFETY: the handle is one of `EventRegister`, and is passed once.
            unsafe { EventUnregister(self.0) };
        }
    }
}

/// A notification that a session enabled, disabled or queried a provider (`PENABLECALLBACK`).
#[derive(Debug)]
pub struct Notification<'a> {
    /// Source of the request.
    pub source: Guid,
    /// `EVENT_CONTROL_CODE_*`.
    pub code: u32,
    /// Highest level of all sessions; 0 for all.
    pub level: u8,
    /// Keywords of which a session wants one.
    pub any: u64,
    /// Keywords that all sessions require.
    pub all: u64,
    /// Data of the session for the provider: the type and the bytes.
    pub filter: Option<(u32, &'a [u8])>,
}

/// The receiver of notifications. A panic in it is caught.
pub trait Notified: Sync + 'static {
    /// Handles a notification, on a thread of the system or on that which registers the provider.
    fn notified(&'static self, notification: &Notification<'_>);
}

/// The parts of an event.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parts<'e> {
    /// The descriptor as records have it.
    pub descriptor: [u64; 2],
    /// The activity; `None` for the thread's.
    pub activity: Option<[u64; 2]>,
    /// The activity that caused it.
    pub related: Option<[u64; 2]>,
    /// The provider's traits; only with a schema.
    pub traits: &'e [u8],
    /// TraceLogging metadata; empty for events of manifests.
    pub schema: &'e [u8],
    /// The payload.
    pub payload: &'e [u8],
}

impl Registration {
    /// Creates the registration of a provider that is not registered.
    pub const fn none() -> Registration {
        Registration(AtomicI64::new(0))
    }

    /// Whether the provider is registered, and its handle known.
    pub fn is_registered(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Registers a provider (`EventRegister`). `notified` may be called before this returns, when
    /// [`Registration::is_registered`] is still false.
    ///
    /// # Errors
    ///
    /// Returns the error of Windows.
    pub fn register<N: Notified>(&self, provider: &Guid, notified: &'static N) -> io::Result<()> {
        let provider = windows_guid(provider);
        let context = ptr::from_ref(notified).cast::<c_void>();
        let mut handle = 0;
        // SAFETY: the GUID and the handle's place live until the call returns, and the context lives forever, as the
        // callback for its type requires.
        check(unsafe { EventRegister(&raw const provider, Some(callback::<N>), context, &raw mut handle) })?;
        self.0.store(handle, Ordering::Release);
        Ok(())
    }

    /// Registers a provider that is not told what sessions want.
    ///
    /// # Errors
    ///
    /// Returns the error of Windows.
    pub fn register_silent(&self, provider: &Guid) -> io::Result<()> {
        let provider = windows_guid(provider);
        let mut handle = 0;
        // SAFETY: the GUID and the handle's place live until the call returns; there may be no callback.
        check(unsafe { EventRegister(&raw const provider, None, ptr::null(), &raw mut handle) })?;
        self.0.store(handle, Ordering::Release);
        Ok(())
    }

    /// Takes the registration, which ends when the result is dropped (`EventUnregister`). Events that are written from now on
    /// go nowhere.
    pub fn take(&self) -> Registered {
        Registered(self.0.swap(0, Ordering::AcqRel))
    }

    /// Sets the provider's name and group (`EventProviderSetTraits`).
    ///
    /// # Errors
    ///
    /// Returns the error of Windows; versions before 8 have no traits.
    pub fn set_traits(&self, traits: &[u8]) -> io::Result<()> {
        let (handle, size) = (self.0.load(Ordering::Acquire), traits.len() as u32);
        // SAFETY: the traits are `size` bytes, which Windows copies.
        check(unsafe { EventSetInformation(handle, EventProviderSetTraits, traits.as_ptr().cast(), size) })
    }

    /// Writes an event (`EventWriteTransfer`) and returns the code of Windows, 0 for success.
    #[inline]
    pub fn write(&self, parts: &Parts<'_>) -> u32 {
        let [word, keyword] = parts.descriptor;
        let [id_low, id_high, version, channel, level, opcode, task_low, task_high] = word.to_le_bytes();
        let descriptor = EVENT_DESCRIPTOR {
            Id: u16::from_le_bytes([id_low, id_high]),
            Version: version,
            Channel: channel,
            Level: level,
            Opcode: opcode,
            Task: u16::from_le_bytes([task_low, task_high]),
            Keyword: keyword,
        };
        let data = [
            piece(parts.traits, EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA),
            piece(parts.schema, EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA),
            piece(parts.payload, EVENT_DATA_DESCRIPTOR_TYPE_NONE),
        ];
        let data = if parts.schema.is_empty() { data.get(2..).unwrap_or_default() } else { &data };
        let (activity, related) = (parts.activity.map(guid_of_words), parts.related.map(guid_of_words));
        let pointer = |guid: &Option<GUID>| guid.as_ref().map_or(ptr::null(), ptr::from_ref);
        let handle = self.0.load(Ordering::Acquire);
        // SAFETY: the pieces are as large as they say, and everything lives until the call returns. Windows rejects
        // handles that are not registered.
        unsafe {
            EventWriteTransfer(
                handle,
                &raw const descriptor,
                pointer(&activity),
                pointer(&related),
                data.len() as u32,
                data.as_ptr(),
            )
        }
    }

    /// Writes a text as an event (`EventWriteString`) and returns the code of Windows. The text ends at a zero.
    pub fn write_string(&self, level: u8, keyword: u64, text: &str) -> u32 {
        let text = text.split('\0').next().unwrap_or_default();
        let Ok(text) = wide(text) else { return TOO_LARGE };
        // SAFETY: the text ends with a zero.
        unsafe { EventWriteString(self.0.load(Ordering::Acquire), level, keyword, text.as_ptr()) }
    }
}

fn piece(bytes: &[u8], kind: u32) -> EVENT_DATA_DESCRIPTOR {
    let of_kind = EVENT_DATA_DESCRIPTOR_0_0 { Type: kind as u8, Reserved1: 0, Reserved2: 0 };
    EVENT_DATA_DESCRIPTOR {
        Ptr: bytes.as_ptr().expose_provenance() as u64,
        Size: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        Anonymous: EVENT_DATA_DESCRIPTOR_0 { Anonymous: of_kind },
    }
}

/// # Safety
///
/// The context is a `&'static N`, and the other pointers are null or valid during the call.
unsafe extern "system" fn callback<N: Notified>(
    source: *const GUID,
    code: u32,
    level: u8,
    any: u64,
    all: u64,
    filter: *const EVENT_FILTER_DESCRIPTOR,
    context: *mut c_void,
) {
    // SAFETY: `register` passed a reference of this type, which is valid forever.
    let notified: &'static N = unsafe { &*context.cast::<N>() };
    // SAFETY: null or a GUID.
    let source = unsafe { source.as_ref() }.map_or(Guid::ZERO, guid_of);
    // SAFETY: null or a descriptor.
    let filter =
        unsafe { filter.as_ref() }.filter(|filter| filter.Type != EVENT_FILTER_TYPE_NONE && filter.Ptr != 0);
    let filter = filter.map(|filter| {
        let start = ptr::with_exposed_provenance::<u8>(filter.Ptr as usize);
        // SAFETY: the descriptor is as large as it says, during the call.
        (filter.Type, unsafe { std::slice::from_raw_parts(start, filter.Size as usize) })
    });
    let notification = Notification { source, code, level, any, all, filter };
    // A panic must not cross the frames of Windows; the panic hook has reported it.
    let _ = catch_unwind(AssertUnwindSafe(|| notified.notified(&notification)));
}
