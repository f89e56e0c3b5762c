//! Live sessions as they run: their newest events, and tables of what the events say of the machine.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! [`Watch`] is a running session for displays that ask for what they show, such as a page. A display that draws by itself,
//! such as a terminal, starts a [`Session`], reads it by a [`Feed`], and locks the feed's [`Model`] to draw it. The thread
//! that reads the events never waits for a display.
//!
//! Live sessions exist on Linux and Windows only; elsewhere this crate is empty.
//!
//! ```no_run
//! # fn show(options: &etw_live::Options) -> anyhow::Result<()> {
//! let mut watch = etw_live::Watch::start(options)?;
//! for shown in watch.lines(0, 100, None).1 {
//!     println!("{} {} {}", shown.line.time, shown.line.process, shown.line.detail);
//! }
//! watch.stop()?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![cfg(any(target_os = "linux", windows))]

mod feed;
mod model;
mod options;
mod pace;
mod save;
mod session;
mod view;
mod watch;

use std::time::Duration;

pub use feed::{Feed, FeedState, Seconds};
#[cfg(any(test, feature = "testing"))]
pub use model::testing;
pub use model::{Column, Counts, Found, Line, Meter, Model, Rule, Rules, Wanted};
pub use options::Options;
pub use pace::Pace;
pub use save::{Saving, make_readable};
pub use session::{Session, default_kernel_flags};
pub use view::{Cursor, Table, View};
pub use watch::{Stopped, Watch, WatchLine, WatchRow, WatchStatus, WatchTable};

/// Length of a period of rates.
pub const PERIOD: Duration = Duration::from_secs(1);
