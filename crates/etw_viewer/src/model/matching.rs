//! The events that meet an expression over header and payload fields, read from the trace again.

use std::sync::{Arc, PoisonError};

use anyhow::{Context, Result, bail};
use etw_app::input;
use openetw::{Predicate, classes};

use super::Model;

/// Maximum number of expressions whose events are kept.
const MAX_KEPT: usize = 4;
/// Maximum number of events of an expression.
const MAX_EVENTS: usize = 1 << 24;

impl Model {
    /// Returns the rows of the table of events that meet an expression (`docs/filters.md`), in order.
    ///
    /// # Errors
    ///
    /// Fails if the expression is wrong or has a condition on stacks, if more than 16,777,216 events meet it, or if the
    /// trace cannot be read any more.
    pub(crate) fn matching(&self, expression: &str) -> Result<Arc<Vec<u64>>> {
        let lock = || self.matching.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = lock().iter().find(|(known, _)| known == expression) {
            return Ok(Arc::clone(known));
        }
        let predicate: Predicate = expression.parse().with_context(|| format!("`{expression}`"))?;
        if predicate.needs_stacks() {
            bail!("conditions on `stack` are not evaluated here; include functions in the view of stacks");
        }
        self.opened.check()?;
        let builder = input::builder(&self.files)?.skip_unreadable(true).process_names(true);
        let mut trace = builder.open()?;
        let (mut row, mut found) = (0_u64, Vec::new());
        trace.for_each_event(|event| {
            // Stacks are no rows.
            if event.record.provider_id() == classes::STACK_WALK {
                return;
            }
            if found.len() <= MAX_EVENTS && predicate.matches(event) {
                found.push(row);
            }
            row += 1;
        })?;
        if self.index().table("events").map(|events| events.rows()) != Some(row) {
            bail!("the trace has changed since it was opened");
        }
        if found.len() > MAX_EVENTS {
            bail!("more than {MAX_EVENTS} events meet `{expression}`");
        }
        let found = Arc::new(found);
        let mut kept = lock();
        kept.push_front((expression.to_owned(), Arc::clone(&found)));
        kept.truncate(MAX_KEPT);
        Ok(found)
    }
}
