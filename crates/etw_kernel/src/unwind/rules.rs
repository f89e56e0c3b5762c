//! Where a frame's caller is, in the few words that the kernel's programs understand (`bpf/rules.h`).

use std::ops::RangeInclusive;

use gimli::{CfaRule, EhFrame, Encoding, Expression, Operation, RegisterRule, UnwindTableRow, X86_64};

use super::sections::Reader;

/// How code of x86-64 keeps the way to its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// The caller's stack pointer is `offset` bytes, which are words, behind a register, its instruction stands in the word before, and its
    /// frame pointer that many words from there, or still in its register where that is 0.
    Caller { base: Base, offset: i32, frame_pointer: i16 },
    /// The caller's stack pointer is kept `offset` bytes behind the frame pointer, and the caller's frame pointer where
    /// that points to: frames with memory of any size behind an alignment.
    Kept { offset: i32 },
    /// There is no caller: the thread began here.
    End,
}

/// A register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    StackPointer,
    FramePointer,
}

impl Rule {
    /// The rule of a row of this section, whose expressions have this encoding.
    pub(super) fn of<'d>(
        row: &UnwindTableRow<usize>,
        section: &EhFrame<Reader<'d>>,
        encoding: Encoding,
    ) -> Option<Rule> {
        match row.register(X86_64::RA) {
            Some(RegisterRule::Offset(-8)) => {}
            Some(RegisterRule::Undefined) => return Some(Rule::End),
            _ => return None,
        }
        let words = |offset: i64| i32::try_from(offset).ok().filter(|offset| offset % 8 == 0);
        let (register, offset) = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => (*register, words(*offset)?),
            CfaRule::Expression(kept) => {
                let Some(RegisterRule::Expression(pointer)) = row.register(X86_64::RBP) else { return None };
                let kept = from_frame_pointer(kept.get(section).ok()?, encoding, true)?;
                let pointer = from_frame_pointer(pointer.get(section).ok()?, encoding, false)?;
                return words(kept).filter(|_| pointer == 0).map(|offset| Rule::Kept { offset });
            }
        };
        let base = match register {
            X86_64::RSP => Base::StackPointer,
            X86_64::RBP => Base::FramePointer,
            _ => return None,
        };
        let frame_pointer = match row.register(X86_64::RBP) {
            None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => 0,
            Some(RegisterRule::Offset(bytes)) if bytes % 8 == 0 => i16::try_from(bytes / 8).ok()?,
            _ => return None,
        };
        Some(Rule::Caller { base, offset, frame_pointer })
    }
}

/// The offset, if an expression is the frame pointer and an offset, or what is kept there.
fn from_frame_pointer(expression: Expression<Reader<'_>>, encoding: Encoding, is_kept: bool) -> Option<i64> {
    let mut operations = expression.operations(encoding);
    let Some(Operation::RegisterOffset { register: X86_64::RBP, offset, .. }) = operations.next().ok()?
    else {
        return None;
    };
    if is_kept && !matches!(operations.next().ok()?, Some(Operation::Deref { size: 8, space: false, .. })) {
        return None;
    }
    operations.next().ok()?.is_none().then_some(offset)
}

/// A rule as the programs have it, for these bytes of its unit; they ask back where there is none.
pub(super) fn bits(rule: Option<Rule>, bytes: RangeInclusive<u8>) -> u64 {
    let (base, offset, frame_pointer): (u32, i32, i16) = match rule {
        None => (0, 0, 0),
        Some(Rule::Caller { base: Base::StackPointer, offset, frame_pointer }) => (1, offset, frame_pointer),
        Some(Rule::Caller { base: Base::FramePointer, offset, frame_pointer }) => (2, offset, frame_pointer),
        Some(Rule::End) => (3, 0, 0),
        Some(Rule::Kept { offset }) => (4, offset, 0),
    };
    let (first, last) = bytes.into_inner();
    u64::from(offset.cast_unsigned() | base)
        | u64::from(frame_pointer.cast_unsigned()) << 32
        | u64::from(first) << 48
        | u64::from(last) << 56
}

/// The bytes of a unit that the bits of a rule are for.
pub(super) fn bytes_of(bits: u64) -> RangeInclusive<u8> {
    (bits >> 48) as u8..=(bits >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_put_as_the_programs_read_them() {
        let rule = Rule::Caller { base: Base::FramePointer, offset: -16, frame_pointer: -2 };
        let put = bits(Some(rule), 5..=255);
        assert_eq!(put.to_le_bytes(), [0xF2, 0xFF, 0xFF, 0xFF, 0xFE, 0xFF, 5, 255]);
        assert_eq!(bytes_of(put), 5..=255);
        assert_eq!(bits(Some(Rule::End), 0..=0).to_le_bytes(), [3, 0, 0, 0, 0, 0, 0, 0]);
    }
}
