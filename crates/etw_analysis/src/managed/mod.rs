//! .NET: the events of its runtimes, and the methods whose code was in memory.

mod event;
mod methods;
mod versions;

pub(crate) use event::{ClrEvent, ClrProvider};
pub(crate) use methods::{Method, MethodIndex, Methods};
pub(crate) use versions::{CodeVersion, CodeVersions};
