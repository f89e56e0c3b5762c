//! The images and rules that the kernel's programs have, and those that they need next.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use etw_sys::clock;
use framehop::Module;

use super::same_images;
use super::sections::{Bytes, Context, HIGHEST, Sections};
use crate::images::LoadedImage;
use crate::python::Interpreter;
use crate::records::{Following, Space, Stack};
use crate::rules::{self, IMAGES_MOST, ImageRange, ImageTable, RuleTable, UNIT};

/// Number of bytes before and after an address whose rules are stored with it.
const AROUND: u64 = 8 << 10;
/// A rule that holds for fewer bytes of a unit is stored only when it is needed.
const BYTES_LEAST: u64 = 16;

/// An image of a process, with the unwind information of its file.
pub(super) struct Place {
    image: Arc<LoadedImage>,
    /// The file's lowest link address.
    linked_base: u64,
    sections: Arc<Sections>,
}

/// What the programs were given, and what they are to be given next.
#[derive(Default)]
pub(super) struct ProgramImages {
    taught: HashMap<u32, ProcessImages>,
    /// The table of rules, if the programs follow stacks.
    table: Option<RuleTable>,
    /// Number of rules that were replaced by others.
    replaced: usize,
    /// Images to pass on: start, end, and the number of the file in the upper half of a word; with the interpreter.
    images: Vec<(Space, Vec<ImageRange>, Option<Interpreter>)>,
    context: Box<Context>,
}

/// The images that the programs have for a process.
struct ProcessImages {
    space: Space,
    images: Vec<Arc<LoadedImage>>,
    /// The images before those.
    before: Vec<Arc<LoadedImage>>,
    /// Time from which the programs had only `images`, in nanoseconds; the maximum while that is not so.
    at: u64,
}

impl ProgramImages {
    /// Creates a teacher that writes rules to this table.
    pub(super) fn new(table: RuleTable) -> ProgramImages {
        ProgramImages { table: Some(table), ..ProgramImages::default() }
    }

    /// Returns how many of the followed frames are valid for these images, which the process had at that time.
    pub(super) fn trusted(&self, process_id: u32, images: &[Arc<LoadedImage>], stack: &Stack<'_>) -> usize {
        let Some(taught) = self.taught.get(&process_id).filter(|taught| taught.space == stack.space) else {
            return 0;
        };
        let is_settled = taught.at <= stack.event_time;
        if is_settled && same_images(&taught.images, images) {
            return stack.followed().len();
        }
        let before = if is_settled { &[][..] } else { &taught.before };
        let is_trusted = |(at, frame): &(usize, u64)| {
            let address = frame.wrapping_sub(u64::from(*at > 0));
            let Some(image) = image_of(images, address) else { return false };
            let same = |other: &Arc<LoadedImage>| Arc::ptr_eq(other, image);
            image_of(&taught.images, address).is_some_and(same) && image_of(before, address).is_none_or(same)
        };
        stack.followed().enumerate().take_while(is_trusted).count()
    }

    /// Schedules the images of a process if the programs lack them or have others.
    pub(super) fn teach_images(
        &mut self,
        process_id: u32,
        images: &[Arc<LoadedImage>],
        (places, python): (&[Place], Option<Interpreter>),
        stack: &Stack<'_>,
    ) {
        if stack.space == Space::default() {
            return;
        }
        let before = match self.taught.get_mut(&process_id) {
            Some(taught) if taught.space == stack.space => {
                let is_taught =
                    stack.following != Following::SpaceUnknown && same_images(&taught.images, images);
                if is_taught || stack.event_time < taught.at {
                    return;
                }
                std::mem::take(&mut taught.images)
            }
            _ => Vec::new(),
        };
        let mut lines: Vec<_> = places.iter().map(Place::line).collect();
        lines.sort_unstable();
        lines.truncate(IMAGES_MOST);
        self.images.push((stack.space, lines, python));
        let taught = ProcessImages { space: stack.space, images: images.to_vec(), before, at: u64::MAX };
        self.taught.insert(process_id, taught);
    }

    /// Stores the rules for an address and the code near it, unless it has one.
    pub(super) fn teach_rule(&mut self, places: &[Place], address: u64) {
        let Some(table) = &self.table else { return };
        let Some(place) = places.iter().find(|place| place.image.holds(address)) else { return };
        let behind = address - place.image.base;
        let first_unit = u64::from(place.sections.number()) << 32;
        let (unit, byte) = (first_unit + behind / UNIT, (behind % UNIT) as u8);
        if table.has(unit, byte) {
            return;
        }
        let replaced = &mut self.replaced;
        let mut put = |behind: Range<u64>, rule| {
            for number in behind.start / UNIT..behind.end.div_ceil(UNIT) {
                let begin = number * UNIT;
                let (first, end) = (behind.start.max(begin) - begin, behind.end.min(begin + UNIT) - begin);
                let is_needed = first_unit + number == unit && (first..end).contains(&byte.into());
                if end - first >= BYTES_LEAST || is_needed {
                    let bits = rules::bits(rule, first as u8..=(end - 1) as u8);
                    *replaced += usize::from(table.put(first_unit + number, bits, *replaced));
                }
            }
        };
        let around = behind.saturating_sub(AROUND)..behind.saturating_add(AROUND);
        let linked_base = place.linked_base;
        let mut is_said = false;
        place.sections.for_each_rule(
            linked_base.wrapping_add(behind),
            linked_base.wrapping_add(around.start)..linked_base.wrapping_add(around.end),
            &mut self.context,
            |addresses, rule| {
                let begin = addresses.start.wrapping_sub(linked_base).max(around.start);
                let end = addresses.end.wrapping_sub(linked_base).min(around.end);
                if begin < end {
                    put(begin..end, rule);
                    is_said |= (begin..end).contains(&behind);
                }
            },
        );
        if !is_said {
            put(behind..behind + 1, None);
        }
    }

    /// Passes the scheduled images to `table`. Returns whether there were any.
    pub(super) fn teach(&mut self, table: &mut impl ImageTable) -> bool {
        if self.images.is_empty() {
            return false;
        }
        for (space, images, python) in &self.images {
            table.set_images(space, images);
            if let Some(python) = python {
                table.set_interpreter(space, python);
            }
        }
        let now = clock::monotonic_nanos();
        for (space, _, _) in self.images.drain(..) {
            if let Some(taught) = self.taught.get_mut(&space.process_id) {
                taught.at = now;
            }
        }
        true
    }

    /// Forgets a process that has ended.
    pub(super) fn forget(&mut self, process_id: u32) {
        self.taught.remove(&process_id);
    }
}

impl Place {
    /// Returns an image with its sections if its addresses are valid.
    pub(super) fn new(image: Arc<LoadedImage>, sections: Arc<Sections>) -> Option<Place> {
        let linked_base = image.file.as_ref()?.linked_base();
        image.base.checked_add(image.len_bytes).filter(|_| linked_base < HIGHEST)?;
        Some(Place { image, linked_base, sections })
    }

    /// Returns the image in the unwinder's form.
    pub(super) fn module(&self) -> Module<Bytes> {
        self.sections.module(&self.image, self.linked_base)
    }

    /// Returns the image in the programs' form.
    fn line(&self) -> ImageRange {
        let base = self.image.base;
        [base, base.saturating_add(self.image.len_bytes), u64::from(self.sections.number()) << 32]
    }
}

fn image_of(images: &[Arc<LoadedImage>], address: u64) -> Option<&Arc<LoadedImage>> {
    images.iter().find(|image| image.holds(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{FileIdentity, Registers, StackParts, stack_for_tests};
    use crate::rules::IS_KNOWN_CODE;

    const SPACE: Space = Space { began: 5, process_id: 7, programs: 1 };

    fn image(base: u64) -> Arc<LoadedImage> {
        Arc::new(LoadedImage {
            base,
            len_bytes: 0x1000,
            code: base..base + 0x1000,
            identity: FileIdentity::Inode { device: (0, 0), inode: base },
            path: Box::default(),
            file: None,
        })
    }

    /// How many of these frames are trusted, with these images at the time 0.
    fn trusted(
        teacher: &ProgramImages,
        images: &[Arc<LoadedImage>],
        space: Space,
        followed: &[u64],
    ) -> usize {
        let parts = StackParts {
            registers: Registers::default(),
            space,
            following: Following::Ended,
            followed,
            user: &[],
            memory_at: 0,
            memory: &[],
            python: &[],
        };
        stack_for_tests(parts, |stack| teacher.trusted(SPACE.process_id, images, stack))
    }

    #[test]
    fn frames_are_trusted_in_images_that_the_programs_had() {
        let [program, library, other] = [image(0x1000), image(0x5000), image(0x5800)];
        let frames = [0x1234, 0x2000, 0x5900, 0x1800];
        let mut teacher = ProgramImages::default();
        let mut check = |images: [&Arc<LoadedImage>; 2], before: &[&Arc<LoadedImage>], at, expected| {
            let before = before.iter().map(|image| (*image).clone()).collect();
            let taught = ProcessImages { space: SPACE, images: images.map(Arc::clone).to_vec(), before, at };
            teacher.taught.insert(SPACE.process_id, taught);
            let now = [program.clone(), library.clone()];
            assert_eq!(trusted(&teacher, &now, SPACE, &frames), expected);
            assert_eq!(trusted(&teacher, &now, Space { programs: 2, ..SPACE }, &frames), 0);
        };
        check([&program, &library], &[], 0, 4);
        // Another library was mapped when the stack was followed; the return address is at the end of the program.
        check([&program, &other], &[], 0, 2);
        check([&program, &library], &[&program, &other], 1, 2);
        check([&program, &library], &[&program], 1, 4);
        assert_eq!(trusted(&ProgramImages::default(), &[program], SPACE, &frames), 0);
    }

    #[test]
    fn images_are_taught_when_the_programs_lack_them_or_have_others() {
        let (mut teacher, images) = (ProgramImages::default(), [image(0x1000)]);
        let mut teach = |space, following, images: &[Arc<LoadedImage>]| {
            let registers = Registers { instruction: 1, ..Registers::default() };
            let (followed, user, memory) = (&[][..], &[][..], &[][..]);
            let parts =
                StackParts { registers, space, following, followed, user, memory_at: 0, memory, python: &[] };
            stack_for_tests(parts, |stack| {
                teacher.teach_images(SPACE.process_id, images, (&[], None), stack)
            });
            let taught = teacher.taught.get_mut(&SPACE.process_id);
            taught.into_iter().for_each(|taught| taught.at = 0);
            teacher.images.drain(..).count()
        };
        // A kernel that follows nothing.
        assert_eq!(teach(Space::default(), Following::Stopped, &images), 0);
        if IS_KNOWN_CODE {
            assert_eq!(teach(SPACE, Following::SpaceUnknown, &images), 1);
            assert_eq!(teach(SPACE, Following::Stopped, &images), 0);
            assert_eq!(teach(SPACE, Following::SpaceUnknown, &images), 1);
            assert_eq!(teach(SPACE, Following::Stopped, &[image(0x1000)]), 1);
            assert_eq!(teach(Space { programs: 2, ..SPACE }, Following::Stopped, &images), 1);
        }
    }
}
