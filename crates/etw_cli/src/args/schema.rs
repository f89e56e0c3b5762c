//! Arguments of `etw schema` and `etw mc`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Format, StoreArgs};

/// Commands of `etw schema`.
#[derive(Debug, Subcommand)]
pub(crate) enum SchemaCommand {
    /// Add the schemas in files to the store
    #[command(after_help = "Examples:
  etw schema add MyProvider.man
  etw schema add /mnt/c/Windows             every provider of a mounted Windows disk, with its messages
  etw schema add System32 --language de-DE  a copied directory, with German messages
  etw schema add driver.pdb --store ./schemas

File types are detected from the content: instrumentation manifests, PE files with WEVT_TEMPLATE resources
and their .mui files, bare resources, MOF text, TMF text, PDB files with trace formats. Files that cannot be
read are reported with the position of the error and skipped. Nothing of a manifest with errors is added, unless
--partial is given.

If a directory has the registry hive config/SOFTWARE, its list of publishers gives the names that files lack
and the files with messages; providers that it names but no file describes are listed.")]
    Add {
        /// Files and directories.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        /// Language of messages from .mui files; files without it are used in English, else in any language.
        #[arg(long, value_name = "LANGUAGE", default_value = "en-US")]
        language: String,
        /// Add also manifests that have errors, without the parts that cannot be read.
        #[arg(long)]
        partial: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// List the providers in the store
    #[command(after_help = "Examples:
  etw schema list
  etw schema list --format json")]
    List {
        #[command(flatten)]
        store: StoreArgs,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Show a provider in the store
    #[command(after_help = "Examples:
  etw schema show Microsoft-Windows-HttpService")]
    Show {
        /// Name or GUID.
        name: String,
        #[command(flatten)]
        store: StoreArgs,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Write a provider in the store, or a built-in one, as an instrumentation manifest
    #[command(after_help = "Examples:
  etw schema export Microsoft-Windows-HttpService > http.man
  etw schema export MyProvider -o MyProvider.man

Of built-in providers, each event is written as the latest release of Windows has it.")]
    Export {
        /// Name or GUID.
        name: String,
        #[command(flatten)]
        store: StoreArgs,
        /// Write to a file instead of standard output.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// The arguments of `etw mc`.
#[derive(Debug, Args)]
pub(crate) struct McArgs {
    /// The manifest.
    #[arg(value_name = "MANIFEST")]
    pub(crate) manifest: PathBuf,
    /// Write Rust code with one function for each event.
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) rust: Option<PathBuf>,
    /// Write a C header with macros that write the events from programs (also spelled -um).
    #[arg(long)]
    pub(crate) um: bool,
    /// Directory for the header.
    #[arg(short = 'h', value_name = "DIR", default_value = ".", requires = "um")]
    pub(crate) header_dir: PathBuf,
    /// Name of the header without extension [default: that of the manifest].
    #[arg(short = 'z', value_name = "NAME", requires = "um")]
    pub(crate) name: Option<String>,
    /// Extension of the header.
    #[arg(short = 'e', value_name = "EXTENSION", default_value = "h", requires = "um")]
    pub(crate) extension: String,
    /// Start of the macros' names.
    #[arg(short = 'p', value_name = "PREFIX", default_value = "EventWrite", requires = "um")]
    pub(crate) prefix: String,
    /// Start of the events' symbols that the macros' names omit.
    #[arg(short = 'P', value_name = "PREFIX", default_value = "", requires = "um")]
    pub(crate) removed: String,
    /// Accepted for build scripts of Windows; no resources are written.
    #[arg(short = 'r', value_name = "DIR", requires = "um")]
    pub(crate) resource_dir: Option<PathBuf>,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    pub(crate) help: Option<bool>,
}

/// Returns the words of the command line. Windows' mc has an option of two letters after one dash.
pub(crate) fn words() -> impl Iterator<Item = OsString> {
    let mut is_mc = false;
    std::env::args_os().enumerate().map(move |(index, word)| {
        is_mc |= index == 1 && word == "mc";
        if is_mc && word == "-um" { "--um".into() } else { word }
    })
}
