//! Stacks of samples: a tree for each thread, from the outermost address to the innermost.

use crate::Duration;
use crate::managed::CodeVersion;
use crate::maps::HashMap;
use crate::model::addresses::Addresses;
use crate::model::switches::ReadiedBy;
use crate::processes::{Processes, ThreadIndex};

/// Number of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeIndex(u32);

/// Maximum number of nodes; if the tree is full, samples are counted with the outer part of their stacks.
const MAX_NODES: usize = 1 << 23;

/// Counts of stacks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SampleCount {
    pub(crate) count: u64,
    pub(crate) weight: Duration,
}

/// An address in a stack, and its caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    pub(crate) parent: Parent,
    /// The instruction; for a caller, the last byte of its call.
    pub(crate) address: u64,
    pub(crate) version: CodeVersion,
    /// Samples taken at exactly this address.
    pub(crate) count: u64,
    pub(crate) weight: Duration,
}

/// A step from the stack of a wait to another stack. It is a node without an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Link {
    /// To the stack of what ended the wait.
    Readied(ReadiedBy),
    /// From there to the stack at which the same thread had waited before.
    Waited,
}

/// The caller of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Parent {
    Node(NodeIndex),
    /// None: this is the thread's outermost address.
    Thread(ThreadIndex),
}

impl Parent {
    /// Returns the index of the node, or `None` for a thread.
    pub(crate) fn node(&self) -> Option<usize> {
        match self {
            Parent::Node(node) => Some(node.index()),
            Parent::Thread(_) => None,
        }
    }
}

impl NodeIndex {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The stacks of all samples.
#[derive(Debug, Default)]
pub(crate) struct StackTree {
    nodes: Vec<Node>,
    by_address: HashMap<(Parent, u64, CodeVersion), NodeIndex>,
    links: HashMap<NodeIndex, Link>,
    by_link: HashMap<(Parent, Link), NodeIndex>,
    /// Samples that were counted without their complete stacks.
    pub(crate) cut: u64,
}

impl StackTree {
    /// Counts samples of a thread and returns the node of their innermost address.
    ///
    /// Addresses are innermost first; those of callers are return addresses. `version_of` returns the version of the
    /// code at an instruction.
    pub(crate) fn add(
        &mut self,
        thread: ThreadIndex,
        addresses: &[u64],
        is_kernel: impl Fn(u64) -> bool,
        version_of: impl Fn(u64) -> CodeVersion,
        count: u64,
        weight: Duration,
    ) -> Option<NodeIndex> {
        let (parent, is_cut) = self.path(Parent::Thread(thread), addresses, is_kernel, version_of);
        self.cut += if is_cut { count } else { 0 };
        let Parent::Node(innermost) = parent else { return None };
        self.add_weight(innermost, count, weight);
        Some(innermost)
    }

    /// Returns the node of the innermost address of a stack that continues another one, and whether the tree was full
    /// before it was reached. Nothing is counted.
    pub(crate) fn path(
        &mut self,
        mut parent: Parent,
        addresses: &[u64],
        is_kernel: impl Fn(u64) -> bool,
        version_of: impl Fn(u64) -> CodeVersion,
    ) -> (Parent, bool) {
        for (index, address) in addresses.iter().enumerate().rev() {
            let inner = index.checked_sub(1).and_then(|index| addresses.get(index));
            // The address at which user mode was left is the next instruction itself.
            let is_return = inner.is_some_and(|inner| is_kernel(*inner) == is_kernel(*address));
            let address = address.wrapping_sub(u64::from(is_return));
            match self.node(parent, address, version_of(address)) {
                Some(node) => parent = Parent::Node(node),
                None => return (parent, true),
            }
        }
        (parent, false)
    }

    /// Counts a stack of a thread. `version` is the last change of code before it; `None` for the newest so far.
    pub(crate) fn count(
        &mut self,
        thread: ThreadIndex,
        frames: &[u64],
        version: Option<CodeVersion>,
        SampleCount { count, weight }: SampleCount,
        (processes, addresses): (&Processes, &Addresses),
    ) -> Option<NodeIndex> {
        let version = version.unwrap_or_else(|| addresses.versions.now(processes.thread(thread).process));
        let of = (thread, version);
        let (parent, is_cut) = self.extend(Parent::Thread(thread), of, frames, processes, addresses);
        self.cut += if is_cut { count } else { 0 };
        let Parent::Node(innermost) = parent else { return None };
        self.add_weight(innermost, count, weight);
        Some(innermost)
    }

    /// Returns the node of the innermost address of a stack that continues another one, and whether the tree was full
    /// before it was reached. The stack is of a thread, and the version is the last change of code before it.
    pub(crate) fn extend(
        &mut self,
        parent: Parent,
        (thread, version): (ThreadIndex, CodeVersion),
        frames: &[u64],
        processes: &Processes,
        addresses: &Addresses,
    ) -> (Parent, bool) {
        let process = processes.thread(thread).process;
        let version_of = |address| match addresses.is_kernel(address) {
            true => CodeVersion::default(),
            false => addresses.versions.at(process, address, version),
        };
        self.path(parent, frames, |address| addresses.is_kernel(address), version_of)
    }

    /// Returns the node of a step to another stack; `None` if the tree is full.
    pub(crate) fn link(&mut self, parent: Parent, link: Link) -> Option<NodeIndex> {
        if let Some(known) = self.by_link.get(&(parent, link)) {
            return Some(*known);
        }
        let index = self.push(parent, 0, CodeVersion::default())?;
        self.by_link.insert((parent, link), index);
        self.links.insert(index, link);
        Some(index)
    }

    /// Returns the step that a node is, instead of an address.
    pub(crate) fn link_at(&self, index: usize) -> Option<Link> {
        match self.links.is_empty() {
            true => None,
            false => self.links.get(&NodeIndex(index as u32)).copied(),
        }
    }

    /// Returns for each node the thread whose stack it is in.
    pub(crate) fn threads(&self) -> Vec<ThreadIndex> {
        let mut threads: Vec<ThreadIndex> = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            threads.push(match (self.link_at(index), node.parent) {
                (Some(Link::Readied(ReadiedBy::Thread(by))), _) => by,
                (_, Parent::Thread(thread)) => thread,
                // A caller comes before the nodes it calls.
                (_, Parent::Node(around)) => threads[around.index()],
            });
        }
        threads
    }

    /// Returns for each node the thread that its outermost stack is of.
    pub(crate) fn roots(&self) -> Vec<ThreadIndex> {
        let mut threads: Vec<ThreadIndex> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            threads.push(match node.parent {
                Parent::Thread(thread) => thread,
                Parent::Node(around) => threads[around.index()],
            });
        }
        threads
    }

    /// Counts more for the stacks that end in a node.
    pub(crate) fn add_weight(&mut self, node: NodeIndex, count: u64, weight: Duration) {
        if let Some(node) = self.nodes.get_mut(node.index()) {
            node.count += count;
            node.weight += weight;
        }
    }

    fn node(&mut self, parent: Parent, address: u64, version: CodeVersion) -> Option<NodeIndex> {
        if let Some(known) = self.by_address.get(&(parent, address, version)) {
            return Some(*known);
        }
        let index = self.push(parent, address, version)?;
        self.by_address.insert((parent, address, version), index);
        Some(index)
    }

    fn push(&mut self, parent: Parent, address: u64, version: CodeVersion) -> Option<NodeIndex> {
        if self.nodes.len() >= MAX_NODES {
            return None;
        }
        let index = NodeIndex(self.nodes.len() as u32);
        self.nodes.push(Node { parent, address, version, count: 0, weight: Duration::default() });
        Some(index)
    }

    /// Returns all nodes; each comes after its caller.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Calls `each` with the node and its callers outwards; returns the thread.
    pub(crate) fn outwards(&self, node: &Node, mut each: impl FnMut(&Node)) -> ThreadIndex {
        let mut node = *node;
        loop {
            each(&node);
            match node.parent {
                Parent::Node(around) => node = self.nodes[around.index()],
                Parent::Thread(thread) => return thread,
            }
        }
    }
}
