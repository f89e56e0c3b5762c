//! What rows refer to by numbers of the system: types of kernel objects, and contexts of the graphics kernel.
//!
//! The events that describe them may come at the end of a trace, so their tables are written last.

use etw_event::Guid;
use etw_kernel_events::ids;
use etw_machine::{HashMap, ProcessIndex, Processes};

use super::columns::{Address, Id, Process, Text};
use super::labels::RowLabel;
use super::source::{EventContext, RowContext, RowSource};
use super::table::{RowWriter, table};

table! {
    /// One row for each type of kernel objects that handles are of.
    ObjectTypeRow: "object_types", "Object Types", label RowLabel::single(&["object_type"]);
    /// Name of the type, or its number if the trace does not name it.
    object_type: Text,
    /// Number of the type in events.
    number: Id,
}

table! {
    /// One row for each context of the graphics kernel: the queue of a process to an engine.
    GpuContextRow: "gpu_contexts", "GPU Contexts";
    /// Address of the context.
    context: Address,
    /// Process of its device.
    process: Option<Process>,
    /// Address of its device.
    device: Option<Address>,
    /// Address of the adapter.
    adapter: Option<Address>,
    /// Number of the engine.
    node: Option<Id>,
}

/// Microsoft-Windows-DxgKrnl.
pub(super) const DXG_KRNL: Guid = Guid::from_u128(0x802ec45a_1e99_4b83_9920_87c98277ba9d);
/// Maximum number of types and of contexts; further ones share the last row.
const MAX_OBJECTS: usize = 1 << 16;

/// Types of objects, and contexts of the graphics kernel.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// The machine of the current event.
    pub(super) machine: u32,
    types: Numbers<u32>,
    names: Vec<Option<String>>,
    contexts: Numbers<u64>,
    described: Vec<Context>,
    devices: HashMap<(u32, u64), Device>,
}

/// Row numbers by machine and id.
#[derive(Debug)]
struct Numbers<K> {
    rows: HashMap<(u32, K), u32>,
    ids: Vec<K>,
}

impl<K> Default for Numbers<K> {
    fn default() -> Numbers<K> {
        Numbers { rows: HashMap::default(), ids: Vec::new() }
    }
}

impl<K: Copy + Eq + std::hash::Hash> Numbers<K> {
    fn row(&mut self, machine: u32, id: K) -> u32 {
        match self.rows.get(&(machine, id)) {
            Some(row) => *row,
            None => self.add(machine, id),
        }
    }

    /// Adds a row for an id that is used again.
    fn add(&mut self, machine: u32, id: K) -> u32 {
        if self.ids.len() < MAX_OBJECTS {
            self.ids.push(id);
        }
        let row = self.ids.len() as u32 - 1;
        self.rows.insert((machine, id), row);
        row
    }
}

/// A context of the graphics kernel: a queue of one process to one engine.
#[derive(Debug, Clone, Copy, Default)]
struct Context {
    device: Option<u64>,
    process: Option<ProcessIndex>,
    adapter: Option<u64>,
    node: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Device {
    process: Option<ProcessIndex>,
    adapter: Option<u64>,
}

impl Objects {
    /// Adds what an event says of objects.
    fn event(&mut self, event: &EventContext<'_, '_>, processes: &mut Processes) {
        let record = event.record();
        let descriptor = record.descriptor();
        if let Some(ids::Object::OBJECT_TYPE_DC_START | ids::Object::TYPE_DC_END) = event.id {
            if let (Some(id), Some(name)) = (event.get(&["ObjectType"]), event.get(&["TypeName"])) {
                let row = self.object_type(id) as usize;
                self.names[row].get_or_insert(name);
            }
        } else if record.provider_id() == DXG_KRNL {
            match descriptor.id {
                27 | 29 => self.device(event, processes),
                30 | 32 => self.context(event, descriptor.id == 30),
                _ => {}
            }
        }
    }

    fn device(&mut self, event: &EventContext<'_, '_>, processes: &mut Processes) {
        let Some(device) = event.get::<u64>(&["hDevice"]) else { return };
        let id = event.get::<u32>(&["hProcessId"]);
        let process = id.map(|id| processes.at(id)).or(event.process);
        let device_of = Device { process, adapter: event.get(&["pDxgAdapter"]) };
        if self.devices.len() < MAX_OBJECTS {
            self.devices.insert((self.machine, device), device_of);
        }
        for context in self.described.iter_mut().filter(|context| context.device == Some(device)) {
            context.process = context.process.or(process);
            context.adapter = context.adapter.or(device_of.adapter);
        }
    }

    fn context(&mut self, event: &EventContext<'_, '_>, is_new: bool) {
        let Some(address) = event.get::<u64>(&["hContext"]) else { return };
        let row = self.gpu_context(address) as usize;
        let known = self.described.get(row).is_some_and(|context| context.device.is_some());
        let row = if is_new && known {
            let row = self.contexts.add(self.machine, address) as usize;
            self.described.resize(self.contexts.ids.len(), Context::default());
            row
        } else {
            row
        };
        let device = event.get::<u64>(&["hDevice"]);
        let of_device = device.and_then(|device| self.devices.get(&(self.machine, device)));
        self.described[row] = Context {
            device,
            process: of_device.and_then(|device| device.process),
            adapter: of_device.and_then(|device| device.adapter),
            node: event.get(&["NodeOrdinal"]),
        };
    }

    /// Returns the row of a type of objects.
    pub(super) fn object_type(&mut self, id: u32) -> u32 {
        let row = self.types.row(self.machine, id);
        self.names.resize(self.types.ids.len(), None);
        row
    }

    /// Returns the row of the context at an address.
    pub(super) fn gpu_context(&mut self, address: u64) -> u32 {
        let row = self.contexts.row(self.machine, address);
        self.described.resize(self.contexts.ids.len(), Context::default());
        row
    }

    fn write(&self, writer: &mut RowWriter) {
        for (id, name) in self.types.ids.iter().zip(&self.names) {
            let shown = name.clone().unwrap_or_else(|| id.to_string());
            writer.add(ObjectTypeRow { object_type: &shown, number: *id });
        }
        for (address, context) in self.contexts.ids.iter().zip(&self.described) {
            let Context { device, process, adapter, node } = *context;
            writer.add(GpuContextRow { context: *address, process, device, adapter, node });
        }
    }
}

/// Makes rows of objects. Rows of other tables refer to them, so their state is in the context.
#[derive(Debug, Default)]
pub(super) struct ObjectRows;

impl RowSource for ObjectRows {
    fn wants(&self, event: &EventContext<'_, '_>) -> bool {
        matches!(event.id, Some(ids::Object::OBJECT_TYPE_DC_START | ids::Object::TYPE_DC_END))
            || event.record().provider_id() == DXG_KRNL
    }

    fn event(&mut self, event: &EventContext<'_, '_>, context: &mut RowContext<'_>) {
        context.objects.event(event, &mut context.model.processes);
    }

    fn finish(&mut self, context: &mut RowContext<'_>) {
        context.objects.write(context.writer);
    }
}
