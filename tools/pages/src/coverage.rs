//! Writes the table of `docs/coverage.md`: the decoded share of each real trace, by source of schema.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result, bail};
use etw_schema_windows::WindowsSchemas;
use etw_testkit::data::{self, TraceFile};
use openetw::schema::{Decoding, SchemaSource};
use openetw::{Schemas, Trace};

use crate::Files;

const PAGE: &str = "docs/coverage.md";

/// Returns the page; `None` without real traces.
pub(crate) fn made() -> Result<Option<Files>> {
    let Some(traces) = data::traces() else { return Ok(None) };
    let (page, sum) = page_of(&traces)?;
    println!("{} of {} records are decoded", sum.decoded(), sum.records);
    Ok(Some(vec![(PAGE, page)]))
}

/// Returns the page and its sums.
fn page_of(traces: &[TraceFile]) -> Result<(String, Coverage)> {
    let schemas = Schemas::new();
    let mut page = String::from(
        "# Coverage of real traces\n\n\
         How many records of the published test traces are decoded, including the log file headers.\n\
         Schemas come from the trace, from the built-in tables, and from the [schemas of Windows' own \
         providers](windows-schemas.md), which are built in too. Nothing was added with `etw schema add`.\n\
         `cargo xtask coverage` writes this page; `etw info` shows the same for any trace.\n\n\
         | trace | records | decoded | from the event | from the trace | from built-in tables | from Windows' schemas | not decoded, and why |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let mut sum = Coverage::default();
    for trace in traces {
        let coverage = Coverage::from_trace(trace, &schemas).with_context(|| trace.name.clone())?;
        if coverage.records != trace.records {
            bail!("{}: {} records, expected {}", trace.name, coverage.records, trace.records);
        }
        coverage.row(&trace.name, &mut page)?;
        sum.add(coverage);
    }
    sum.row("**all**", &mut page)?;
    Ok((page, sum))
}

#[derive(Default)]
struct Coverage {
    records: u64,
    event: u64,
    trace: u64,
    tables: u64,
    windows: u64,
    undecoded: BTreeMap<String, u64>,
}

impl Coverage {
    fn from_trace(trace: &TraceFile, schemas: &Schemas) -> Result<Coverage> {
        let mut coverage = Coverage::default();
        let windows = WindowsSchemas::new()?;
        let mut trace = Trace::builder().file(&trace.path).schemas(schemas).open()?;
        trace.for_each_schema(|event| {
            coverage.records += 1;
            match event.schema {
                Ok(schema) => match schema.schema.decoding {
                    Decoding::TraceLogging => coverage.event += 1,
                    Decoding::EventMetadata | Decoding::EventSource => coverage.trace += 1,
                    _ if windows
                        .provider(&schema.schema.provider.guid)
                        .is_some_and(|known| known.info.origin == schema.schema.provider.origin) =>
                    {
                        coverage.windows += 1
                    }
                    _ => coverage.tables += 1,
                },
                Err(reason) => *coverage.undecoded.entry(reason.to_string()).or_default() += 1,
            }
        })?;
        Ok(coverage)
    }

    fn decoded(&self) -> u64 {
        self.records - self.undecoded.values().sum::<u64>()
    }

    fn row(&self, name: &str, page: &mut String) -> Result<()> {
        let reasons: Vec<String> =
            self.undecoded.iter().map(|(reason, count)| format!("{count}: {reason}")).collect();
        let Coverage { records, event, trace, tables, windows, .. } = self;
        let (decoded, reasons) = (self.decoded(), reasons.join("; "));
        writeln!(
            page,
            "| {name} | {records} | {decoded} | {event} | {trace} | {tables} | {windows} | {reasons} |"
        )?;
        Ok(())
    }

    fn add(&mut self, other: Coverage) {
        self.records += other.records;
        self.event += other.event;
        self.trace += other.trace;
        self.tables += other.tables;
        self.windows += other.windows;
        for (reason, count) in other.undecoded {
            *self.undecoded.entry(reason).or_default() += count;
        }
    }
}
