//! `etw-view`, which `etw view` runs.

#![forbid(unsafe_code)]

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use etw_app::index::IndexOptions;
use etw_app::symbols::SymbolOptions;
use etw_app::{UsageError, output};
use etw_viewer::{Options, Viewer, has_desktop, open_browser};

const EXAMPLES: &str = "Examples:
  etw view trace.etl
  etw view a.etl b.etl --symbols 'srv*/var/symbols'
  etw view --live                                events of this machine as they come
  etw view trace.etl --no-browser --port 8123    for a tunnel: ssh -L 8123:localhost:8123 machine";

/// Show traces in a browser: timeline, tables, stacks and events; or live sessions.
///
/// Serves a page on this machine's loopback address and prints its URL, which lets one browser in. On another machine,
/// make a tunnel (`ssh -L 8000:localhost:PORT machine`) and open the URL with the port 8000.
#[derive(Debug, Parser)]
#[command(name = "etw view", bin_name = "etw view", version, after_help = EXAMPLES)]
struct Args {
    /// Traces to show together.
    #[arg(required_unless_present = "live", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Start and stop sessions from the page, with the rights of this user (Linux).
    #[arg(long)]
    live: bool,
    /// Port to listen on; a random free one by default.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Print the URL, but open no browser.
    #[arg(long)]
    no_browser: bool,
    /// Symbol path, in the syntax of `_NT_SYMBOL_PATH`, searched before that; may be repeated.
    #[arg(long, value_name = "PATH")]
    symbols: Vec<String>,
    /// Directory with separate debug files of ELF files; may be repeated.
    #[arg(long, value_name = "DIR")]
    debug_directory: Vec<PathBuf>,
    /// Neither use nor make an index of the trace (`etw index`).
    #[arg(long, conflicts_with = "index_dir")]
    no_index: bool,
    /// Directory of the index, instead of that of the trace.
    #[arg(long, value_name = "DIR")]
    index_dir: Option<PathBuf>,
}

fn main() -> ExitCode {
    etw_sys::exit_on_page_error(
        "etw: a trace was truncated while it was read, or the disk failed; copy the file and open the copy\n",
    );
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::report(&error);
            ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
        }
    }
}

fn run(args: Args) -> Result<()> {
    let symbols = SymbolOptions { paths: args.symbols, debug_directories: args.debug_directory };
    let index = IndexOptions { disabled: args.no_index, directory: args.index_dir };
    let options = Options { files: args.files, port: args.port, symbols, index, is_live: args.live };
    let viewer = Viewer::start(options)?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", viewer.url())?;
    out.flush()?;
    let _file = match !args.no_browser && has_desktop() {
        true => open_browser(&viewer.url()).inspect_err(|error| output::warn(error)).ok(),
        false => None,
    };
    if std::io::stdin().is_terminal() {
        eprintln!("Enter: another URL, since each opens one browser. Ctrl-C: end.");
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line)? > 0 {
            writeln!(out, "{}", viewer.url())?;
            line.clear();
        }
    }
    viewer.wait();
    Ok(())
}
