//! Call trees: weighted stacks of named frames, what to do with them, and the views of them.

mod comparison;
mod pattern;
mod periods;
mod shape;
mod stacks;
mod tags;
#[cfg(test)]
mod tests;
mod view;

pub use comparison::{Change, Comparison};
pub use pattern::FramePattern;
pub use shape::TreeShape;
pub use stacks::{FrameIndex, NamedStacks, StackFrame, StackIndex, WeightSum, WeightUnit};
pub use tags::{StackTags, StackTagsError};
pub use view::{CallNode, CallTree, TreeView};
