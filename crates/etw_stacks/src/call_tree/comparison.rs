//! The difference of two sets of stacks.

use super::stacks::{FrameIndex, NamedStacks, StackFrame, StackIndex, WeightSum};

/// What something weighs before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The process, function or stack; a stack as its frames, the outermost first, separated by `;`.
    pub name: String,
    /// Number of nodes around it in a tree; 0 in lists.
    pub depth: usize,
    /// Weight before and after, with what it calls.
    pub inclusive: [WeightSum; 2],
    /// Weight before and after, without what it calls.
    pub exclusive: [WeightSum; 2],
}

/// Two sets of stacks, joined by the names of their frames.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// All stacks of both; their weights are the sums.
    both: NamedStacks,
    /// The own weight of each stack, before and after.
    own: Vec<[WeightSum; 2]>,
    totals: [WeightSum; 2],
}

impl Comparison {
    /// Joins stacks before and after.
    pub fn new(before: &NamedStacks, after: &NamedStacks) -> Comparison {
        let mut both = NamedStacks::new(before.unit());
        let mut own: Vec<[WeightSum; 2]> = Vec::new();
        for (side, stacks) in [before, after].into_iter().enumerate() {
            let frames: Vec<FrameIndex> =
                stacks.frames().iter().map(|frame| both.frame_index(frame.clone())).collect();
            let mut places: Vec<StackIndex> = Vec::with_capacity(stacks.nodes().len());
            for node in stacks.nodes() {
                let caller = node.caller.and_then(|caller| places.get(caller.index()).copied());
                let place = both.push(caller, frames[node.frame.index()]);
                both.weigh(place, node.own);
                if own.len() <= place.index() {
                    own.resize(place.index() + 1, [WeightSum::default(); 2]);
                }
                own[place.index()][side] += node.own;
                places.push(place);
            }
        }
        Comparison { both, own, totals: [before.total(), after.total()] }
    }

    /// Returns the weight of all stacks before and after.
    pub fn totals(&self) -> [WeightSum; 2] {
        self.totals
    }

    /// Returns each process, in no order.
    pub fn processes(&self) -> Vec<Change> {
        self.by_frame(StackFrame::is_process)
    }

    /// Returns each function, in no order. A recursive function counts once for each stack.
    pub fn functions(&self) -> Vec<Change> {
        self.by_frame(|frame| !frame.is_process())
    }

    /// Returns the weight before and after of all stacks with a frame that is wanted, in `inclusive`, and of those that
    /// end in one, in `exclusive`; `None` if no stack has one.
    pub fn of_frames(&self, wanted: impl Fn(&StackFrame) -> bool) -> Option<[[WeightSum; 2]; 2]> {
        let wanted: Vec<bool> = self.both.frames().iter().map(wanted).collect();
        let mut has_it: Vec<bool> = Vec::with_capacity(self.own.len());
        let [mut inclusive, mut exclusive] = [[WeightSum::default(); 2]; 2];
        for (node, own) in self.both.nodes().iter().zip(&self.own) {
            let is_it = wanted[node.frame.index()];
            let has = is_it || node.caller.is_some_and(|caller| has_it[caller.index()]);
            has_it.push(has);
            for side in 0..2 {
                if has {
                    inclusive[side] += own[side];
                }
                if is_it {
                    exclusive[side] += own[side];
                }
            }
        }
        has_it.contains(&true).then_some([inclusive, exclusive])
    }

    /// Returns each stack that has a weight of its own, in no order, if `wanted` says so of its weight before and after.
    pub fn stacks(&self, wanted: impl Fn([WeightSum; 2]) -> bool) -> Vec<Change> {
        let own = self.own.iter().enumerate();
        let own = own.filter(|(_, own)| own.iter().any(|sum| !sum.is_zero()) && wanted(**own));
        own.map(|(index, own)| {
            let mut names = Vec::new();
            let mut at = Some(index);
            while let Some(node) = at.and_then(|index| self.both.nodes().get(index)) {
                names.push(self.both.frames()[node.frame.index()].to_string().replace(';', ":"));
                at = node.caller.map(StackIndex::index);
            }
            names.reverse();
            Change { name: names.join(";"), depth: 0, inclusive: *own, exclusive: *own }
        })
        .collect()
    }

    /// Returns the tree from the outside inwards, without nodes that have less than `min_percent` of the weight before
    /// and of that after. Each node comes before those in it; the heaviest of several come first.
    pub fn tree(&self, min_percent: f64) -> Vec<Change> {
        let inclusive = self.inclusive();
        let (children, roots) = self.both.children();
        let is_shown = |index: &usize| {
            let percent = |side: usize| inclusive[*index][side].percent_of(self.totals[side]);
            inclusive[*index].iter().any(|sum| !sum.is_zero()) && percent(0).max(percent(1)) >= min_percent
        };
        let name = |index: usize| self.both.frames()[self.both.nodes()[index].frame.index()].to_string();
        // The lightest comes first, since the last is taken first.
        let sorted = |nodes: &[usize], depth: usize| {
            let mut nodes: Vec<_> = nodes
                .iter()
                .filter(|index| is_shown(index))
                .map(|index| {
                    let mut weight = inclusive[*index][0];
                    weight += inclusive[*index][1];
                    (weight, std::cmp::Reverse(name(*index)), *index, depth)
                })
                .collect();
            nodes.sort();
            nodes
        };
        let mut work = sorted(&roots, 0);
        let mut tree = Vec::new();
        while let Some((_, std::cmp::Reverse(name), index, depth)) = work.pop() {
            let (inclusive, exclusive) = (inclusive[index], self.own[index]);
            tree.push(Change { name, depth, inclusive, exclusive });
            work.extend(sorted(&children[index], depth + 1));
        }
        tree
    }

    /// Returns the weight before and after of each node with all that it calls.
    fn inclusive(&self) -> Vec<[WeightSum; 2]> {
        let mut inclusive = self.own.clone();
        for (index, node) in self.both.nodes().iter().enumerate().rev() {
            let Some(caller) = node.caller else { continue };
            let sums = inclusive[index];
            add(&mut inclusive[caller.index()], sums);
        }
        inclusive
    }

    fn by_frame(&self, wanted: impl Fn(&StackFrame) -> bool) -> Vec<Change> {
        let inclusive = self.inclusive();
        let are_outermost = self.both.are_outermost();
        let mut sums = vec![[[WeightSum::default(); 2]; 2]; self.both.frames().len()];
        for (index, node) in self.both.nodes().iter().enumerate() {
            let [with_callees, own] = &mut sums[node.frame.index()];
            add(own, self.own[index]);
            if are_outermost[index] {
                add(with_callees, inclusive[index]);
            }
        }
        let frames = self.both.frames().iter().zip(sums);
        let frames = frames
            .filter(|(frame, [inclusive, _])| wanted(frame) && inclusive.iter().any(|sum| !sum.is_zero()));
        frames
            .map(|(frame, [inclusive, exclusive])| Change {
                name: frame.to_string(),
                depth: 0,
                inclusive,
                exclusive,
            })
            .collect()
    }
}

fn add(sums: &mut [WeightSum; 2], others: [WeightSum; 2]) {
    sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
}
