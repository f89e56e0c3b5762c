//! Views of stacks: from the outside, from the inside, around a function, and by name.

use super::pattern::FramePattern;
use super::stacks::{FrameIndex, NamedStacks, StackIndex, WeightSum};

/// A view of stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeView {
    /// From processes and outermost functions to what they call.
    TopDown,
    /// From the functions that did the work to their callers.
    BottomUp,
    /// The callers of the functions that match.
    Callers(FramePattern),
    /// What the functions that match call.
    Callees(FramePattern),
    /// Each function, without callers and callees.
    ByName,
}

/// A node of a call tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallNode {
    /// Number of nodes around it.
    pub depth: usize,
    /// The frame as text, such as `module!function`.
    pub name: String,
    /// Weight of the stacks that go through the node.
    pub inclusive: WeightSum,
    /// Of these, the weight of those that end at it.
    pub exclusive: WeightSum,
    /// Of these, the weight of those that continue in nodes that are left out, since they have little weight.
    pub left_out: WeightSum,
    /// Number of those nodes.
    pub left_out_count: usize,
    /// The frame, unless the node is that of several.
    pub(super) frame: Option<FrameIndex>,
}

/// A call tree: a view of stacks. In each view, the exclusive weights of all nodes and those left out have a sum equal
/// to the weight of the stacks in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallTree {
    /// Weight of all stacks, to which shares refer.
    pub total: WeightSum,
    /// The nodes; each comes before those in it, and the heaviest of several come first.
    pub nodes: Vec<CallNode>,
    /// Weight of outermost nodes that are left out, since they have little weight.
    pub left_out: WeightSum,
    /// Number of those nodes.
    pub left_out_count: usize,
}

/// Nodes of the stacks that are one node of a view, with the weights that go through them.
type Places = Vec<(usize, WeightSum)>;

/// A node to be added to a view, with what is needed for the nodes in it.
struct Work {
    depth: usize,
    name: String,
    /// The frame, unless the node is that of several.
    frame: Option<FrameIndex>,
    inclusive: WeightSum,
    places: Places,
}

impl CallTree {
    /// Returns a view of stacks without nodes that have less than `min_percent` of the weight of all stacks. Of the
    /// nodes in one node, at most `top` are kept.
    pub fn new(stacks: &NamedStacks, view: &TreeView, min_percent: f64, top: usize) -> CallTree {
        let total = stacks.total();
        let mut tree =
            CallTree { total, nodes: Vec::new(), left_out: WeightSum::default(), left_out_count: 0 };
        let limits = Limits { total, min_percent, top };
        let builder = Builder { stacks, inclusive: stacks.inclusive(), limits };
        match view {
            TreeView::TopDown => {
                let (children, roots) = stacks.children();
                let roots = roots.into_iter().map(|node| (node, builder.inclusive[node])).collect();
                builder.build(&mut tree, builder.groups(0, roots), &Direction::Down(children));
            }
            TreeView::BottomUp => {
                let own = stacks.nodes().iter().enumerate().map(|(index, node)| (index, node.own)).collect();
                builder.build(&mut tree, builder.groups(0, own), &Direction::Up);
            }
            TreeView::Callers(pattern) => {
                let places = builder.innermost(pattern);
                builder.build(&mut tree, builder.around(pattern, places), &Direction::Up);
            }
            TreeView::Callees(pattern) => {
                let places = builder.outermost(pattern);
                let (children, _) = stacks.children();
                builder.build(&mut tree, builder.around(pattern, places), &Direction::Down(children));
            }
            TreeView::ByName => builder.by_name(&mut tree),
        }
        tree
    }
}

/// What is left out.
struct Limits {
    total: WeightSum,
    min_percent: f64,
    top: usize,
}

impl Limits {
    /// Sorts nodes, the heaviest first, and removes those with little weight; returns the sum and number of these.
    fn cut<T>(
        &self,
        nodes: &mut Vec<T>,
        key: impl for<'n> Fn(&'n T) -> (WeightSum, &'n str),
    ) -> (WeightSum, usize) {
        nodes.retain(|node| !key(node).0.is_zero());
        nodes.sort_by(|one, other| {
            let ((one, name), (other, other_name)) = (key(one), key(other));
            other.cmp(&one).then_with(|| name.cmp(other_name))
        });
        let is_shown = |node: &T| key(node).0.percent_of(self.total) >= self.min_percent;
        let shown = nodes.iter().take(self.top).take_while(|node| is_shown(node)).count();
        let mut sum = WeightSum::default();
        nodes.iter().skip(shown).for_each(|node| sum += key(node).0);
        let count = nodes.len() - shown;
        nodes.truncate(shown);
        (sum, count)
    }
}

/// The nodes in a node: callees with the callees of each node, or callers.
enum Direction {
    Down(Vec<Vec<usize>>),
    Up,
}

struct Builder<'s> {
    stacks: &'s NamedStacks,
    inclusive: Vec<WeightSum>,
    limits: Limits,
}

impl Builder<'_> {
    /// Adds nodes with all that are in them.
    fn build(&self, tree: &mut CallTree, mut roots: Vec<Work>, direction: &Direction) {
        let key = |work: &Work| -> WeightSum { work.inclusive };
        (tree.left_out, tree.left_out_count) = self.limits.cut(&mut roots, |work| (key(work), &work.name));
        roots.reverse();
        let mut work = roots;
        while let Some(Work { depth, name, frame, inclusive, places }) = work.pop() {
            let mut exclusive = WeightSum::default();
            let mut next: Places = Vec::new();
            for (place, sum) in places {
                let node = &self.stacks.nodes()[place];
                match direction {
                    Direction::Down(children) => {
                        exclusive += node.own;
                        next.extend(children[place].iter().map(|child| (*child, self.inclusive[*child])));
                    }
                    Direction::Up => match node.caller {
                        Some(caller) => next.push((caller.index(), sum)),
                        None => exclusive += sum,
                    },
                }
            }
            let mut inner = self.groups(depth + 1, next);
            let (left_out, left_out_count) =
                self.limits.cut(&mut inner, |work| (key(work), work.name.as_str()));
            tree.nodes.push(CallNode { depth, name, inclusive, exclusive, left_out, left_out_count, frame });
            work.extend(inner.into_iter().rev());
        }
    }

    /// Groups nodes of the stacks by frame.
    fn groups(&self, depth: usize, mut places: Places) -> Vec<Work> {
        let frame = |place: &(usize, WeightSum)| self.stacks.nodes()[place.0].frame;
        places.retain(|(_, sum)| !sum.is_zero());
        places.sort_unstable_by_key(|place| (frame(place), place.0));
        // Several paths inwards may have the same caller.
        places.dedup_by(|next, one| {
            let is_same = next.0 == one.0;
            if is_same {
                one.1 += next.1;
            }
            is_same
        });
        let groups = places.chunk_by(|one, next| frame(one) == frame(next));
        groups
            .filter_map(|group| {
                let frame = frame(group.first()?);
                let name = self.stacks.frames()[frame.index()].to_string();
                let (inclusive, places) = (sum(group), group.to_vec());
                Some(Work { depth, name, frame: Some(frame), inclusive, places })
            })
            .collect()
    }

    /// Returns the one outermost node of a view around functions.
    fn around(&self, pattern: &FramePattern, places: Places) -> Vec<Work> {
        let groups = self.groups(0, places.clone());
        let (name, frame) = match groups.as_slice() {
            [] => return Vec::new(),
            [one] => (one.name.clone(), one.frame),
            several => (format!("{} ({} functions)", pattern.text(), several.len()), None),
        };
        vec![Work { depth: 0, name, frame, inclusive: sum(&places), places }]
    }

    fn matching(&self, pattern: &FramePattern) -> Vec<bool> {
        self.stacks.frames().iter().map(|frame| pattern.matches(frame)).collect()
    }

    /// Returns the innermost node of each stack that matches, with the weight of these stacks.
    fn innermost(&self, pattern: &FramePattern) -> Places {
        let is_match = self.matching(pattern);
        let nodes = self.stacks.nodes();
        let mut sums = vec![WeightSum::default(); nodes.len()];
        let mut found: Vec<Option<usize>> = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let outer = node.caller.and_then(|caller: StackIndex| found[caller.index()]);
            let innermost = if is_match[node.frame.index()] { Some(index) } else { outer };
            found.push(innermost);
            if let Some(innermost) = innermost {
                sums[innermost] += node.own;
            }
        }
        sums.into_iter().enumerate().filter(|(_, sum)| !sum.is_zero()).collect()
    }

    /// Returns the outermost node of each stack that matches, with the weight of these stacks.
    fn outermost(&self, pattern: &FramePattern) -> Places {
        let is_match = self.matching(pattern);
        let mut is_inside: Vec<bool> = Vec::with_capacity(self.stacks.nodes().len());
        let mut places = Vec::new();
        for (index, node) in self.stacks.nodes().iter().enumerate() {
            let is_below = node.caller.is_some_and(|caller| is_inside[caller.index()]);
            let matches = is_match[node.frame.index()];
            is_inside.push(is_below || matches);
            if matches && !is_below {
                places.push((index, self.inclusive[index]));
            }
        }
        places
    }

    fn by_name(&self, tree: &mut CallTree) {
        let frames = self.stacks.frames().iter().zip(self.stacks.by_frame()).enumerate();
        let mut rows: Vec<CallNode> = frames
            .map(|(index, (frame, [inclusive, exclusive]))| CallNode {
                depth: 0,
                name: frame.to_string(),
                inclusive,
                exclusive,
                left_out: WeightSum::default(),
                left_out_count: 0,
                frame: Some(FrameIndex::new(index)),
            })
            .collect();
        // By exclusive weight, of which the sum is the total; but functions with much below them are shown as well.
        rows.retain(|row| !row.inclusive.is_zero());
        rows.sort_by(|one, other| {
            let key = |row: &CallNode| (row.exclusive, row.inclusive);
            key(other).cmp(&key(one)).then_with(|| one.name.cmp(&other.name))
        });
        for (index, row) in rows.into_iter().enumerate() {
            if index < self.limits.top && row.inclusive.percent_of(tree.total) >= self.limits.min_percent {
                tree.nodes.push(row);
            } else {
                tree.left_out += row.exclusive;
                tree.left_out_count += 1;
            }
        }
    }
}

fn sum(places: &[(usize, WeightSum)]) -> WeightSum {
    let mut sum = WeightSum::default();
    places.iter().for_each(|(_, one)| sum += *one);
    sum
}
