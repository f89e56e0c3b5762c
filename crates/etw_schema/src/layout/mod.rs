//! Layouts: schemas compiled once, so that properties are found in payloads without searching.
//!
//! A struct, and the event itself, is a *frame*: the places of its members, and the *steps* that find the parts of
//! varying size. A place is an offset from the end of the last part of varying size before it. Members of fixed size
//! therefore cost nothing to locate, and a step costs only what its string or count costs.

mod compile;
mod format;
mod locate;
mod scan;
#[cfg(test)]
mod tests;

use etw_event::PointerSize;

use crate::{EventSchema, Inferred};

pub use format::Format;
pub(crate) use format::{Read, fixed_size, read_and_format};
pub(crate) use locate::Located as LocatedSlots;
pub use locate::{LocateError, LocateErrorKind, Located};

/// Limit of the nesting depth of structs.
pub const MAX_DEPTH: u16 = 32;
/// Limit of the number of values without bytes in an event. Values with bytes are not limited.
pub const MAX_EMPTY_VALUES: u32 = 4096;

/// A defect of a schema that keeps a property from being located in any payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutDefect {
    /// The in-type is unknown.
    #[error("in-type {0} is unknown")]
    UnknownInType(u16),
    /// The members of a struct are outside the schema's properties.
    #[error(
        "the struct's members {first}..{first}+{members} are outside the schema's {properties} properties"
    )]
    StructRange {
        /// Index of the first member.
        first: u16,
        /// Number of members.
        members: u16,
        /// Number of properties in the schema.
        properties: usize,
    },
    /// Structs are nested deeper than [`MAX_DEPTH`], or contain themselves.
    #[error("structs are nested deeper than {MAX_DEPTH}")]
    TooDeep,
    /// A length or count refers to a property that is not an integer or does not precede.
    #[error("its length or count is property {0}, which is not a preceding integer")]
    Reference(u16),
    /// The source states neither the length of the property nor, for a struct, its members.
    #[error("the source does not state its length")]
    UnknownExtent,
    /// A fixed array is larger than any payload.
    #[error("it is larger than any payload")]
    TooLarge,
}

/// The positions of an event's properties, as far as the schema determines them.
///
/// Compiled by [`Layout::new`]; applied to a payload by [`CompiledSchema::locate`](crate::CompiledSchema::locate).
#[derive(Debug, Clone)]
pub struct Layout {
    /// One plan for both pointer sizes, or one for four bytes and one for eight.
    plans: Vec<Plan>,
}

impl Layout {
    /// Compiles a schema. Never fails: locating stops with a [`LayoutDefect`] where the schema is invalid.
    pub fn new(schema: &EventSchema) -> Layout {
        let eight = compile::compile(schema, PointerSize::Eight);
        if eight.depends_on_pointer {
            Layout { plans: vec![compile::compile(schema, PointerSize::Four), eight] }
        } else {
            Layout { plans: vec![eight] }
        }
    }

    /// Returns whether the positions depend on the pointer size.
    pub fn depends_on_pointer_size(&self) -> bool {
        self.plans.len() > 1
    }

    /// Returns the first defect of the schema.
    pub fn defect(&self) -> Option<LayoutDefect> {
        self.plans.iter().flat_map(|plan| &plan.frames).flat_map(|frame| &frame.steps).find_map(|step| {
            match step.op {
                Op::Defect(defect) => Some(defect),
                _ => None,
            }
        })
    }

    /// Returns the payload's length in bytes, if it is the same for every event.
    pub fn fixed_len_bytes(&self, pointer: PointerSize) -> Option<u32> {
        self.plan(pointer).top().fixed
    }

    /// Returns whether the last part of the properties extends to the end of any payload.
    pub(crate) fn extends_to_end(&self, pointer: PointerSize) -> bool {
        self.plan(pointer).frames.iter().flat_map(|frame| &frame.steps).any(|step| match step.op {
            Op::Value { part, .. } => matches!(part, Part::Rest { .. }),
            Op::Elements { count, .. } | Op::Structs { count, .. } => count == Elements::ToEnd,
            Op::VaryingElements { part, count } => {
                matches!(part, Part::Rest { .. }) || count == Elements::ToEnd
            }
            _ => false,
        })
    }

    /// Returns whether the last property is a string that the payload ends without its terminator.
    pub(crate) fn ends_unterminated(&self, located: &Located) -> bool {
        let top = self.plan(located.pointer_size()).top();
        let Some(Step { slot, op: Op::Value { part, .. }, .. }) = top.steps.last() else { return false };
        let slot = located.slot(u32::from(*slot));
        match part {
            Part::Utf16 => slot.next < slot.end + 2,
            Part::Ansi => slot.next < slot.end + 1,
            _ => false,
        }
    }

    #[inline]
    pub(crate) fn plan(&self, pointer: PointerSize) -> &Plan {
        match (self.plans.as_slice(), pointer) {
            ([four, _], PointerSize::Four) => four,
            ([_, eight], PointerSize::Eight) => eight,
            ([only], _) => only,
            _ => &EMPTY_PLAN,
        }
    }

    /// Locates the properties in a payload. Does not allocate once `located` has grown large enough.
    #[inline]
    pub fn locate(&self, payload: &[u8], pointer: PointerSize, located: &mut Located) {
        locate::locate(self.plan(pointer), payload, pointer, located);
    }
}

/// A layout for one pointer size.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The event's frame, followed by those of structs.
    pub(crate) frames: Vec<Frame>,
    /// Number of lengths and counts kept while locating.
    pub(crate) registers: u16,
    pub(crate) depends_on_pointer: bool,
    /// Whether strings at the end that a payload lacks are taken for empty ones. Otherwise the event has no such property.
    pub(crate) completes_strings: bool,
    /// What is used for payloads that do not end where the properties end, if some of them are inferred.
    pub(crate) stated: Option<Box<Stated>>,
}

/// The part of a plan that is not inferred.
#[derive(Debug, Clone)]
pub(crate) struct Stated {
    /// The plan of the properties before the first inferred one.
    pub(crate) plan: Plan,
    pub(crate) inferred: Inferred,
}

static EMPTY_PLAN: Plan = Plan {
    frames: Vec::new(),
    registers: 0,
    depends_on_pointer: false,
    completes_strings: false,
    stated: None,
};
static EMPTY_FRAME: Frame = Frame {
    first: 0,
    places: Vec::new(),
    steps: Vec::new(),
    slots: 0,
    tail: 0,
    fixed: Some(0),
    min: 0,
    values: 0,
};

impl Plan {
    #[inline]
    pub(crate) fn top(&self) -> &Frame {
        self.frames.first().unwrap_or(&EMPTY_FRAME)
    }

    #[inline]
    pub(crate) fn frame(&self, index: u16) -> &Frame {
        self.frames.get(usize::from(index)).unwrap_or(&EMPTY_FRAME)
    }
}

/// The members of the event or of a struct.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// Index of the first member among the schema's properties.
    pub(crate) first: u16,
    /// The place of each member.
    pub(crate) places: Vec<Place>,
    pub(crate) steps: Vec<Step>,
    /// Number of parts of varying size, one slot each.
    pub(crate) slots: u16,
    /// Bytes after the last part of varying size.
    pub(crate) tail: u32,
    /// Size in bytes of the frame, if constant and no step is needed.
    pub(crate) fixed: Option<u32>,
    /// Minimum size of an instance in bytes.
    pub(crate) min: u32,
    /// Number of values in one instance, including nested ones.
    pub(crate) values: u32,
}

/// `Place::base` of a member at a fixed offset from the frame's start.
pub(crate) const FRAME_START: u16 = u16::MAX;

/// The position of a member.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Slot whose end is the base of the offset, or [`FRAME_START`].
    pub(crate) base: u16,
    pub(crate) shape: Shape,
    pub(crate) read: Read,
    pub(crate) format: Format,
    /// Index of the struct's frame.
    pub(crate) frame: u16,
    /// Offset from the base, or the slot of a member of varying size.
    pub(crate) offset: u32,
    /// Size in bytes of one element, if fixed.
    pub(crate) size: u32,
    /// Number of elements of a fixed array.
    pub(crate) count: u32,
}

/// The form of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A value at a fixed offset.
    Fixed,
    /// An array of elements of fixed size at a fixed offset.
    FixedArray,
    /// A value in a slot.
    Slot,
    /// A slot with elements of fixed size.
    SlotArray,
    /// A slot whose children are the elements.
    SlotElements,
    /// A struct of fixed size at a fixed offset.
    Struct,
    /// An array of structs of fixed size at a fixed offset.
    StructArray,
    /// A slot with structs of fixed size.
    SlotStructArray,
    /// A slot whose children are the struct's slots.
    SlotStruct,
    /// A slot whose children are one slot per instance, each followed by the instance's slots.
    SlotStructs,
    /// After a defect of the schema.
    Nowhere,
}

/// One instruction of a plan: locates a part of varying size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// Offset from the end of the last part of varying size, or from the frame's start.
    pub(crate) at: u32,
    /// The slot to fill.
    pub(crate) slot: u16,
    /// Index of the member in the frame's places.
    pub(crate) member: u16,
    pub(crate) op: Op,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    /// Keeps an integer of `width` bytes for a later length or count.
    Load { register: u16, width: u8 },
    /// A value; if `optional`, the payload may end before it.
    Value { part: Part, optional: bool },
    /// Elements of fixed size.
    Elements { size: u32, count: Elements, values: u32 },
    /// Elements of varying size.
    VaryingElements { part: Part, count: Elements },
    /// A struct of varying size.
    Struct { frame: u16 },
    /// Structs of varying size.
    Structs { frame: u16, count: Elements },
    /// Stops: the schema is invalid here.
    Defect(LayoutDefect),
}

/// A value of varying size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// UTF-16 up to a NUL or the end.
    Utf16,
    /// 8-bit text up to a NUL or the end.
    Ansi,
    /// `u16` byte count.
    Counted,
    /// Big-endian `u16` byte count.
    ReverseCounted,
    /// `u32` byte count.
    LongCounted,
    /// A SID.
    Sid,
    /// A SID after a TOKEN_USER of two pointers, or a `u32` of 0.
    WbemSid,
    /// `unit` bytes times the value of a register.
    Register { register: u16, unit: u8 },
    /// The rest of the payload, in units of `unit` bytes.
    Rest { unit: u8 },
}

impl Part {
    pub(crate) const fn min_bytes(self) -> u32 {
        match self {
            Part::Utf16 | Part::Ansi => 1,
            Part::Counted | Part::ReverseCounted => 2,
            Part::LongCounted | Part::WbemSid => 4,
            Part::Sid => 8,
            Part::Register { .. } | Part::Rest { .. } => 0,
        }
    }
}

/// The number of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elements {
    Fixed(u16),
    Register(u16),
    Prefixed,
    ToEnd,
}
