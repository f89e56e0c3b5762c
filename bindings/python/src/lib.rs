//! The native part of the Python package `openetw`: traces, sessions and providers.
//!
//! The package's own module, `python/openetw`, re-exports what is here and adds what is simpler in Python: exceptions,
//! `async` iteration and the handler of `logging`. Types for checkers are in `_native.pyi`.
//!
//! - `trace`: trace files and filters; `events`: events in a loop; `event`: one of them.
//! - `kinds`: events of a kind as record batches; `rows`: tables with rows and pivots; `table`: their way to Python;
//!   `convert`: columns of other types.
//! - `sql`: answers of the program `etw-sql`.
//! - `session`: sessions and controllers; `provider`: writing events.
//! - `work`: native work that Ctrl-C ends; `fork`: what the child of a fork may not use.

#![forbid(unsafe_code)]

mod convert;
mod errors;
mod event;
mod events;
mod fork;
mod kinds;
#[cfg(target_os = "linux")]
mod provider;
#[cfg(target_os = "linux")]
mod registered;
mod rows;
#[cfg(target_os = "linux")]
mod session;
mod sql;
mod statistics;
mod table;
mod trace;
mod values;
mod work;

/// The native part of openetw.
#[pyo3::pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::event::Event;
    #[pymodule_export]
    use crate::events::Events;
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::provider::{Provider, create_activity, set_activity};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::session::{Controller, Session, SessionStatus, listen};
    #[pymodule_export]
    use crate::sql::map_arrow;
    #[pymodule_export]
    use crate::statistics::Statistics;
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::trace::{Trace, open};

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "its name in Python")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::fork::watch(module)
    }
}
