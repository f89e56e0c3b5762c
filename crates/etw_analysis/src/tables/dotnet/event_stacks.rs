//! Stacks of the events of .NET, from the event after them or from their extended data.

use etw_event::{Fields, Record};
use etw_machine::{
    ClrEvent, CodeVersions, Duration, HashMap, KERNEL_64, ProcessIndex, Processes, Space, ThreadIndex,
};
use etw_stacks::{AddressNode, NodeIndex, StackTree};
use etw_tables::{Cell, ReportContext};

/// Maximum number of frames in a stack.
const MAX_FRAMES: usize = 384;

/// Stacks of events, those of all threads of a process together.
#[derive(Debug, Default)]
pub(crate) struct EventStacks {
    tree: StackTree,
    /// The thread of a process by which its stacks are found.
    roots: HashMap<ProcessIndex, ThreadIndex>,
}

impl EventStacks {
    /// Adds a stack, innermost address first; returns the node of that address.
    pub(crate) fn add(
        &mut self,
        event: &ClrEvent<'_>,
        addresses: impl Iterator<Item = u64>,
        versions: &CodeVersions,
    ) -> Option<NodeIndex> {
        let process = Some(event.process);
        let root = *self.roots.entry(event.process).or_insert(event.thread);
        let mut addresses: Vec<u64> = addresses.take(MAX_FRAMES).collect();
        // The runtime's own call of the event is the innermost, so that address follows a call as well.
        if let Some(innermost) = addresses.first_mut() {
            *innermost = innermost.wrapping_sub(1);
        }
        let now = versions.now(process);
        let version_of = |address| versions.at(process, address, now);
        self.tree.add(root, &addresses, is_kernel, version_of, 1, Duration::default())
    }

    /// Returns the addresses of all stacks.
    pub(crate) fn addresses(&self, processes: &Processes) -> impl Iterator<Item = (Space, u64)> {
        let nodes = self.tree.nodes();
        let threads = self.tree.threads();
        nodes.iter().zip(threads).map(|(node, thread)| (space(node, thread, processes), node.address))
    }

    /// Returns the innermost method of .NET on a stack, and all frames, outermost first and separated by `;`.
    pub(crate) fn cells(&self, stack: Option<NodeIndex>, context: &ReportContext<'_>) -> [Cell; 2] {
        let Some(node) = stack.and_then(|stack| self.tree.nodes().get(stack.index())) else {
            return [Cell::None, Cell::None];
        };
        let mut nodes = Vec::new();
        let thread = self.tree.outwards(node, |node| nodes.push(*node));
        let (mut method, mut frames) = (None, Vec::new());
        for node in nodes {
            let space = space(&node, thread, context.processes);
            let Some(code) = context.names.code(space, node.address) else { continue };
            let label = context.names.label(code);
            frames.push(label.replace(';', ":"));
            if method.is_none() && code.is_managed {
                method = Some(label);
            }
        }
        frames.reverse();
        [method.map_or(Cell::None, Cell::Text), Cell::Text(frames.join(";"))]
    }
}

fn is_kernel(address: u64) -> bool {
    address >= KERNEL_64
}

fn space(node: &AddressNode, thread: ThreadIndex, processes: &Processes) -> Space {
    let thread = processes.thread(thread);
    match thread.process {
        _ if is_kernel(node.address) => Space::Kernel(thread.machine),
        Some(process) => Space::Process(process, node.version),
        None => Space::Unknown,
    }
}

/// Returns the addresses of a CLRStackWalk event, innermost first. Its schemas describe only the first two.
pub(crate) fn stack_walk<'a>(record: &Record<'a>) -> Option<impl Iterator<Item = u64> + use<'a>> {
    // The number of the runtime, two reserved bytes, and the count.
    let (count, rest) = (record.payload().u32_at(4)?, record.payload().get(8..)?);
    let size = record.pointer_size().bytes();
    let address = move |chunk: &[u8]| match size {
        4 => chunk.u32_at(0).map_or(0, u64::from),
        _ => chunk.u64_at(0).unwrap_or(0),
    };
    Some(rest.chunks_exact(size).map(address).take(count as usize))
}
