//! Filters of an enable (`EVENT_FILTER_DESCRIPTOR`), with the memory that they name.

// UNSAFETY: creates payload filters, which Windows owns.
#![expect(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::ptr;

use etw_event::{EventDescriptor, Guid};
use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_DESCRIPTOR, EVENT_FILTER_DESCRIPTOR, PAYLOAD_FILTER_PREDICATE, TdhAggregatePayloadFilters,
    TdhCleanupPayloadEventFilterDescriptor, TdhCreatePayloadFilter, TdhDeletePayloadFilter,
};

use super::text::wide;
use super::{check, windows_guid};

/// `EVENT_FILTER_TYPE_EVENT_ID`.
pub const EVENT_ID: u32 = 0x8000_0200;
/// `EVENT_FILTER_TYPE_EVENT_NAME`.
pub const EVENT_NAME: u32 = 0x8000_0400;
/// `EVENT_FILTER_TYPE_EXECUTABLE_NAME`.
pub const EXECUTABLE_NAME: u32 = 0x8000_0008;
/// `EVENT_FILTER_TYPE_PID`.
pub const PID: u32 = 0x8000_0004;
/// `EVENT_FILTER_TYPE_STACKWALK`.
pub const STACK_WALK: u32 = 0x8000_1000;
/// `EVENT_FILTER_TYPE_STACKWALK_NAME`.
pub const STACK_WALK_NAME: u32 = 0x8000_2000;
/// `EVENT_FILTER_TYPE_STACKWALK_LEVEL_KW`.
pub const STACK_WALK_LEVEL_KEYWORD: u32 = 0x8000_4000;

/// Filters of one enable.
#[derive(Debug, Default)]
pub struct Filters {
    bytes: Vec<(u32, Vec<u8>)>,
    payload: Option<PayloadFilters>,
}

/// Aggregated payload filters, which Windows allocated.
struct PayloadFilters(EVENT_FILTER_DESCRIPTOR);

/// A condition on the fields of one event.
#[derive(Debug)]
pub struct PayloadFilter {
    /// The event.
    pub event: EventDescriptor,
    /// Whether one matching predicate suffices.
    pub any: bool,
    /// Field, operator (`PAYLOAD_OPERATOR`) and value of each predicate.
    pub predicates: Vec<(String, u16, String)>,
}

impl Filters {
    /// Adds a filter of a type with its data.
    pub fn push(&mut self, kind: u32, data: Vec<u8>) {
        self.bytes.push((kind, data));
    }

    /// Sets conditions on the payload of events that the provider's manifest describes. Of the filters of one event, it must
    /// match all that have the flag, and one of the others.
    ///
    /// # Errors
    ///
    /// Returns the error of Windows, for example if the provider has no manifest on this machine or an event lacks a field.
    pub fn set_payload(&mut self, provider: &Guid, filters: &[(PayloadFilter, bool)]) -> io::Result<()> {
        let mut created = Created(Vec::new());
        for (filter, _) in filters {
            created.0.push(create(provider, filter)?);
        }
        let flags: Vec<bool> = filters.iter().map(|(_, all)| *all).collect();
        let mut joined = EVENT_FILTER_DESCRIPTOR { Ptr: 0, Size: 0, Type: 0 };
        // SAFETY: as many filters and flags as said, which live until the call returns.
        check(unsafe {
            TdhAggregatePayloadFilters(
                created.0.len() as u32,
                created.0.as_ptr().cast(),
                flags.as_ptr(),
                &raw mut joined,
            )
        })?;
        self.payload = Some(PayloadFilters(joined));
        Ok(())
    }

    /// Returns the descriptors, valid as long as the filters.
    pub(super) fn descriptors(&self) -> Vec<EVENT_FILTER_DESCRIPTOR> {
        let of_bytes = self.bytes.iter().map(|(kind, data)| EVENT_FILTER_DESCRIPTOR {
            Ptr: data.as_ptr().expose_provenance() as u64,
            Size: data.len() as u32,
            Type: *kind,
        });
        of_bytes.chain(self.payload.iter().map(|payload| payload.0)).collect()
    }
}

/// Filters to delete.
struct Created(Vec<*mut c_void>);

impl Drop for Created {
    fn drop(&mut self) {
        for filter in &mut self.0 {
            // SAFETY: the filter was created and not deleted yet.
            unsafe { TdhDeletePayloadFilter(filter) };
        }
    }
}

fn create(provider: &Guid, filter: &PayloadFilter) -> io::Result<*mut c_void> {
    let texts: Vec<(Vec<u16>, u16, Vec<u16>)> = filter
        .predicates
        .iter()
        .map(|(field, operator, value)| Ok((wide(field)?, *operator, wide(value)?)))
        .collect::<io::Result<_>>()?;
    let predicates: Vec<PAYLOAD_FILTER_PREDICATE> = texts
        .iter()
        .map(|(field, operator, value)| PAYLOAD_FILTER_PREDICATE {
            FieldName: field.as_ptr().cast_mut(),
            CompareOp: *operator,
            Value: value.as_ptr().cast_mut(),
        })
        .collect();
    let EventDescriptor { id, version, channel, level, opcode, task, keyword } = filter.event;
    let event = EVENT_DESCRIPTOR {
        Id: id,
        Version: version,
        Channel: channel,
        Level: level.0,
        Opcode: opcode.0,
        Task: task,
        Keyword: keyword.0,
    };
    let provider = windows_guid(provider);
    let mut created = ptr::null_mut();
    // SAFETY: as many predicates as said, whose texts end with zeros; the function does not change them.
    check(unsafe {
        TdhCreatePayloadFilter(
            &raw const provider,
            &raw const event,
            filter.any,
            predicates.len() as u32,
            predicates.as_ptr(),
            &raw mut created,
        )
    })?;
    Ok(created)
}

impl std::fmt::Debug for PayloadFilters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PayloadFilters({} bytes)", self.0.Size)
    }
}

impl Drop for PayloadFilters {
    fn drop(&mut self) {
        // SAFETY: the descriptor is one that `TdhAggregatePayloadFilters` filled, and is freed once.
        unsafe { TdhCleanupPayloadEventFilterDescriptor(&raw mut self.0) };
    }
}
