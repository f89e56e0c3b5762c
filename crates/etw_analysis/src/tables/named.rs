//! Stacks with the names of their functions.

use etw_machine::{Code, ProcessIndex, ThreadIndex};
use etw_stacks::{CallerNode, FrameIndex, NamedStacks, StackFrame, StackIndex, WeightSum};
use etw_tables::ReportContext;

use super::functions::{Weighed, link_text, space};

/// Returns the stacks of selected threads with the names of processes and functions. Inlined functions have frames of
/// their own.
///
/// Time of the idle process is left out, unless it is selected.
pub(crate) fn named(stacks: Weighed<'_>, context: &ReportContext<'_>) -> NamedStacks {
    let mut named = NamedStacks::new(stacks.unit());
    let mut places: Vec<Option<StackIndex>> = Vec::with_capacity(stacks.tree.nodes().len());
    let threads = stacks.tree.threads();
    for (index, (node, thread)) in stacks.tree.nodes().iter().zip(threads).enumerate() {
        let around = match node.parent {
            CallerNode::Node(around) => places[around.index()],
            CallerNode::Thread(root) => process(&mut named, root, stacks, context),
        };
        let sum = WeightSum { weight: node.weight.0, count: node.count };
        let Some(around) = around else {
            named.leave_out(sum);
            places.push(None);
            continue;
        };
        let space = space(node, thread, stacks.addresses, context.processes);
        let mut place = around;
        if let Some(link) = stacks.tree.link_at(index) {
            let frame = named.frame_index(StackFrame::step(&link_text(link, context)));
            place = named.push(Some(place), frame);
        } else if let Some(code) = context.names.code(space, node.address) {
            for frame in frames(&mut named, code, context) {
                place = named.push(Some(place), frame);
            }
        }
        named.weigh(place, sum);
        places.push(Some(place));
    }
    named
}

/// Returns the stack that consists of a thread's process; `None` if it is not selected.
fn process(
    named: &mut NamedStacks,
    thread: ThreadIndex,
    stacks: Weighed<'_>,
    context: &ReportContext<'_>,
) -> Option<StackIndex> {
    let process: Option<ProcessIndex> = context.processes.thread(thread).process;
    let is_idle = context.is_idle(process) && stacks.is_time_of_threads() && context.filter.is_empty();
    if is_idle || !context.wants_thread(thread) {
        return None;
    }
    let name = process.and_then(|process| context.processes.process(process).shown_name());
    let frame = named.frame_index(StackFrame::process(name));
    Some(named.push(None, frame))
}

/// Returns the frames at an address, the outermost first.
fn frames(named: &mut NamedStacks, code: &Code, context: &ReportContext<'_>) -> Vec<FrameIndex> {
    let module = context.names.get(code.function).module.as_deref();
    if code.frames.is_empty() {
        return vec![named.frame_index(StackFrame::function(module, None, code.is_system))];
    }
    let frames = code.frames.iter().rev().map(|frame| {
        // The names of methods of .NET have their module already.
        let (module, name) = match frame.function.split_once('!').filter(|_| code.is_managed) {
            Some((module, name)) => (Some(module), name),
            None => (module, &*frame.function),
        };
        StackFrame::function(module, Some(name), code.is_system)
    });
    frames.map(|frame| named.frame_index(frame)).collect()
}
