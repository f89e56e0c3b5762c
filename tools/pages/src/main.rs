//! Writes the pages of the documentation that follow from code or real data, or checks that they are current.

#![forbid(unsafe_code)]

mod coverage;
mod header;
mod profiles;
mod tables;
mod wpa_tables;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use etw_testkit::data::workspace_root;

/// Write the pages of the documentation that follow from code or real data.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Options {
    /// Only check that the page is current, or all of them.
    #[arg(long, global = true)]
    check: bool,
    #[command(subcommand)]
    page: Option<Page>,
}

/// A page, or a part of one.
#[derive(Clone, Copy, Subcommand)]
enum Page {
    /// The decoded share of each real trace, in docs/coverage.md.
    Coverage,
    /// The fields of an event's header, in docs/header.md, from their declarations.
    Header,
    /// The tables with rows, in docs/tables.md, from their declarations.
    Tables,
    /// The tables and columns of published profiles of Windows Performance Analyzer that are here, in docs/wpa-tables.md.
    WpaTables,
    /// The part of each published recording profile that Linux records, in docs/tools/wprp.md.
    Profiles,
}

const ALL: [Page; 5] = [Page::Coverage, Page::Header, Page::Tables, Page::WpaTables, Page::Profiles];

fn main() -> ExitCode {
    let options = Options::parse();
    let pages = options.page.as_ref().map_or(&ALL[..], std::slice::from_ref);
    shell::finish(pages.iter().try_for_each(|page| page.write(options.check)))
}

impl Page {
    /// Writes the page or checks it; left out if it needs real data and there is none.
    fn write(self, is_check: bool) -> Result<()> {
        let (command, files) = match self {
            Page::Coverage => ("coverage", coverage::made()?),
            Page::Header => ("header", Some(header::made()?)),
            Page::Tables => ("tables", Some(tables::made()?)),
            Page::WpaTables => ("wpa-tables", wpa_tables::made()?),
            Page::Profiles => ("profiles", profiles::made()?),
        };
        let files = match files {
            Some(files) => files,
            None if is_check => return Ok(()),
            None => bail!("`cargo xtask {command}` needs the real data"),
        };
        for (file, made) in files {
            let path = workspace_root().join(file);
            if !is_check {
                std::fs::write(path, made).context(file)?;
                println!("{file}");
            } else if std::fs::read_to_string(path).context(file)? != made {
                bail!("{file} is not current: run `cargo xtask {command}`");
            }
        }
        Ok(())
    }
}

/// Files and their texts.
type Files = Vec<(&'static str, String)>;
