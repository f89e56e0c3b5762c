//! Options that select events, the same in every command.

use std::sync::Arc;

use etw_event::Record;
use etw_schema::{HeaderField, IdSet, ProviderSpec, ProviderSpecError};

use super::FilterError;
use crate::{Predicate, TimePoint};

/// The selection of events made by `--provider --event --pid --tid --process --where --from --to --limit`.
///
/// An event must match every option that is given. If an option is given several times, one of its values must match.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Providers.
    pub providers: Vec<ProviderSpec>,
    /// Event ids.
    pub ids: IdSet,
    /// Processes by id.
    pub process_ids: Vec<u32>,
    /// Threads.
    pub thread_ids: Vec<u32>,
    /// Processes by image name, with or without `.exe`.
    pub processes: Vec<String>,
    /// Expressions; all must hold.
    pub expressions: Vec<Predicate>,
    /// Lower time limit; earlier events are left out.
    pub from: Option<TimePoint>,
    /// Upper time limit; events at this time and later are left out.
    pub to: Option<TimePoint>,
    /// Maximum number of events.
    pub limit: Option<u64>,
}

/// An invalid option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventFilterError {
    /// A provider string or a list of ids.
    #[error(transparent)]
    Provider(#[from] ProviderSpecError),
    /// An expression.
    #[error("expression '{text}': {error}")]
    Expression {
        /// The expression.
        text: String,
        /// What is wrong with it.
        error: FilterError,
    },
}

impl EventFilter {
    /// Adds a provider string.
    ///
    /// # Errors
    ///
    /// Fails if the provider string is invalid.
    pub fn provider(mut self, text: &str) -> Result<EventFilter, EventFilterError> {
        self.providers.push(text.parse()?);
        Ok(self)
    }

    /// Sets the event ids: `1,3,10-19`.
    ///
    /// # Errors
    ///
    /// Fails if the list of ids is invalid.
    pub fn ids(mut self, text: &str) -> Result<EventFilter, EventFilterError> {
        self.ids = text.parse()?;
        Ok(self)
    }

    /// Adds an expression.
    ///
    /// # Errors
    ///
    /// Fails if the expression is invalid; the error contains the column.
    pub fn expression(mut self, text: &str) -> Result<EventFilter, EventFilterError> {
        let predicate = text.parse();
        self.expressions
            .push(predicate.map_err(|error| EventFilterError::Expression { text: text.to_owned(), error })?);
        Ok(self)
    }

    /// Gives conditions on `stack` what they are compared with ([`Predicate::with_stacks`]).
    #[must_use]
    pub fn with_stacks(
        mut self,
        functions: impl Fn(&Record<'_>, &mut dyn FnMut(&str)) + Send + Sync + 'static,
    ) -> EventFilter {
        let functions = Arc::new(functions);
        let with = |expression: Predicate| {
            let functions = Arc::clone(&functions);
            expression.with_stacks(move |record, each| functions(record, each))
        };
        self.expressions = self.expressions.into_iter().map(with).collect();
        self
    }

    /// Whether there is a condition on `stack` that [`EventFilter::with_stacks`] has given nothing to compare with.
    pub fn needs_stacks(&self) -> bool {
        self.expressions.iter().any(Predicate::needs_stacks)
    }

    /// Returns all options except times and limit as one predicate, or `None` if they exclude no event.
    pub fn predicate(&self) -> Option<Predicate> {
        let mut all: Vec<Predicate> = self.expressions.clone();
        let mut any = |predicates: Vec<Predicate>| {
            if !predicates.is_empty() {
                all.push(Predicate::any_of(predicates));
            }
        };
        any(self.providers.iter().cloned().map(Predicate::provider).collect());
        let number = |field, numbers: &[u32]| {
            numbers.iter().map(|number| Predicate::header(field, i128::from(*number))).collect()
        };
        any(number(HeaderField::ProcessId, &self.process_ids));
        any(number(HeaderField::ThreadId, &self.thread_ids));
        any(self.processes.iter().map(|name| Predicate::process_named(name)).collect());
        if !self.ids.is_all() {
            all.push(Predicate::ids(self.ids.clone()));
        }
        (!all.is_empty()).then(|| Predicate::all_of(all))
    }
}
