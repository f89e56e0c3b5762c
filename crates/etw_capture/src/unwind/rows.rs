//! Rules from the rows of unwind tables.

use gimli::{CfaRule, EhFrame, Encoding, Expression, Operation, RegisterRule, UnwindTableRow, X86_64};

use super::sections::Reader;
use crate::rules::{Base, Rule};

/// Returns the rule of a row of this section, whose expressions have this encoding; `None` if the row cannot be
/// expressed as a rule.
pub(super) fn rule_of<'d>(
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
/// Returns the offset of an expression that is the frame pointer plus an offset; with `is_kept`, the value stored
/// there.
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
