//! Tracepoints of the running kernel.

use std::sync::Arc;

use anyhow::Result;
use openetw::kernel::tracepoints::{
    TRACEPOINT_PROVIDER, TRACEPOINT_PROVIDER_NAME, TracepointName, TracepointPattern, TracepointSelection,
    Tracepoints, filters_of,
};
use openetw::schema::tracelogging::parse_event;
use openetw::schema::{Decoding, Provider, ProviderInfo};
use openetw::session::{EnableBuilder, ProviderKey, ProviderSpec};
use openetw::{EventDescriptor, Level};

use super::{PREFIX, pattern_text};
use crate::UsageError;
use crate::text::closest;

/// Most patterns of a session, and of those with conditions: the limits of the protocol, checked here for a message that
/// names the remedy.
const MAX_PATTERNS: usize = 64;
const MAX_CONDITIONS: usize = 12;

/// Returns the tracepoints whose names match a provider string, with the fields of their events, as a provider; `None` if
/// the string does not name tracepoints.
///
/// # Errors
///
/// Fails if the string is invalid ([`UsageError`]), if no tracepoint matches, or if this user may not read the tracepoints
/// of this kernel.
pub fn find(text: &str) -> Result<Option<Provider>> {
    let pattern = match pattern_text(text) {
        Some("") => "*:*",
        Some(pattern) => pattern,
        None if is_provider(text) => "*:*",
        None => return Ok(None),
    };
    let pattern: TracepointPattern = pattern.parse().map_err(UsageError)?;
    let all = Tracepoints::of_this_machine()?;
    let names: Vec<&TracepointName> = all.matching(&pattern).collect();
    if names.is_empty() {
        return Err(unknown(&pattern, &all));
    }
    let info = Arc::new(ProviderInfo::new(
        TRACEPOINT_PROVIDER,
        TRACEPOINT_PROVIDER_NAME,
        Decoding::TraceLogging,
        "the running kernel",
    ));
    let descriptor = EventDescriptor { level: Level::INFORMATION, ..EventDescriptor::ZERO };
    let event = |name: &&TracepointName| {
        let metadata = all.format(name)?.metadata(name);
        Ok(Arc::new(parse_event(&metadata, info.clone(), descriptor)?))
    };
    let events = names.iter().map(event).collect::<Result<Vec<_>>>()?;
    Ok(Some(Provider { info, events }))
}

/// Returns the names of the tracepoints that match a provider string; `None` if the string does not name tracepoints.
///
/// # Errors
///
/// As [`find`].
pub fn list(text: &str) -> Result<Option<Vec<String>>> {
    let Some(pattern) = pattern_text(text) else { return Ok(None) };
    let pattern: TracepointPattern =
        (if pattern.is_empty() { "*:*" } else { pattern }).parse().map_err(UsageError)?;
    let all = Tracepoints::of_this_machine()?;
    let names: Vec<String> = all.matching(&pattern).map(|name| format!("{PREFIX}{name}")).collect();
    if names.is_empty() { Err(unknown(&pattern, &all)) } else { Ok(Some(names)) }
}

fn is_provider(text: &str) -> bool {
    text.eq_ignore_ascii_case(TRACEPOINT_PROVIDER_NAME) || text.parse() == Ok(TRACEPOINT_PROVIDER)
}

/// Returns the enable request for all provider strings of tracepoints, without options. Each has the pattern of names, and
/// the condition if there is one.
///
/// # Errors
///
/// Fails if a string is invalid, if this kernel has no such tracepoint, or if it refuses the condition ([`UsageError`]).
/// A user who may not read the tracepoints of this kernel learns this from the session.
pub(crate) fn wanted(texts: &[(&str, Option<&str>)]) -> Result<EnableBuilder> {
    let mut selection = TracepointSelection::default();
    for (text, condition) in texts {
        let pattern: TracepointPattern = text.parse().map_err(UsageError)?;
        selection.patterns.push((pattern, condition.map(kernel_condition)));
    }
    check(&selection)?;
    let enable = EnableBuilder::new(ProviderSpec::new(ProviderKey::Guid(TRACEPOINT_PROVIDER)));
    Ok(filters_of(&selection).into_iter().fold(enable, EnableBuilder::filter))
}

fn check(selection: &TracepointSelection) -> Result<()> {
    let conditions = selection.patterns.iter().filter(|(_, condition)| condition.is_some()).count();
    if selection.patterns.len() > MAX_PATTERNS || conditions > MAX_CONDITIONS {
        let text = format!(
            "a session has at most {MAX_PATTERNS} patterns of tracepoints, {MAX_CONDITIONS} of them with conditions; use wildcards"
        );
        return Err(UsageError(text).into());
    }
    // Sessions of a daemon may have rights that this user lacks.
    let Ok(all) = Tracepoints::of_this_machine() else { return Ok(()) };
    for (pattern, _) in &selection.patterns {
        if all.matching(pattern).next().is_none() {
            return Err(unknown(pattern, &all));
        }
    }
    let (selected, problems) = selection.select(&all);
    // The session says which ones it leaves out of too many.
    match problems.into_iter().next() {
        Some(problem) if selected.len() < TracepointSelection::MAX_TRACEPOINTS => {
            Err(UsageError(problem).into())
        }
        _ => Ok(()),
    }
}

/// Returns the error for a pattern that matches no tracepoint.
fn unknown(pattern: &TracepointPattern, all: &Tracepoints) -> anyhow::Error {
    let text = pattern.to_string();
    let names: Vec<String> = all.names().iter().map(TracepointName::to_string).collect();
    let hint = match closest(&text, names.iter().map(|name| &**name)) {
        Some(name) if !pattern.has_wildcard() => format!("; did you mean tracepoint:{name}?"),
        _ => "; `etw provider list tracepoint:` lists them".to_owned(),
    };
    UsageError(format!("this kernel has no tracepoint {text}{hint}")).into()
}

/// Returns a condition in the kernel's filter language, in which `and` and `or` are `&&` and `||`.
fn kernel_condition(text: &str) -> String {
    let mut condition = String::new();
    // Every second part is in quotation marks.
    for (number, part) in text.split('"').enumerate() {
        if number > 0 {
            condition.push('"');
        }
        if number % 2 == 1 {
            condition.push_str(part);
            continue;
        }
        let words = part.split(' ').map(|word| match word {
            "and" => "&&",
            "or" => "||",
            other => other,
        });
        condition.push_str(&words.collect::<Vec<_>>().join(" "));
    }
    condition
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_operators_outside_of_quotation_marks() {
        let check = |text: &str, expected: &str| assert_eq!(kernel_condition(text), expected);
        check("pid == 1 and comm == \"a and b\" or x", "pid == 1 && comm == \"a and b\" || x");
        check("(a==1)&&(b==2)", "(a==1)&&(b==2)");
        check("android == 1", "android == 1");
        check("comm ~ \"or\"", "comm ~ \"or\"");
        check("comm == \"", "comm == \"");
    }
}
