//! The recorded machine, according to the events of a trace.

use openetw::etl::{BufferRef, EtlFile, LogFileHeader, Records};
use openetw::kernel_events::ids::{self, EventId};
use openetw::schema::{Located, Resolver};
use openetw::{BufferSummary, Input, Overview, Record};

/// Number of buffers at each end of a file that are searched first: the kernel describes the machine when a session
/// starts or stops. In merged files that may be anywhere.
const BUFFERS: usize = 32;

/// Returns the host name of this machine, from procfs.
pub(crate) fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// The machine according to the kernel's events SystemConfig/CPU and EventTrace/BuildInfo.
#[derive(Debug, Default, Clone)]
pub struct Machine {
    /// System and release, such as `Linux 6.18.44`; `Linux` if the release is missing in a truncated trace. For Windows
    /// the log file header has the version.
    pub system: Option<String>,
    /// Name of the computer.
    pub computer: Option<String>,
    /// Domain of the computer.
    pub domain: Option<String>,
    /// Memory in MiB.
    pub memory_mb: Option<u64>,
}

impl Machine {
    /// Searches a file for the events, first at both ends.
    pub fn from_file(file: &EtlFile<'_>, resolver: &mut Resolver) -> Machine {
        let mut all = file.buffers().filter_map(Result::ok);
        let head: Vec<BufferRef<'_>> = all.by_ref().take(BUFFERS).collect();
        // The rest is read only if the start does not say it: finding the end reads the header of each buffer.
        let rest = std::iter::once_with(|| ends_first(all.collect()));
        Machine::among(file, head.into_iter().chain(rest.flatten()), resolver)
    }

    /// As [`Machine::from_file`], for a file whose buffers are known.
    fn of_known(file: &EtlFile<'_>, known: &[BufferSummary], resolver: &mut Resolver) -> Machine {
        let (head, rest) = known.split_at(known.len().min(BUFFERS));
        let rest = ends_first(rest.iter().collect());
        let buffers = head.iter().chain(rest).filter_map(|buffer| file.buffer_at(buffer.offset));
        Machine::among(file, buffers, resolver)
    }

    fn among<'a>(
        file: &EtlFile<'a>,
        buffers: impl Iterator<Item = BufferRef<'a>>,
        resolver: &mut Resolver,
    ) -> Machine {
        let mut scratch = Vec::new();
        let mut system = None;
        for buffer in buffers {
            let data = buffer.data(&mut scratch);
            let origin = buffer.origin(file.clock(), 0);
            for record in Records::new(data.bytes, &origin, buffer.place()).filter_map(Result::ok) {
                match EventId::from_record(&record) {
                    Some(ids::EventTrace::BUILD_INFO) => system = linux_of(&record, resolver),
                    // BuildInfo precedes it.
                    Some(ids::SystemConfig::CPU) => {
                        let system = system.or_else(|| linux_by_path(file.header()));
                        return Machine::told(&record, resolver, system);
                    }
                    _ => {}
                }
            }
        }
        Machine { system: system.or_else(|| linux_by_path(file.header())), ..Machine::default() }
    }

    /// Returns the system: from the event, else the Windows version in the header.
    pub fn system_text(&self, header: &LogFileHeader) -> String {
        let LogFileHeader { major_version, minor_version, provider_version, .. } = header;
        let windows = || match provider_version {
            // Converted from a format that does not state the system.
            0 => "unknown system".to_owned(),
            _ => format!("Windows {major_version}.{minor_version} build {provider_version}"),
        };
        self.system.clone().unwrap_or_else(windows)
    }

    fn told(record: &Record<'_>, resolver: &mut Resolver, system: Option<String>) -> Machine {
        let mut located = Located::new();
        let Ok(schema) = resolver.resolve(record) else { return Machine { system, ..Machine::default() } };
        let properties = schema.locate(record, &mut located);
        let text = |name: &str| properties.try_get::<String>(name).filter(|text| !text.is_empty());
        Machine {
            system,
            computer: text("ComputerName"),
            domain: text("DomainName"),
            memory_mb: properties.try_get("MemSize"),
        }
    }
}

/// Moves what is at the end to the front.
fn ends_first<T>(mut all: Vec<T>) -> Vec<T> {
    let end = all.len().saturating_sub(BUFFERS);
    all.rotate_left(end);
    all
}

/// Returns `Linux` and its release if the event is from Linux.
fn linux_of(record: &Record<'_>, resolver: &mut Resolver) -> Option<String> {
    let mut located = Located::new();
    let schema = resolver.resolve(record).ok()?;
    let build: String = schema.locate(record, &mut located).try_get("BuildString")?;
    let release = build.strip_prefix("Linux version ")?.split(' ').next()?;
    Some(format!("Linux {release}"))
}

/// Returns `Linux` if the header has a path of Linux. Sessions write absolute paths, and those of Windows start with a
/// drive or a backslash.
fn linux_by_path(header: &LogFileHeader) -> Option<String> {
    header.log_file_name.starts_with('/').then(|| "Linux".to_owned())
}

/// Returns the machine of each trace, in the same order; `overview` is what is known of their buffers.
pub fn machines(inputs: &[Input], overview: Option<&Overview>, resolver: &mut Resolver) -> Vec<Machine> {
    let known = overview.filter(|overview| overview.files.len() == inputs.len());
    let mut machine = |(number, input): (usize, &Input)| {
        let file = EtlFile::open(input.bytes()).ok()?;
        Some(match known.and_then(|overview| overview.files.get(number)?.as_deref()) {
            Some(known) => Machine::of_known(&file, known, resolver),
            None => Machine::from_file(&file, resolver),
        })
    };
    inputs.iter().enumerate().map(|input| machine(input).unwrap_or_default()).collect()
}
