//! The frames of stacks: addresses, each in the memory of a process or of the kernel.

use etw_machine::{Addresses, HashMap, Names, ProcessIndex, Space};

use super::columns::{Address, Bool, Id, LongHex, Process, Text};
use super::labels::RowLabel;
use super::table::{RowWriter, table};
use crate::cell::Cell;

table! {
    /// One row for each address in stacks, of one process or the kernel.
    FrameRow: "frames", "Frames",
        label RowLabel { otherwise: Some("address"), ..RowLabel::single(&["function"]) };
    /// Process; missing for the kernel.
    process: Option<Process>,
    /// Instruction; of a caller, the last byte of its call.
    address: Address,
    /// Name of the image's file.
    module: Option<Text>,
    /// `module!function`, or the module and the offset in it.
    function: Option<Text>,
    /// Offset from the start of the function.
    offset: Option<LongHex>,
    /// Functions inlined there, innermost first, separated by `;`.
    inlined: Option<Text>,
    /// Source file.
    file: Option<Text>,
    /// Source line.
    line: Option<Id>,
    /// Whether the module is a part of the system or of .NET.
    is_system: Option<Bool>,
}

/// Returns a function without its module, of the two.
pub(super) fn without_module(function_and_module: &[Cell]) -> Cell {
    let [Cell::Text(function), Cell::Text(module), ..] = function_and_module else {
        return function_and_module.first().cloned().unwrap_or(Cell::None);
    };
    let rest = function.strip_prefix(module.as_str()).and_then(|rest| rest.strip_prefix('!'));
    Cell::Text(rest.unwrap_or(function).to_owned())
}

/// Maximum number of frames in a stack.
const MAX_FRAMES: usize = 1024;
/// Maximum number of different addresses; further ones share a frame without a name.
const MAX_ADDRESSES: usize = 1 << 22;

/// The different addresses in stacks; their numbers are the rows of the table of frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    numbers: HashMap<(Space, u64), u32>,
    places: Vec<(Space, u64)>,
    stack: Vec<u32>,
}

impl Frames {
    /// Returns the frame of an instruction.
    pub(super) fn row(&mut self, space: Space, instruction: u64) -> u32 {
        let full = self.places.len() >= MAX_ADDRESSES;
        let place = if full { (Space::Unknown, 0) } else { (space, instruction) };
        let next = self.places.len() as u32;
        let number = *self.numbers.entry(place).or_insert(next);
        if number == next {
            self.places.push(place);
        }
        number
    }

    /// Returns the code of a stack of a process, whose addresses come innermost first; `None` if it is empty.
    pub(super) fn stack(
        &mut self,
        addresses: impl Iterator<Item = u64>,
        meaning: &Addresses,
        (machine, process): (u32, Option<ProcessIndex>),
        writer: &mut RowWriter,
    ) -> Option<u32> {
        let mut stack = std::mem::take(&mut self.stack);
        stack.clear();
        let mut inner = None;
        for address in addresses.take(MAX_FRAMES) {
            let of_kernel = meaning.is_kernel(address);
            // The address at which user mode was left is the next instruction itself.
            let is_return = inner.replace(of_kernel) == Some(of_kernel);
            let instruction = address.wrapping_sub(u64::from(is_return));
            let space = match of_kernel {
                true => Space::Kernel(machine),
                false => meaning.user_space(process, instruction),
            };
            stack.push(self.row(space, instruction));
        }
        let mut code = None;
        for frame in stack.iter().rev() {
            code = Some(writer.stack(code, *frame));
        }
        self.stack = stack;
        code
    }

    /// Returns all addresses.
    pub(super) fn places(&self) -> impl Iterator<Item = (Space, u64)> {
        self.places.iter().copied()
    }

    /// Adds the rows.
    pub(super) fn write(&self, names: &Names, writer: &mut RowWriter) {
        for (space, address) in &self.places {
            let code = names.code(*space, *address);
            let shown = code.map(|code| names.shown(code));
            let split = code.and_then(|code| code.frames.split_last());
            let inlined = split.map_or(&[][..], |(_, inlined)| inlined);
            let innermost = inlined.first().or(split.map(|(function, _)| function));
            let inlined: Vec<&str> = inlined.iter().map(|frame| frame.function.as_str()).collect();
            let inlined = (!inlined.is_empty()).then(|| inlined.join(";"));
            writer.add(FrameRow {
                process: match space {
                    Space::Process(process, _) => Some(*process),
                    Space::Kernel(_) | Space::Unknown => None,
                },
                address: *address,
                module: code.and_then(|code| names.get(code.function).module.as_deref()),
                function: shown.as_deref(),
                offset: code.and_then(|code| code.offset_in_function),
                inlined: inlined.as_deref(),
                file: innermost.and_then(|frame| frame.file.as_deref()),
                line: innermost.and_then(|frame| frame.line),
                is_system: code.map(|code| code.is_system),
            });
        }
    }
}
