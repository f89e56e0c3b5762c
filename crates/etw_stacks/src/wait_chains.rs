//! What ended waits, and what that had waited for itself.

use std::sync::Arc;

use etw_event::FileTime;
use etw_machine::{
    Addresses, CodeVersion, Duration, HashMap, Processes, Readied, ReadiedBy, Switched, ThreadIndex, Window,
};

use crate::stacks::{CallerNode, NodeIndex, StackTree, WaitLink};

/// Maximum number of waits in a chain.
const MAX_WAITS: usize = 8;

/// The stack of a thread at a moment.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    thread: ThreadIndex,
    /// The last change of code before that.
    version: CodeVersion,
    /// Innermost first; empty if the trace does not have them.
    frames: Arc<[u64]>,
}

/// A wait that has ended.
#[derive(Debug)]
struct Wait {
    at: Place,
    since: FileTime,
    end: End,
    /// Number of waits from this one on.
    length: usize,
}

/// The end of a wait.
#[derive(Debug, Clone)]
struct End {
    time: FileTime,
    by: ReadiedBy,
    /// Where that was done, if it was a thread or the kernel.
    at: Option<Place>,
    /// The wait of that thread that ended during this one.
    before: Option<Arc<Wait>>,
}

/// The waits with one chain.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChainSum {
    /// Number of waits.
    pub count: u64,
    /// Their time.
    pub wait: Duration,
    /// The longest of them.
    pub max: Duration,
    /// How much of it the thread waited itself that ended the wait.
    pub chained: Duration,
}

/// A wait to be counted.
pub(crate) struct Counted {
    pub(crate) node: NodeIndex,
    pub(crate) weight: Duration,
}

/// The chains of waits.
#[derive(Debug, Default)]
pub struct WaitChains {
    /// By the innermost node of their last stack, and the reason of the wait.
    pub sums: HashMap<(NodeIndex, u8), ChainSum>,
    /// Where threads were left, if switches have that stack.
    left: HashMap<ThreadIndex, Place>,
    /// The ends of waits of threads that do not run yet, and when these began.
    ends: HashMap<ThreadIndex, (FileTime, End)>,
    /// The last wait of each thread.
    last: HashMap<ThreadIndex, Arc<Wait>>,
}

impl Place {
    /// Returns the place of a thread whose event has these frames.
    pub(crate) fn new(
        thread: ThreadIndex,
        frames: &[u64],
        addresses: &Addresses,
        processes: &Processes,
    ) -> Place {
        let version = addresses.versions.now(processes.thread(thread).process);
        Place { thread, version, frames: frames.into() }
    }

    /// Returns the node of the stack after another one, and whether the tree was full before it was reached.
    fn append(
        &self,
        tree: &mut StackTree,
        parent: CallerNode,
        addresses: &Addresses,
        processes: &Processes,
    ) -> (CallerNode, bool) {
        tree.extend(parent, (self.thread, self.version), &self.frames, processes, addresses)
    }
}

impl WaitChains {
    /// Records that a thread was made ready. `at` is the place of the event.
    pub(crate) fn ready(
        &mut self,
        Readied { thread, since, by }: Readied,
        time: FileTime,
        at: Option<Place>,
        addresses: &Addresses,
    ) {
        let (at, before) = match by {
            ReadiedBy::Thread(by) => {
                let last = self.last.get(&by);
                let last = last.filter(|last| last.end.time > since && last.length < MAX_WAITS);
                (at.filter(|at| at.thread == by), last.cloned())
            }
            // What was interrupted has no part in it.
            ReadiedBy::Interrupt => (at.map(|at| at.of_kernel(addresses)), None),
            ReadiedBy::Unknown | ReadiedBy::Nobody => (None, None),
        };
        self.ends.insert(thread, (since, End { time, by, at, before }));
    }

    /// Records that a thread was left at a place.
    pub(crate) fn leave(&mut self, at: Place) {
        self.left.insert(at.thread, at);
    }

    /// Adds the wait of the thread that a switch goes to; `at` is its place now. Returns what to count.
    pub(crate) fn enter(
        &mut self,
        switched: &Switched,
        time: FileTime,
        at: Option<Place>,
        tree: &mut StackTree,
        (addresses, processes, window): (&Addresses, &Processes, &Window),
    ) -> Option<Counted> {
        let Switched { to, waited, reason, readied_by, .. } = *switched;
        let (left, end) = (self.left.remove(&to), self.ends.remove(&to));
        let reason = reason.filter(|_| readied_by != ReadiedBy::Nobody)?;
        let begun = FileTime(time.0.saturating_sub_unsigned(waited.0));
        let unknown = End { time, by: ReadiedBy::Unknown, at: None, before: None };
        let (since, end) = end.unwrap_or((begun, unknown));
        let at = at.or(left).unwrap_or_else(|| Place::new(to, &[], addresses, processes));
        let length = 1 + end.before.as_ref().map_or(0, |before| before.length);
        let wait = Arc::new(Wait { at, since, end, length });
        self.last.insert(to, Arc::clone(&wait));
        if waited == Duration::default() {
            return None;
        }
        let node = wait.node(tree, addresses, processes)?;
        let sum = self.sums.entry((node, reason)).or_default();
        sum.count += 1;
        sum.wait += waited;
        sum.max = sum.max.max(waited);
        if let Some(before) = &wait.end.before {
            sum.chained += window.part(before.since.max(wait.since), before.end.time.min(wait.end.time));
        }
        Some(Counted { node, weight: waited })
    }
}

impl Place {
    /// Returns the place without the frames of the program.
    fn of_kernel(self, addresses: &Addresses) -> Place {
        let frames = self.frames.iter().copied().take_while(|frame| addresses.is_kernel(*frame)).collect();
        Place { frames, ..self }
    }
}

impl Wait {
    /// Returns the innermost node of the chain's last stack; `None` if the tree is full.
    fn node(&self, tree: &mut StackTree, addresses: &Addresses, processes: &Processes) -> Option<NodeIndex> {
        let mut parent = CallerNode::Thread(self.at.thread);
        let mut wait = self;
        let mut is_cut;
        loop {
            (parent, is_cut) = wait.at.append(tree, parent, addresses, processes);
            let link = if is_cut { None } else { tree.link(parent, WaitLink::Readied(wait.end.by)) };
            is_cut = link.is_none();
            parent = link.map_or(parent, CallerNode::Node);
            if let Some(at) = wait.end.at.as_ref().filter(|_| !is_cut) {
                (parent, is_cut) = at.append(tree, parent, addresses, processes);
            }
            let Some(before) = wait.end.before.as_ref().filter(|_| !is_cut) else { break };
            let Some(link) = tree.link(parent, WaitLink::Waited) else {
                is_cut = true;
                break;
            };
            (parent, wait) = (CallerNode::Node(link), before);
        }
        tree.cut += u64::from(is_cut);
        match parent {
            CallerNode::Node(node) => Some(node),
            CallerNode::Thread(_) => None,
        }
    }
}
