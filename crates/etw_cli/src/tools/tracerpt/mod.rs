//! `tracerpt`: event traces as CSV, XML or an event log, with a summary, a report and the events' schemas.

mod args;
mod dump;

use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use openetw::analysis::{Analysis, ReportOptions, TableKind, Window};
use openetw::export::{self, Source};
use openetw::schema::manifest;
use openetw::{Event, FileTime, Statistics, Trace};

use super::check_inputs;
use super::status::{Failed, code};
use crate::args::{FilterArgs, InputArgs, SchemaArgs, StoreArgs};
use crate::commands::provider;
use crate::commands::report::Page;
use crate::input::{self, Opened};
use crate::schemas::Schemas;
use crate::tally::Tally;
use crate::{interrupt, machine, output};
use args::{DumpFormat, Options, ReportFormat};
use dump::Dump;

/// Runs the tool.
pub(super) fn run(words: &[OsString]) -> Result<ExitCode> {
    let Some(options) = Options::parse(words)? else {
        output::open(None)?.write_all(args::help().as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    check_inputs(&options.files)?;
    check_outputs(&options)?;
    let schemas = Schemas::load(&options.schema_args())?;
    let mut out = output::open(None)?;
    writeln!(out, "\nInput\n----------------")?;
    put_list(&mut out, "File(s):", options.files.iter().map(|file| file.display().to_string()))?;
    put_list(&mut out, "Session(s):", options.sessions.iter().cloned())?;
    out.flush()?;
    let result = match options.sessions.is_empty() {
        true => of_files(&options, &schemas)?,
        false => of_sessions(&options, &schemas)?,
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

/// Fails if a file would be overwritten that nobody allowed to, or that is read or written otherwise.
fn check_outputs(options: &Options) -> Result<()> {
    let same = |a: &Path, b: &Path| {
        a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
    };
    let outputs = options.outputs();
    for (index, path) in outputs.iter().enumerate() {
        let shown = path.display();
        let refuse = |code, text: String| -> Result<()> { Err(Failed::new(code, text).into()) };
        if options.files.iter().any(|file| same(file, path)) {
            return refuse(code::INVALID_PARAMETER, format!("{shown} is read; name another file to write"));
        }
        if outputs.iter().take(index).any(|other| same(other, path)) {
            return refuse(code::INVALID_PARAMETER, format!("{shown} would be written twice"));
        }
        let exists = path.exists();
        if exists && !path.is_file() && !is_device(path) {
            return refuse(code::ACCESS_DENIED, format!("{shown} is no file that can be written"));
        }
        if exists && path.is_file() && !options.overwrite && !may_overwrite(path)? {
            return refuse(code::FILE_EXISTS, format!("{shown} exists already; -y overwrites it"));
        }
    }
    Ok(())
}

/// `/dev/stdout` and the like can be written.
fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_dir())
}

/// Asks whether a file may be overwritten; where nobody can answer, it may not.
fn may_overwrite(path: &Path) -> Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(false);
    }
    eprint!("{} exists already. Overwrite it? [y/n] ", path.display());
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(answer.trim_start().starts_with(['y', 'Y']))
}

impl Options {
    fn schema_args(&self) -> SchemaArgs {
        SchemaArgs { schema: self.schemas.clone(), store: StoreArgs { store: None } }
    }

    /// How events are written.
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

/// What a pass over the traces came to.
struct Outcome {
    tally: Tally,
    names: Vec<String>,
    statistics: Statistics,
    span: (FileTime, FileTime),
    /// Events whose fields did not fit into the event log.
    cut: u64,
    page: Option<Page>,
}

/// Reads files: on all processors where only text is made of each event by itself.
fn of_files(options: &Options, schemas: &Schemas) -> Result<Outcome> {
    let input = InputArgs { files: options.files.clone(), schemas: options.schema_args(), threads: 0 };
    let mut opened = Opened::open(&input, &FilterArgs::default(), None, schemas)?;
    if opened.trace.inputs().is_empty() {
        // What is wrong with the only file has been said.
        input::check_read(&opened.trace)?;
    }
    let export = options.export(opened.sources.clone());
    let (mut tally, mut cut, mut page) = (Tally::default(), 0, None);
    let is_sequential = options.report.is_some() || options.format == DumpFormat::Evtx;
    if is_sequential {
        let mut sinks = Sinks::new(options, &opened.trace, &export)?;
        read(&mut opened.trace, &mut sinks)?;
        (tally, cut, page) = sinks.finish(&mut opened.trace)?;
    } else {
        dump::in_parallel(options, &mut opened, &export, &mut tally)?;
    }
    let outcome = Outcome::new(tally, &opened.trace, cut, page);
    opened.close()?;
    Ok(outcome)
}

/// Reads live sessions, and files together with them, until Ctrl-C or the sessions' end.
fn of_sessions(options: &Options, schemas: &Schemas) -> Result<Outcome> {
    let builder = options.files.iter().fold(Trace::builder(), |builder, path| builder.file(path));
    let builder = options.sessions.iter().fold(builder, |builder, name| builder.session(name));
    let schemas = schemas.sources();
    let mut trace = builder.schemas(&schemas).skip_unreadable(true).open()?;
    input::report_unreadable(&trace);
    let stop = trace.stop_handle();
    interrupt::on_interrupt(move || stop.stop()).context("cannot wait for Ctrl-C")?;
    let computer = machine::host_name();
    let first_session = trace.inputs().len();
    let sources = trace.headers().iter().enumerate().map(|(number, header)| Source {
        computer: computer.clone().filter(|_| number >= first_session),
        timer_resolution: header.timer_resolution,
    });
    let export = options.export(sources.collect());
    let mut sinks = Sinks::new(options, &trace, &export)?;
    read(&mut trace, &mut sinks)?;
    let (tally, cut, page) = sinks.finish(&mut trace)?;
    let outcome = Outcome::new(tally, &trace, cut, page);
    input::check_read(&trace)?;
    Ok(outcome)
}

/// Hands every event to what is made of the trace.
fn read(trace: &mut Trace, sinks: &mut Sinks) -> Result<()> {
    let mut failed = None;
    let passed = trace.for_each_layout(|event| match sinks.put(event) {
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

/// What is made of a trace, event by event.
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
        let analysis = options.report.as_ref().map(|_| Analysis::new(Window::ALL).over_time(start, end));
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

    fn finish(self, trace: &mut Trace) -> Result<(Tally, u64, Option<Page>)> {
        let cut = self.dump.map(Dump::finish).transpose()?.unwrap_or(0);
        let page = self.analysis.map(|analysis| {
            let mut wanted = ReportOptions::of(trace.headers());
            wanted.tables.retain(|kind| *kind != TableKind::Threads);
            Page::new(trace, analysis.report(&wanted), &self.tally, wanted.processors)
        });
        Ok((self.tally, cut, page))
    }
}

impl Outcome {
    fn new(tally: Tally, trace: &Trace, cut: u64, page: Option<Page>) -> Outcome {
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

    /// Writes everything but the dump file.
    fn write(&self, options: &Options) -> Result<()> {
        if let Some(path) = &options.summary {
            write_file(path, self.tally.text(&self.names, &self.statistics, self.span).as_bytes())?;
        }
        if let (Some(path), Some(page)) = (&options.report, &self.page) {
            let mut out = Vec::new();
            match options.report_format {
                ReportFormat::Xml => page.put_xml(&mut out, options.rows)?,
                ReportFormat::Html => page.put_html(&mut out, options.rows)?,
            }
            write_file(path, &out)?;
        }
        if let Some(path) = &options.export {
            write_file(path, manifest::write_all(&self.tally.providers()).as_bytes())?;
        }
        if let Some(path) = &options.interpreted {
            let mut out = Vec::new();
            for provider in self.tally.providers() {
                provider::put_text(&mut out, &provider, &[])?;
                out.push(b'\n');
            }
            write_file(path, &out)?;
        }
        Ok(())
    }

    /// What a reader of the output must know.
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

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = File::create(path).and_then(|mut file| file.write_all(bytes));
    written.with_context(|| format!("{}: cannot be written", path.display()))
}
