//! Traces in a browser: tables, timelines, stacks and events, served to this machine only.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! [`Viewer::start`] opens traces and serves the page; the tables are built in the background. Everything that the page
//! shows is counted here: rows by `etw_columns`, stacks by `etw_analysis`. The page draws it.
//!
//! ```no_run
//! use etw_viewer::{Options, Viewer};
//!
//! let viewer = Viewer::start(Options { files: vec!["trace.etl".into()], ..Options::default() })?;
//! println!("{}", viewer.url());
//! viewer.wait();
//! # Ok::<(), anyhow::Error>(())
//! ```

#![forbid(unsafe_code)]

mod browser;
mod live;
mod model;
mod presets;
mod providers;
mod query;
mod server;
mod session;
mod source;
mod stacks;
mod symbols;
mod tables;
mod timeline;

pub use browser::{has_desktop, open_browser};
pub use presets::directory as presets_directory;
pub use server::{Options, TlsFiles, Viewer};
pub use session::{Session, SessionPaths};
