//! Weighted stacks of named frames.

use std::fmt;
use std::ops::AddAssign;

use etw_machine::HashMap;

/// Number of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameIndex(u32);

/// Number of a stack: of its innermost frame with all its callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackIndex(u32);

impl FrameIndex {
    pub(super) fn new(index: usize) -> FrameIndex {
        FrameIndex(index as u32)
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

impl StackIndex {
    pub(super) fn new(index: usize) -> StackIndex {
        StackIndex(index as u32)
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The unit of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightUnit {
    /// Units of 100 ns.
    Time,
    /// Bytes.
    Bytes,
    /// A number of events.
    Count,
}

/// What stacks weigh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WeightSum {
    /// Weight in the unit of the stacks.
    pub weight: u64,
    /// Number of samples or other events.
    pub count: u64,
}

impl WeightSum {
    /// Returns whether nothing was counted.
    pub fn is_zero(self) -> bool {
        self == WeightSum::default()
    }

    /// Returns the share of `all` in percent; that of the events if nothing has a weight.
    pub fn percent_of(self, all: WeightSum) -> f64 {
        let percent = |part: u64, whole: u64| part as f64 * 100.0 / whole as f64;
        match (all.weight, all.count) {
            (0, 0) => 0.0,
            (0, count) => percent(self.count, count),
            (weight, _) => percent(self.weight, weight),
        }
    }
}

impl AddAssign for WeightSum {
    fn add_assign(&mut self, other: WeightSum) {
        self.weight = self.weight.saturating_add(other.weight);
        self.count = self.count.saturating_add(other.count);
    }
}

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Process,
    Function,
    Tag,
    Step,
}

/// A frame of a stack: a function, or the process around all functions.
///
/// It is shown as `module!function`. A function without a name is `module!?`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StackFrame {
    kind: Kind,
    module: Option<Box<str>>,
    name: Option<Box<str>>,
    is_system: bool,
}

impl StackFrame {
    /// Returns the frame of a process.
    pub fn process(name: Option<&str>) -> StackFrame {
        StackFrame { kind: Kind::Process, module: None, name: name.map(Into::into), is_system: false }
    }

    /// Returns the frame of a function. `is_system` is whether its module is a part of the system.
    pub fn function(module: Option<&str>, name: Option<&str>, is_system: bool) -> StackFrame {
        let [module, name] = [module, name].map(|text| text.map(Into::into));
        StackFrame { kind: Kind::Function, module, name, is_system }
    }

    /// Returns the frame that stands for functions with a tag.
    pub(super) fn tag(name: &str) -> StackFrame {
        StackFrame { kind: Kind::Tag, module: None, name: Some(name.into()), is_system: false }
    }

    /// Returns the frame between the stack of a wait and that of what ended it.
    pub fn step(text: &str) -> StackFrame {
        StackFrame { kind: Kind::Step, module: None, name: Some(text.into()), is_system: false }
    }

    /// Returns the module of a function.
    pub fn module(&self) -> Option<&str> {
        self.module.as_deref()
    }

    /// Returns the name of the function, process or tag, or the text of another frame.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns whether the frame is a process.
    pub fn is_process(&self) -> bool {
        self.kind == Kind::Process
    }

    /// Returns whether the frame is a function.
    pub fn is_function(&self) -> bool {
        self.kind == Kind::Function
    }

    /// Returns whether the module is a part of the system.
    pub fn is_system(&self) -> bool {
        self.is_system
    }
}

impl fmt::Display for StackFrame {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, &self.module, &self.name) {
            (Kind::Function, Some(module), name) => {
                write!(out, "{module}!{}", name.as_deref().unwrap_or("?"))
            }
            (Kind::Function, None, None) => out.write_str("?!?"),
            (_, _, name) => out.write_str(name.as_deref().unwrap_or("?")),
        }
    }
}

/// A frame with its callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) caller: Option<StackIndex>,
    pub(super) frame: FrameIndex,
    /// The weight of stacks that end here.
    pub(super) own: WeightSum,
}

/// Weighted stacks as a tree of named frames, from the outermost to the innermost.
///
/// ```
/// use etw_stacks::{NamedStacks, StackFrame, WeightSum, WeightUnit};
///
/// let mut stacks = NamedStacks::new(WeightUnit::Count);
/// let process = StackFrame::process(Some("make"));
/// let main = StackFrame::function(Some("make"), Some("main"), false);
/// stacks.add([process, main], WeightSum { weight: 3, count: 3 });
/// assert_eq!(stacks.total().weight, 3);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedStacks {
    unit: WeightUnit,
    frames: Vec<StackFrame>,
    /// By all but `is_system`.
    by_frame: HashMap<StackFrame, FrameIndex>,
    /// Callers come before what they call.
    nodes: Vec<Node>,
    by_place: HashMap<(Option<StackIndex>, FrameIndex), StackIndex>,
    /// The weight of stacks in periods, where it is known: number of the period and weight.
    periods: HashMap<StackIndex, Vec<(u32, u64)>>,
    total: WeightSum,
    left_out: WeightSum,
}

impl NamedStacks {
    /// Returns an empty set of stacks.
    pub fn new(unit: WeightUnit) -> NamedStacks {
        NamedStacks {
            unit,
            frames: Vec::new(),
            by_frame: HashMap::default(),
            nodes: Vec::new(),
            by_place: HashMap::default(),
            periods: HashMap::default(),
            total: WeightSum::default(),
            left_out: WeightSum::default(),
        }
    }

    /// Adds a stack, outermost frame first. Stacks without frames are left out.
    pub fn add(&mut self, frames: impl IntoIterator<Item = StackFrame>, sum: WeightSum) {
        let mut caller = None;
        for frame in frames {
            let frame = self.frame_index(frame);
            caller = Some(self.push(caller, frame));
        }
        match caller {
            Some(stack) => self.weigh(stack, sum),
            None => self.left_out += sum,
        }
    }

    /// Returns the number of a frame, which is new or known.
    pub fn frame_index(&mut self, frame: StackFrame) -> FrameIndex {
        let next = FrameIndex(self.frames.len() as u32);
        let key = StackFrame { is_system: false, ..frame.clone() };
        let index = *self.by_frame.entry(key).or_insert(next);
        match self.frames.get_mut(index.index()) {
            // The modules of several files may have one name.
            Some(known) => known.is_system &= frame.is_system,
            None => self.frames.push(frame),
        }
        index
    }

    /// Returns the stack with one more frame, which is new or known.
    pub fn push(&mut self, caller: Option<StackIndex>, frame: FrameIndex) -> StackIndex {
        let next = StackIndex(self.nodes.len() as u32);
        let index = *self.by_place.entry((caller, frame)).or_insert(next);
        if index == next {
            self.nodes.push(Node { caller, frame, own: WeightSum::default() });
        }
        index
    }

    /// Adds to the weight of a stack.
    pub fn weigh(&mut self, stack: StackIndex, sum: WeightSum) {
        if let Some(node) = self.nodes.get_mut(stack.index()) {
            node.own += sum;
            self.total += sum;
        }
    }

    /// Adds to the weight of a stack, as [`NamedStacks::weigh`] does, and to that in one period, for
    /// [`CallTree::periods`](crate::CallTree::periods).
    pub fn weigh_in(&mut self, stack: StackIndex, period: u32, sum: WeightSum) {
        self.weigh(stack, sum);
        self.add_period(stack, period, sum.weight);
    }

    /// Adds the periods of a stack of `other`, whose weight was added.
    pub(super) fn add_periods(&mut self, stack: StackIndex, other: &NamedStacks, of: StackIndex) {
        for (period, weight) in other.periods.get(&of).into_iter().flatten() {
            self.add_period(stack, *period, *weight);
        }
    }

    fn add_period(&mut self, stack: StackIndex, period: u32, weight: u64) {
        let periods = self.periods.entry(stack).or_default();
        match periods.iter_mut().find(|(known, _)| *known == period) {
            Some((_, sum)) => *sum = sum.saturating_add(weight),
            None => periods.push((period, weight)),
        }
    }

    /// Returns the weight of stacks in periods, in no order.
    pub(super) fn periods(&self) -> impl Iterator<Item = (StackIndex, &[(u32, u64)])> {
        self.periods.iter().map(|(stack, periods)| (*stack, periods.as_slice()))
    }

    /// Adds a weight that is in no stack, since it was not selected.
    pub fn leave_out(&mut self, sum: WeightSum) {
        self.left_out += sum;
    }

    /// Returns the unit of weights.
    pub fn unit(&self) -> WeightUnit {
        self.unit
    }

    /// Returns the weight of all stacks.
    pub fn total(&self) -> WeightSum {
        self.total
    }

    /// Returns the weight of what was counted but not selected.
    pub fn left_out(&self) -> WeightSum {
        self.left_out
    }

    /// Returns whether there are no stacks.
    pub fn is_empty(&self) -> bool {
        self.total.is_zero()
    }

    /// Returns all frames; their numbers are their positions.
    pub fn frames(&self) -> &[StackFrame] {
        &self.frames
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the weight of each node with all that it calls.
    pub(super) fn inclusive(&self) -> Vec<WeightSum> {
        let mut sums: Vec<WeightSum> = self.nodes.iter().map(|node| node.own).collect();
        for (index, node) in self.nodes.iter().enumerate().rev() {
            if let Some(caller) = node.caller {
                let sum = sums[index];
                sums[caller.index()] += sum;
            }
        }
        sums
    }

    /// Returns the numbers of the nodes that each node calls, and those without a caller.
    pub(super) fn children(&self) -> (Vec<Vec<usize>>, Vec<usize>) {
        let mut children = vec![Vec::new(); self.nodes.len()];
        let mut roots = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            match node.caller {
                Some(caller) => children[caller.index()].push(index),
                None => roots.push(index),
            }
        }
        (children, roots)
    }

    /// Returns for each node whether it is the outermost of its stack with its frame.
    pub(super) fn are_outermost(&self) -> Vec<bool> {
        let (children, roots) = self.children();
        let mut on_path = vec![0_u32; self.frames.len()];
        let mut are = vec![false; self.nodes.len()];
        // Nodes to enter, and those to leave.
        let mut work: Vec<(usize, bool)> = roots.into_iter().map(|node| (node, true)).collect();
        while let Some((index, is_entry)) = work.pop() {
            let count = &mut on_path[self.nodes[index].frame.index()];
            if !is_entry {
                *count -= 1;
                continue;
            }
            are[index] = *count == 0;
            *count += 1;
            work.push((index, false));
            work.extend(children[index].iter().map(|child| (*child, true)));
        }
        are
    }

    /// Returns the inclusive and the exclusive weight of each frame, by the outermost frame of its stacks, which is their
    /// process. A recursive function counts once for each stack, and a process only for stacks without functions.
    pub fn by_process(&self) -> HashMap<(FrameIndex, FrameIndex), [WeightSum; 2]> {
        let mut sums: HashMap<_, [WeightSum; 2]> = HashMap::default();
        let (inclusive, are_outermost) = (self.inclusive(), self.are_outermost());
        let mut processes: Vec<FrameIndex> = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            let process = node.caller.map_or(node.frame, |caller| processes[caller.index()]);
            processes.push(process);
            let [with_callees, own] = sums.entry((process, node.frame)).or_default();
            *own += node.own;
            if self.frames[node.frame.index()].is_process() {
                *with_callees += node.own;
            } else if are_outermost[index] {
                *with_callees += inclusive[index];
            }
        }
        sums
    }

    /// Returns the frame with a number.
    pub fn frame(&self, index: FrameIndex) -> &StackFrame {
        &self.frames[index.index()]
    }

    /// Calls `each` with every stack that weighs something, its frames outermost first.
    pub fn for_each(&self, mut each: impl FnMut(&[&StackFrame], WeightSum)) {
        let mut frames: Vec<&StackFrame> = Vec::new();
        for node in self.nodes.iter().filter(|node| node.own.count > 0) {
            frames.clear();
            let mut at = Some(node);
            while let Some(node) = at {
                frames.push(self.frame(node.frame));
                at = node.caller.map(|caller| &self.nodes[caller.index()]);
            }
            frames.reverse();
            each(&frames, node.own);
        }
    }

    /// Returns the inclusive and the exclusive weight of each frame. A recursive function counts once for each stack.
    pub fn by_frame(&self) -> Vec<[WeightSum; 2]> {
        let mut sums = vec![[WeightSum::default(); 2]; self.frames.len()];
        let inclusive = self.inclusive();
        let are_outermost = self.are_outermost();
        for (index, node) in self.nodes.iter().enumerate() {
            let [with_callees, own] = &mut sums[node.frame.index()];
            *own += node.own;
            if are_outermost[index] {
                *with_callees += inclusive[index];
            }
        }
        sums
    }
}
