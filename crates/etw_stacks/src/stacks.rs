//! Stacks of samples: a tree for each thread, from the outermost address to the innermost.

use etw_machine::{Addresses, CodeVersion, Duration, HashMap, Processes, ReadiedBy, ThreadIndex};

/// Number of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(u32);

/// Maximum number of nodes; if the tree is full, samples are counted with the outer part of their stacks.
const MAX_NODES: usize = 1 << 23;

/// Counts of stacks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SampleCount {
    /// Number of samples or events.
    pub count: u64,
    /// The time that they stand for, or what else is counted.
    pub weight: Duration,
}

/// An address in a stack, and its caller.
#[derive(Debug, Clone, Copy)]
pub struct AddressNode {
    /// The caller.
    pub parent: CallerNode,
    /// The instruction; for a caller, the last byte of its call.
    pub address: u64,
    /// Which code was there, where code is replaced.
    pub version: CodeVersion,
    /// Samples taken at exactly this address.
    pub count: u64,
    /// What these samples weigh.
    pub weight: Duration,
}

/// A step from the stack of a wait to another stack. It is a node without an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitLink {
    /// To the stack of what ended the wait.
    Readied(ReadiedBy),
    /// From there to the stack at which the same thread had waited before.
    Waited,
}

/// The caller of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallerNode {
    /// An address of the same stack.
    Node(NodeIndex),
    /// None: this is the thread's outermost address.
    Thread(ThreadIndex),
}

impl CallerNode {
    /// Returns the index of the node, or `None` for a thread.
    pub fn node(&self) -> Option<usize> {
        match self {
            CallerNode::Node(node) => Some(node.index()),
            CallerNode::Thread(_) => None,
        }
    }
}

impl NodeIndex {
    /// Returns the place in [`StackTree::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The stacks of all samples.
#[derive(Debug, Default)]
pub struct StackTree {
    nodes: Vec<AddressNode>,
    by_address: HashMap<(CallerNode, u64, CodeVersion), NodeIndex>,
    links: HashMap<NodeIndex, WaitLink>,
    by_link: HashMap<(CallerNode, WaitLink), NodeIndex>,
    /// Samples that were counted without their complete stacks.
    pub cut: u64,
}

impl StackTree {
    /// Counts samples of a thread and returns the node of their innermost address.
    ///
    /// Addresses are innermost first; those of callers are return addresses. `version_of` returns the version of the
    /// code at an instruction.
    pub fn add(
        &mut self,
        thread: ThreadIndex,
        addresses: &[u64],
        is_kernel: impl Fn(u64) -> bool,
        version_of: impl Fn(u64) -> CodeVersion,
        count: u64,
        weight: Duration,
    ) -> Option<NodeIndex> {
        let (parent, is_cut) = self.path(CallerNode::Thread(thread), addresses, is_kernel, version_of);
        self.cut += if is_cut { count } else { 0 };
        let CallerNode::Node(innermost) = parent else { return None };
        self.add_weight(innermost, count, weight);
        Some(innermost)
    }

    /// Returns the node of the innermost address of a stack that continues another one, and whether the tree was full
    /// before it was reached. Nothing is counted.
    pub(crate) fn path(
        &mut self,
        mut parent: CallerNode,
        addresses: &[u64],
        is_kernel: impl Fn(u64) -> bool,
        version_of: impl Fn(u64) -> CodeVersion,
    ) -> (CallerNode, bool) {
        for (index, address) in addresses.iter().enumerate().rev() {
            let inner = index.checked_sub(1).and_then(|index| addresses.get(index));
            // The address at which user mode was left is the next instruction itself.
            let is_return = inner.is_some_and(|inner| is_kernel(*inner) == is_kernel(*address));
            let address = address.wrapping_sub(u64::from(is_return));
            match self.node(parent, address, version_of(address)) {
                Some(node) => parent = CallerNode::Node(node),
                None => return (parent, true),
            }
        }
        (parent, false)
    }

    /// Counts a stack of a thread. `version` is the last change of code before it; `None` for the newest so far.
    pub fn count(
        &mut self,
        thread: ThreadIndex,
        frames: &[u64],
        version: Option<CodeVersion>,
        SampleCount { count, weight }: SampleCount,
        (processes, addresses): (&Processes, &Addresses),
    ) -> Option<NodeIndex> {
        let version = version.unwrap_or_else(|| addresses.versions.now(processes.thread(thread).process));
        let of = (thread, version);
        let (parent, is_cut) = self.extend(CallerNode::Thread(thread), of, frames, processes, addresses);
        self.cut += if is_cut { count } else { 0 };
        let CallerNode::Node(innermost) = parent else { return None };
        self.add_weight(innermost, count, weight);
        Some(innermost)
    }

    /// Returns the node of the innermost address of a stack that continues another one, and whether the tree was full
    /// before it was reached. The stack is of a thread, and the version is the last change of code before it.
    pub(crate) fn extend(
        &mut self,
        parent: CallerNode,
        (thread, version): (ThreadIndex, CodeVersion),
        frames: &[u64],
        processes: &Processes,
        addresses: &Addresses,
    ) -> (CallerNode, bool) {
        let process = processes.thread(thread).process;
        let version_of = |address| match addresses.is_kernel(address) {
            true => CodeVersion::default(),
            false => addresses.versions.at(process, address, version),
        };
        self.path(parent, frames, |address| addresses.is_kernel(address), version_of)
    }

    /// Returns the node of a step to another stack; `None` if the tree is full.
    pub(crate) fn link(&mut self, parent: CallerNode, link: WaitLink) -> Option<NodeIndex> {
        if let Some(known) = self.by_link.get(&(parent, link)) {
            return Some(*known);
        }
        let index = self.push(parent, 0, CodeVersion::default())?;
        self.by_link.insert((parent, link), index);
        self.links.insert(index, link);
        Some(index)
    }

    /// Returns the step that a node is, instead of an address.
    pub fn link_at(&self, index: usize) -> Option<WaitLink> {
        match self.links.is_empty() {
            true => None,
            false => self.links.get(&NodeIndex(index as u32)).copied(),
        }
    }

    /// Returns for each node the thread whose stack it is in.
    pub fn threads(&self) -> Vec<ThreadIndex> {
        let mut threads: Vec<ThreadIndex> = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            threads.push(match (self.link_at(index), node.parent) {
                (Some(WaitLink::Readied(ReadiedBy::Thread(by))), _) => by,
                (_, CallerNode::Thread(thread)) => thread,
                // A caller comes before the nodes it calls.
                (_, CallerNode::Node(around)) => threads[around.index()],
            });
        }
        threads
    }

    /// Returns for each node the thread that its outermost stack is of.
    pub fn roots(&self) -> Vec<ThreadIndex> {
        let mut threads: Vec<ThreadIndex> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            threads.push(match node.parent {
                CallerNode::Thread(thread) => thread,
                CallerNode::Node(around) => threads[around.index()],
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

    fn node(&mut self, parent: CallerNode, address: u64, version: CodeVersion) -> Option<NodeIndex> {
        if let Some(known) = self.by_address.get(&(parent, address, version)) {
            return Some(*known);
        }
        let index = self.push(parent, address, version)?;
        self.by_address.insert((parent, address, version), index);
        Some(index)
    }

    fn push(&mut self, parent: CallerNode, address: u64, version: CodeVersion) -> Option<NodeIndex> {
        if self.nodes.len() >= MAX_NODES {
            return None;
        }
        let index = NodeIndex(self.nodes.len() as u32);
        self.nodes.push(AddressNode { parent, address, version, count: 0, weight: Duration::default() });
        Some(index)
    }

    /// Returns all nodes; each comes after its caller.
    pub fn nodes(&self) -> &[AddressNode] {
        &self.nodes
    }

    /// Calls `each` with the node and its callers outwards; returns the thread.
    pub fn outwards(&self, node: &AddressNode, mut each: impl FnMut(&AddressNode)) -> ThreadIndex {
        let mut node = *node;
        loop {
            each(&node);
            match node.parent {
                CallerNode::Node(around) => node = self.nodes[around.index()],
                CallerNode::Thread(thread) => return thread,
            }
        }
    }
}
