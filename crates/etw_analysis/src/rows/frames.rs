//! The frames of stacks: addresses, each in the memory of a process or of the kernel.

use etw_columns::{ColumnsError, IndexWriter, TableId};

use crate::maps::HashMap;
use crate::names::{Names, Space};

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
    pub(super) fn of(&mut self, space: Space, instruction: u64) -> u32 {
        let full = self.places.len() >= MAX_ADDRESSES;
        let place = if full { (Space::Unknown, 0) } else { (space, instruction) };
        let next = self.places.len() as u32;
        let number = *self.numbers.entry(place).or_insert(next);
        if number == next {
            self.places.push(place);
        }
        number
    }

    /// Returns the code of a stack, whose addresses come innermost first; `None` if it is empty. `space_of` tells the
    /// memory that an instruction is in, and whether that is the kernel's.
    pub(super) fn stack(
        &mut self,
        addresses: impl Iterator<Item = u64>,
        is_kernel: impl Fn(u64) -> bool,
        space_of: impl Fn(bool, u64) -> Space,
        writer: &mut IndexWriter,
    ) -> Result<Option<u32>, ColumnsError> {
        let mut stack = std::mem::take(&mut self.stack);
        stack.clear();
        let mut inner = None;
        for address in addresses.take(MAX_FRAMES) {
            let of_kernel = is_kernel(address);
            // The address at which user mode was left is the next instruction itself.
            let is_return = inner.replace(of_kernel) == Some(of_kernel);
            let instruction = address.wrapping_sub(u64::from(is_return));
            stack.push(self.of(space_of(of_kernel, instruction), instruction));
        }
        let mut code = None;
        for frame in stack.iter().rev() {
            code = Some(writer.stack(code, u64::from(*frame))?);
        }
        self.stack = stack;
        Ok(code)
    }

    /// Returns all addresses.
    pub(super) fn places(&self) -> impl Iterator<Item = (Space, u64)> {
        self.places.iter().copied()
    }

    /// Adds the rows.
    pub(super) fn write(
        &self,
        names: &Names,
        table: TableId,
        writer: &mut IndexWriter,
    ) -> Result<(), ColumnsError> {
        for (space, address) in &self.places {
            let code = names.code(*space, *address);
            let mut row = writer.row(table)?;
            if let Space::Process(process, _) = space {
                row.code(0, process.0);
            }
            row.u64(1, *address);
            if let Some(code) = code {
                if let Some(module) = &names.get(code.function).module {
                    row.text(2, module);
                }
                row.text(3, &names.shown(code));
                row.bool(8, code.is_system);
                if let Some(offset) = code.offset_in_function {
                    row.u64(4, offset);
                }
                if let Some((function, inlined)) = code.frames.split_last() {
                    if !inlined.is_empty() {
                        let inlined: Vec<&str> =
                            inlined.iter().map(|frame| frame.function.as_str()).collect();
                        row.text(5, &inlined.join(";"));
                    }
                    let innermost = inlined.first().unwrap_or(function);
                    if let Some(file) = &innermost.file {
                        row.text(6, file);
                    }
                    if let Some(line) = innermost.line {
                        row.u32(7, line);
                    }
                }
            }
            row.end()?;
        }
        Ok(())
    }
}
