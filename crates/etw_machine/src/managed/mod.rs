//! Code in memory: the events of .NET's runtimes, the functions of other JIT compilers, and where their code was.

mod event;
mod il_maps;
mod jit;
mod methods;
mod versions;

pub use event::{ClrEvent, ClrProvider};
pub use jit::JitEvent;
pub use methods::Method;
pub use methods::{Assembly, MethodIndex, Methods};
pub use versions::{CodeVersion, CodeVersions};
