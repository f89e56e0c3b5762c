//! Images, and the stacks that lead through them, for all sessions together.

use std::time::{Duration, Instant};

use etw_kernel::capture::Capture;
use etw_kernel::images::{ImageStep, Images};
use etw_kernel::records::{Body, Event};
use etw_kernel::unwind::{StackUnwinder, UnwindCounts};
use etw_kernel::{StackKinds, TracingCode};

/// How long images are looked for at once.
const MOMENT: Duration = Duration::from_millis(2);

/// What images each process has, as long as somebody needs that, and stacks as addresses.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    images: Option<Images>,
    unwinder: StackUnwinder,
    tracing: Option<&'static TracingCode>,
    frames: Vec<u64>,
}

impl Stacks {
    /// Will be given stacks of these events.
    pub(crate) fn expect(&mut self, kinds: StackKinds) {
        if kinds.0 & !StackKinds::SAMPLES.0 != 0 {
            self.tracing = Some(TracingCode::of_this_boot());
        }
    }

    /// Finds out, for a moment, which images are there already; answers whether there is more to find out.
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

    /// Begins or ends to follow images.
    pub(crate) fn follow_images(&mut self, is_needed: bool, capture: &Capture) {
        if !is_needed {
            *self = Stacks::default();
        } else if self.images.is_none() {
            self.images = Some(Images::of_this_machine());
            self.unwinder = capture.rules().map(StackUnwinder::of).unwrap_or_default();
        }
    }

    /// Takes in an event, and answers what is to be told of images; of a stack that nobody wants nothing. The events of
    /// all processors come in the order of time.
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
            // Where there is nothing to go by, frame pointers lead to nowhere.
            let end = self.frames.iter().position(|frame| *frame == 0);
            self.frames.truncate(end.unwrap_or(self.frames.len()));
            return self.tell_images(process_id);
        }
        if matches!(event.body, Body::Exit { process_code: Some(_), .. }) {
            self.unwinder.forget(process_id);
        }
        self.images.as_mut().map_or(&[], |images| images.follow(event))
    }

    /// Teaches the kernel's programs what it took to follow stacks; answers whether there were programs new to them.
    pub(crate) fn teach(&mut self, capture: &mut Capture) -> bool {
        self.unwinder.teach(capture)
    }

    /// What is to be told of images before something is told of their process.
    pub(crate) fn tell_images(&mut self, process_id: u32) -> &[ImageStep] {
        self.images.as_mut().map_or(&[], |images| images.tell(process_id))
    }

    /// What has become of stacks so far.
    pub(crate) fn counts(&self) -> UnwindCounts {
        self.unwinder.counts()
    }

    /// Says how many stacks of programs were cut since the counts were these; nothing if none was.
    pub(crate) fn cut_since(&self, before: UnwindCounts) -> Option<String> {
        let now = self.counts();
        let cut = now.cut.saturating_sub(before.cut);
        let stacks = now.stacks.saturating_sub(before.stacks);
        let text = "stacks of programs are cut: they lead through code that was not known yet, and are deeper than what \
                    is copied then (32 KiB; 4 KiB where the kernel's rings are half full)";
        (cut > 0).then(|| format!("{cut} of {stacks} {text}"))
    }

    /// The addresses of the last stack: those of the kernel, then those of the program, innermost first.
    pub(crate) fn frames(&self) -> &[u64] {
        &self.frames
    }
}
