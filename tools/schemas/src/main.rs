//! Writes the pack of Windows' schemas from the public collections, or checks it.

#![forbid(unsafe_code)]

mod collect;
mod doubt;
mod lengths;
mod page;
mod sources;
mod tsv;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use etw_schema_windows::Pack;

use etw_testkit::data;

/// Write the pack of Windows' schemas from the public collections, or check that it is what they give.
#[derive(Parser)]
#[command(name = "cargo xtask schemas")]
struct Options {
    /// Only check that the collections give the committed pack.
    #[arg(long)]
    check: bool,
    /// Only check that the documentation has the numbers of the committed pack. The collections are not needed.
    #[arg(long, conflicts_with = "check")]
    check_page: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    shell::finish(if options.check_page { check_page() } else { run(&options) })
}

/// Returns the path of the pack.
fn pack_path() -> PathBuf {
    data::workspace_root().join("crates/etw_schema_windows/data/windows.pack")
}

/// Writes or checks the pack.
fn run(options: &Options) -> Result<()> {
    let path = pack_path();
    let Some(data) = data::data_dir() else { bail!("the collections of schemas are missing") };
    let collected = sources::read(&data)?;
    for line in &collected.notes {
        eprintln!("{line}");
    }
    let releases = sources::releases();
    let providers = collected.finish();
    let file = etw_schema_windows::write(&releases, providers);
    let pack = Pack::open(&file).context("the pack cannot be read back")?;
    let mut layouts = 0;
    for (at, listed) in pack.providers().iter().enumerate() {
        layouts += pack.block_at(at).with_context(|| listed.name.clone())?.len();
    }
    eprintln!("{} providers and classes, {layouts} layouts, {} bytes", pack.providers().len(), file.len());
    page::write(&pack, file.len(), options.check)?;
    if !options.check {
        let checksum = format!("{} {:08x}\n", file.len(), crc32fast::hash(&file));
        fs::write(path.with_file_name("checksum.txt"), checksum)?;
        fs::write(&path, file).with_context(|| format!("cannot write {}", path.display()))?;
    } else if fs::read(&path).ok().as_ref() != Some(&file) {
        bail!("{} is not what the collections give: run cargo xtask schemas", path.display());
    }
    Ok(())
}

/// Checks that the documentation has the numbers of the committed pack.
fn check_page() -> Result<()> {
    let path = pack_path();
    let file = fs::read(&path).with_context(|| path.display().to_string())?;
    page::write(&Pack::open(&file)?, file.len(), true)
}
