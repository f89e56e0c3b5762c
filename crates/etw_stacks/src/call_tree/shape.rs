//! What is done with stacks before they are shown: selecting, folding, naming and grouping.

use super::pattern::FramePattern;
use super::stacks::{FrameIndex, NamedStacks, StackFrame, StackIndex, WeightSum};
use super::tags::StackTags;

/// What is done with stacks before they are shown, in the order of the fields.
#[derive(Debug, Clone, Default)]
pub struct TreeShape {
    /// If not empty, only stacks with a frame that matches one of these patterns are kept.
    pub include: Vec<FramePattern>,
    /// Stacks with a frame that matches one of these patterns are left out.
    pub exclude: Vec<FramePattern>,
    /// Functions that match one of these patterns become a part of their callers.
    pub fold: Vec<FramePattern>,
    /// Names for functions.
    pub tags: StackTags,
    /// Whether functions in a row of one module become `module!?` if the module is a part of the system.
    pub just_my_code: bool,
    /// Functions in a row of one module become `module!?` if the module matches one of these patterns.
    pub group_modules: Vec<FramePattern>,
    /// Functions whose inclusive weight is below this part of all, in percent, become a part of their callers.
    pub fold_percent: f64,
}

impl TreeShape {
    /// Returns the stacks in this shape.
    #[must_use]
    pub fn apply(&self, stacks: &NamedStacks) -> NamedStacks {
        let mut shaped = self.select(stacks);
        if !self.tags.is_empty() {
            shaped = self.tags.name_frames(&shaped);
        }
        if self.just_my_code || !self.group_modules.is_empty() {
            shaped = self.group(&shaped);
        }
        if self.fold_percent > 0.0 {
            shaped = fold_small(&shaped, self.fold_percent);
        }
        shaped
    }

    /// Selects stacks by their frames, and folds functions by pattern.
    pub fn select(&self, stacks: &NamedStacks) -> NamedStacks {
        let matching = |patterns: &[FramePattern]| -> Vec<bool> {
            let frames = stacks.frames().iter();
            frames.map(|frame| patterns.iter().any(|pattern| pattern.matches(frame))).collect()
        };
        let (include, exclude, fold) =
            (matching(&self.include), matching(&self.exclude), matching(&self.fold));
        let mut is_wanted: Vec<(bool, bool)> = Vec::with_capacity(stacks.nodes().len());
        let mut left_out = WeightSum::default();
        let mut shaped = rebuild(stacks, |index, frame, own| {
            let caller = stacks.nodes()[index].caller.map(|caller| is_wanted[caller.index()]);
            let (included, excluded) = caller.unwrap_or((self.include.is_empty(), false));
            let included = included || include[frame.index()];
            let excluded = excluded || exclude[frame.index()];
            is_wanted.push((included, excluded));
            if !included || excluded {
                left_out += std::mem::take(own);
            }
            match fold[frame.index()] && stacks.frames()[frame.index()].is_function() {
                true => Rebuilt::Caller,
                false => Rebuilt::Same,
            }
        });
        shaped.leave_out(left_out);
        shaped
    }

    /// Groups functions by module.
    fn group(&self, stacks: &NamedStacks) -> NamedStacks {
        let is_grouped = |frame: &StackFrame| {
            let Some(module) = frame.module().filter(|_| frame.is_function()) else { return false };
            let module = StackFrame::process(Some(module));
            (self.just_my_code && frame.is_system())
                || self.group_modules.iter().any(|pattern| pattern.matches(&module))
        };
        let groups: Vec<Option<StackFrame>> = stacks
            .frames()
            .iter()
            .map(|frame| {
                is_grouped(frame).then(|| StackFrame::function(frame.module(), None, frame.is_system()))
            })
            .collect();
        rebuild(stacks, |index, frame, _| {
            let Some(group) = &groups[frame.index()] else { return Rebuilt::Same };
            let caller = stacks.nodes()[index].caller.map(|caller| stacks.nodes()[caller.index()].frame);
            let around = caller.and_then(|caller| groups[caller.index()].as_ref());
            let is_same = around.is_some_and(|around| around.module() == group.module());
            if is_same { Rebuilt::Caller } else { Rebuilt::Frame(group.clone()) }
        })
    }
}

/// What a frame becomes.
enum Rebuilt {
    Same,
    /// A part of its caller.
    Caller,
    Frame(StackFrame),
}

/// Rebuilds stacks: `each` gets the number of a node, its frame and its own weight, callers first. What becomes a part
/// of a caller that does not exist is left out.
fn rebuild(
    stacks: &NamedStacks,
    mut each: impl FnMut(usize, FrameIndex, &mut WeightSum) -> Rebuilt,
) -> NamedStacks {
    let mut rebuilt = NamedStacks::new(stacks.unit());
    rebuilt.leave_out(stacks.left_out());
    let mut places: Vec<Option<StackIndex>> = Vec::with_capacity(stacks.nodes().len());
    for (index, node) in stacks.nodes().iter().enumerate() {
        let caller = node.caller.and_then(|caller| places[caller.index()]);
        let mut own = node.own;
        let push = |rebuilt: &mut NamedStacks, frame| {
            let frame = rebuilt.frame_index(frame);
            Some(rebuilt.push(caller, frame))
        };
        let place = match each(index, node.frame, &mut own) {
            Rebuilt::Caller => caller,
            Rebuilt::Same => push(&mut rebuilt, stacks.frames()[node.frame.index()].clone()),
            Rebuilt::Frame(frame) => push(&mut rebuilt, frame),
        };
        match place {
            Some(place) => {
                rebuilt.weigh(place, own);
                if !own.is_zero() {
                    rebuilt.add_periods(place, stacks, StackIndex::new(index));
                }
            }
            None => rebuilt.leave_out(own),
        }
        places.push(place);
    }
    rebuilt
}

/// Makes functions with little weight a part of their callers.
fn fold_small(stacks: &NamedStacks, percent: f64) -> NamedStacks {
    let (sums, total) = (stacks.by_frame(), stacks.total());
    rebuild(stacks, |index, frame, _| {
        let [inclusive, _] = sums[frame.index()];
        let is_small = inclusive.percent_of(total) < percent;
        let has_caller = stacks.nodes()[index].caller.is_some();
        if is_small && has_caller { Rebuilt::Caller } else { Rebuilt::Same }
    })
}
