//! Names of code, embedded in a trace for machines without symbol files.

use std::cell::RefCell;
use std::rc::Rc;

use etw_consumer::{EventFilter, Trace, TraceBuilder, TraceError};
use etw_etl::BufferHeader;
use etw_etl::encode::{MAX_RECORD_BYTES, RecordBuilder};
use etw_machine::{FoundModule, FoundNames, Machines, ModuleId, StackNames, Window};
use etw_stacks::StackWeight;
use etw_symbols::Symbolizer;

use crate::analysis::Analysis;
use crate::report::ReportOptions;

/// The names of the code that samples and stacks of a trace lead through, as events to embed in it.
///
/// Names that the trace itself contains are left out: those of an earlier embedding, methods of .NET, functions of JIT
/// compilers and of Linux kernels.
///
/// ```no_run
/// use etw_analysis::SymbolEmbedding;
/// use etw_consumer::Trace;
/// use etw_relog::Relogger;
/// use etw_symbols::Symbolizer;
///
/// let traces = Trace::builder().file("trace.etl");
/// let embedding = SymbolEmbedding::from_traces(traces.clone(), &Symbolizer::new())?;
/// let relogger = Relogger::new().append(embedding.records());
/// relogger.write(&mut traces.open()?, "named.etl")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Memory grows with the number of distinct addresses, up to a million of them.
#[derive(Debug)]
pub struct SymbolEmbedding {
    records: Vec<RecordBuilder>,
    modules: usize,
    addresses: usize,
    skipped: u64,
    problems: Vec<(String, String)>,
}

impl SymbolEmbedding {
    /// Reads traces and asks the symbolizer for the names of the code that their samples and stacks lead through.
    ///
    /// # Errors
    ///
    /// Fails if the traces cannot be opened or read, if one is a live session, or if there is no room for temporary files.
    pub fn from_traces(traces: TraceBuilder, symbolizer: &Symbolizer) -> Result<SymbolEmbedding, TraceError> {
        let kept = Rc::default();
        let names =
            StackNames::from_traces_keeping(traces.clone(), &EventFilter::default(), symbolizer, &kept)?;
        // Reports ask for a few more addresses, such as those of interrupt routines.
        let mut trace = traces.look_ahead(false).open()?;
        report(&mut trace, symbolizer, &kept)?;
        let sizes = trace.headers().iter().map(|header| header.buffer_size as usize);
        let buffer_size = sizes.max().unwrap_or(0);
        let max_bytes = buffer_size.saturating_sub(BufferHeader::LEN_BYTES).min(MAX_RECORD_BYTES);
        let kept = kept.take();
        let mut modules: Vec<(&ModuleId, &FoundModule)> = kept.modules.iter().collect();
        modules.sort_by(|(one, _), (other, _)| one.order().cmp(&other.order()));
        modules.retain(|(_, module)| module.named() > 0);
        let addresses = modules.iter().map(|(_, module)| module.named()).sum();
        let (mut records, mut skipped) = (Vec::new(), names.skipped());
        for (id, module) in &modules {
            let (of_module, too_long) = module.records(id, max_bytes);
            records.extend(of_module);
            skipped += too_long;
        }
        let problems = names.problems().map(|(module, why)| (module.to_owned(), why.to_owned()));
        let (modules, problems) = (modules.len(), problems.collect());
        Ok(SymbolEmbedding { records, modules, addresses, skipped, problems })
    }

    /// Returns the events, which lack a time. They fit in the buffers of the traces.
    pub fn records(&self) -> Vec<RecordBuilder> {
        self.records.clone()
    }

    /// Returns the number of images and assemblies that have names in the events.
    pub fn modules(&self) -> usize {
        self.modules
    }

    /// Returns the number of addresses that have names in the events, each counted once for its image.
    pub fn addresses(&self) -> usize {
        self.addresses
    }

    /// Returns how often an address has no name because there are too many, or because the name is too long for an event.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns the images whose symbols cannot be read, with the reasons.
    pub fn problems(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.problems.iter().map(|(module, why)| (module.as_str(), why.as_str()))
    }
}

/// Makes the report that names most addresses.
fn report(
    trace: &mut Trace,
    symbolizer: &Symbolizer,
    kept: &Rc<RefCell<FoundNames>>,
) -> Result<(), TraceError> {
    let stacks = trace.stacks()?;
    let analysis = Analysis::new(Window::ALL).of_machines(Machines::from_trace(trace));
    let mut analysis = analysis.by_stack(StackWeight::Events);
    analysis.model.images.names.keep(kept);
    trace.for_each_event(|event| analysis.add_with_stack(event, &stacks.of(event.record)))?;
    let options =
        ReportOptions { symbolizer: symbolizer.clone(), ..ReportOptions::from_headers(trace.headers()) };
    let _tables = analysis.report(&options);
    Ok(())
}
