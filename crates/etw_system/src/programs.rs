//! The program that each process ran at each time.
//!
//! Process events are fetched processor by processor, and the one that says which program a process runs may come from
//! another processor. So filters by program are evaluated once the events of all processors are in order.

use std::collections::HashMap;

use etw_capture::records::{Body, Event};

use crate::translate::{Processes, exec_name};

/// The programs of those processes that started, changed or ended while events were fetched.
#[derive(Debug, Default)]
pub(crate) struct Programs(HashMap<u32, Vec<(u64, Box<[u8]>)>>);

impl Programs {
    /// Processes an event, given the processes known before all of them. Events must come in order.
    pub(crate) fn follow(&mut self, event: &Event<'_>, before: &Processes) {
        match event.body {
            Body::Fork(fork) if fork.is_process() => {
                let name = self.at(fork.parent_id, |_| true, before).unwrap_or(fork.name).into();
                self.change(fork.process_id, event.time, name, before);
            }
            Body::Exec(exec) => {
                self.change(event.process_id, event.time, exec_name(event.process_id, &exec), before)
            }
            Body::Exit { process_code: Some(_), .. } => {
                // The known processes lose it too, and its last events may not have been checked by then.
                let name = self.at(event.process_id, |_| true, before).unwrap_or_default().into();
                self.change(event.process_id, event.time, name, before);
            }
            _ => {}
        }
    }

    fn change(&mut self, process_id: u32, time: u64, name: Box<[u8]>, before: &Processes) {
        let first = || before.program_of(process_id).map(|name| (0, name.into())).into_iter().collect();
        self.0.entry(process_id).or_insert_with(first).push((time, name));
    }

    /// Returns the program of a process at a time; `is_before` decides whether a change precedes that time.
    pub(crate) fn at<'a>(
        &'a self,
        process_id: u32,
        is_before: impl Fn(u64) -> bool,
        known: &'a Processes,
    ) -> Option<&'a [u8]> {
        let Some(changes) = self.0.get(&process_id) else { return known.program_of(process_id) };
        let behind = changes.partition_point(|(time, _)| is_before(*time));
        // An event before the first known change belongs to the first program.
        changes.get(behind.saturating_sub(1)).map(|(_, name)| &**name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_capture::records::{Exec, Fork};

    #[test]
    fn programs_are_those_of_the_time() {
        let known = Processes::default();
        let mut programs = Programs::default();
        let event = |time, process_id, body| Event { time, processor: 0, process_id, thread_id: 1, body };
        let fork = |process_id, parent_id, name| {
            Body::Fork(Fork {
                process_id,
                thread_id: process_id,
                parent_id,
                user_id: 0,
                session_id: 0,
                priority: 0,
                name,
                since_boot_nanos: 0,
                control_group: 0,
            })
        };
        let exec = |path| {
            let (arguments, arguments_all_bytes) = (&b""[..], 0);
            Body::Exec(Exec {
                parent_id: 1,
                user_id: 0,
                session_id: 0,
                old_thread_id: 1,
                path,
                arguments,
                arguments_all_bytes,
                since_boot_nanos: 0,
            })
        };
        programs.follow(&event(10, 1, fork(7, 1, b"sh")), &known);
        programs.follow(&event(20, 7, exec(b"/bin/echo")), &known);
        programs.follow(&event(25, 7, fork(8, 7, b"x")), &known);
        programs.follow(
            &event(30, 7, Body::Exit { code: 0, process_code: Some(0), kernel_nanos: 0, user_nanos: 0 }),
            &known,
        );
        let check = |process_id, time, expected: Option<&[u8]>| {
            assert_eq!(
                programs.at(process_id, |change| change <= time, &known),
                expected,
                "{process_id} {time}"
            );
        };
        check(7, 5, Some(b"sh"));
        check(7, 15, Some(b"sh"));
        check(7, 20, Some(b"echo"));
        check(7, 99, Some(b"echo"));
        check(8, 26, Some(b"echo"));
        check(9, 26, None);
    }
}
