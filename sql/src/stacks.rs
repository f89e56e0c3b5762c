//! The functions on stacks: which functions lie on one, which stacks have one.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use etw_columns::{Stacks, Values};
use etw_tables::TraceIndex;

use crate::bases::Traces;
use crate::once::{Once, once};
use crate::source::Source;

/// The table of frames.
pub(crate) const FRAMES: &str = "frames";

/// The names of the functions on the stacks of all traces. Those of a trace are read when one of its stacks is asked for.
pub(crate) struct StackNames {
    traces: Box<FindTraces>,
    known: Once<Vec<OfTrace>>,
}

/// Returns the traces whose stacks are named.
type FindTraces = dyn Fn() -> Result<Arc<Traces>> + Send + Sync;

impl std::fmt::Debug for StackNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackNames").field("known", &self.known).finish_non_exhaustive()
    }
}

/// The names of one trace.
#[derive(Debug)]
struct OfTrace {
    source: Source,
    /// What the codes of stacks and the numbers of frames are counted from.
    first_stack: u32,
    first_frame: u32,
    /// By frame: the code of the text of its function.
    functions: Once<Vec<Option<u32>>>,
}

/// A stack.
pub(crate) struct NamedStack<'n> {
    index: &'n TraceIndex,
    functions: &'n [Option<u32>],
    first_frame: u32,
    stacks: Stacks<'n>,
    code: u32,
}

impl StackNames {
    /// Names the stacks of the traces that `traces` finds, when the first one is asked for.
    pub(crate) fn new(traces: impl Fn() -> Result<Arc<Traces>> + Send + Sync + 'static) -> StackNames {
        StackNames { traces: Box::new(traces), known: Once::new() }
    }

    /// Returns a stack by its code in the database; `None` if there is no such stack.
    ///
    /// # Errors
    ///
    /// Fails if the tables of a trace cannot be read.
    pub(crate) fn stack(&self, code: u32) -> Result<Option<NamedStack<'_>>> {
        let known = once(&self.known, || self.find())?;
        let after = known.partition_point(|of| of.first_stack <= code);
        let Some(of) = after.checked_sub(1).and_then(|place| known.get(place)) else { return Ok(None) };
        let index = of.source.index()?;
        let functions = once(&of.functions, || functions(index))?;
        let stacks = index.index().stacks()?;
        let code = code - of.first_stack;
        let is_known = (code as usize) < stacks.len();
        Ok(is_known.then_some(NamedStack { index, functions, first_frame: of.first_frame, stacks, code }))
    }

    fn find(&self) -> Result<Vec<OfTrace>> {
        let traces = (self.traces)()?;
        let each = traces.sources.iter().zip(traces.bases()?).map(|(source, bases)| OfTrace {
            source: source.clone(),
            first_stack: bases.of_stacks(),
            first_frame: bases.of_table(FRAMES),
            functions: Once::new(),
        });
        Ok(each.collect())
    }
}

/// Returns by frame the code of the text of its function.
fn functions(index: &TraceIndex) -> Result<Vec<Option<u32>>> {
    let table = index.index().table(FRAMES).context("the index has no frames")?;
    let column = table.schema().column("function").context("frames have no functions")?;
    let reader = table.column(column)?;
    let mut functions = Values::default();
    let mut all = Vec::with_capacity(table.rows() as usize);
    for chunk in 0..table.chunks() {
        reader.read::<u32>(chunk, &mut functions)?;
        all.extend((0..table.chunk_rows(chunk)).map(|row| functions.get(row)));
    }
    Ok(all)
}

impl<'n> NamedStack<'n> {
    /// Returns the frames from the innermost to the outermost, as rows of the table `frames`.
    pub(crate) fn frames(&self) -> impl Iterator<Item = u64> + '_ {
        let first = u64::from(self.first_frame);
        self.stacks.frames(self.code).map(move |frame| frame + first)
    }

    /// Returns the functions from the innermost to the outermost; an empty text if one has no name.
    pub(crate) fn functions(&self) -> Result<Vec<&'n str>> {
        let texts = self.index.index().texts()?;
        let name = |frame: u64| {
            let code = self.functions.get(frame as usize).copied().flatten();
            code.and_then(|code| texts.get(code)).unwrap_or_default()
        };
        Ok(self.stacks.frames(self.code).map(name).collect())
    }

    /// Returns the functions from the outermost to the innermost, separated by `;`.
    pub(crate) fn folded(&self) -> Result<String> {
        let mut functions = self.functions()?;
        functions.reverse();
        Ok(functions.join(";"))
    }
}

/// Stacks that were looked up for a batch of rows, each once.
pub(crate) struct Memo<'n, T> {
    names: &'n StackNames,
    known: HashMap<u32, Option<T>>,
}

impl<'n, T: Clone> Memo<'n, T> {
    pub(crate) fn new(names: &'n StackNames) -> Memo<'n, T> {
        Memo { names, known: HashMap::new() }
    }

    /// Returns what `make` returns of a stack.
    pub(crate) fn of(
        &mut self,
        code: u32,
        make: impl FnOnce(&NamedStack<'n>) -> Result<T>,
    ) -> Result<Option<T>> {
        if let Some(known) = self.known.get(&code) {
            return Ok(known.clone());
        }
        let made = self.names.stack(code)?.map(|stack| make(&stack)).transpose()?;
        self.known.insert(code, made.clone());
        Ok(made)
    }
}
