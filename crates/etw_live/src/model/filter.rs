//! Filters of the events to show.

use openetw::{Event, EventFilter, Predicate};

use super::rows::printable;
use super::rules::Rules;

/// A filter of the events to show, besides those of the options.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// Expression of the filter language.
    Expression(Predicate),
    /// `~TEXT`: the event's line contains this text; stored in lower case.
    Text(String),
    /// Rules that include and exclude.
    Rules(Rules),
}

impl Wanted {
    /// Parses a filter line; `None` if it is empty.
    ///
    /// # Errors
    ///
    /// Returns a message for the user if the expression is invalid.
    pub fn parse(line: &str) -> Result<Option<Wanted>, String> {
        let line = line.trim();
        if line.is_empty() {
            return Ok(None);
        }
        if let Some(text) = line.strip_prefix('~') {
            return Ok(Some(Wanted::Text(printable(text).to_lowercase())));
        }
        let predicate = line.parse::<Predicate>().map_err(|error| error.to_string())?;
        if predicate.needs_stacks() {
            return Err("stacks are not known here".to_owned());
        }
        Ok(Some(Wanted::Expression(predicate)))
    }
}

/// Filter from the command line.
#[derive(Debug, Default)]
pub(crate) struct Base {
    pub(crate) predicate: Option<Predicate>,
    /// Hides events that are too frequent to read, and initial state, unless their flag was requested.
    pub(crate) is_quiet: bool,
    /// Show only rows of these processes.
    pub(crate) process_ids: Vec<u32>,
    /// Names in lower case.
    pub(crate) processes: Vec<String>,
}

impl Base {
    pub(crate) fn new(filter: &EventFilter, is_quiet: bool) -> Base {
        Base {
            predicate: filter.predicate(),
            is_quiet,
            process_ids: filter.process_ids.clone(),
            processes: filter.processes.iter().map(|name| name.to_lowercase()).collect(),
        }
    }

    /// Whether all events pass.
    pub(crate) fn is_open(&self) -> bool {
        self.predicate.is_none() && !self.is_quiet
    }

    /// Whether the command line's filters let an event pass.
    pub(crate) fn passes(&self, event: &Event<'_>) -> bool {
        let is_noise = || {
            let hook = event.record.hook_id().map(|hook| (hook.group(), hook.event_type()));
            let is_frequent = matches!(hook, Some((0x05, 0x24) | (0x0F, 0x42..=0x45 | 0x32)));
            // The tables contain the initial state.
            let is_rundown = matches!(hook, Some((0x03 | 0x05 | 0x14, 3 | 4) | (0x04, 36) | (0x0B, _)));
            is_frequent || is_rundown
        };
        !(self.is_quiet && is_noise())
            && self.predicate.as_ref().is_none_or(|predicate| predicate.matches(event))
    }

    /// Whether rows of this process are shown.
    pub(crate) fn has_process(&self, process_id: u32, name: &str) -> bool {
        let is_named = || {
            let name = name.to_lowercase();
            let plain = name.strip_suffix(".exe").unwrap_or(&name);
            self.processes.iter().any(|wanted| *wanted == name || wanted == plain)
        };
        (self.process_ids.is_empty() || self.process_ids.contains(&process_id))
            && (self.processes.is_empty() || is_named())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_lines() {
        assert!(matches!(Wanted::parse("  "), Ok(None)));
        assert!(matches!(Wanted::parse("pid == 1"), Ok(Some(Wanted::Expression(_)))));
        assert!(matches!(Wanted::parse("~ETC"), Ok(Some(Wanted::Text(text))) if text == "etc"));
        assert!(Wanted::parse("pid ==").unwrap_err().contains("column"));
    }

    #[test]
    fn processes_by_id_and_name() {
        let filter = EventFilter {
            process_ids: vec![1, 2],
            processes: vec!["Make".to_owned()],
            ..EventFilter::default()
        };
        let base = Base::new(&filter, false);
        assert!(base.has_process(1, "make") && base.has_process(2, "MAKE.exe"));
        assert!(!base.has_process(3, "make") && !base.has_process(1, "maker"));
        assert!(Base::default().has_process(3, "any"));
    }
}
