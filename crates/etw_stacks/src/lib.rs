//! Events counted by their stacks, and trees of calls with the names of functions.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! [`ByStack`] counts a [`StackWeight`] of the events of a trace in a [`StackTree`] of addresses. With names it is
//! [`NamedStacks`], whose frames can be folded and grouped, and of which [`CallTree`] is a view.
//!
//! ```no_run
//! use etw_consumer::Trace;
//! use etw_machine::{Model, Window};
//! use etw_stacks::{ByStack, StackWeight};
//!
//! let mut trace = Trace::open_file("trace.etl")?;
//! let stacks = trace.stacks()?;
//! let (mut model, mut waits) = (Model::new(Window::ALL), ByStack::new(StackWeight::Waits));
//! trace.for_each_event(|event| {
//!     let fact = model.add(event).fact;
//!     waits.add(event, &stacks.of(event.record), fact.as_ref(), &mut model);
//! })?;
//! println!("{} waits at {} places", waits.all.count, waits.tree.nodes().len());
//! # Ok::<(), etw_consumer::TraceError>(())
//! ```

#![forbid(unsafe_code)]

mod by_stack;
mod call_tree;
mod stacks;
mod wait_chains;
mod weight;

pub use by_stack::ByStack;
pub use call_tree::{
    CallNode, CallTree, Change, Comparison, FrameIndex, FramePattern, NamedStacks, StackFrame, StackIndex,
    StackTags, StackTagsError, TreeShape, TreeView, WeightSum, WeightUnit,
};
pub use stacks::{AddressNode, CallerNode, NodeIndex, SampleCount, StackTree, WaitLink};
pub use wait_chains::{ChainSum, WaitChains};
pub use weight::StackWeight;
