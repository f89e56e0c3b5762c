//! Symbol files in directories, symbol stores and on servers.

mod curl;
pub(crate) mod fetch;
pub(crate) mod file;
pub(crate) mod find;
pub(crate) mod kind;
pub(crate) mod limits;
pub(crate) mod path;
mod redirect;

pub use limits::FetchLimits;
pub use path::{SymbolPath, SymbolPathError};
