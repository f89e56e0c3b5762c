//! Synthetic events for tests of filters, predicates and callbacks, without a session, a file or privileges.
//!
//! ```
//! use etw_consumer::Predicate;
//! use etw_consumer::testing::{EventBuilder, Proxy};
//!
//! let start = EventBuilder::built_in("Microsoft-Windows-Kernel-Process", 1, 0)?
//!     .property("ProcessID", 4711)
//!     .property("ImageName", r"\Device\HarddiskVolume2\Windows\notepad.exe")
//!     .process(4, 8)
//!     .pack_incomplete()?;
//! let predicate = Predicate::property_iends_with("ImageName", r"\NOTEPAD.exe");
//! assert!(Proxy::new().matches(&predicate, &start));
//! # Ok::<(), etw_consumer::testing::PackError>(())
//! ```

mod builder;
mod proxy;
mod values;

pub use builder::{EventBuilder, PackError, SyntheticRecord};
pub use proxy::Proxy;
pub use values::TestValue;
