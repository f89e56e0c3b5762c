//! Writes the table of `docs/coverage.md`: the decoded share of each real trace, by source of schema.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result, bail};
use etw_testkit::data::{self, TraceFile};
use openetw::schema::Decoding;
use openetw::{Schemas, Trace};

const PAGE: &str = "docs/coverage.md";

/// Writes the page.
pub(crate) fn write() -> Result<()> {
    let (Some(directory), Some(traces)) = (data::data_dir(), data::traces()) else {
        bail!("no real traces found");
    };
    let mut schemas = Schemas::new();
    schemas.add_files([directory.join("manifests")]);
    let mut page = String::from(
        "# Coverage of real traces\n\n\
         How many records of the published test traces are decoded, including the log file headers.\n\
         Schemas come from the trace, from the built-in schemas, and from published manifests added with \
         `etw schema add manifests`; built-in classes take precedence over published MOF files.\n\
         `cargo xtask coverage` writes this page; `etw info` shows the same for any trace.\n\n\
         | trace | records | decoded | from the event | from the trace | from manifests | built in | not decoded, and why |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let mut sum = Coverage::default();
    for trace in &traces {
        let coverage = Coverage::of(trace, &schemas).with_context(|| trace.name.clone())?;
        if coverage.records != trace.records {
            bail!("{}: {} records, expected {}", trace.name, coverage.records, trace.records);
        }
        coverage.row(&trace.name, &mut page)?;
        sum.add(coverage);
    }
    sum.row("**all**", &mut page)?;
    std::fs::write(data::workspace_root().join(PAGE), page).context(PAGE)?;
    println!("{PAGE}: {} of {} records are decoded", sum.decoded(), sum.records);
    Ok(())
}

#[derive(Default)]
struct Coverage {
    records: u64,
    event: u64,
    trace: u64,
    manifests: u64,
    built_in: u64,
    undecoded: BTreeMap<String, u64>,
}

impl Coverage {
    fn of(trace: &TraceFile, schemas: &Schemas) -> Result<Coverage> {
        let mut coverage = Coverage::default();
        let mut trace = Trace::builder().file(&trace.path).schemas(schemas).open()?;
        trace.for_each_schema(|event| {
            coverage.records += 1;
            match event.schema {
                Ok(schema) => match schema.schema.decoding {
                    Decoding::TraceLogging => coverage.event += 1,
                    Decoding::EventMetadata | Decoding::EventSource => coverage.trace += 1,
                    Decoding::BuiltIn => coverage.built_in += 1,
                    _ => coverage.manifests += 1,
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
        let Coverage { records, event, trace, manifests, built_in, .. } = self;
        let (decoded, reasons) = (self.decoded(), reasons.join("; "));
        writeln!(
            page,
            "| {name} | {records} | {decoded} | {event} | {trace} | {manifests} | {built_in} | {reasons} |"
        )?;
        Ok(())
    }

    fn add(&mut self, other: Coverage) {
        self.records += other.records;
        self.event += other.event;
        self.trace += other.trace;
        self.manifests += other.manifests;
        self.built_in += other.built_in;
        for (reason, count) in other.undecoded {
            *self.undecoded.entry(reason).or_default() += count;
        }
    }
}
