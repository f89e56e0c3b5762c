//! Native frames with the frames of Python that they stand for.

use std::ops::Range;

use super::Interpreter;
use crate::records::PythonFrame;

/// Puts the frames of Python into a native stack from `first` on, innermost first, in place of those of the function that runs
/// them (`run`), each of which stands for the frames up to an entry.
///
/// A stack that `is_whole` reaches the start of the thread. An address that `is_known` is code of a file; other code that calls the
/// function is a trampoline for perf (`-X perf`), which stands for the frame before it.
///
/// Instructions are written as callers are, whose names are looked up one byte before.
pub(crate) fn merge(
    frames: &mut Vec<u64>,
    first: usize,
    run: &Range<u64>,
    python: impl Iterator<Item = PythonFrame>,
    interpreter: &Interpreter,
    is_whole: bool,
    is_known: impl Fn(u64) -> bool,
) {
    let mut groups: Vec<Vec<u64>> = vec![Vec::new()];
    for frame in python {
        if let Some(group) = groups.last_mut().filter(|_| !frame.is_entry || interpreter.entry_runs_code) {
            // Before a frame has run, its instruction is the one before the first.
            let first = frame.code.saturating_add(interpreter.first_instruction.into());
            group.push(frame.instruction.max(first).saturating_add(1));
        }
        if frame.is_entry {
            groups.push(Vec::new());
        }
    }
    groups.retain(|group| !group.is_empty());
    if groups.is_empty() {
        return;
    }
    let native = frames.split_off(first);
    let runs = |at: usize, address: u64| run.contains(&address.saturating_sub(u64::from(at > 0)));
    let count = native.iter().enumerate().filter(|(at, address)| runs(*at, **address)).count();
    // The innermost call may not have begun its first frame, and one of code apart from the function is not seen; the outermost
    // ones are those that are missing in a stack that is cut.
    let mut skipped = if is_whole { count.saturating_sub(groups.len()) } else { 0 };
    let surplus = if is_whole { groups.len().saturating_sub(count) } else { 0 };
    let mut groups = groups.into_iter();
    let mut next: Vec<u64> = groups.by_ref().take(surplus).flatten().collect();
    let mut after_run = false;
    for (at, address) in native.into_iter().enumerate() {
        if !runs(at, address) {
            let is_trampoline = after_run && !is_known(address);
            after_run = false;
            if !is_trampoline {
                frames.push(address);
            }
        } else if skipped > 0 {
            skipped -= 1;
            frames.push(address);
        } else {
            after_run = true;
            frames.append(&mut next);
            frames.extend(groups.next().unwrap_or_else(|| vec![address]));
        }
    }
    // Without a native frame for them.
    frames.append(&mut next);
    frames.extend(groups.flatten());
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Range<u64> = 0x100..0x200;

    fn frame(instruction: u64, is_entry: bool) -> PythonFrame {
        PythonFrame { code: 0x9000, instruction, is_entry }
    }

    fn interpreter(entry_runs_code: bool) -> Interpreter {
        Interpreter { entry_runs_code, first_instruction: 0x10, ..Interpreter::default() }
    }

    fn merged(native: &[u64], python: &[PythonFrame], is_whole: bool) -> Vec<u64> {
        // A frame of the kernel is first.
        let mut frames = [&[1][..], native].concat();
        let is_known = |address| address < 0x1000;
        merge(&mut frames, 1, &RUN, python.iter().copied(), &interpreter(true), is_whole, is_known);
        frames.split_off(1)
    }

    #[test]
    fn each_call_of_the_function_stands_for_its_frames() {
        let python = [frame(0x9010, false), frame(0x9020, true), frame(0x9030, true)];
        let native = [0x500, 0x150, 0x600, 0x160, 0x700];
        let expected = [0x500, 0x9011, 0x9021, 0x600, 0x9031, 0x700];
        assert_eq!(merged(&native, &python, true), expected);
        assert_eq!(merged(&native, &python, false), expected);
        assert_eq!(merged(&native, &[], true), native);
    }

    #[test]
    fn calls_and_frames_of_different_numbers_are_matched_from_the_end_that_is_there() {
        let python = [frame(0x9010, true), frame(0x9020, true)];
        // The innermost call has not begun its frame.
        assert_eq!(merged(&[0x110, 0x150, 0x160, 0x700], &python, true), [0x110, 0x9011, 0x9021, 0x700]);
        // The outermost call is cut off.
        assert_eq!(merged(&[0x500, 0x150, 0x600], &python, false), [0x500, 0x9011, 0x600, 0x9021]);
        // The innermost call is not seen.
        assert_eq!(merged(&[0x500, 0x150, 0x700], &python, true), [0x500, 0x9011, 0x9021, 0x700]);
        assert_eq!(merged(&[0x500], &python, true), [0x500, 0x9011, 0x9021]);
        // A return address behind the function is of its last call.
        assert_eq!(merged(&[0x500, 0x200, 0x600], &python[1..], true), [0x500, 0x9021, 0x600]);
    }

    #[test]
    fn trampolines_for_perf_stand_for_the_frame_before() {
        let python = [frame(0x9010, true), frame(0x9020, true)];
        let native = [0x500, 0x150, 0x7F00_1000, 0x160, 0x7F00_2000, 0x700];
        assert_eq!(merged(&native, &python, true), [0x500, 0x9011, 0x9021, 0x700]);
        // Code that no call of the function leads to stays.
        assert_eq!(merged(&[0x7F00_1000, 0x150, 0x700], &python[..1], true), [0x7F00_1000, 0x9011, 0x700]);
    }

    #[test]
    fn frames_that_have_not_run_are_at_their_first_instruction() {
        assert_eq!(merged(&[0x150], &[frame(0x900E, true)], true), [0x9011]);
    }

    #[test]
    fn marks_without_code_are_no_frames() {
        let mut frames = vec![0x150, 0x700];
        let python = [frame(0x9010, false), frame(0, true)].into_iter();
        merge(&mut frames, 0, &RUN, python, &interpreter(false), true, |_| true);
        assert_eq!(frames, [0x9011, 0x700]);
    }
}
