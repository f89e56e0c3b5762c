//! What a trace says of the machine in events of its own.

use std::path::PathBuf;

use openetw::etl::{BufferRef, EtlFile, Records};
use openetw::schema::{Located, Resolver};
use openetw::{Input, InputLimits, Record, classes};

/// How many buffers at either end of a file are looked through: the kernel describes the machine when a session
/// begins or ends.
const BUFFERS: usize = 32;

/// The name of this machine, where the system says it in a file.
pub(crate) fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// What the kernel's SystemConfig/CPU event tells.
#[derive(Debug, Default, Clone)]
pub(crate) struct Machine {
    pub(crate) computer: Option<String>,
    pub(crate) domain: Option<String>,
    pub(crate) memory_mb: Option<u64>,
}

impl Machine {
    /// Looks for the event at both ends of a file.
    pub(crate) fn of(file: &EtlFile<'_>, resolver: &mut Resolver) -> Machine {
        let buffers: Vec<BufferRef<'_>> = file.buffers().filter_map(Result::ok).collect();
        let (head, tail) = buffers.split_at(buffers.len().min(BUFFERS));
        let tail = tail.get(tail.len().saturating_sub(BUFFERS)..).unwrap_or_default();
        let mut scratch = Vec::new();
        for buffer in head.iter().chain(tail) {
            let data = buffer.data(&mut scratch);
            let origin = buffer.origin(file.clock(), 0);
            for record in Records::new(data.bytes, &origin, buffer.place()).filter_map(Result::ok) {
                if record.provider_id() == classes::SYSTEM_CONFIG && record.descriptor().opcode.0 == 10 {
                    return Machine::told(&record, resolver);
                }
            }
        }
        Machine::default()
    }

    fn told(record: &Record<'_>, resolver: &mut Resolver) -> Machine {
        let mut located = Located::new();
        let Ok(schema) = resolver.resolve(record) else { return Machine::default() };
        let properties = schema.locate(record, &mut located);
        let text = |name: &str| properties.try_get::<String>(name).filter(|text| !text.is_empty());
        Machine {
            computer: text("ComputerName"),
            domain: text("DomainName"),
            memory_mb: properties.try_get("MemSize"),
        }
    }
}

/// The computers of the traces in `paths`, in their order.
pub(crate) fn computers(paths: &[PathBuf], resolver: &Resolver) -> Vec<Option<String>> {
    let mut resolver = resolver.clone();
    let mut computers = Vec::new();
    for path in paths {
        // What cannot be opened has been reported.
        for input in Input::open(path, &InputLimits::default()).unwrap_or_default() {
            let machine = EtlFile::open(input.bytes()).map(|file| Machine::of(&file, &mut resolver));
            computers.push(machine.unwrap_or_default().computer);
        }
    }
    computers
}
