//! When the stacks of a call tree were seen: the weight of each node in each period.

use etw_machine::HashMap;

use super::stacks::{FrameIndex, NamedStacks, StackIndex};
use super::view::{CallTree, TreeView};

impl CallTree {
    /// Returns the inclusive weight of each node in each of the periods 0 to `count` - 1, in the order of the nodes.
    ///
    /// `stacks` and `view` are those that the tree was made of. Weights that were added without a period
    /// ([`NamedStacks::weigh`]) are in none.
    #[must_use]
    pub fn periods(&self, stacks: &NamedStacks, view: &TreeView, count: usize) -> Vec<Vec<u64>> {
        let mut sums = vec![vec![0_u64; count]; self.nodes.len()];
        if self.nodes.is_empty() {
            return sums;
        }
        let places = self.places();
        let matching = match view {
            TreeView::Callers(pattern) | TreeView::Callees(pattern) => {
                stacks.frames().iter().map(|frame| pattern.matches(frame)).collect()
            }
            _ => Vec::new(),
        };
        let is_match = |frame: &FrameIndex| matching.get(frame.index()) == Some(&true);
        let mut path: Vec<FrameIndex> = Vec::new();
        let mut found: Vec<usize> = Vec::new();
        for (stack, periods) in stacks.periods() {
            // Innermost first.
            path.clear();
            let mut at = Some(stack);
            while let Some(node) = at.and_then(|stack: StackIndex| stacks.nodes().get(stack.index())) {
                path.push(node.frame);
                at = node.caller;
            }
            found.clear();
            match view {
                TreeView::TopDown => follow(&places, None, path.iter().rev(), &mut found),
                TreeView::BottomUp => follow(&places, None, path.iter(), &mut found),
                TreeView::Callers(_) => {
                    if let Some(place) = path.iter().position(is_match) {
                        found.push(0);
                        follow(&places, Some(0), path.iter().skip(place + 1), &mut found);
                    }
                }
                TreeView::Callees(_) => {
                    if let Some(place) = path.iter().rposition(is_match) {
                        found.push(0);
                        follow(&places, Some(0), path.iter().take(place).rev(), &mut found);
                    }
                }
                TreeView::ByName => {
                    // A recursive function counts once.
                    path.sort_unstable();
                    path.dedup();
                    found.extend(path.iter().filter_map(|frame| places.get(&(None, *frame))));
                }
            }
            for node in &found {
                let Some(sums) = sums.get_mut(*node) else { continue };
                for (period, weight) in periods {
                    if let Some(sum) = sums.get_mut(*period as usize) {
                        *sum = sum.saturating_add(*weight);
                    }
                }
            }
        }
        sums
    }

    /// Returns the number of each node by the node around it and its frame.
    fn places(&self) -> HashMap<(Option<usize>, FrameIndex), usize> {
        let mut places = HashMap::default();
        let mut around: Vec<usize> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            around.truncate(node.depth);
            if let Some(frame) = node.frame {
                places.insert((around.last().copied(), frame), index);
            }
            around.push(index);
        }
        places
    }
}

/// Adds the nodes on a path from the node `from` inwards, as far as the tree has them.
fn follow<'f>(
    places: &HashMap<(Option<usize>, FrameIndex), usize>,
    from: Option<usize>,
    path: impl Iterator<Item = &'f FrameIndex>,
    found: &mut Vec<usize>,
) {
    let mut at = from;
    for frame in path {
        let Some(node) = places.get(&(at, *frame)) else { return };
        found.push(*node);
        at = Some(*node);
    }
}
