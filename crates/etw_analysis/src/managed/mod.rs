//! Code in memory: the events of .NET's runtimes, the functions of other JIT compilers, and where their code was.

mod event;
mod il_maps;
mod jit;
mod methods;
mod versions;

pub(crate) use event::{ClrEvent, ClrProvider};
pub(crate) use jit::JitEvent;
pub use jit::{JitFunction, JitSourceLine};
pub(crate) use methods::{Assembly, Method, MethodIndex, Methods};
pub(crate) use versions::{CodeVersion, CodeVersions};
