//! The lines of instructions (`co_linetable`).

/// A line of code, from an offset to that of the next line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeLine {
    /// Offset of its first instruction in bytes.
    pub offset: u32,
    /// Number of the line in the source file.
    pub line: u32,
}

/// Size of an instruction in bytes.
const UNIT: u32 = 2;
/// Kinds of entries: with columns of any size, without columns, and without a place. Those below say in their number how many
/// lines the source goes on; those below 10, none.
const LONG: u8 = 14;
const WITHOUT_COLUMNS: u8 = 13;
const WITHOUT_PLACE: u8 = 15;
const FIRST_OF_ONE_LINE: u8 = 10;

/// Returns the lines of code whose source starts at `first_line`, in the order of offsets. A table that is cut has those before
/// the cut.
///
/// Each entry starts with a byte whose highest bit is set, with the kind and the number of instructions. The format is in
/// CPython's `Objects/locations.md`.
///
/// ```
/// use etw_capture::python::{CodeLine, code_lines};
///
/// // Two instructions, one line further, at columns 4 to 8.
/// let lines: Vec<CodeLine> = code_lines(&[0x80 | 11 << 3 | 1, 4, 8], 10).collect();
/// assert_eq!(lines, [CodeLine { offset: 0, line: 11 }]);
/// ```
pub fn code_lines(table: &[u8], first_line: u32) -> impl Iterator<Item = CodeLine> + '_ {
    let (mut rest, mut line, mut offset, mut last) = (table, i64::from(first_line), 0_u32, None);
    std::iter::from_fn(move || {
        loop {
            let (entry, after) = rest.split_first()?;
            let kind = entry >> 3 & 15;
            // The bytes up to the next entry.
            let len = after.iter().position(|byte| byte & 0x80 != 0).unwrap_or(after.len());
            let (numbers, next) = after.split_at(len);
            rest = next;
            let further = match kind {
                WITHOUT_PLACE => None,
                LONG | WITHOUT_COLUMNS => Some(signed(numbers)?),
                kind => Some(i64::from(kind.saturating_sub(FIRST_OF_ONE_LINE))),
            };
            let at = offset;
            offset = offset.checked_add(UNIT * (u32::from(entry & 7) + 1))?;
            line = line.checked_add(further.unwrap_or(0))?;
            let found = u32::try_from(line).ok().filter(|_| further.is_some());
            if let Some(line) = found.filter(|line| last != Some(*line)) {
                last = Some(line);
                return Some(CodeLine { offset: at, line });
            }
        }
    })
}

/// Returns the first number: six bits per byte, the lowest first, the lowest of all being the sign.
fn signed(bytes: &[u8]) -> Option<i64> {
    let (mut number, mut shift) = (0_u64, 0);
    for byte in bytes {
        number |= u64::from(byte & 0x3F).checked_shl(shift)?;
        if byte & 0x40 == 0 {
            let half = i64::try_from(number >> 1).ok()?;
            return Some(if number & 1 == 1 { -half } else { half });
        }
        shift += 6;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(table: &[u8]) -> Vec<(u32, u32)> {
        code_lines(table, 10).map(|line| (line.offset, line.line)).collect()
    }

    #[test]
    fn entries_of_all_kinds_move_the_line() {
        let entry = |kind: u8, units: u8| 0x80 | kind << 3 | (units - 1);
        let table = [
            &[entry(WITHOUT_PLACE, 1)][..],
            // One line further, with columns; then the same line with short columns.
            &[entry(11, 2), 0, 9, entry(3, 1), 0x12],
            // 40 lines further: sign in the lowest bit, in two bytes.
            &[entry(WITHOUT_COLUMNS, 8), 0x40 | 16, 1],
            // Two lines back, with an end and columns.
            &[entry(LONG, 1), 5, 0, 1, 2],
        ]
        .concat();
        assert_eq!(lines(&table), [(2, 11), (8, 51), (24, 49)]);
        // What is cut has those before.
        for len in 0..table.len() {
            assert!(lines(&table).starts_with(&lines(&table[..len])), "{len}");
        }
    }

    #[test]
    fn damaged_tables_end() {
        assert_eq!(lines(&[]), []);
        assert_eq!(lines(&[0x80 | LONG << 3]), []);
        assert_eq!(
            lines(&[0x80 | LONG << 3, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0]),
            []
        );
        // Below the first line of a file.
        assert_eq!(lines(&[0x80 | WITHOUT_COLUMNS << 3, 0x3F]), []);
    }
}
