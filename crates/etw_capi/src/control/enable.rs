//! `EnableTraceEx2` and its predecessors.

// UNSAFETY: reads what callers point to.
#![expect(unsafe_code)]

use etw_controller::{EnableBuilder, EnableProperties, Filter, ProviderKey, ProviderSpec};
use etw_event::{Guid, Keyword, Level};
use windows_sys::Win32::System::Diagnostics::Etw::{
    ENABLE_TRACE_PARAMETERS, EVENT_CONTROL_CODE_CAPTURE_STATE, EVENT_CONTROL_CODE_DISABLE_PROVIDER,
    EVENT_CONTROL_CODE_ENABLE_PROVIDER, EVENT_FILTER_DESCRIPTOR, EVENT_FILTER_TYPE_EVENT_ID,
    EVENT_FILTER_TYPE_EVENT_NAME, EVENT_FILTER_TYPE_EXECUTABLE_NAME, EVENT_FILTER_TYPE_NONE,
    EVENT_FILTER_TYPE_PACKAGE_APP_ID, EVENT_FILTER_TYPE_PACKAGE_ID, EVENT_FILTER_TYPE_PAYLOAD,
    EVENT_FILTER_TYPE_PID, EVENT_FILTER_TYPE_SCHEMATIZED, EVENT_FILTER_TYPE_STACKWALK,
    EVENT_FILTER_TYPE_STACKWALK_LEVEL_KW, EVENT_FILTER_TYPE_STACKWALK_NAME, MAX_EVENT_FILTERS_COUNT,
};
use windows_sys::core::GUID;

use super::connection::{Hosting, Session};
use super::sessions::code;
use crate::error::{ERROR_INVALID_PARAMETER, ERROR_NOT_SUPPORTED};
use crate::guest::process_of;
use crate::guid;
use crate::provide::catch_up;
use crate::tdh::payload_filters;
use crate::wide::Width;

/// Most bytes of a filter.
const MAX_FILTER_BYTES: u32 = 0x1_0000;

/// What a session wants of a provider, besides filters.
#[derive(Debug, Default, Clone, Copy)]
struct Settings {
    level: u8,
    any: u64,
    all: u64,
    property: u32,
    source: Guid,
}

/// Enables or disables a provider in a session, or asks it for its state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EnableTraceEx2(
    session: u64,
    provider: *const GUID,
    control_code: u32,
    level: u8,
    any: u64,
    all: u64,
    _timeout: u32,
    parameters: *const ENABLE_TRACE_PARAMETERS,
) -> u32 {
    // SAFETY: the caller's promise.
    code(unsafe {
        let settings = Settings { level, any, all, ..Settings::default() };
        enable_ex2(session, provider, control_code, settings, parameters, Width::Wide16)
    })
}

/// [`EnableTraceEx2`] with filters whose text has characters of 32 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EnableTraceEx232(
    session: u64,
    provider: *const GUID,
    control_code: u32,
    level: u8,
    any: u64,
    all: u64,
    _timeout: u32,
    parameters: *const ENABLE_TRACE_PARAMETERS,
) -> u32 {
    // SAFETY: the caller's promise.
    code(unsafe {
        let settings = Settings { level, any, all, ..Settings::default() };
        enable_ex2(session, provider, control_code, settings, parameters, Width::Wide32)
    })
}

/// Enables (1) or disables (0) a provider in a session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EnableTraceEx(
    provider: *const GUID,
    source: *const GUID,
    session: u64,
    is_enabled: u32,
    level: u8,
    any: u64,
    all: u64,
    property: u32,
    filter: *const EVENT_FILTER_DESCRIPTOR,
) -> u32 {
    if is_enabled > 1 {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the caller's promise.
    code(unsafe {
        let filters = if filter.is_null() { Vec::new() } else { vec![filter.read_unaligned()] };
        let settings = Settings { level, any, all, property, source: guid::read(source).unwrap_or_default() };
        enable(session, guid::read(provider), is_enabled, settings, &filters, Width::Wide16)
    })
}

/// Enables (not 0) or disables (0) a provider in a session, for a level and 32 keywords.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EnableTrace(
    is_enabled: u32,
    flags: u32,
    level: u32,
    provider: *const GUID,
    session: u64,
) -> u32 {
    let Ok(level) = u8::try_from(level) else { return ERROR_INVALID_PARAMETER };
    let control_code = u32::from(is_enabled != 0);
    // SAFETY: the caller's promise.
    code(unsafe {
        let settings = Settings { level, any: flags.into(), ..Settings::default() };
        enable(session, guid::read(provider), control_code, settings, &[], Width::Wide16)
    })
}

/// # Safety
///
/// The pointers are null or valid.
unsafe fn enable_ex2(
    session: u64,
    provider: *const GUID,
    control_code: u32,
    mut settings: Settings,
    parameters: *const ENABLE_TRACE_PARAMETERS,
    width: Width,
) -> Result<(), u32> {
    let mut filters = Vec::new();
    if !parameters.is_null() {
        // SAFETY: the caller's promise; both versions of the structure have these members.
        let (version, first) = unsafe {
            settings.property = (&raw const (*parameters).EnableProperty).read_unaligned();
            settings.source = guid::read(&raw const (*parameters).SourceId).unwrap_or_default();
            let version = (&raw const (*parameters).Version).read_unaligned();
            (version, (&raw const (*parameters).EnableFilterDesc).read_unaligned())
        };
        let count = match version {
            1 => u32::from(!first.is_null()),
            // SAFETY: this version has the member.
            2 => unsafe { (&raw const (*parameters).FilterDescCount).read_unaligned() },
            _ => return Err(ERROR_INVALID_PARAMETER),
        };
        if count > MAX_EVENT_FILTERS_COUNT || (first.is_null() && count != 0) {
            return Err(ERROR_INVALID_PARAMETER);
        }
        for index in 0..count as usize {
            // SAFETY: the caller promises `count` filters.
            filters.push(unsafe { first.add(index).read_unaligned() });
        }
    }
    // SAFETY: the caller's promise.
    unsafe { enable(session, guid::read(provider), control_code, settings, &filters, width) }
}

/// # Safety
///
/// The filters name readable memory.
unsafe fn enable(
    session: u64,
    provider: Option<Guid>,
    control_code: u32,
    settings: Settings,
    filters: &[EVENT_FILTER_DESCRIPTOR],
    width: Width,
) -> Result<(), u32> {
    let provider = provider.ok_or(ERROR_INVALID_PARAMETER)?;
    let Settings { level, any, all, property, source } = settings;
    let session = Session::of_handle(session)?;
    match control_code {
        EVENT_CONTROL_CODE_DISABLE_PROVIDER => {
            session.ask(Hosting::Never, |controller, name| controller.disable(name, provider))?;
            catch_up(&provider, || true);
            Ok(())
        }
        EVENT_CONTROL_CODE_CAPTURE_STATE => {
            session.ask(Hosting::Never, |controller, name| {
                controller.capture_state(name, provider, Level(level), Keyword(any))
            })?;
            catch_up(&provider, || true);
            Ok(())
        }
        EVENT_CONTROL_CODE_ENABLE_PROVIDER => {
            let mut spec = ProviderSpec {
                provider: ProviderKey::Guid(provider),
                level: Level(level),
                ids: Default::default(),
                any: Default::default(),
                all: Default::default(),
            };
            spec.any.mask = any;
            spec.all.mask = all;
            let mut read = Vec::new();
            for filter in filters {
                // SAFETY: the caller's promise.
                read.extend(unsafe { filters_of(filter, width)? });
            }
            // Filters of processes act where a process registers the provider; the system's providers are in none.
            let is_scope = |filter: &Filter| matches!(filter, Filter::Pids(_) | Filter::ExecutableNames(_));
            if read.iter().any(is_scope) {
                let known = session.ask(Hosting::Never, |controller, _| controller.providers())?;
                let is_of_system = known.iter().any(|one| one.guid == provider && one.pids.is_empty());
                read.retain(|filter| !(is_of_system && is_scope(filter)));
            }
            let enable = EnableBuilder::new(spec).properties(EnableProperties(property)).source(source);
            let enable = read.into_iter().fold(enable, EnableBuilder::filter);
            session.ask(Hosting::Never, |controller, name| controller.enable(name, &enable))?;
            // A program that enables its own provider writes events next.
            let pid = std::process::id();
            catch_up(&provider, || {
                let known = session.ask(Hosting::Never, |controller, _| controller.providers());
                known
                    .unwrap_or_default()
                    .iter()
                    .any(|one| (one.guid == provider || one.group == provider) && one.pids.contains(&pid))
            });
            Ok(())
        }
        _ => Err(ERROR_INVALID_PARAMETER),
    }
}

/// # Safety
///
/// The descriptor names readable memory.
unsafe fn filters_of(descriptor: &EVENT_FILTER_DESCRIPTOR, width: Width) -> Result<Vec<Filter>, u32> {
    if descriptor.Type == EVENT_FILTER_TYPE_NONE {
        return Ok(Vec::new());
    }
    if descriptor.Ptr == 0 || descriptor.Size == 0 || descriptor.Size > MAX_FILTER_BYTES {
        return Err(ERROR_INVALID_PARAMETER);
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(descriptor.Ptr as *const u8, descriptor.Size as usize) };
    match descriptor.Type {
        EVENT_FILTER_TYPE_PAYLOAD => payload_filters(bytes).ok_or(ERROR_INVALID_PARAMETER),
        kind => Ok(vec![filter(kind, bytes, width)?]),
    }
}

/// Reads a filter.
fn filter(kind: u32, bytes: &[u8], width: Width) -> Result<Filter, u32> {
    let invalid = ERROR_INVALID_PARAMETER;
    let word = |at: usize| bytes.get(at..at + 2).map(|two| u16::from(two[0]) | u16::from(two[1]) << 8);
    let long = |at: usize| bytes.get(at..)?.first_chunk().map(|eight| u64::from_le_bytes(*eight));
    // EVENT_FILTER_EVENT_ID: whether to include, reserved, count, ids.
    let ids = || {
        let include = *bytes.first()? != 0;
        let ids = (0..usize::from(word(2)?)).map(|index| word(4 + 2 * index)).collect::<Option<Vec<_>>>()?;
        Some((include, ids))
    };
    // EVENT_FILTER_EVENT_NAME: keywords, level, whether to include, count, names.
    let names = || {
        let include = *bytes.get(17)? != 0;
        let mut texts = bytes.get(20..)?.split(|byte| *byte == 0);
        let names = (0..word(18)?)
            .map(|_| Some(String::from_utf8_lossy(texts.next()?).into_owned()))
            .collect::<Option<Vec<_>>>()?;
        Some((include, names))
    };
    let levels = || Some((Level(*bytes.get(16)?), Keyword(long(0)?), Keyword(long(8)?)));
    Ok(match kind {
        EVENT_FILTER_TYPE_PID => {
            let (pids, []) = bytes.as_chunks::<4>() else { return Err(invalid) };
            Filter::Pids(pids.iter().map(|pid| process_of(u32::from_le_bytes(*pid))).collect())
        }
        EVENT_FILTER_TYPE_EXECUTABLE_NAME => {
            let mut text = bytes.to_vec();
            text.truncate(bytes.len() / width.bytes() * width.bytes());
            text.extend([0; 4]);
            Filter::ExecutableNames(vec![width_text(&text, width)])
        }
        // No process of Linux is of a package.
        EVENT_FILTER_TYPE_PACKAGE_ID | EVENT_FILTER_TYPE_PACKAGE_APP_ID => Filter::Pids(Vec::new()),
        EVENT_FILTER_TYPE_EVENT_ID => {
            let (include, ids) = ids().ok_or(invalid)?;
            Filter::EventIds { include, ids }
        }
        EVENT_FILTER_TYPE_STACKWALK => {
            let (include, ids) = ids().ok_or(invalid)?;
            Filter::StackWalkIds { include, ids }
        }
        EVENT_FILTER_TYPE_EVENT_NAME => {
            let ((include, names), (level, any, all)) = names().zip(levels()).ok_or(invalid)?;
            Filter::EventNames { include, level, any, all, names }
        }
        EVENT_FILTER_TYPE_STACKWALK_NAME => {
            let (include, names) = names().ok_or(invalid)?;
            Filter::StackWalkNames { include, names }
        }
        EVENT_FILTER_TYPE_STACKWALK_LEVEL_KW => {
            let ((level, any, all), include) = levels().zip(bytes.get(17)).ok_or(invalid)?;
            Filter::StackWalkLevelKeyword { include: *include != 0, level, any, all }
        }
        EVENT_FILTER_TYPE_SCHEMATIZED => Filter::Data { kind, data: bytes.to_vec() },
        // Types below are the provider's own.
        kind if kind < EVENT_FILTER_TYPE_SCHEMATIZED => Filter::Data { kind, data: bytes.to_vec() },
        _ => return Err(ERROR_NOT_SUPPORTED),
    })
}

fn width_text(text: &[u8], width: Width) -> String {
    // SAFETY: the caller appended a zero of any width.
    unsafe { width.read(text.as_ptr().cast()) }.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_read_within_their_bytes() {
        let check = |kind, bytes: &[u8], expected| {
            assert_eq!(filter(kind, bytes, Width::Wide16), expected, "{kind:#x}");
        };
        check(EVENT_FILTER_TYPE_PID, &[7, 0, 0, 0, 8, 0, 0, 0], Ok(Filter::Pids(vec![7, 8])));
        check(EVENT_FILTER_TYPE_PID, &[7, 0, 0], Err(ERROR_INVALID_PARAMETER));
        let ids = [1, 0, 2, 0, 5, 0, 6, 0];
        check(EVENT_FILTER_TYPE_EVENT_ID, &ids, Ok(Filter::EventIds { include: true, ids: vec![5, 6] }));
        check(EVENT_FILTER_TYPE_EVENT_ID, &ids[..7], Err(ERROR_INVALID_PARAMETER));
        let mut named = vec![0; 16];
        named.extend([4, 1, 2, 0]);
        named.extend(b"One\0Two\0");
        let expected = Filter::EventNames {
            include: true,
            level: Level(4),
            any: Keyword(0),
            all: Keyword(0),
            names: vec!["One".into(), "Two".into()],
        };
        check(EVENT_FILTER_TYPE_EVENT_NAME, &named, Ok(expected));
        check(EVENT_FILTER_TYPE_EVENT_NAME, &named[..19], Err(ERROR_INVALID_PARAMETER));
        let text = Width::Wide16.encode("a.exe;b");
        check(EVENT_FILTER_TYPE_EXECUTABLE_NAME, &text, Ok(Filter::ExecutableNames(vec!["a.exe;b".into()])));
        check(0x8000_8001, &[1], Err(ERROR_NOT_SUPPORTED));
    }
}
