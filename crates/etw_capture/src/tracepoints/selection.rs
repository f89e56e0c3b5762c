//! The tracepoints that a session selects.

use std::ffi::CString;

use etw_sys::TracepointEvent;

use super::{TracepointFormat, TracepointName, TracepointPattern, TracepointRings, Tracepoints};

/// Tracepoints selected by patterns, each with a condition on their events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TracepointSelection {
    /// The patterns. A pattern's condition is in the kernel's filter language; `None` selects all events.
    pub patterns: Vec<(TracepointPattern, Option<String>)>,
}

/// A tracepoint that a selection selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedTracepoint {
    /// Name.
    pub name: TracepointName,
    /// Number and fields.
    pub format: TracepointFormat,
    /// The condition of all patterns that match it together.
    pub condition: Option<String>,
}

impl TracepointSelection {
    /// Maximum number of tracepoints that are selected. Each takes an open file on each processor.
    pub const MAX_TRACEPOINTS: usize = 512;

    /// Returns the selected tracepoints, and one line for each part of the selection that selects nothing. Conditions are
    /// tried on this kernel, which takes the rights to capture its events.
    pub fn select(&self, tracepoints: &Tracepoints) -> (Vec<SelectedTracepoint>, Vec<String>) {
        let (mut selected, mut problems) = (Vec::new(), Vec::new());
        for (pattern, _) in &self.patterns {
            if tracepoints.matching(pattern).next().is_none() {
                problems.push(format!("tracepoint:{pattern}: this kernel has no such tracepoint"));
            }
        }
        let names = tracepoints.names().iter().filter(|name| self.is_selected(name));
        let names: Vec<&TracepointName> = names.collect();
        if names.len() > Self::MAX_TRACEPOINTS {
            let (count, max) = (names.len(), Self::MAX_TRACEPOINTS);
            problems.push(format!(
                "tracepoint: {count} tracepoints are selected, of which the first {max} are recorded"
            ));
        }
        for name in names.into_iter().take(Self::MAX_TRACEPOINTS) {
            let condition = self.condition_of(name);
            let found = tracepoints.format(name).map_err(|error| format!("tracepoint:{name}: {error}"));
            match found.and_then(|format| SelectedTracepoint::new(name, format, condition)) {
                Ok(tracepoint) => selected.push(tracepoint),
                Err(problem) => problems.push(problem),
            }
        }
        (selected, problems)
    }

    fn is_selected(&self, name: &TracepointName) -> bool {
        self.patterns.iter().any(|(pattern, _)| pattern.matches(name))
    }

    /// Returns the condition of a tracepoint's events: that of any pattern that it matches.
    fn condition_of(&self, name: &TracepointName) -> Option<String> {
        let matching = self.patterns.iter().filter(|(pattern, _)| pattern.matches(name));
        let mut conditions: Vec<&str> =
            matching.map(|(_, condition)| condition.as_deref()).collect::<Option<_>>()?;
        conditions.dedup();
        match &conditions[..] {
            [] => None,
            [one] => Some((*one).to_owned()),
            several => {
                let several: Vec<String> = several.iter().map(|one| format!("({one})")).collect();
                Some(several.join(" || "))
            }
        }
    }
}

impl SelectedTracepoint {
    /// Checks a tracepoint's condition.
    fn new(
        name: &TracepointName,
        format: TracepointFormat,
        condition: Option<String>,
    ) -> Result<SelectedTracepoint, String> {
        let selected = SelectedTracepoint { name: name.clone(), format, condition };
        let Some(condition) = &selected.condition else { return Ok(selected) };
        let fields: Vec<&str> = selected.format.fields.iter().map(|field| &*field.name).collect();
        let refused = |reason: String| {
            let fields = fields.join(", ");
            format!(
                "tracepoint:{name}: the kernel refuses the condition `{condition}` ({reason}); it has the fields {fields}"
            )
        };
        let event = selected.event().ok_or_else(|| refused("it has a zero byte".to_owned()))?;
        TracepointRings::check(&event).map_err(|error| refused(error.to_string()))?;
        Ok(selected)
    }

    /// Returns the tracepoint as the kernel is asked for it; `None` if its condition has a zero byte.
    pub fn event(&self) -> Option<TracepointEvent> {
        let filter = self.condition.as_deref().map(CString::new).transpose().ok()?;
        Some(TracepointEvent { id: self.format.id, filter })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_several_patterns_are_joined() {
        let name = TracepointName { system: "sched".into(), name: "sched_switch".into() };
        let check = |patterns: &[(&str, Option<&str>)], expected: Option<&str>| {
            let pattern = |(pattern, condition): &(&str, Option<&str>)| {
                (pattern.parse().unwrap(), condition.map(str::to_owned))
            };
            let selection = TracepointSelection { patterns: patterns.iter().map(pattern).collect() };
            assert_eq!(selection.condition_of(&name).as_deref(), expected, "{patterns:?}");
        };
        check(&[("sched:sched_switch", Some("a == 1"))], Some("a == 1"));
        check(&[("sched:*", Some("a == 1")), ("sched:sched_switch", None)], None);
        check(&[("sched:*", Some("a == 1")), ("sched:sched_wakeup", None)], Some("a == 1"));
        check(&[("sched:*", Some("a == 1")), ("*:*", Some("b == 2"))], Some("(a == 1) || (b == 2)"));
    }
}
