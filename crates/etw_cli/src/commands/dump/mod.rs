//! `etw dump`: the decoded events of traces in time order.

mod fields;
mod live;

use std::io::{BufWriter, IsTerminal, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use anyhow::Result;
use etw_app::batch::{self, Batch, SpareTexts, Work};
use etw_app::index;
use etw_app::input::Opened;
use etw_app::schemas::Schemas;
use etw_app::{UsageError, output};
use openetw::analysis::StackNames;
use openetw::export::{CsvWriter, JsonWriter, Options, TextWriter, XmlWriter, xml};
use openetw::schema::{Located, Resolver};
use openetw::{Event, ProcessTable, StackFrame};

use self::fields::Missing;
use crate::args::{Color, DumpArgs, DumpFormat};

/// Runs the command.
pub(crate) fn run(args: &DumpArgs) -> Result<()> {
    let options = options(args)?;
    let schemas = Schemas::load(&args.input.schemas.options())?;
    if args.no_look_ahead || !args.session.is_empty() {
        return live::run(args, options, &schemas);
    }
    let threads = output::threads(args.input.threads);
    let (filters, stacks) = (args.filter.filters(), args.symbols.stacks(args.stacks));
    let files = &args.input.files;
    let overview = index::overview(files, &args.index.options());
    let mut opened =
        Opened::open(files, &filters, args.limit, &schemas, threads, &stacks, overview.as_ref())?;
    let options = Options { sources: opened.sources.clone(), ..options };
    if options.needs_places() {
        opened.trace.find_places();
    }
    let mut out = BufWriter::with_capacity(1 << 16, open(args)?);
    out.write_all(&head(args, &options))?;
    let spare = SpareTexts::default();
    let mut workers: Vec<_> = (0..threads.get())
        .map(|_| Formatter {
            resolver: opened.resolver.clone(),
            located: Located::new(),
            writer: Writer::new(args.format, &options),
            processes: opened.processes.clone(),
            stacks: opened.stacks.clone(),
            spare: spare.clone(),
            missing: Missing::new(&options.fields),
        })
        .collect();
    // On a terminal, each batch is shown as soon as it is done.
    let live = args.output.is_none() && std::io::stdout().is_terminal();
    // The reader of a pipe may write to the terminal too, so no progress bar is shown then.
    let progress = opened.progress(args.output.is_some() || output::is_file());
    batch::run(&mut opened.trace, &mut workers, &progress, |text: Vec<u8>| {
        out.write_all(&text)?;
        spare.put(text);
        if live {
            out.flush()?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    progress.finish();
    Missing::warn(workers.into_iter().map(|worker| worker.missing));
    out.write_all(foot(args.format))?;
    out.flush()?;
    opened.close()
}

/// Opens the output. The writers of the other formats escape what could disrupt a terminal, and text may have colours.
fn open(args: &DumpArgs) -> Result<Box<dyn Write + Send>> {
    match args.format {
        DumpFormat::Csv => output::open_csv(args.output.as_deref()),
        DumpFormat::Text | DumpFormat::Json | DumpFormat::Xml => output::open_data(args.output.as_deref()),
    }
}

/// Returns the options of the event writers, without the sources.
fn options(args: &DumpArgs) -> Result<Options> {
    if args.stacks && args.format == DumpFormat::Xml {
        let text =
            "--stacks is not available with --format xml, which has no elements for names of functions";
        return Err(UsageError(text.to_owned()).into());
    }
    if args.source && args.format == DumpFormat::Xml {
        let text = "--source is not available with --format xml, which has no element for it";
        return Err(UsageError(text.to_owned()).into());
    }
    Ok(Options {
        raw_time: args.raw_time,
        source: args.source,
        fields: fields::selection(args)?,
        separator: args.separator.unwrap_or_default(),
        color: match args.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                output::is_terminal(args.output.as_deref()) && std::env::var_os("NO_COLOR").is_none()
            }
        },
        ..Options::default()
    })
}

/// Returns the text before the first event.
fn head(args: &DumpArgs, options: &Options) -> Vec<u8> {
    let mut head = Vec::new();
    match args.format {
        DumpFormat::Csv if args.stacks => CsvWriter::new(options).put_header_with_stack(&mut head),
        DumpFormat::Csv => CsvWriter::new(options).put_header(&mut head),
        DumpFormat::Xml => head.extend_from_slice(xml::XML_HEADER.as_bytes()),
        DumpFormat::Text | DumpFormat::Json => {}
    }
    head
}

/// Returns the text after the last event.
fn foot(format: DumpFormat) -> &'static [u8] {
    if format == DumpFormat::Xml { xml::XML_FOOTER.as_bytes() } else { b"" }
}

/// Worker that formats batches of events.
struct Formatter {
    resolver: Resolver,
    located: Located,
    processes: Arc<ProcessTable>,
    stacks: Option<Arc<StackNames>>,
    writer: Writer,
    spare: SpareTexts,
    missing: Missing,
}

impl Work for Formatter {
    type Output = Vec<u8>;

    fn work(&mut self, batch: &Batch) -> Vec<u8> {
        let mut out = self.spare.take();
        for record in batch.records() {
            let process = self.processes.name_of(&record);
            let event = self.resolver.decode(&record, &mut self.located);
            self.missing.see(&event);
            let event = Event { process, ..event };
            match &self.stacks {
                None => self.writer.put(&mut out, &event),
                Some(stacks) => {
                    let stack: Vec<_> = stacks.of_record(&record).collect();
                    self.writer.put_with_stack(&mut out, &event, &stack);
                }
            }
        }
        out
    }
}

/// Event writer of one format.
enum Writer {
    Text(TextWriter),
    Json(JsonWriter),
    Csv(CsvWriter),
    Xml(XmlWriter),
}

impl Writer {
    fn new(format: DumpFormat, options: &Options) -> Writer {
        match format {
            DumpFormat::Text => Writer::Text(TextWriter::new(options)),
            DumpFormat::Json => Writer::Json(JsonWriter::new(options)),
            DumpFormat::Csv => Writer::Csv(CsvWriter::new(options)),
            DumpFormat::Xml => Writer::Xml(XmlWriter::new(options)),
        }
    }

    fn put(&mut self, out: &mut Vec<u8>, event: &Event<'_>) {
        match self {
            Writer::Text(writer) => writer.put(out, event),
            Writer::Json(writer) => {
                writer.put(out, event);
                out.push(b'\n');
            }
            Writer::Csv(writer) => writer.put(out, event),
            Writer::Xml(writer) => writer.put(out, event),
        }
    }

    /// Writes an event with its stack; XML has no stacks with names.
    fn put_with_stack(&mut self, out: &mut Vec<u8>, event: &Event<'_>, stack: &[StackFrame<'_>]) {
        match self {
            Writer::Text(writer) => writer.put_with_stack(out, event, stack),
            Writer::Json(writer) => {
                writer.put_with_stack(out, event, stack);
                out.push(b'\n');
            }
            Writer::Csv(writer) => writer.put_with_stack(out, event, stack),
            Writer::Xml(writer) => writer.put(out, event),
        }
    }
}
