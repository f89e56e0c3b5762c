//! Stacks of samples.

use etw_perf_data::{Sample, context};

use super::images::Images;

/// The stack of a sample: addresses, innermost first.
#[derive(Debug, Default)]
pub(super) struct Stack {
    frames: Vec<u64>,
}

impl Stack {
    /// Reads the stack of a sample, and returns whether it is complete as far as the file goes.
    pub(super) fn read(&mut self, sample: &Sample<'_>, images: &mut Images<'_>) -> bool {
        self.frames.clear();
        let chain = sample.call_chain.iter().flat_map(|chain| chain.iter());
        self.frames.extend(chain.filter(|address| *address < context::FIRST));
        // Without unwind data, frame pointers end at zero.
        while self.frames.pop_if(|address| *address == 0).is_some() {}
        let is_unwound = sample.user_registers.is_some() && sample.user_stack.is_some();
        !is_unwound || images.unwind(sample, &mut self.frames)
    }

    /// Returns the addresses.
    pub(super) fn frames(&self) -> &[u64] {
        &self.frames
    }
}
