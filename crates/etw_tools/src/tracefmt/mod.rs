//! `tracefmt`: messages of traces as text, formatted with WPP formats, manifests and all other schemas.

mod args;
mod line;
mod prefix;
mod summary;

use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use etw_app::schemas::{SchemaOptions, Schemas};
use etw_app::status::{Failed, code};
use etw_app::{input, output};
use openetw::export::plain_line;

use crate::files::{self, check_inputs};
use args::Options;
use line::Lines;
use summary::Summary;

/// Text is written when it has this many bytes, and whenever no more events are available.
const OUTPUT_BYTES: usize = 1 << 16;

/// Runs the tool.
pub(super) fn run(words: &[OsString]) -> Result<ExitCode> {
    let mut out = output::open(None)?;
    let Some(options) = Options::parse(words)? else {
        out.write_all(args::help().as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    check_inputs(&options.files)?;
    check_outputs(&options)?;
    for file in &options.files {
        tell(&options, &format!("Setting log file to: {}", file.display()));
    }
    if let Some(session) = &options.session {
        tell(&options, &format!("Setting RealTime mode for  {session}"));
    }
    for path in options.schemas.iter().filter(|_| options.tell_files) {
        tell(&options, &format!("Getting formats from {}", path.display()));
    }
    let schemas = Schemas::load(&SchemaOptions { files: options.schemas.clone(), store: None })?;
    let summary = read(&options, &schemas)?;
    if let Some(path) = &options.summary {
        files::write(path, summary.text().as_bytes())?;
    }
    tell(&options, &summary.line());
    if options.verbose {
        summary.sources().for_each(|line| tell(&options, &line));
    }
    if let Some(path) = &options.output {
        tell(&options, &format!("Event traces dumped to {}", path.display()));
    }
    if let Some(path) = &options.summary {
        tell(&options, &format!("Event Summary dumped to {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a status line: to standard error if messages go to standard output.
fn tell(options: &Options, text: &str) {
    match options.display {
        true => etw_app::say!("{text}"),
        false => println!("{}", plain_line(text)),
    }
}

/// Fails if an output would overwrite a trace.
fn check_outputs(options: &Options) -> Result<()> {
    for file in &options.files {
        let is_it =
            |path: &&Path| matches!((path.canonicalize(), file.canonicalize()), (Ok(a), Ok(b)) if a == b);
        let outputs = [options.output.as_deref(), options.summary.as_deref()];
        if let Some(path) = outputs.into_iter().flatten().find(is_it) {
            let text = format!("{} is an input; name another output file", path.display());
            return Err(Failed::new(code::INVALID_PARAMETER, text).into());
        }
    }
    Ok(())
}

/// Writes every message, and counts them.
fn read(options: &Options, schemas: &Schemas) -> Result<Summary> {
    // Outputs are created only after the inputs have been opened.
    let out: Arc<Mutex<Vec<BufWriter<Box<dyn Write + Send>>>>> = Arc::default();
    let idle = out.clone();
    // A closed pipe is detected at the next message.
    let flush = move || {
        idle.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().for_each(|out| drop(out.flush()));
    };
    let files = input::builder(&options.files)?;
    let builder = options.session.iter().fold(files, |builder, name| builder.session(name));
    let sources = schemas.sources();
    let mut trace = builder.schemas(&sources).on_idle(flush).skip_unreadable(true).open()?;
    input::report_unreadable(&trace);
    let mut files: Vec<Box<dyn Write + Send>> = Vec::new();
    if let Some(path) = &options.output {
        files.push(Box::new(output::create(path)?));
    }
    if options.display {
        files.push(output::open(None)?);
    }
    let files = files.into_iter().map(|file| BufWriter::with_capacity(OUTPUT_BYTES, file));
    out.lock().unwrap_or_else(PoisonError::into_inner).extend(files);
    if options.session.is_some() {
        input::stop_on_interrupt(&trace)?;
    }
    let mut summary = Summary::default();
    let mut lines = Lines::new(options);
    let write = |text: &[u8]| -> Result<()> {
        let mut files = out.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(files.iter_mut().try_for_each(|file| file.write_all(text))?)
    };
    write(lines.head().as_bytes())?;
    let (mut text, mut failed) = (String::new(), None);
    let passed = trace.for_each_event(|event| {
        summary.add(event);
        if options.output.is_none() && !options.display {
            return ControlFlow::Continue(());
        }
        text.clear();
        lines.put(&mut text, event);
        match write(text.as_bytes()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    passed?;
    out.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().try_for_each(Write::flush)?;
    summary.finish(&trace);
    input::check_read(&trace)?;
    Ok(summary)
}
