//! Layouts: an event's schema compiled once, so that its properties are found in a payload without searching.
//!
//! A struct (and the event itself) is a *frame*: places of its members plus the *steps* that find the parts of
//! varying size. Places are offsets from the end of the last part of varying size before them; so members of fixed
//! size cost nothing to locate, and a step costs what its string or count costs.

mod compile;
mod format;
mod locate;
mod scan;
#[cfg(test)]
mod tests;

use etw_event::PointerSize;

use crate::EventSchema;

pub use format::Format;
pub(crate) use format::{Read, fixed_size, read_and_format};
pub(crate) use locate::Located as LocatedSlots;
pub use locate::{LocateError, LocateErrorKind, Located};

/// Structs nested deeper than this are refused.
pub const MAX_DEPTH: u16 = 32;
/// Values without bytes that an event may have, beside those with bytes; more are refused.
pub const MAX_EMPTY_VALUES: u32 = 4096;

/// Why a property of a schema cannot be located in any payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutDefect {
    /// The in-type is unknown.
    #[error("in-type {0} is unknown")]
    UnknownInType(u16),
    /// The members of a struct lie outside of the schema's properties.
    #[error(
        "the struct's members {first}..{first}+{members} lie outside of the schema's {properties} properties"
    )]
    StructRange {
        /// Index of the first member.
        first: u16,
        /// Number of members.
        members: u16,
        /// Properties there are.
        properties: usize,
    },
    /// Structs are nested deeper than [`MAX_DEPTH`], or contain themselves.
    #[error("structs are nested deeper than {MAX_DEPTH}")]
    TooDeep,
    /// Length or count are to be found in a property that is no integer or does not lie before.
    #[error("its length or count is property {0}, which is no integer before it")]
    Reference(u16),
    /// A fixed array is larger than any payload.
    #[error("it is larger than any payload")]
    TooLarge,
}

/// Where every property of an event lies, as far as its schema alone tells.
///
/// Compiled by [`Layout::new`]; located in a payload through
/// [`CompiledSchema::locate`](crate::CompiledSchema::locate).
#[derive(Debug, Clone)]
pub struct Layout {
    /// One plan for both pointer sizes, or one for four and one for eight bytes.
    plans: Vec<Plan>,
}

impl Layout {
    /// Compiles a schema. Never fails: where a schema makes no sense, locating stops with a [`LayoutDefect`].
    pub fn new(schema: &EventSchema) -> Layout {
        let eight = compile::compile(schema, PointerSize::Eight);
        if eight.depends_on_pointer {
            Layout { plans: vec![compile::compile(schema, PointerSize::Four), eight] }
        } else {
            Layout { plans: vec![eight] }
        }
    }

    /// Whether the pointer size decides where properties lie.
    pub fn depends_on_pointer_size(&self) -> bool {
        self.plans.len() > 1
    }

    /// The first defect of the schema.
    pub fn defect(&self) -> Option<LayoutDefect> {
        self.plans.iter().flat_map(|plan| &plan.frames).flat_map(|frame| &frame.steps).find_map(|step| {
            match step.op {
                Op::Defect(defect) => Some(defect),
                _ => None,
            }
        })
    }

    /// Bytes of the payload if that is the same for every event.
    pub fn fixed_len_bytes(&self, pointer: PointerSize) -> Option<u32> {
        self.plan(pointer).top().fixed
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

    /// Locates the properties in a payload. Does not allocate once `located` has grown to its final size.
    #[inline]
    pub fn locate(&self, payload: &[u8], pointer: PointerSize, located: &mut Located) {
        locate::locate(self.plan(pointer), payload, pointer, located);
    }
}

/// A layout for one pointer size.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The event's frame first, then those of structs.
    pub(crate) frames: Vec<Frame>,
    /// How many lengths and counts are kept while locating.
    pub(crate) registers: u16,
    pub(crate) depends_on_pointer: bool,
}

static EMPTY_PLAN: Plan = Plan { frames: Vec::new(), registers: 0, depends_on_pointer: false };
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
    /// Where each member lies.
    pub(crate) places: Vec<Place>,
    pub(crate) steps: Vec<Step>,
    /// Parts of varying size, one slot each.
    pub(crate) slots: u16,
    /// Bytes behind the last part of varying size.
    pub(crate) tail: u32,
    /// Bytes of the frame if always the same and no step is needed.
    pub(crate) fixed: Option<u32>,
    /// The least bytes that an instance takes.
    pub(crate) min: u32,
    /// Values in one instance, nested ones included.
    pub(crate) values: u32,
}

/// `Place::base` of what lies at a fixed offset from the frame's start.
pub(crate) const FRAME_START: u16 = u16::MAX;

/// Where a member lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Slot at whose end the offset begins, or [`FRAME_START`].
    pub(crate) base: u16,
    pub(crate) shape: Shape,
    pub(crate) read: Read,
    pub(crate) format: Format,
    /// For structs.
    pub(crate) frame: u16,
    /// Offset from the base; for members of varying size the slot instead.
    pub(crate) offset: u32,
    /// Bytes of one element, where that is fixed.
    pub(crate) size: u32,
    /// Elements of fixed arrays.
    pub(crate) count: u32,
}

/// The form of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A value at a fixed place.
    Fixed,
    /// An array of fixed elements at a fixed place.
    FixedArray,
    /// A value in a slot.
    Slot,
    /// A slot with fixed elements.
    SlotArray,
    /// A slot whose children are the elements.
    SlotElements,
    /// A struct of fixed size at a fixed place.
    Struct,
    /// An array of such.
    StructArray,
    /// A slot with structs of fixed size.
    SlotStructArray,
    /// A slot whose children are the struct's slots.
    SlotStruct,
    /// A slot whose children are one slot an instance, each followed by the instance's slots.
    SlotStructs,
    /// Behind a defect of the schema.
    Nowhere,
}

/// What finds one part of varying size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// Offset from the end of the last part of varying size, or from the frame's start.
    pub(crate) at: u32,
    /// The slot to fill.
    pub(crate) slot: u16,
    /// The member among the frame's places.
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
    /// The schema cannot be followed beyond here.
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
    /// A SID behind a TOKEN_USER of two pointers, or a `u32` of 0.
    WbemSid,
    /// As many units of `unit` bytes as a register says.
    Register { register: u16, unit: u8 },
    /// All that is left, in units of `unit` bytes.
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

/// How many elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elements {
    Fixed(u16),
    Register(u16),
    Prefixed,
    ToEnd,
}
