//! What the kernel's programs know of images and their code, and what they are to be taught.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use etw_sys::clock;

use super::sections::{Context, Sections};
use super::{rules, same_images};
use crate::capture::{Capture, Following, Space, Stack};
use crate::images::LoadedImage;

/// Four ways: a unit, and its rule.
pub(crate) type Set = [[u64; 2]; WAYS];

const WAYS: usize = 4;
const SET_BITS: u32 = 16;
/// Code comes in units of 256 bytes.
const UNIT: u64 = 256;
/// Around an address, so much of its function is taught with it.
const AROUND: u64 = 4 * UNIT;
/// A rule that holds for fewer bytes of a unit is taught when it is needed.
const BYTES_LEAST: u64 = 16;
/// Most images of a process that are taught.
pub(crate) const IMAGES_MOST: usize = 128;

/// Whether there are rules for the code of this machine.
pub(crate) const IS_KNOWN_CODE: bool = cfg!(target_arch = "x86_64");

/// Code of a process, with what its file says of it.
pub(super) struct Place {
    pub(super) image: Arc<LoadedImage>,
    /// The file's lowest address, as it is linked.
    pub(super) linked_base: u64,
    pub(super) sections: Arc<Sections>,
}

/// What was taught, and what comes next.
#[derive(Default)]
pub(super) struct Teacher {
    taught: HashMap<u32, Taught>,
    sets: Vec<Set>,
    /// Which way of a full set goes next.
    next: usize,
    /// Images that are to be taught: begin, end, and the number of the file in the upper half of a word.
    images: Vec<(Space, Vec<[u64; 3]>)>,
    /// Sets that are to be taught, and whether units in them gave way to others.
    changed: BTreeMap<u32, bool>,
    context: Box<Context>,
}

/// The images of a process that were taught.
struct Taught {
    space: Space,
    images: Vec<Arc<LoadedImage>>,
    /// Those that were before.
    before: Vec<Arc<LoadedImage>>,
    /// When the programs had no others than `images`, in nanoseconds; the highest number as long as that is not so.
    at: u64,
}

impl Teacher {
    /// How many of the frames that were followed are those of these images, which the process had then.
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

    /// Will teach the images of a process if the programs lack them, or have others.
    pub(super) fn teach_images(
        &mut self,
        process_id: u32,
        images: &[Arc<LoadedImage>],
        places: &[Place],
        stack: &Stack<'_>,
    ) {
        if !IS_KNOWN_CODE || stack.space == Space::default() {
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
        self.images.push((stack.space, lines));
        let taught = Taught { space: stack.space, images: images.to_vec(), before, at: u64::MAX };
        self.taught.insert(process_id, taught);
    }

    /// Will teach how the caller of an address is found, and what else its function has near it, unless that was taught.
    pub(super) fn teach_rule(&mut self, places: &[Place], address: u64) {
        let holds = |place: &&Place| place.image.holds(address);
        let Some(place) = places.iter().find(holds).filter(|_| IS_KNOWN_CODE) else { return };
        let behind = address - place.image.base;
        if self.sets.is_empty() {
            self.sets.resize(1 << SET_BITS, Set::default());
        }
        let first_unit = u64::from(place.sections.number()) << 32;
        let (unit, byte) = (first_unit + behind / UNIT, (behind % UNIT) as u8);
        let is_taught = |way: &[u64; 2]| way[0] == unit && rules::bytes_of(way[1]).contains(&byte);
        if self.sets[set_of(unit) as usize].iter().any(is_taught) {
            return;
        }
        let (sets, changed, next) = (&mut self.sets, &mut self.changed, &mut self.next);
        let mut put = |behind: Range<u64>, rule| {
            for number in behind.start / UNIT..behind.end.div_ceil(UNIT) {
                let begin = number * UNIT;
                let (first, end) = (behind.start.max(begin) - begin, behind.end.min(begin + UNIT) - begin);
                let is_needed = first_unit + number == unit && (first..end).contains(&byte.into());
                if end - first < BYTES_LEAST && !is_needed {
                    continue;
                }
                let way = [first_unit + number, rules::bits(rule, first as u8..=(end - 1) as u8)];
                let set_number = set_of(way[0]);
                let set = &mut sets[set_number as usize];
                if set.contains(&way) {
                    continue;
                }
                let free = set.iter().position(|way| way[0] == 0);
                let at = free.unwrap_or_else(|| {
                    *next = (*next + 1) % WAYS;
                    *next
                });
                set[at] = way;
                *changed.entry(set_number).or_default() |= free.is_none();
            }
        };
        let around = behind.saturating_sub(AROUND)..behind.saturating_add(AROUND);
        let linked_base = place.linked_base;
        let mut is_said = false;
        place.sections.for_each_rule(
            linked_base.wrapping_add(behind),
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

    /// Teaches everything.
    pub(super) fn teach(&mut self, capture: &mut Capture) {
        for (set, has_replaced) in std::mem::take(&mut self.changed) {
            if has_replaced {
                // A unit must not be seen with the rule of another one.
                capture.teach_rules(set, &Set::default());
            }
            capture.teach_rules(set, &self.sets[set as usize]);
        }
        if self.images.is_empty() {
            return;
        }
        self.images.iter().for_each(|(space, images)| capture.teach_images(space, images));
        let now = clock::monotonic_nanos();
        for (space, _) in self.images.drain(..) {
            if let Some(taught) = self.taught.get_mut(&space.process_id) {
                taught.at = now;
            }
        }
    }

    /// Forgets a process that has ended.
    pub(super) fn forget(&mut self, process_id: u32) {
        self.taught.remove(&process_id);
    }
}

impl Place {
    /// The image as the programs have it.
    fn line(&self) -> [u64; 3] {
        let base = self.image.base;
        [base, base.saturating_add(self.image.len_bytes), u64::from(self.sections.number()) << 32]
    }
}

/// The set that a unit belongs to.
fn set_of(unit: u64) -> u32 {
    (unit.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SET_BITS)) as u32
}

fn image_of(images: &[Arc<LoadedImage>], address: u64) -> Option<&Arc<LoadedImage>> {
    images.iter().find(|image| image.holds(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{FileIdentity, Registers, StackParts, stack_for_tests};

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
    fn trusted(teacher: &Teacher, images: &[Arc<LoadedImage>], space: Space, followed: &[u64]) -> usize {
        let parts = StackParts {
            registers: Registers::default(),
            space,
            following: Following::Ended,
            followed,
            user: &[],
            memory_at: 0,
            memory: &[],
        };
        stack_for_tests(parts, |stack| teacher.trusted(SPACE.process_id, images, stack))
    }

    #[test]
    fn frames_are_trusted_in_images_that_the_programs_had() {
        let [program, library, other] = [image(0x1000), image(0x5000), image(0x5800)];
        let frames = [0x1234, 0x2000, 0x5900, 0x1800];
        let mut teacher = Teacher::default();
        let mut check = |images: [&Arc<LoadedImage>; 2], before: &[&Arc<LoadedImage>], at, expected| {
            let before = before.iter().map(|image| (*image).clone()).collect();
            let taught = Taught { space: SPACE, images: images.map(Arc::clone).to_vec(), before, at };
            teacher.taught.insert(SPACE.process_id, taught);
            let now = [program.clone(), library.clone()];
            assert_eq!(trusted(&teacher, &now, SPACE, &frames), expected);
            assert_eq!(trusted(&teacher, &now, Space { programs: 2, ..SPACE }, &frames), 0);
        };
        check([&program, &library], &[], 0, 4);
        // Another library was there when the stack was followed; the return address ends the program.
        check([&program, &other], &[], 0, 2);
        check([&program, &library], &[&program, &other], 1, 2);
        check([&program, &library], &[&program], 1, 4);
        assert_eq!(trusted(&Teacher::default(), &[program], SPACE, &frames), 0);
    }

    #[test]
    fn images_are_taught_when_the_programs_lack_them_or_have_others() {
        let (mut teacher, images) = (Teacher::default(), [image(0x1000)]);
        let mut teach = |space, following, images: &[Arc<LoadedImage>]| {
            let registers = Registers { instruction: 1, ..Registers::default() };
            let (followed, user, memory) = (&[][..], &[][..], &[][..]);
            let parts = StackParts { registers, space, following, followed, user, memory_at: 0, memory };
            stack_for_tests(parts, |stack| teacher.teach_images(SPACE.process_id, images, &[], stack));
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
