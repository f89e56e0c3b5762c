//! Tracepoints of the Linux kernel in provider strings: `tracepoint:sched:sched_switch where prev_pid != 0`.

use anyhow::Result;
use openetw::kernel::tracepoints::{
    TRACEPOINT_PROVIDER, TRACEPOINT_PROVIDER_NAME, TracepointName, TracepointPattern, TracepointSelection,
    Tracepoints, filters_of,
};
use openetw::session::{EnableBuilder, ProviderKey, ProviderSpec};

use crate::text::closest;
use crate::{UsageError, output};

/// What a provider string of tracepoints starts with.
const PREFIX: &str = "tracepoint:";

/// Most patterns of a session, and of those with conditions: the limits of the protocol, checked here for a message that
/// names the remedy.
const MAX_PATTERNS: usize = 64;
const MAX_CONDITIONS: usize = 12;

/// Returns the pattern of names if a provider string names tracepoints.
pub fn pattern_text(text: &str) -> Option<&str> {
    text.strip_prefix(PREFIX)
}

/// Returns the pattern of names of tracepoints in a provider string without a condition, or of all for the name of their
/// provider.
///
/// # Errors
///
/// Fails if the string is not of this form ([`UsageError`]).
pub fn parse_pattern(text: &str) -> Result<TracepointPattern> {
    pattern_text(text).unwrap_or(text).parse().map_err(|error: String| UsageError(error).into())
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
    match problems.into_iter().next() {
        Some(problem) if selected.len() < TracepointSelection::MAX_TRACEPOINTS => {
            Err(UsageError(problem).into())
        }
        // The session reports it too, but maybe to nobody.
        Some(problem) => {
            output::warn(&problem);
            Ok(())
        }
        None => Ok(()),
    }
}

/// Returns the error for a pattern that matches no tracepoint.
pub fn unknown(pattern: &TracepointPattern, all: &Tracepoints) -> anyhow::Error {
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

/// Returns the error for a command that takes a provider and not some of its events.
pub(crate) fn not_a_provider(text: &str) -> anyhow::Error {
    UsageError(format!("'{text}' names events; name their provider, {TRACEPOINT_PROVIDER_NAME}")).into()
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

    #[test]
    fn invalid_strings_are_refused() {
        for wrong in ["", "sched", "a:b:c", "sched:a b"] {
            let is_valid = wrong == "sched";
            assert_eq!(parse_pattern(&format!("{PREFIX}{wrong}")).is_ok(), is_valid, "{wrong}");
        }
        assert_eq!(pattern_text("tracepoints:x"), None);
    }
}
