//! `etw dump`: the decoded events of traces in time order.

mod fields;
mod live;

use std::io::{BufWriter, IsTerminal, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use anyhow::Result;
use etw_app::batch::{self, Batch, SpareTexts, Work};
use etw_app::input::Opened;
use etw_app::output;
use etw_app::schemas::Schemas;
use openetw::export::{CsvWriter, JsonWriter, Options, TextWriter, XmlWriter, xml};
use openetw::schema::{Located, Resolver};
use openetw::{Event, ProcessTable};

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
    let mut opened = Opened::open(&args.input.files, &args.filter.filters(), args.limit, &schemas, threads)?;
    let options = Options { sources: opened.sources.clone(), ..options };
    let mut out = BufWriter::with_capacity(1 << 16, output::open(args.output.as_deref())?);
    out.write_all(&head(args.format, &options))?;
    let spare = SpareTexts::default();
    let mut workers: Vec<_> = (0..threads.get())
        .map(|_| Formatter {
            resolver: opened.resolver.clone(),
            located: Located::new(),
            writer: Writer::new(args.format, &options),
            processes: opened.processes.clone(),
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

/// Returns the options of the event writers, without the sources.
fn options(args: &DumpArgs) -> Result<Options> {
    Ok(Options {
        raw_time: args.raw_time,
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
fn head(format: DumpFormat, options: &Options) -> Vec<u8> {
    let mut head = Vec::new();
    match format {
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
            self.writer.put(&mut out, &Event { process, ..event });
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
}
