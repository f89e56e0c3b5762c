//! Images and the stacks through them, shared by all sessions.

use std::time::{Duration, Instant};

use etw_capture::TracingCode;
use etw_capture::capture::Capture;
use etw_capture::images::{ImageStep, Images};
use etw_capture::records::{Body, Event};
use etw_capture::unwind::{StackUnwinder, UnwindCounts};
use etw_kernel_events::StackKinds;
use etw_kernel_events::classes::MAX_FRAMES;

/// Time limit for one search for images.
const MOMENT: Duration = Duration::from_millis(2);

/// The images of each process, while a session needs them, and the addresses of the last stack.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    images: Option<Images>,
    unwinder: StackUnwinder,
    tracing: Option<&'static TracingCode>,
    frames: Vec<u64>,
}

impl Stacks {
    /// Prepares for stacks of these events.
    pub(crate) fn expect(&mut self, kinds: StackKinds) {
        if kinds.0 & !StackKinds::SAMPLES.0 != 0 {
            self.tracing = Some(TracingCode::of_this_boot());
        }
    }

    /// Searches for already loaded images for a moment, and returns whether there are more to find.
    pub(crate) fn find_images(&mut self) -> bool {
        let begun = Instant::now();
        let Some(images) = &mut self.images else { return false };
        while images.go_on() {
            if begun.elapsed() > MOMENT {
                return true;
            }
        }
        false
    }

    /// Starts or stops following images.
    pub(crate) fn follow_images(&mut self, is_needed: bool, capture: &Capture) {
        if !is_needed {
            *self = Stacks::default();
        } else if self.images.is_none() {
            self.images = Some(Images::of_this_machine());
            self.unwinder = capture.rules().map(StackUnwinder::new).unwrap_or_default();
        }
    }

    /// Processes an event, and returns the image changes to report; a stack that no session wants yields none. The
    /// events of all processors must come in the order of time.
    pub(crate) fn follow(&mut self, event: &Event<'_>, is_wanted: bool) -> &[ImageStep] {
        let process_id = event.process_id;
        if let Body::Stack(stack) = event.body {
            self.frames.clear();
            if !is_wanted {
                return &[];
            }
            let tracing = self.tracing.filter(|_| !stack.is_of_sample);
            let skipped = tracing.map_or(0, |tracing| tracing.frames_of(stack.kernel()));
            self.frames.extend(stack.kernel().skip(skipped));
            let images = self.images.as_mut().map_or(&[][..], |images| images.of(process_id));
            self.unwinder.unwind(process_id, images, &stack, &mut self.frames);
            // Without unwind data, frame pointers end at zero.
            let end = self.frames.iter().position(|frame| *frame == 0);
            self.frames.truncate(end.unwrap_or(self.frames.len()));
            return self.tell_images(process_id);
        }
        if matches!(event.body, Body::Exit { process_code: Some(_), .. }) {
            self.unwinder.forget(process_id);
        }
        self.images.as_mut().map_or(&[], |images| images.follow(event))
    }

    /// Passes learned unwind data to the kernel programs, and returns whether there was any new to them.
    pub(crate) fn teach(&mut self, capture: &mut Capture) -> bool {
        self.unwinder.teach(capture)
    }

    /// Returns the image changes to report before other events of their process.
    pub(crate) fn tell_images(&mut self, process_id: u32) -> &[ImageStep] {
        self.images.as_mut().map_or(&[], |images| images.tell(process_id))
    }

    /// Returns the counts of stacks so far.
    pub(crate) fn counts(&self) -> UnwindCounts {
        self.unwinder.counts()
    }

    /// Reports how many user stacks were cut since the counts were `before`, by the reason.
    pub(crate) fn cut_since(&self, before: UnwindCounts) -> Vec<String> {
        let now = self.counts();
        let stacks = now.stacks.saturating_sub(before.stacks);
        let cut = now.cut.saturating_sub(before.cut);
        let too_deep = now.too_deep.saturating_sub(before.too_deep);
        let mut reports = Vec::new();
        if cut > 0 {
            let why = "they pass through code without unwind data so far, and are deeper than the copied part (32 KiB; \
                       4 KiB if the kernel's rings are half full)";
            reports.push(format!("{cut} of {stacks} stacks of programs are cut: {why}"));
        }
        if too_deep > 0 {
            let why = "an event has room for no more, so their outermost functions are missing";
            reports.push(format!(
                "{too_deep} of {stacks} stacks of programs have more than {MAX_FRAMES} frames: {why}"
            ));
        }
        reports
    }

    /// Returns the addresses of the last stack: those of the kernel, then those of the program, innermost first.
    pub(crate) fn frames(&self) -> &[u64] {
        &self.frames
    }
}
