//! Compiles a schema to the plan for locating its properties.

use etw_event::PointerSize;

use super::{
    Elements, FRAME_START, Format, Frame, LayoutDefect, MAX_DEPTH, MAX_EMPTY_VALUES, Op, Part, Place, Plan,
    Read, Shape, Stated, Step, fixed_size, read_and_format,
};
use crate::{Count, Decoding, EventSchema, InType, Length, OutType, Property, PropertyType};

/// Limit of the size of fixed parts, far above that of any payload.
const MAX_FIXED_BYTES: u32 = 1 << 28;

/// Compiles the plan for one pointer size.
pub(super) fn compile(schema: &EventSchema, pointer: PointerSize) -> Plan {
    let top_level = schema.top_level.min(schema.properties.len().try_into().unwrap_or(u16::MAX));
    let mut plan = compile_first(schema, top_level, pointer);
    if let Some(inferred) = schema.inferred {
        let stated = compile_first(schema, inferred.from.min(top_level), pointer);
        plan.stated = Some(Box::new(Stated { plan: stated, inferred }));
    } else if let Some(top) = plan.frames.first_mut() {
        make_last_strings_optional(top);
        // Later versions of the classic thread events append one without increasing the event version (Observed: the
        // name in Thread v3, ShutdownPerfDiagLogger.etl): events of earlier ones do not have it.
        plan.completes_strings = schema.decoding != Decoding::BuiltIn || schema.provider.class_of.is_none();
    }
    plan
}

/// Compiles the plan of the first `top_level` properties.
fn compile_first(schema: &EventSchema, top_level: u16, pointer: PointerSize) -> Plan {
    let (registers, register_count) = registers(schema);
    let mut compiler = Compiler {
        schema,
        pointer,
        frames: vec![empty_frame(0)],
        known: Vec::new(),
        registers,
        loaded: vec![false; schema.properties.len()],
        depends_on_pointer: false,
    };
    let top = compiler.frame(0, top_level, 0);

    let depends_on_pointer = compiler.depends_on_pointer;
    let mut frames = compiler.frames;
    if let (Ok(top), Some(slot)) = (top, frames.first_mut()) {
        *slot = top;
    }
    Plan { frames, registers: register_count, depends_on_pointer, completes_strings: false, stated: None }
}

/// Assigns a register to each property that is the length or count of another. Also returns the number of registers. If
/// there are more of them than numbers, the last properties have none.
fn registers(schema: &EventSchema) -> (Vec<Option<u16>>, u16) {
    let mut registers = vec![None; schema.properties.len()];
    let mut next = 0u16;
    for property in &schema.properties {
        let length = if let Length::Property(index) = property.length { Some(index) } else { None };
        let count = if let Count::Property(index) = property.count { Some(index) } else { None };
        for index in [length, count].into_iter().flatten() {
            if let Some(register @ None) = registers.get_mut(usize::from(index))
                && let Some(after) = next.checked_add(1)
            {
                *register = Some(next);
                next = after;
            }
        }
    }
    (registers, next)
}

/// Makes the null-terminated strings at the end optional: writers leave them out if they are empty.
fn make_last_strings_optional(top: &mut Frame) {
    if top.tail != 0 {
        return;
    }
    let mut members = top.places.len();
    for step in top.steps.iter_mut().rev() {
        let Step { at, member, op: Op::Value { part: Part::Utf16 | Part::Ansi, optional }, .. } = step else {
            return;
        };
        if usize::from(*member) + 1 != members {
            return;
        }
        *optional = true;
        members -= 1;
        if *at != 0 {
            return;
        }
    }
}

fn empty_frame(first: u16) -> Frame {
    Frame {
        first,
        places: Vec::new(),
        steps: Vec::new(),
        slots: 0,
        tail: 0,
        fixed: Some(0),
        min: 0,
        values: 0,
    }
}

struct Compiler<'s> {
    schema: &'s EventSchema,
    pointer: PointerSize,
    frames: Vec<Frame>,
    /// Compiled structs, by first member and number of members.
    known: Vec<((u16, u16), u16)>,
    registers: Vec<Option<u16>>,
    loaded: Vec<bool>,
    depends_on_pointer: bool,
}

/// One element of a property.
enum Element {
    Fixed { size: u32, read: Read, format: Format },
    Varying { part: Part, read: Read, format: Format },
    Struct { frame: u16 },
}

/// A frame under construction.
struct Building {
    frame: Frame,
    /// Last slot, or `FRAME_START`.
    base: u16,
    /// Bytes since then.
    offset: u32,
    /// Number of values that may be empty.
    most_empty: u32,
}

impl Compiler<'_> {
    fn frame(&mut self, first: u16, members: u16, depth: u16) -> Result<Frame, LayoutDefect> {
        if depth > MAX_DEPTH {
            return Err(LayoutDefect::TooDeep);
        }
        let schema = self.schema;
        let range = usize::from(first)..usize::from(first) + usize::from(members);
        let properties = schema.properties.get(range).ok_or(LayoutDefect::StructRange {
            first,
            members,
            properties: schema.properties.len(),
        })?;
        let properties_of_all = u32::try_from(schema.properties.len()).unwrap_or(u32::MAX);
        let most_empty = MAX_EMPTY_VALUES.saturating_add(properties_of_all);
        let mut building = Building { frame: empty_frame(first), base: FRAME_START, offset: 0, most_empty };
        for (property, index) in properties.iter().zip(first..=u16::MAX) {
            if let Err(defect) = self.member(&mut building, property, index, depth) {
                let member = building.next_member();
                let (at, slot) = (building.offset, building.frame.slots);
                building.frame.steps.push(Step { at, slot, member, op: Op::Defect(defect) });
                building.frame.places.resize(
                    properties.len(),
                    Place {
                        base: building.base,
                        shape: Shape::Nowhere,
                        read: Read::Null,
                        format: Format::Nothing,
                        frame: 0,
                        offset: 0,
                        size: 0,
                        count: 0,
                    },
                );
                break;
            }
        }
        let mut frame = building.frame;
        frame.tail = building.offset;
        frame.fixed = frame.steps.is_empty().then_some(building.offset);
        Ok(frame)
    }

    /// Returns the frame of a struct, compiling each struct only once.
    fn struct_frame(&mut self, first: u16, members: u16, depth: u16) -> Result<u16, LayoutDefect> {
        if let Some((_, frame)) = self.known.iter().find(|(key, _)| *key == (first, members)) {
            return Ok(*frame);
        }
        let frame = self.frame(first, members, depth + 1)?;
        let index = u16::try_from(self.frames.len()).map_err(|_| LayoutDefect::TooLarge)?;
        self.frames.push(frame);
        self.known.push(((first, members), index));
        Ok(index)
    }

    fn element(&mut self, property: &Property, depth: u16) -> Result<Element, LayoutDefect> {
        let (in_type, out_type) = match property.kind {
            PropertyType::Struct { first, members } => {
                return Ok(Element::Struct { frame: self.struct_frame(first, members, depth)? });
            }
            PropertyType::Value { in_type, out_type, .. } => (in_type, out_type),
        };
        let unknown = match in_type {
            InType::UNKNOWN_EXTENT | InType::UNKNOWN_STRING => LayoutDefect::UnknownExtent,
            _ => LayoutDefect::UnknownInType(in_type.0),
        };
        let (read, format) = read_and_format(in_type, out_type).ok_or(unknown)?;
        if matches!(in_type, InType::POINTER | InType::SIZE_T | InType::WBEM_SID) {
            self.depends_on_pointer = true;
        }
        if let Some(size) = fixed_size(in_type, self.pointer) {
            return Ok(Element::Fixed { size, read, format });
        }
        let part = match in_type {
            InType::UNICODE_STRING | InType::ANSI_STRING | InType::BINARY => {
                return self.sized(property, in_type, out_type, read, format);
            }
            InType::SID => Part::Sid,
            InType::WBEM_SID => Part::WbemSid,
            InType::COUNTED_UNICODE_STRING
            | InType::COUNTED_ANSI_STRING
            | InType::COUNTED_BINARY
            | InType::COUNTED_STRING
            | InType::COUNTED_STRING_ANSI
            | InType::WPP_HEX_DUMP => Part::Counted,
            InType::REVERSED_COUNTED_STRING | InType::REVERSED_COUNTED_ANSI_STRING => Part::ReverseCounted,
            InType::HEX_DUMP => Part::LongCounted,
            InType::NON_NULL_TERMINATED_STRING => Part::Rest { unit: 2 },
            InType::NON_NULL_TERMINATED_ANSI_STRING | InType::BINARY_TO_END => Part::Rest { unit: 1 },
            _ => return Err(unknown),
        };
        Ok(Element::Varying { part, read, format })
    }

    /// Compiles strings and binary, which may have an explicit length.
    fn sized(
        &mut self,
        property: &Property,
        in_type: InType,
        out_type: OutType,
        read: Read,
        format: Format,
    ) -> Result<Element, LayoutDefect> {
        let wide = in_type == InType::UNICODE_STRING;
        let unit: u8 = if wide { 2 } else { 1 };
        let padded = match read {
            Read::Utf16 => Read::Utf16Padded,
            Read::Ansi => Read::AnsiPadded,
            other => other,
        };
        Ok(match property.length {
            // Manifests omit the length of an IPv6 address.
            Length::Natural | Length::Fixed(0) if out_type == OutType::IPV6 && in_type == InType::BINARY => {
                Element::Fixed { size: 16, read, format }
            }
            Length::Fixed(units) => {
                Element::Fixed { size: u32::from(units) * u32::from(unit), read: padded, format }
            }
            Length::Property(index) => Element::Varying {
                part: Part::Register { register: self.register(index)?, unit },
                read: padded,
                format,
            },
            Length::Natural => match in_type {
                InType::UNICODE_STRING => Element::Varying { part: Part::Utf16, read, format },
                InType::ANSI_STRING => Element::Varying { part: Part::Ansi, read, format },
                _ => Element::Fixed { size: 0, read, format },
            },
        })
    }

    /// Returns the register with the value of an earlier property.
    fn register(&self, index: u16) -> Result<u16, LayoutDefect> {
        let at = usize::from(index);
        match (self.registers.get(at), self.loaded.get(at)) {
            (Some(Some(register)), Some(true)) => Ok(*register),
            _ => Err(LayoutDefect::Reference(index)),
        }
    }

    fn elements(&self, count: Count) -> Result<Option<Elements>, LayoutDefect> {
        Ok(match count {
            Count::One => None,
            Count::Fixed(count) => Some(Elements::Fixed(count)),
            Count::Property(index) => Some(Elements::Register(self.register(index)?)),
            Count::Prefixed => Some(Elements::Prefixed),
            Count::ToEnd => Some(Elements::ToEnd),
        })
    }

    fn member(
        &mut self,
        building: &mut Building,
        property: &Property,
        index: u16,
        depth: u16,
    ) -> Result<(), LayoutDefect> {
        let count = self.elements(property.count)?;
        let element = self.element(property, depth)?;
        match element {
            Element::Fixed { size, read, format } => {
                building.fixed(size, count, Shape::Fixed, read, format, 0, 1)?;
                self.load(building, property, index, size);
            }
            Element::Varying { part, read, format } => {
                let (shape, op) = match count {
                    None => (Shape::Slot, Op::Value { part, optional: false }),
                    Some(count) => (Shape::SlotElements, Op::VaryingElements { part, count }),
                };
                let min = match count {
                    None => part.min_bytes(),
                    Some(Elements::Prefixed) => 2,
                    Some(Elements::Fixed(count)) => part.min_bytes().saturating_mul(count.into()),
                    Some(_) => 0,
                };
                let values = if let Some(Elements::Fixed(count)) = count { u32::from(count) } else { 1 };
                building.varying(shape, op, read, format, 0, min, values)?;
            }
            Element::Struct { frame } => {
                let (fixed, min, values) = match self.frames.get(usize::from(frame)) {
                    Some(inner) => (inner.fixed, inner.min, inner.values),
                    None => (None, 0, 0),
                };
                let (read, format) = (Read::Null, Format::Nothing);
                if let Some(size) = fixed {
                    building.fixed(size, count, Shape::Struct, read, format, frame, values)?;
                } else {
                    let (shape, op, min, values) = match count {
                        None => (Shape::SlotStruct, Op::Struct { frame }, min, values),
                        Some(count) => {
                            let times = match count {
                                Elements::Fixed(count) => u32::from(count),
                                Elements::Prefixed => 0,
                                _ => 0,
                            };
                            let prefix = if count == Elements::Prefixed { 2 } else { 0 };
                            let op = Op::Structs { frame, count };
                            let min = min.saturating_mul(times) + prefix;
                            (Shape::SlotStructs, op, min, values.saturating_mul(times))
                        }
                    };
                    building.varying(shape, op, read, format, frame, min, values)?;
                }
            }
        }
        Ok(())
    }

    /// Emits a load if the property is the length or count of a later one.
    fn load(&mut self, building: &mut Building, property: &Property, index: u16, size: u32) {
        let at = usize::from(index);
        let PropertyType::Value { in_type, .. } = property.kind else { return };
        if property.count != Count::One || !in_type.is_integer() {
            return;
        }
        if let (Some(Some(register)), Some(loaded)) = (self.registers.get(at), self.loaded.get_mut(at))
            && let Ok(width) = u8::try_from(size)
        {
            *loaded = true;
            building.frame.steps.push(Step {
                at: building.offset - size,
                slot: building.frame.slots,
                member: building.next_member() - 1,
                op: Op::Load { register: *register, width },
            });
        }
    }
}

impl Building {
    /// Returns the index of the member to add.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a frame has at most as many members as `frame` is given"
    )]
    fn next_member(&self) -> u16 {
        self.frame.places.len() as u16
    }

    /// Adds a member whose elements have a fixed size.
    #[expect(clippy::too_many_arguments, reason = "one place's parts")]
    fn fixed(
        &mut self,
        size: u32,
        count: Option<Elements>,
        one: Shape,
        read: Read,
        format: Format,
        frame: u16,
        values: u32,
    ) -> Result<(), LayoutDefect> {
        let is_struct = one == Shape::Struct;
        let fixed_count = match count {
            None => 1,
            // An array of elements without bytes is empty: nothing separates them.
            Some(Elements::Fixed(count)) => u32::from(count) * u32::from(size != 0),
            Some(count) => {
                let shape = if is_struct { Shape::SlotStructArray } else { Shape::SlotArray };
                let op = Op::Elements { size, count, values: values.max(1) };
                let min = if count == Elements::Prefixed { 2 } else { 0 };
                self.varying(shape, op, read, format, frame, min, 1)?;
                if let Some(place) = self.frame.places.last_mut() {
                    place.size = size;
                }
                return Ok(());
            }
        };
        let shape = match (count, is_struct) {
            (None, _) => one,
            (Some(_), true) => Shape::StructArray,
            (Some(_), false) => Shape::FixedArray,
        };
        let bytes = size.checked_mul(fixed_count).ok_or(LayoutDefect::TooLarge)?;
        let end = self.offset.checked_add(bytes).filter(|end| *end <= MAX_FIXED_BYTES);
        let end = end.ok_or(LayoutDefect::TooLarge)?;
        self.frame.min = self.frame.min.saturating_add(bytes);
        self.add_values(values.saturating_mul(fixed_count.max(1)))?;
        let (base, offset) = (self.base, self.offset);
        self.frame.places.push(Place { base, shape, read, format, frame, offset, size, count: fixed_count });
        self.offset = end;
        Ok(())
    }

    /// Adds a member of varying size.
    #[expect(clippy::too_many_arguments, reason = "one place's parts")]
    fn varying(
        &mut self,
        shape: Shape,
        op: Op,
        read: Read,
        format: Format,
        frame: u16,
        min: u32,
        values: u32,
    ) -> Result<(), LayoutDefect> {
        self.frame.min = self.frame.min.saturating_add(min);
        self.add_values(values)?;
        let slot = self.frame.slots;
        if slot >= FRAME_START - 1 {
            return Err(LayoutDefect::TooLarge);
        }
        let member = self.next_member();
        self.frame.steps.push(Step { at: self.offset, slot, member, op });
        let offset = u32::from(slot);
        self.frame.places.push(Place {
            base: self.base,
            shape,
            read,
            format,
            frame,
            offset,
            size: 0,
            count: 0,
        });
        self.frame.slots = slot + 1;
        self.base = slot;
        self.offset = 0;
        Ok(())
    }

    fn add_values(&mut self, values: u32) -> Result<(), LayoutDefect> {
        self.frame.values = self.frame.values.saturating_add(values);
        let most = self.frame.min.saturating_add(self.most_empty).saturating_mul(4);
        if self.frame.values > most { Err(LayoutDefect::TooLarge) } else { Ok(()) }
    }
}
