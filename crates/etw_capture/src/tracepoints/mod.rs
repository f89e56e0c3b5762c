//! The tracepoints of the running kernel: their names, and the fields of their events.
//!
//! ```no_run
//! use etw_capture::tracepoints::{TracepointPattern, Tracepoints};
//!
//! let tracepoints = Tracepoints::of_this_machine()?;
//! let pattern: TracepointPattern = "sched:sched_process_*".parse().map_err(std::io::Error::other)?;
//! for name in tracepoints.matching(&pattern) {
//!     println!("{name}: {} fields", tracepoints.format(name)?.fields.len());
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

mod encode;
mod format;
mod pattern;
mod rings;
mod selection;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use format::{FieldKind, FieldPlace, TracepointField, TracepointFormat};
pub use pattern::TracepointPattern;
pub use rings::TracepointRings;
pub use selection::{SelectedTracepoint, TracepointSelection};

/// Where tracefs is mounted; the second place is that of kernels before 4.1.
const PLACES: [&str; 2] = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];

/// The system of the tracer's own records, which are not tracepoints.
const TRACER: &str = "ftrace";

/// The name of a tracepoint: `sched:sched_switch`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TracepointName {
    /// The part of the kernel that it belongs to.
    pub system: Box<str>,
    /// Its name in that part.
    pub name: Box<str>,
}

/// The tracepoints of the running kernel.
#[derive(Debug, Clone)]
pub struct Tracepoints {
    directory: PathBuf,
    names: Vec<TracepointName>,
}

impl Tracepoints {
    /// Reads the names of the tracepoints that exist now; modules bring more of them.
    ///
    /// # Errors
    ///
    /// Fails if tracefs is not mounted, or if this process may not read it.
    pub fn of_this_machine() -> io::Result<Tracepoints> {
        let mut result = Err(io::ErrorKind::NotFound.into());
        for place in PLACES {
            result = Tracepoints::in_directory(Path::new(place));
            match &result {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                _ => break,
            }
        }
        result.map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::PermissionDenied => "; run this as root",
                io::ErrorKind::NotFound => "; `mount -t tracefs tracefs /sys/kernel/tracing` provides them",
                _ => "",
            };
            let [place, _] = PLACES;
            io::Error::new(
                error.kind(),
                format!("cannot read the kernel's tracepoints in {place}: {error}{remedy}"),
            )
        })
    }

    fn in_directory(directory: &Path) -> io::Result<Tracepoints> {
        let mut names = Vec::new();
        for system in directories_in(directory)? {
            if &*system == TRACER {
                continue;
            }
            for name in directories_in(&directory.join(&*system))? {
                names.push(TracepointName { system: system.clone(), name });
            }
        }
        names.sort();
        Ok(Tracepoints { directory: directory.to_owned(), names })
    }

    /// Returns the names of all tracepoints, sorted.
    pub fn names(&self) -> &[TracepointName] {
        &self.names
    }

    /// Returns the names that match a pattern.
    pub fn matching<'t>(
        &'t self,
        pattern: &'t TracepointPattern,
    ) -> impl Iterator<Item = &'t TracepointName> {
        self.names.iter().filter(|name| pattern.matches(name))
    }

    /// Reads the number and the fields of a tracepoint.
    ///
    /// # Errors
    ///
    /// Fails if the tracepoint's description cannot be read, or if it is not understood.
    pub fn format(&self, name: &TracepointName) -> io::Result<TracepointFormat> {
        let path = self.directory.join(&*name.system).join(&*name.name).join("format");
        let text = fs::read_to_string(path)?;
        TracepointFormat::parse(&text).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("the format of {name} is not understood"))
        })
    }
}

impl fmt::Display for TracepointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.system, self.name)
    }
}

/// Returns the names of the directories in one, as far as they are UTF-8.
fn directories_in(directory: &Path) -> io::Result<Vec<Box<str>>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if let (Ok(name), true) = (entry.file_name().into_string(), entry.file_type()?.is_dir()) {
            names.push(name.into());
        }
    }
    Ok(names)
}
