//! Stacks that no table has: the trace is read for them, as a report does.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use etw_app::symbols::SymbolOptions;
use openetw::TimePoint;
use openetw::analysis::{NamedStacks, StackWeight};

use crate::model::Model;
use crate::tables::Scope;

/// Maximum number of answers that are kept.
const MAX_KEPT: usize = 4;

/// Whether the stacks are of the trace to compare with, what they weigh, and the period.
type Question = (bool, StackWeight, Option<i64>, Option<i64>);

/// The stacks that were counted last.
#[derive(Debug, Default)]
pub(crate) struct TracedStacks {
    kept: Mutex<VecDeque<(Question, Arc<NamedStacks>)>>,
    /// Held while a trace is read: one at a time.
    turn: Mutex<()>,
}

impl TracedStacks {
    /// Returns the stacks of a period.
    ///
    /// # Errors
    ///
    /// Fails if the scope has filters, or if the trace cannot be read any more.
    pub(super) fn get(
        &self,
        (model, is_other): (&Model, bool),
        symbols: &SymbolOptions,
        weight: StackWeight,
        scope: &Scope,
    ) -> Result<Arc<NamedStacks>> {
        if !scope.filters.is_empty() {
            bail!(
                "this weight is counted in the trace, where the filters of the table mean nothing; remove them, or choose \
                 stacks by Include"
            );
        }
        let question = (is_other, weight, scope.from, scope.to);
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = self.find(&question) {
            return Ok(known);
        }
        let at = |time: Option<i64>| time.map(|time| TimePoint::At(model.time_at(time)));
        let period = [at(scope.from), at(scope.to)];
        let stacks = etw_report::stacks_of_viewer(model.readable()?, symbols, weight, period)?;
        let stacks = Arc::new(stacks);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_front((question, Arc::clone(&stacks)));
        kept.truncate(MAX_KEPT);
        Ok(stacks)
    }

    fn find(&self, question: &Question) -> Option<Arc<NamedStacks>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, _)| known == question).map(|(_, stacks)| Arc::clone(stacks))
    }
}
