//! The machines of a trace whose files are of several.

use etw_consumer::Trace;
use etw_event::Record;

use crate::maps::HashSet;

/// The machine of each source of a trace. Ids, addresses and numbers in events have a meaning on one machine only.
///
/// The default has one machine. Files are of one machine if they are of the same boot of the same system
/// ([`etw_consumer::ProcessTable`]).
#[derive(Debug, Clone, Default)]
pub struct Machines {
    /// The machine of each source; empty for a single machine.
    of_source: Vec<u32>,
    machines: Vec<Machine>,
}

#[derive(Debug, Clone)]
struct Machine {
    /// The name of its first file, by which tables distinguish it.
    label: String,
    processors: u32,
    /// Number of the processors of the machines before it.
    first_processor: u32,
}

impl Machines {
    /// Returns the machines of a trace.
    pub fn from_trace(trace: &Trace) -> Machines {
        let mut machines = Machines::default();
        for ((name, header), source) in trace.source_names().zip(trace.headers()).zip(0..) {
            let number = trace.machine_of(source);
            machines.of_source.push(number);
            if number as usize >= machines.machines.len() {
                machines.machines.push(Machine { label: name.to_owned(), processors: 1, first_processor: 0 });
            }
            if let Some(machine) = machines.machines.get_mut(number as usize) {
                machine.processors = machine.processors.max(header.number_of_processors);
            }
        }
        if machines.machines.len() <= 1 {
            machines.of_source.clear();
        }
        let mut processors = 0_u32;
        for machine in &mut machines.machines {
            machine.first_processor = processors;
            processors = processors.saturating_add(machine.processors);
        }
        let short: Vec<String> = machines.machines.iter().map(|machine| file_name(&machine.label)).collect();
        if short.iter().collect::<HashSet<_>>().len() == short.len() {
            machines.machines.iter_mut().zip(short).for_each(|(machine, label)| machine.label = label);
        }
        machines
    }

    /// Returns the number of processors of all machines; at least 1.
    pub fn processors(&self) -> u32 {
        self.machines.iter().fold(0_u32, |sum, machine| sum.saturating_add(machine.processors)).max(1)
    }

    /// Returns the number of a record's machine.
    #[inline]
    pub fn machine(&self, record: &Record<'_>) -> u32 {
        self.of_source.get(record.origin().source as usize).copied().unwrap_or(0)
    }

    /// Returns the number of a record's processor among those of all machines.
    #[inline]
    pub fn processor(&self, record: &Record<'_>) -> usize {
        let number = usize::from(record.processor());
        if self.of_source.is_empty() {
            return number;
        }
        let machine = self.machines.get(self.machine(record) as usize);
        number + machine.map_or(0, |machine| machine.first_processor as usize)
    }

    /// Whether there are several machines.
    pub fn are_several(&self) -> bool {
        !self.of_source.is_empty()
    }

    /// Adds the machine to a text, if there are several.
    pub fn labelled(&self, text: &str, machine: u32) -> String {
        match self.machines.get(machine as usize).filter(|_| self.are_several()) {
            Some(machine) => format!("{text} [{}]", machine.label),
            None => text.to_owned(),
        }
    }
}

fn file_name(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
}
