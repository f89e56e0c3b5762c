//! Export of events as Parquet or Arrow tables.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context, Result, bail};
use etw_app::output;
use openetw::export::{ColumnFormat, ColumnsWriter};

use super::{for_each, open, say};
use crate::args::export::ExportArgs;

/// Maximum number of threads that encode files.
const MAX_ENCODERS: usize = 8;

pub(super) fn run(args: &ExportArgs, format: ColumnFormat) -> Result<()> {
    let mut opened = open(args)?;
    prepare(&args.output)?;
    let beside = output::threads(args.input.threads).get().min(MAX_ENCODERS + 1) - 1;
    let mut writer = ColumnsWriter::new(format, beside, |name| {
        let path = args.output.join(name);
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        Ok(BufWriter::new(File::create_new(path)?))
    });
    let failed = || format!("{}: cannot be written", args.output.display());
    for_each(&mut opened, |event| writer.put(event).with_context(failed))?;
    let summary = writer.finish().with_context(failed)?;
    say(
        &args.output,
        &[
            (summary.events, &"events"),
            (summary.tables, &"tables"),
            (summary.files, &"files"),
            (summary.undecoded, &"events without schema in the table 'undecoded'"),
        ],
    );
    for (count, what) in [
        (
            summary.times_out_of_range,
            "times are null: outside the years 1677 to 2262 that columns can represent",
        ),
        (summary.values_out_of_range, "values are null: they do not match their schema"),
    ] {
        if count > 0 {
            output::warn(&format_args!("{count} {what}"));
        }
    }
    opened.close()
}

/// Creates the output directory, which must be empty, so that tables of different traces are not mixed.
fn prepare(directory: &Path) -> Result<()> {
    let name = directory.display();
    std::fs::create_dir_all(directory)
        .with_context(|| format!("{name}: cannot create the output directory"))?;
    if std::fs::read_dir(directory)?.next().is_some() {
        bail!("{name}: the output directory is not empty; name a new or an empty one");
    }
    Ok(())
}
