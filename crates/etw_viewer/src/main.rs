//! `etw-view`, which `etw view` runs.

#![forbid(unsafe_code)]

use std::io::{IsTerminal, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use etw_app::index::IndexOptions;
use etw_app::symbols::SymbolOptions;
use etw_app::{UsageError, output};
use etw_viewer::{Options, Session, TlsFiles, Viewer, has_desktop, open_browser, presets_directory};

const EXAMPLES: &str = "Examples:
  etw view trace.etl
  etw view a.etl b.etl --symbols 'srv*/var/symbols'
  etw view new.etl --compare old.etl             what is more or less than before
  etw view trace.etl --open disk                 with this table first
  etw view --live                                events of this machine as they come
  etw view trace.etl --no-browser --port 8123    for a tunnel: ssh -L 8123:localhost:8123 machine";

/// Show traces in a browser: timeline, tables, stacks and events; or live sessions.
///
/// Serves a page on this machine's loopback address and prints its URL, which lets one browser in. On another machine,
/// make a tunnel (`ssh -L 8000:localhost:PORT machine`) and open the URL with the port 8000.
#[derive(Debug, Parser)]
#[command(name = "etw view", bin_name = "etw view", version, after_help = EXAMPLES)]
struct Args {
    /// Traces to show together, or a saved session (`.etwsession`).
    #[arg(required_unless_present = "live", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What the page shows first: a table (`disk`), or the part after `#` of the page's URL.
    #[arg(long, value_name = "STATE")]
    open: Option<String>,
    /// Compare with an earlier trace; may be repeated for several that are read together.
    #[arg(long, value_name = "FILE", requires = "files")]
    compare: Vec<PathBuf>,
    /// File of regions of interest (`*.regions.xml`), whose intervals are then found; may be repeated.
    #[arg(long, value_name = "FILE")]
    regions: Vec<PathBuf>,
    /// File of stack tags (`*.stacktags`) of Windows Performance Analyzer, by which stacks can be shown; may be repeated.
    #[arg(long, value_name = "FILE")]
    stack_tags: Vec<PathBuf>,
    /// Start and stop sessions from the page, with the rights of this user (Linux).
    #[arg(long)]
    live: bool,
    /// Port to listen on; a random free one by default.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Listen on this address with encryption, for other machines.
    #[arg(long, value_name = "ADDRESS", requires_all = ["tls_cert", "password_file"])]
    listen: Option<IpAddr>,
    /// File with the certificate of this machine for encryption (PEM), followed by those that signed it.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// File with the private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Listen on this address without encryption, for other machines; whoever can read the network reads the trace and the
    /// password. A tunnel or --listen is better.
    #[arg(long, value_name = "ADDRESS", requires = "password_file", conflicts_with_all = ["listen", "tls_cert"])]
    insecure_listen: Option<IpAddr>,
    /// File with the password, of at least 12 characters, that lets browsers in.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Name of this machine in URLs, as in its certificate or in that of a server in front of this one; may be repeated.
    #[arg(long, value_name = "NAME", requires = "password_file")]
    host_name: Vec<String>,
    /// Print the URL, but open no browser.
    #[arg(long)]
    no_browser: bool,
    /// Keep the right to write elsewhere than to indexes, presets and temporary files, which is given up if there is no browser
    /// to start, no live view and no symbol server.
    #[arg(long)]
    no_sandbox: bool,
    /// Offer the presets of a file: of `etw view`, or a `.wpaProfile` of Windows Performance Analyzer; may be repeated.
    #[arg(long, value_name = "FILE")]
    profile: Vec<PathBuf>,
    /// Directory of saved presets, instead of `openetw/presets` in the user's directory for settings.
    #[arg(long, value_name = "DIR")]
    presets_dir: Option<PathBuf>,
    /// Symbol path, in the syntax of `_NT_SYMBOL_PATH`, searched before that; may be repeated.
    #[arg(long, value_name = "PATH")]
    symbols: Vec<String>,
    /// Directory with separate debug files of ELF files; may be repeated.
    #[arg(long, value_name = "DIR")]
    debug_directory: Vec<PathBuf>,
    /// Neither use nor make an index of the trace (`etw index`).
    #[arg(long, conflicts_with = "index_dir")]
    no_index: bool,
    /// Directory of the index, instead of what $OPENETW_INDEX says (off, beside or a directory) or the user's cache.
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

/// Reads the first line of a file.
fn read_password(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Returns what the page shows as a part of its URL, in which a table may have no quotes.
fn state_of(open: &str) -> String {
    let open = open.trim_start_matches('#');
    let open = if open.contains('=') { open.to_owned() } else { format!("table={open}") };
    let escaped = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        b'=' | b'&' | b'%' | b'+' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    open.bytes().map(escaped).collect()
}

fn run(mut args: Args) -> Result<()> {
    let mut page_state = String::new();
    if let [path] = &args.files[..]
        && Session::is_session(path)
    {
        let session = Session::read(path)?;
        args.files = session.paths.files;
        args.compare.extend(session.paths.compare);
        args.regions.extend(session.paths.regions);
        args.stack_tags.extend(session.paths.stack_tags);
        page_state = session.state;
    }
    if let Some(open) = &args.open {
        page_state = state_of(open);
    }
    let symbols = SymbolOptions { paths: args.symbols, debug_directories: args.debug_directory };
    let index = IndexOptions::in_directory(args.no_index, args.index_dir);
    let password = args.password_file.as_deref().map(read_password).transpose()?;
    if args.insecure_listen.is_some_and(|address| !address.is_loopback()) {
        output::warn(
            &"listening without encryption: whoever can read the network reads the trace and the password",
        );
    }
    let options = Options {
        page_state,
        listen: args.listen.or(args.insecure_listen),
        tls: args.tls_cert.zip(args.tls_key).map(|(certificate, key)| TlsFiles { certificate, key }),
        password,
        host_names: args.host_name,
        files: args.files,
        base: args.compare,
        regions: args.regions,
        stack_tags: args.stack_tags,
        port: args.port,
        symbols,
        index,
        is_live: args.live,
        sql_program: None,
        presets: args.presets_dir.or_else(presets_directory),
        profiles: args.profile,
    };
    let opens_browser = !args.no_browser && has_desktop();
    // A browser would have the same limits, sessions need rights, and files of symbols go anywhere.
    if !opens_browser && !args.no_sandbox && !options.is_live && options.symbols.servers().is_empty() {
        let mut places = options.index.targets(&options.files);
        places.extend(options.presets.iter().cloned());
        etw_app::sandbox::enter_serving(&places);
    }
    let viewer = Viewer::start(options)?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", viewer.url())?;
    out.flush()?;
    let _file = match opens_browser {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_parts_of_urls() {
        let check = |open: &str, expected: &str| assert_eq!(state_of(open), expected, "{open}");
        check("disk", "table=disk");
        check("#table=disk&tab=stacks", "table=disk&tab=stacks");
        check("table=\"disk\"&flat=true", "table=%22disk%22&flat=true");
        check("table=%22disk%22&select=%5B1%2C2%5D", "table=%22disk%22&select=%5B1%2C2%5D");
        check("ü #<", "table=%C3%BC%20%23%3C");
    }
}
