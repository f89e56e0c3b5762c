//! The dump file, which contains every event.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, Result};
use etw_app::batch::{self, Batch, SpareTexts, Work};
use etw_app::input::Opened;
use etw_app::output;
use etw_app::tally::Tally;
use openetw::export::{self, EvtxWriter, TracerptCsvWriter, XmlWriter};
use openetw::kernel_events::ids::{self, EventId};
use openetw::schema::{Located, Resolver};
use openetw::{Event, Record};

use super::args::{DumpFormat, Options};

/// Text is written when it has this many bytes.
const OUTPUT_BYTES: usize = 1 << 16;
/// Text before the first event and after the last one.
const XML_HEADER: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n<Events>\r\n";
const XML_FOOTER: &str = "</Events>\r\n";

/// A dump file being written.
pub(super) struct Dump {
    kind: Kind,
}

enum Kind {
    Text(Box<TextDump>),
    Evtx(Box<LogDump>),
}

struct LogDump {
    writer: EvtxWriter<BufWriter<File>>,
    name: String,
}

struct TextDump {
    writer: Writer,
    text: Vec<u8>,
    out: TextFile,
}

impl Dump {
    /// Creates the file.
    pub(super) fn create(path: &Path, options: &Options, export: &export::Options) -> Result<Dump> {
        let kind = match options.format {
            DumpFormat::Evtx => {
                let out = BufWriter::new(output::create(path)?);
                let name = path.display().to_string();
                let writer = EvtxWriter::new(out, export).with_context(|| cannot_write(&name))?;
                Kind::Evtx(Box::new(LogDump { writer, name }))
            }
            _ => {
                let writer = Writer::new(options.format, export);
                let mut text = Vec::new();
                writer.put_head(&mut text);
                Kind::Text(Box::new(TextDump { writer, text, out: TextFile::create(path, options)? }))
            }
        };
        Ok(Dump { kind })
    }

    /// Writes an event.
    pub(super) fn put(&mut self, event: &Event<'_>) -> Result<()> {
        match &mut self.kind {
            // Event logs have no place for the log file header.
            Kind::Evtx(_) if is_file_header(event.record) => {}
            Kind::Evtx(log) => log.writer.put(event).with_context(|| cannot_write(&log.name))?,
            Kind::Text(dump) => {
                let TextDump { writer, text, out } = &mut **dump;
                writer.put(text, event);
                if text.len() >= OUTPUT_BYTES {
                    out.put(text)?;
                    text.clear();
                }
            }
        }
        Ok(())
    }

    /// Completes the file, and returns the number of truncated events.
    pub(super) fn finish(self) -> Result<u64> {
        match self.kind {
            Kind::Evtx(log) => Ok(log.writer.finish().with_context(|| cannot_write(&log.name))?.cut),
            Kind::Text(dump) => {
                let TextDump { writer, mut text, mut out } = *dump;
                writer.put_foot(&mut text);
                out.put(&text)?;
                out.finish()?;
                Ok(0)
            }
        }
    }
}

/// Reads the trace and formats its events on several threads; writes them to the file if there is one.
pub(super) fn in_parallel(
    options: &Options,
    opened: &mut Opened,
    export: &export::Options,
    tally: &mut Tally,
) -> Result<()> {
    let mut out = options.dump.as_deref().map(|path| TextFile::create(path, options)).transpose()?;
    let writer = || options.dump.as_ref().map(|_| Writer::new(options.format, export));
    let spare = SpareTexts::default();
    let mut workers: Vec<_> = (0..output::threads(0).get())
        .map(|_| Formatter {
            resolver: opened.resolver.clone(),
            located: Located::new(),
            writer: writer(),
            tally: Tally::default(),
            spare: spare.clone(),
        })
        .collect();
    let mut text = Vec::new();
    if let (Some(out), Some(writer)) = (&mut out, writer()) {
        writer.put_head(&mut text);
        out.put(&text)?;
    }
    let progress = opened.progress(true);
    batch::run(&mut opened.trace, &mut workers, &progress, |text: Vec<u8>| {
        if let Some(out) = &mut out {
            out.put(&text)?;
        }
        spare.put(text);
        Ok(ControlFlow::Continue(()))
    })?;
    progress.finish();
    workers.into_iter().for_each(|worker| tally.merge(worker.tally));
    if let (Some(out), Some(writer)) = (&mut out, writer()) {
        text.clear();
        writer.put_foot(&mut text);
        out.put(&text)?;
    }
    out.map_or(Ok(()), TextFile::finish)
}

/// Formats and counts batches of events.
struct Formatter {
    resolver: Resolver,
    located: Located,
    writer: Option<Writer>,
    tally: Tally,
    spare: SpareTexts,
}

impl Work for Formatter {
    type Output = Vec<u8>;

    fn work(&mut self, batch: &Batch) -> Vec<u8> {
        let mut out = self.spare.take();
        for record in batch.records() {
            let event = self.resolver.decode(&record, &mut self.located);
            self.tally.add(&event);
            if let Some(writer) = &mut self.writer {
                writer.put(&mut out, &event);
            }
        }
        out
    }
}

/// The writer of a text format.
enum Writer {
    Csv(Box<TracerptCsvWriter>),
    Xml(Box<XmlWriter>),
}

impl Writer {
    fn new(format: DumpFormat, options: &export::Options) -> Writer {
        match format {
            DumpFormat::Csv => Writer::Csv(Box::new(TracerptCsvWriter::new(options))),
            _ => Writer::Xml(Box::new(XmlWriter::new(options))),
        }
    }

    fn put_head(&self, out: &mut Vec<u8>) {
        match self {
            Writer::Csv(writer) => writer.put_header(out),
            Writer::Xml(_) => out.extend_from_slice(XML_HEADER.as_bytes()),
        }
    }

    #[inline]
    fn put(&mut self, out: &mut Vec<u8>, event: &Event<'_>) {
        match self {
            Writer::Csv(writer) => writer.put(out, event),
            Writer::Xml(writer) => writer.put(out, event),
        }
    }

    fn put_foot(&self, out: &mut Vec<u8>) {
        if let Writer::Xml(_) = self {
            out.extend_from_slice(XML_FOOTER.as_bytes());
        }
    }
}

/// A text file in UTF-8 or UTF-16.
struct TextFile {
    name: String,
    out: BufWriter<File>,
    utf16: bool,
    wide: Vec<u8>,
}

impl TextFile {
    fn create(path: &Path, options: &Options) -> Result<TextFile> {
        let mut out = BufWriter::with_capacity(OUTPUT_BYTES, output::create(path)?);
        if options.utf16 {
            out.write_all(&[0xFF, 0xFE])?;
        }
        Ok(TextFile { name: path.display().to_string(), out, utf16: options.utf16, wide: Vec::new() })
    }

    fn put(&mut self, text: &[u8]) -> Result<()> {
        let bytes = match self.utf16 {
            false => text,
            true => {
                self.wide.clear();
                let units = String::from_utf8_lossy(text);
                self.wide.extend(units.encode_utf16().flat_map(u16::to_le_bytes));
                &self.wide
            }
        };
        self.out.write_all(bytes).with_context(|| cannot_write(&self.name))
    }

    fn finish(mut self) -> Result<()> {
        self.out.flush().with_context(|| cannot_write(&self.name))
    }
}

fn cannot_write(name: &str) -> String {
    format!("{name}: cannot be written")
}

/// Returns whether a record is the log file header, the first record of each file.
fn is_file_header(record: &Record<'_>) -> bool {
    record.is_kernel_classic() && EventId::from_record(record) == Some(ids::EventTrace::HEADER)
}
