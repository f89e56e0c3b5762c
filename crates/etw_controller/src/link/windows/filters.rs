//! Filters of an enable, as Windows has them.

use std::io;

use etw_event::{EventDescriptor, Guid, Keyword, Level};
use etw_protocol::{Filter, PayloadFilter, PayloadOperator};
use etw_sys::filters::{self, Filters};

use super::error::{refused, unsupported};
use crate::ControllerError;

/// Why filters cannot be used.
#[derive(Debug)]
pub(super) enum FilterError {
    /// Windows does not have such filters; the reason.
    Unsupported(&'static str),
    /// Windows refused conditions on payloads.
    Payload(io::Error),
}

impl FilterError {
    pub(super) fn into_failure(self, subject: &str, provider: &Guid) -> ControllerError {
        match self {
            FilterError::Unsupported(reason) => {
                unsupported(&format!("{subject} cannot enable {provider}: {reason}"))
            }
            FilterError::Payload(error) => {
                refused(subject, &format!("cannot filter payloads of {provider} by its manifest"), &error)
            }
        }
    }
}

/// Returns the filters of a provider.
pub(super) fn filters_for(provider: &Guid, wanted: &[Filter]) -> Result<Filters, FilterError> {
    let mut all = Filters::default();
    let mut payload = Vec::new();
    for filter in wanted {
        match filter {
            Filter::Payload(conditions) => payload.push((payload_filter(conditions)?, true)),
            Filter::AnyPayload(alternatives) => {
                for conditions in alternatives {
                    payload.push((payload_filter(conditions)?, false));
                }
            }
            filter => {
                let (kind, data) = data_of(filter)?;
                all.push(kind, data);
            }
        }
    }
    if !payload.is_empty() {
        all.set_payload(provider, &payload).map_err(FilterError::Payload)?;
    }
    Ok(all)
}

/// Returns the type and the data of a filter that needs no schema.
fn data_of(filter: &Filter) -> Result<(u32, Vec<u8>), FilterError> {
    Ok(match filter {
        Filter::EventIds { include, ids } => (filters::EVENT_ID, event_ids(*include, ids)),
        Filter::StackWalkIds { include, ids } => (filters::STACK_WALK, event_ids(*include, ids)),
        Filter::EventNames { include, level, any, all, names } => {
            (filters::EVENT_NAME, event_names(*include, (*level, *any, *all), names))
        }
        Filter::StackWalkNames { include, names } => {
            let every = (Level(0), Keyword(0), Keyword(0));
            (filters::STACK_WALK_NAME, event_names(*include, every, names))
        }
        Filter::StackWalkLevelKeyword { include, level, any, all } => {
            let mut data = levels((*level, *any, *all), *include);
            // The structure ends with padding.
            data.resize(24, 0);
            (filters::STACK_WALK_LEVEL_KEYWORD, data)
        }
        Filter::Pids(pids) => (filters::PID, pids.iter().flat_map(|pid| pid.to_le_bytes()).collect()),
        Filter::ExecutableNames(names) => {
            let text = names.join(";");
            let units = text.encode_utf16().chain([0]);
            (filters::EXECUTABLE_NAME, units.flat_map(u16::to_le_bytes).collect())
        }
        Filter::Data { kind, data } => (*kind, data.clone()),
        _ => return Err(FilterError::Unsupported("Windows has no such filter")),
    })
}

/// Returns `EVENT_FILTER_EVENT_ID`.
fn event_ids(include: bool, ids: &[u16]) -> Vec<u8> {
    let count = u16::try_from(ids.len()).unwrap_or(u16::MAX);
    let mut data = vec![u8::from(include), 0];
    data.extend(count.to_le_bytes());
    data.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    data
}

/// Returns `EVENT_FILTER_EVENT_NAME`.
fn event_names(include: bool, wanted: (Level, Keyword, Keyword), names: &[String]) -> Vec<u8> {
    let mut data = levels(wanted, include);
    data.extend(u16::try_from(names.len()).unwrap_or(u16::MAX).to_le_bytes());
    for name in names {
        data.extend(name.as_bytes());
        data.push(0);
    }
    data
}

/// Returns the start that filters by name and by level have in common.
fn levels((level, any, all): (Level, Keyword, Keyword), include: bool) -> Vec<u8> {
    let mut data = Vec::new();
    data.extend(any.0.to_le_bytes());
    data.extend(all.0.to_le_bytes());
    data.extend([level.0, u8::from(include)]);
    data
}

fn payload_filter(filter: &PayloadFilter) -> Result<filters::PayloadFilter, FilterError> {
    let Some(id) = filter.event else {
        return Err(FilterError::Unsupported(
            "Windows filters the payloads of events that a manifest describes, given by their ids",
        ));
    };
    let layout = filter.layouts.iter().find(|layout| layout.id == id);
    let version = layout.map_or(0, |layout| layout.version);
    let predicates = filter.predicates.iter();
    Ok(filters::PayloadFilter {
        event: EventDescriptor { id, version, ..EventDescriptor::ZERO },
        any: filter.any,
        predicates: predicates
            .map(|one| (one.field.clone(), operator(one.operator), one.value.clone()))
            .collect(),
    })
}

/// Returns `PAYLOADFIELD_*` (`tdh.h`).
fn operator(operator: PayloadOperator) -> u16 {
    match operator {
        PayloadOperator::Equal => 0,
        PayloadOperator::NotEqual => 1,
        PayloadOperator::LessOrEqual => 2,
        PayloadOperator::Greater => 3,
        PayloadOperator::Less => 4,
        PayloadOperator::GreaterOrEqual => 5,
        PayloadOperator::Between => 6,
        PayloadOperator::NotBetween => 7,
        PayloadOperator::Modulo => 8,
        PayloadOperator::Contains => 20,
        PayloadOperator::DoesNotContain => 21,
        PayloadOperator::Is => 30,
        PayloadOperator::IsNot => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_have_the_layout_of_windows() {
        let check = |filter: Filter, kind: u32, expected: &[u8]| {
            assert_eq!(data_of(&filter).unwrap(), (kind, expected.to_vec()));
        };
        let ids = Filter::EventIds { include: true, ids: vec![5, 0x102] };
        check(ids, 0x8000_0200, &[1, 0, 2, 0, 5, 0, 2, 1]);
        check(Filter::Pids(vec![7]), 0x8000_0004, &[7, 0, 0, 0]);
        check(Filter::ExecutableNames(vec!["a".into(), "b".into()]), 0x8000_0008, b"a\0;\0b\0\0\0");
        let mut named = vec![0; 16];
        named.extend([4, 0, 1, 0]);
        named.extend(b"One\0");
        let (level, none) = (Level(4), Keyword(0));
        let names =
            Filter::EventNames { include: false, level, any: none, all: none, names: vec!["One".into()] };
        check(names, 0x8000_0400, &named);
        let mut levels = vec![0; 24];
        levels[16..18].copy_from_slice(&[4, 1]);
        check(
            Filter::StackWalkLevelKeyword { include: true, level, any: none, all: none },
            0x8000_4000,
            &levels,
        );
        let any_event = PayloadFilter { event: None, any: false, predicates: vec![], layouts: vec![] };
        assert!(filters_for(&Guid::ZERO, &[Filter::Payload(any_event)]).is_err());
    }
}
