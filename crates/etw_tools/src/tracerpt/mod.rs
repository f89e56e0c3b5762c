//! `tracerpt`: event traces as CSV, XML or an event log, with a summary, a report and the events' schemas.

mod args;
mod dump;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use etw_app::description::{self, Described};
use etw_app::input::{self, Filters, Opened, StackOptions};
use etw_app::output;
use etw_app::schemas::{SchemaOptions, Schemas};
use etw_app::status::{Failed, code};
use etw_app::tally::Tally;
use openetw::analysis::{Analysis, Machines, ReportOptions, Window};
use openetw::export::{self, Source, plain_line};
use openetw::schema::manifest;
use openetw::{Event, FileTime, Statistics, Trace};

use crate::files::{self, check_inputs};
use crate::page::{PageRequest, PageWriter};
use args::{DumpFormat, Options};
use dump::Dump;

/// Runs the tool.
pub(super) fn run(words: &[OsString], page: PageWriter) -> Result<ExitCode> {
    let Some(options) = Options::parse(words)? else {
        output::open(None)?.write_all(args::help().as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    check_inputs(&options.files)?;
    check_outputs(&options)?;
    let schemas = Schemas::load(&options.schema_options())?;
    let mut out = output::open(None)?;
    writeln!(out, "\nInput\n----------------")?;
    put_list(&mut out, "File(s):", options.files.iter().map(|file| file.display().to_string()))?;
    put_list(&mut out, "Session(s):", options.sessions.iter().cloned())?;
    out.flush()?;
    let result = match options.sessions.is_empty() {
        true => of_files(&options, &schemas, page)?,
        false => of_sessions(&options, &schemas, page)?,
    };
    result.write(&options)?;
    writeln!(out, "100.00%\n\nOutput\n----------------")?;
    let outputs = [
        ("DumpFile:", &options.dump),
        ("Summary:", &options.summary),
        ("Report:", &options.report),
        ("Schema:", &options.export),
        ("Events:", &options.interpreted),
    ];
    for (name, path) in outputs {
        if let Some(path) = path {
            writeln!(out, "{name:<20}{}", path.display())?;
        }
    }
    for told in result.told() {
        writeln!(out, "{told}")?;
    }
    writeln!(out, "\nThe command completed successfully.")?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn put_list(out: &mut dyn Write, title: &str, rows: impl Iterator<Item = String>) -> Result<()> {
    let mut rows = rows.peekable();
    if rows.peek().is_some() {
        writeln!(out, "{title}")?;
    }
    for row in rows {
        writeln!(out, "     {row}")?;
    }
    Ok(writeln!(out)?)
}

/// Fails if an output is also an input, is written twice, or exists and may not be overwritten.
fn check_outputs(options: &Options) -> Result<()> {
    let same = |a: &Path, b: &Path| {
        a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
    };
    let outputs = options.outputs();
    for (index, path) in outputs.iter().enumerate() {
        let shown = path.display();
        let refuse = |code, text: String| -> Result<()> { Err(Failed::new(code, text).into()) };
        if options.files.iter().any(|file| same(file, path)) {
            return refuse(code::INVALID_PARAMETER, format!("{shown} is an input; name another output file"));
        }
        if outputs.iter().take(index).any(|other| same(other, path)) {
            return refuse(code::INVALID_PARAMETER, format!("{shown} would be written twice"));
        }
        let exists = path.exists();
        if exists && !path.is_file() && !is_device(path) {
            return refuse(code::ACCESS_DENIED, format!("{shown} is not a file that can be written"));
        }
        if exists && path.is_file() && !options.overwrite && !may_overwrite(path)? {
            return refuse(code::FILE_EXISTS, format!("{shown} already exists; -y overwrites it"));
        }
    }
    Ok(())
}

/// Returns whether the path is a device such as `/dev/stdout`, which can be written.
fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_dir())
}

/// Asks whether to overwrite a file. Without a terminal the answer is no.
fn may_overwrite(path: &Path) -> Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(false);
    }
    eprint!("{} already exists. Overwrite it? [y/n] ", plain_line(&path.to_string_lossy()));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(answer.trim_start().starts_with(['y', 'Y']))
}

impl Options {
    fn schema_options(&self) -> SchemaOptions {
        SchemaOptions { files: self.schemas.clone(), store: None }
    }

    /// Returns the options of the exported events.
    fn export(&self, sources: Vec<Source>) -> export::Options {
        export::Options {
            sources,
            raw_time: self.raw_time,
            lines: true,
            strict: !self.lenient,
            ..export::Options::default()
        }
    }
}

/// The results of reading the traces.
struct Outcome {
    tally: Tally,
    names: Vec<String>,
    statistics: Statistics,
    span: (FileTime, FileTime),
    /// Events truncated to fit into the event log.
    cut: u64,
    /// The contents of the report.
    page: Option<Vec<u8>>,
}

/// Reads files; on all processors if each event is only formatted by itself.
fn of_files(options: &Options, schemas: &Schemas, page: PageWriter) -> Result<Outcome> {
    let (filters, stacks) = (Filters::default(), StackOptions::default());
    let mut opened =
        Opened::open(&options.files, &filters, None, schemas, output::threads(0), &stacks, None)?;
    if opened.trace.inputs().is_empty() {
        // A warning has already named the problem of the only file.
        input::check_read(&opened.trace)?;
    }
    let export = options.export(opened.sources.clone());
    let (mut tally, mut cut, mut written) = (Tally::default(), 0, None);
    let is_sequential = options.report.is_some() || options.format == DumpFormat::Evtx;
    if is_sequential {
        let mut sinks = Sinks::new(options, &opened.trace, &export)?;
        read(&mut opened.trace, &mut sinks)?;
        (tally, cut, written) = sinks.finish(options, &mut opened.trace, page)?;
    } else {
        dump::in_parallel(options, &mut opened, &export, &mut tally)?;
    }
    let outcome = Outcome::new(tally, &opened.trace, cut, written);
    opened.close()?;
    Ok(outcome)
}

/// Reads live sessions, with files if given, until Ctrl-C or the end of the sessions.
fn of_sessions(options: &Options, schemas: &Schemas, page: PageWriter) -> Result<Outcome> {
    let files = input::builder(&options.files)?;
    let builder = options.sessions.iter().fold(files, |builder, name| builder.session(name));
    let schemas = schemas.sources();
    let mut trace = builder.schemas(&schemas).skip_unreadable(true).open()?;
    input::report_unreadable(&trace);
    input::stop_on_interrupt(&trace)?;
    let export = options.export(input::live_sources(&trace));
    let mut sinks = Sinks::new(options, &trace, &export)?;
    read(&mut trace, &mut sinks)?;
    let (tally, cut, page) = sinks.finish(options, &mut trace, page)?;
    let outcome = Outcome::new(tally, &trace, cut, page);
    input::check_read(&trace)?;
    Ok(outcome)
}

/// Passes every event to the sinks.
fn read(trace: &mut Trace, sinks: &mut Sinks) -> Result<()> {
    let mut failed = None;
    let passed = trace.for_each_event(|event| match sinks.put(event) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(passed?),
    }
}

/// The consumers of the events.
struct Sinks {
    dump: Option<Dump>,
    tally: Tally,
    analysis: Option<Analysis>,
}

impl Sinks {
    fn new(options: &Options, trace: &Trace, export: &export::Options) -> Result<Sinks> {
        let dump = options.dump.as_deref().map(|path| Dump::create(path, options, export)).transpose()?;
        let start = trace.start_time();
        let end = trace.headers().iter().map(|header| header.end_time).filter(|end| end.0 != 0).max();
        let analysis = options.report.as_ref().map(|_| {
            Analysis::new(Window::ALL).of_machines(Machines::from_trace(trace)).over_time(start, end)
        });
        Ok(Sinks { dump, tally: Tally::default(), analysis })
    }

    fn put(&mut self, event: &Event<'_>) -> Result<()> {
        self.tally.add(event);
        if let Some(analysis) = &mut self.analysis {
            analysis.add(event);
        }
        let Some(dump) = &mut self.dump else { return Ok(()) };
        dump.put(event)
    }

    fn finish(
        self,
        options: &Options,
        trace: &mut Trace,
        page: PageWriter,
    ) -> Result<(Tally, u64, Option<Vec<u8>>)> {
        let cut = self.dump.map(Dump::finish).transpose()?.unwrap_or(0);
        let page = self.analysis.map(|analysis| {
            let mut wanted = ReportOptions::from_headers(trace.headers());
            wanted.processors = Machines::from_trace(trace).processors();
            wanted.tables.retain(|kind| kind.is_default());
            page(PageRequest {
                trace,
                report: analysis.report(&wanted),
                tally: &self.tally,
                processors: wanted.processors,
                format: options.report_format,
                rows: options.rows,
            })
        });
        let page = page.transpose()?;
        Ok((self.tally, cut, page))
    }
}

impl Outcome {
    fn new(tally: Tally, trace: &Trace, cut: u64, page: Option<Vec<u8>>) -> Outcome {
        let end = trace.headers().iter().map(|header| header.end_time).max().unwrap_or_default();
        let end = end.max(tally.last);
        Outcome {
            names: trace.source_names().map(str::to_owned).collect(),
            statistics: trace.statistics().clone(),
            span: (trace.start_time(), end),
            tally,
            cut,
            page,
        }
    }

    /// Writes all outputs except the dump file.
    fn write(&self, options: &Options) -> Result<()> {
        if let Some(path) = &options.summary {
            files::write(path, self.tally.text(&self.names, &self.statistics, self.span).as_bytes())?;
        }
        if let (Some(path), Some(page)) = (&options.report, &self.page) {
            files::write(path, page)?;
        }
        if let Some(path) = &options.export {
            files::write(path, manifest::write_all(&self.tally.providers()).as_bytes())?;
        }
        if let Some(path) = &options.interpreted {
            let mut out = Vec::new();
            for provider in self.tally.providers() {
                description::put_text(&mut out, &Described::from(&provider), &[])?;
                out.push(b'\n');
            }
            files::write(path, &out)?;
        }
        Ok(())
    }

    /// Returns the lines that report incomplete results.
    fn told(&self) -> Vec<String> {
        let mut told = Vec::new();
        let mut tell = |count: u64, text: &str| {
            if count > 0 {
                told.push(format!("{text:<20}{count}"));
            }
        };
        tell(self.tally.undecoded, "No schema:");
        tell(self.tally.misfits, "Not as the schema:");
        tell(self.cut, "Too long for EVTX:");
        tell(self.statistics.events_lost(), "Events lost:");
        tell(self.statistics.buffers_lost(), "Buffers lost:");
        told
    }
}
