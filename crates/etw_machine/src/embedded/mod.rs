//! Names of code in images that a trace contains, for machines without symbol files.
//!
//! They are events of the provider for symbols: [`form`] has their layout, [`index`] finds names in them, and
//! [`source`] asks the files of this machine for the rest.

mod form;
mod identity;
mod index;
mod source;

pub use identity::ModuleId;
pub use source::ModuleNames;
pub use source::{FoundModule, FoundNames, il_place_number};
