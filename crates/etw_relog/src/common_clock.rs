//! The clock of a file that is made from several files.

use etw_event::{Clock, ClockType, FileTime};

/// Returns the number of the file whose clock the new file gets, and which files' events are converted to it.
///
/// # Errors
///
/// Two files have clocks that cannot be combined; the numbers are those of the two files.
pub(super) fn common(clocks: &[Clock]) -> Result<(usize, Vec<bool>), [usize; 2]> {
    let is_system_time = |clock: &Clock| clock.clock_type == ClockType::SystemTime;
    let first = clocks.iter().position(|clock| !is_system_time(clock)).unwrap_or(0);
    let Some(common) = clocks.get(first) else { return Ok((0, Vec::new())) };
    let has_all_times = common.frequency() >= FileTime::PER_SECOND;
    let is_brought = |(number, clock): (usize, &Clock)| match is_system_time(clock) {
        // Readings of the system time have the same meaning in every file.
        true if is_system_time(common) => Ok(false),
        true if has_all_times => Ok(true),
        false if clock == common => Ok(false),
        _ => Err([first, number]),
    };
    Ok((first, clocks.iter().enumerate().map(is_brought).collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use etw_event::Ticks;

    use super::*;

    fn counter(frequency: i64) -> Clock {
        Clock::new(ClockType::Qpc, Ticks(77), FileTime(134_000_000_000_000_000), frequency)
    }

    #[test]
    fn which_clocks_go_together() {
        let system_time = |start: i64| Clock::new(ClockType::SystemTime, Ticks(start), FileTime(start), 0);
        let check = |clocks: &[Clock], expected: Result<(usize, &[bool]), [usize; 2]>| {
            let expected = expected.map(|(first, brought)| (first, brought.to_vec()));
            assert_eq!(common(clocks), expected, "{clocks:?}");
        };
        let fast = counter(10_000_000);
        check(&[fast, fast], Ok((0, &[false, false])));
        check(&[system_time(5), system_time(9)], Ok((0, &[false, false])));
        check(&[fast, system_time(5)], Ok((0, &[false, true])));
        check(&[system_time(5), fast, fast], Ok((1, &[true, false, false])));
        check(&[system_time(5), fast, counter(20_000_000)], Err([1, 2]));
        // This clock has the same reading for several times.
        check(&[counter(3_579_545), system_time(5)], Err([0, 1]));
    }
}
