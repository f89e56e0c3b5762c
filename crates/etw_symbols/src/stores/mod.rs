//! Symbol files in directories, symbol stores and on servers.

mod curl;
pub(crate) mod fetch;
pub(crate) mod file;
pub(crate) mod find;
pub(crate) mod path;

pub use curl::TimeLimits;
pub use path::{SymbolPath, SymbolPathError};
