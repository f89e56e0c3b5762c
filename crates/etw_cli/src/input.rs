//! Traces made ready for reading: opened, their schemas learned, the filters compiled.

use std::io::Write;

use anyhow::{Context, Result};
use openetw::etl::EtlFile;
use openetw::export::Source;
use openetw::schema::Resolver;
use openetw::{Input, InputLimits, TimePoint, Trace};

use crate::args::{FilterArgs, InputArgs};
use crate::schemas::Schemas;
use crate::selection::Selection;
use crate::{UsageError, output, survey};

/// Damage that is listed on standard error; the rest is counted.
const MAX_WARNINGS: usize = 10;

/// Traces that are ready to be read.
pub(crate) struct Opened {
    pub(crate) trace: Trace,
    pub(crate) sources: Vec<Source>,
    /// Knows what the traces say of schemas themselves.
    pub(crate) resolver: Resolver,
    pub(crate) selection: Selection,
}

impl Opened {
    /// Opens the files and reads what they hold of schemas.
    pub(crate) fn open(args: &InputArgs, filter: &FilterArgs, schemas: &Schemas) -> Result<Opened> {
        let mut resolver = schemas.resolver();
        let mut sources = Vec::new();
        let mut problems = Vec::new();
        let mut builder = Trace::builder();
        for path in &args.files {
            builder = builder.file(path);
            for input in Input::open(path, &InputLimits::default())? {
                let file = EtlFile::open(input.bytes()).with_context(|| input.name().to_owned())?;
                let machine = survey::learn(&file, &mut resolver, &mut problems);
                sources.push(Source {
                    computer: machine.computer,
                    timer_resolution: file.header().timer_resolution,
                });
            }
        }
        for problem in problems {
            output::warn(&problem);
        }
        let time = |text: &Option<String>| -> Result<Option<TimePoint>> {
            text.as_deref()
                .map(|text| text.parse().map_err(|error| anyhow::Error::new(UsageError(format!("{error}")))))
                .transpose()
        };
        if let Some(from) = time(&filter.from)? {
            builder = builder.from(from);
        }
        if let Some(to) = time(&filter.to)? {
            builder = builder.to(to);
        }
        Ok(Opened { trace: builder.open()?, sources, resolver, selection: Selection::new(filter)? })
    }

    /// Says on standard error what could not be read.
    pub(crate) fn warn_of_damage(&self) {
        let statistics = self.trace.statistics();
        let names: Vec<&str> = self.trace.source_names().collect();
        let mut stderr = std::io::stderr().lock();
        // Nothing can be done about a standard error that is closed.
        for (source, damage) in statistics.damage.iter().take(MAX_WARNINGS) {
            let name = names.get(*source as usize).copied().unwrap_or_default();
            let _ = writeln!(stderr, "etw: warning: {name}: {damage}");
        }
        if statistics.damage_count > MAX_WARNINGS as u64 {
            let _ = writeln!(
                stderr,
                "etw: warning: {} damaged places in all; `etw info --all` lists them",
                statistics.damage_count
            );
        }
        for source in
            statistics.sources.iter().filter(|source| source.events_lost > 0 || source.buffers_lost > 0)
        {
            let _ = writeln!(
                stderr,
                "etw: warning: {}: the session lost {} events and {} buffers",
                source.name, source.events_lost, source.buffers_lost
            );
        }
    }
}
