//! Fuzz body for stack tags.

use std::hint::black_box;

use etw_analysis::{NamedStacks, StackFrame, StackTags, WeightSum, WeightUnit};

/// Parses a file of stack tags, and names stacks whose functions it may know.
pub fn stack_tags(bytes: &[u8]) {
    let mut tags = StackTags::default();
    if let Err(error) = tags.add_file(bytes) {
        return drop(black_box(error.to_string()));
    }
    // The last of two files has priority over the first.
    drop(black_box(tags.add_file(bytes)));
    let mut stacks = NamedStacks::new(WeightUnit::Count);
    let function = |module, name| StackFrame::function(Some(module), Some(name), false);
    for inner in [("ntdll.dll", "RtlAllocateHeap"), ("clr.dll", "gc_heap"), ("app.exe", "WinMain")] {
        let frames = [
            StackFrame::process(Some("app.exe")),
            function("ntdll.dll", "RtlUserThreadStart"),
            function("rpcrt4.dll", "Invoke"),
            function(inner.0, inner.1),
            function(inner.0, inner.1),
        ];
        stacks.add(frames, WeightSum { weight: 1, count: 1 });
    }
    assert_eq!(tags.name_frames(&stacks).total(), stacks.total());
    assert_eq!(tags.name_stacks(&stacks).total(), stacks.total());
}
