//! Conditions on payloads for `EnableTraceEx2` (`TdhCreatePayloadFilter`).
//!
//! A filter is a number to which [`CREATED`] has the conditions. Several are aggregated to bytes, which
//! `EnableTraceEx2` reads.

// UNSAFETY: reads what callers point to.
#![expect(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use etw_controller::{
    Filter, PayloadFilter, PayloadLayout, PayloadOperator, PayloadPredicate, payload_layout,
};
use etw_event::Guid;
use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_DESCRIPTOR, EVENT_FILTER_DESCRIPTOR, EVENT_FILTER_TYPE_PAYLOAD, MAX_EVENT_FILTER_PAYLOAD_SIZE,
    MAX_PAYLOAD_PREDICATES, PAYLOAD_FILTER_PREDICATE, PAYLOADFIELD_BETWEEN, PAYLOADFIELD_CONTAINS,
    PAYLOADFIELD_DOESNTCONTAIN, PAYLOADFIELD_EQ, PAYLOADFIELD_GE, PAYLOADFIELD_GT, PAYLOADFIELD_IS,
    PAYLOADFIELD_ISNOT, PAYLOADFIELD_LE, PAYLOADFIELD_LT, PAYLOADFIELD_MODULO, PAYLOADFIELD_NE,
    PAYLOADFIELD_NOTBETWEEN,
};
use windows_sys::core::GUID;

use crate::error::{
    ERROR_FILE_NOT_FOUND, ERROR_INSUFFICIENT_BUFFER, ERROR_INVALID_PARAMETER, ERROR_NOT_FOUND, ERROR_SUCCESS,
};
use crate::guid;
use crate::schemas::state;
use crate::wide::Width;

/// First bytes of aggregated filters.
const SIGNATURE: &[u8; 8] = b"OETWPLF1";
/// Most filters that are aggregated.
const MAX_AGGREGATED: u32 = 1024;

/// The filters of this process.
static CREATED: LazyLock<Mutex<Created>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Created {
    last: usize,
    single: HashMap<usize, (Guid, PayloadFilter)>,
    /// By their addresses.
    aggregated: HashMap<usize, Box<[u8]>>,
}

/// Creates a filter of conditions on the payload of one event, in all its versions that have the fields.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhCreatePayloadFilter(
    provider: *const GUID,
    event: *const EVENT_DESCRIPTOR,
    match_any: u8,
    count: u32,
    predicates: *const PAYLOAD_FILTER_PREDICATE,
    filter: *mut *mut c_void,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { create(provider, event, match_any != 0, (count, predicates), filter, Width::Wide16) }
}

/// [`TdhCreatePayloadFilter`] with texts of 32-bit characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhCreatePayloadFilter32(
    provider: *const GUID,
    event: *const EVENT_DESCRIPTOR,
    match_any: u8,
    count: u32,
    predicates: *const PAYLOAD_FILTER_PREDICATE,
    filter: *mut *mut c_void,
) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { create(provider, event, match_any != 0, (count, predicates), filter, Width::Wide32) }
}

/// Frees a filter and sets its pointer to null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhDeletePayloadFilter(filter: *mut *mut c_void) -> u32 {
    if filter.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the pointer is to a filter.
    let handle = unsafe { filter.read_unaligned() };
    if created().single.remove(&handle.addr()).is_none() {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: as above.
    unsafe { filter.write_unaligned(std::ptr::null_mut()) };
    ERROR_SUCCESS
}

/// Joins filters of one provider to a descriptor for `EnableTraceEx2`. Of the filters of one event, all with a true flag
/// must match, and one of the others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhAggregatePayloadFilters(
    count: u32,
    filters: *const *const c_void,
    match_all: *const u8,
    descriptor: *mut EVENT_FILTER_DESCRIPTOR,
) -> u32 {
    if count == 0 || count > MAX_AGGREGATED || filters.is_null() || descriptor.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    let mut created = created();
    let (mut provider, mut chosen) = (None, Vec::new());
    for index in 0..count as usize {
        // SAFETY: the caller promises `count` filters, and as many flags if there are any.
        let (handle, is_flagged) = unsafe {
            let flag = if match_all.is_null() { 0 } else { match_all.add(index).read() };
            (filters.add(index).read_unaligned(), flag != 0)
        };
        let Some((own, filter)) = created.single.get(&handle.addr()) else { return ERROR_INVALID_PARAMETER };
        if *provider.get_or_insert(*own) != *own {
            return ERROR_INVALID_PARAMETER;
        }
        chosen.push((filter.clone(), is_flagged));
    }
    let Ok(bytes) = postcard::to_extend(&aggregate(chosen), SIGNATURE.to_vec()) else {
        return ERROR_INVALID_PARAMETER;
    };
    let Some(size) = u32::try_from(bytes.len()).ok().filter(|size| *size <= MAX_EVENT_FILTER_PAYLOAD_SIZE)
    else {
        return ERROR_INSUFFICIENT_BUFFER;
    };
    let bytes = bytes.into_boxed_slice();
    let address = bytes.as_ptr().addr();
    created.aggregated.insert(address, bytes);
    // SAFETY: the pointer is to a descriptor.
    unsafe {
        descriptor.write_unaligned(EVENT_FILTER_DESCRIPTOR {
            Ptr: address as u64,
            Size: size,
            Type: EVENT_FILTER_TYPE_PAYLOAD,
        });
    }
    ERROR_SUCCESS
}

/// Frees what a descriptor of `TdhAggregatePayloadFilters` points to, and clears it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TdhCleanupPayloadEventFilterDescriptor(
    descriptor: *mut EVENT_FILTER_DESCRIPTOR,
) -> u32 {
    if descriptor.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the pointer is to a descriptor.
    let address = unsafe { (&raw const (*descriptor).Ptr).read_unaligned() };
    if created().aggregated.remove(&(address as usize)).is_none() {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: as above.
    unsafe { descriptor.write_unaligned(EVENT_FILTER_DESCRIPTOR { Ptr: 0, Size: 0, Type: 0 }) };
    ERROR_SUCCESS
}

/// Reads the bytes of aggregated filters. Returns `None` if they are something else.
pub(crate) fn payload_filters(bytes: &[u8]) -> Option<Vec<Filter>> {
    let filters: Vec<Filter> = postcard::from_bytes(bytes.strip_prefix(SIGNATURE)?).ok()?;
    let is_payload = |filter: &Filter| matches!(filter, Filter::Payload(_) | Filter::AnyPayload(_));
    filters.iter().all(is_payload).then_some(filters)
}

/// Joins the filters of each event: those that must all match, and those of which one must.
fn aggregate(filters: Vec<(PayloadFilter, bool)>) -> Vec<Filter> {
    let mut joined = Vec::new();
    let mut alternatives: Vec<Vec<PayloadFilter>> = Vec::new();
    for (filter, must_match) in filters {
        let of_event = |others: &&mut Vec<PayloadFilter>| others.iter().any(|one| one.event == filter.event);
        if must_match {
            joined.push(Filter::Payload(filter));
        } else if let Some(others) = alternatives.iter_mut().find(of_event) {
            others.push(filter);
        } else {
            alternatives.push(vec![filter]);
        }
    }
    joined.extend(alternatives.into_iter().map(Filter::AnyPayload));
    joined
}

/// # Safety
///
/// The pointers are null or valid, and the texts of the predicates have this width.
unsafe fn create(
    provider: *const GUID,
    event: *const EVENT_DESCRIPTOR,
    any: bool,
    (count, predicates): (u32, *const PAYLOAD_FILTER_PREDICATE),
    filter: *mut *mut c_void,
    width: Width,
) -> u32 {
    let is_wrong = event.is_null() || predicates.is_null() || filter.is_null();
    if is_wrong || count == 0 || count > MAX_PAYLOAD_PREDICATES {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the caller's promise.
    let (provider, id) = unsafe { (guid::read(provider), (&raw const (*event).Id).read_unaligned()) };
    let Some(provider) = provider else { return ERROR_INVALID_PARAMETER };
    let mut read = Vec::new();
    for index in 0..count as usize {
        // SAFETY: the caller promises `count` predicates.
        let Some(one) = (unsafe { predicate(&predicates.add(index).read_unaligned(), width) }) else {
            return ERROR_INVALID_PARAMETER;
        };
        read.push(one);
    }
    let made = match conditions(&provider, id, any, read) {
        Ok(made) => made,
        Err(code) => return code,
    };
    let mut created = created();
    created.last += 1;
    let handle = created.last;
    created.single.insert(handle, (provider, made));
    // SAFETY: the pointer is to a filter.
    unsafe { filter.write_unaligned(std::ptr::without_provenance_mut(handle)) };
    ERROR_SUCCESS
}

/// Makes a filter from the descriptions of an event.
fn conditions(
    provider: &Guid,
    id: u16,
    any: bool,
    mut predicates: Vec<PayloadPredicate>,
) -> Result<PayloadFilter, u32> {
    let providers = state().providers(provider);
    if providers.is_empty() {
        return Err(ERROR_FILE_NOT_FOUND);
    }
    let events: Vec<_> =
        providers.iter().flat_map(|one| &one.events).filter(|event| event.descriptor.id == id).collect();
    if events.is_empty() {
        return Err(ERROR_NOT_FOUND);
    }
    // GUIDs are compared as such, for which `PAYLOADFIELD_IS` is the operator of Windows.
    for predicate in &mut predicates {
        if predicate.value.starts_with('{') && predicate.value.parse::<Guid>().is_ok() {
            predicate.operator = match predicate.operator {
                PayloadOperator::Is => PayloadOperator::Equal,
                PayloadOperator::IsNot => PayloadOperator::NotEqual,
                other => other,
            };
        }
    }
    let mut layouts = Vec::new();
    for event in events {
        let Ok(layout) = payload_layout(event, &predicates) else { continue };
        let has = |predicate: &PayloadPredicate| layout.fields.iter().any(|one| one.name == predicate.field);
        let is_known = layouts.iter().any(|other: &PayloadLayout| other.version == layout.version);
        if predicates.iter().all(has) && !is_known {
            layouts.push(layout);
        }
    }
    if layouts.is_empty() {
        return Err(ERROR_INVALID_PARAMETER);
    }
    Ok(PayloadFilter { event: Some(id), any, predicates, layouts })
}

/// # Safety
///
/// The texts are null or have this width.
unsafe fn predicate(predicate: &PAYLOAD_FILTER_PREDICATE, width: Width) -> Option<PayloadPredicate> {
    // SAFETY: the caller's promise.
    let (field, value) =
        unsafe { (width.read(predicate.FieldName.cast())?, width.read(predicate.Value.cast())?) };
    let operator = match i32::from(predicate.CompareOp) {
        PAYLOADFIELD_EQ => PayloadOperator::Equal,
        PAYLOADFIELD_NE => PayloadOperator::NotEqual,
        PAYLOADFIELD_LE => PayloadOperator::LessOrEqual,
        PAYLOADFIELD_GT => PayloadOperator::Greater,
        PAYLOADFIELD_LT => PayloadOperator::Less,
        PAYLOADFIELD_GE => PayloadOperator::GreaterOrEqual,
        PAYLOADFIELD_BETWEEN => PayloadOperator::Between,
        PAYLOADFIELD_NOTBETWEEN => PayloadOperator::NotBetween,
        PAYLOADFIELD_MODULO => PayloadOperator::Modulo,
        PAYLOADFIELD_CONTAINS => PayloadOperator::Contains,
        PAYLOADFIELD_DOESNTCONTAIN => PayloadOperator::DoesNotContain,
        PAYLOADFIELD_IS => PayloadOperator::Is,
        PAYLOADFIELD_ISNOT => PayloadOperator::IsNot,
        _ => return None,
    };
    Some(PayloadPredicate { field, operator, value })
}

fn created() -> MutexGuard<'static, Created> {
    CREATED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_one_event_are_alternatives_unless_all_must_match() {
        let filter = |event, value: &str| {
            let (field, operator) = ("Size".to_owned(), PayloadOperator::Equal);
            let predicates = vec![PayloadPredicate { field, operator, value: value.to_owned() }];
            PayloadFilter { event: Some(event), any: false, predicates, layouts: vec![] }
        };
        let joined = aggregate(vec![
            (filter(1, "a"), false),
            (filter(2, "b"), true),
            (filter(1, "c"), false),
            (filter(2, "d"), true),
            (filter(3, "e"), false),
        ]);
        let expected = [
            Filter::Payload(filter(2, "b")),
            Filter::Payload(filter(2, "d")),
            Filter::AnyPayload(vec![filter(1, "a"), filter(1, "c")]),
            Filter::AnyPayload(vec![filter(3, "e")]),
        ];
        assert_eq!(joined, expected);
        let bytes = postcard::to_extend(&joined, SIGNATURE.to_vec()).unwrap();
        assert_eq!(payload_filters(&bytes).as_deref(), Some(&expected[..]));
        for end in 0..bytes.len() {
            assert_eq!(payload_filters(&bytes[..end]), None, "{end}");
        }
        let others = postcard::to_extend(&[Filter::Pids(vec![1])], SIGNATURE.to_vec()).unwrap();
        assert_eq!(payload_filters(&others), None);
    }
}
