//! State of processes beyond their events.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use etw_capture::control_groups::{ControlGroup, ControlGroups, Membership};
use etw_capture::records::{Body, Event, Exec, Fork, Move};
use etw_capture::rundown::ProcessEntry;
use etw_etl::encode::ProcessControlGroup;
use etw_event::{FileTime, Ticks};
use etw_kernel_events::classes::{Process, ProcessEvent, RecordBuffer, Stamp};
use etw_sys::control_groups::control_group_path;
use etw_sys::credentials::{is_in_first_pid_namespace, start_key};
use etw_sys::{clock, is_descriptor, is_of_wine, program_file, program_file_name, program_of_wine};

use crate::clock::filetime_of;

/// Time for a forked process to run a program, before it is reported as a copy of its parent.
const TIME_TO_EXEC_NANOS: u64 = 500_000_000;

/// Processes by their ids.
///
/// Linux starts a process as a copy of its parent, which then runs another program; Windows starts it with its program.
/// So the start of a process is reported when it runs its program, or otherwise some time after the fork or when it
/// ends. Each further program that it runs is reported as the start of a process with the same id.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    known: HashMap<u32, Known>,
    /// Forked processes, with the times.
    forked: VecDeque<(u64, u32)>,
    groups: ControlGroups,
}

/// A process.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) key: u64,
    pub(super) parent_id: u32,
    pub(super) session_id: u32,
    pub(super) uid: u32,
    /// Creation time.
    pub(super) created: FileTime,
    pub(super) image: Box<[u8]>,
    /// Path of its program; empty if unknown.
    path: Box<[u8]>,
    pub(super) arguments: Box<[u8]>,
    /// Whether its start has been reported.
    pub(super) is_told: bool,
    /// Whether its fork has been seen, or it was running before.
    is_forked: bool,
    /// The paths of its control groups.
    membership: Membership,
    /// The id of its control group of version 2; 0 if it is unknown.
    group_id: u64,
    group: Option<Arc<ControlGroup>>,
    /// Whether an event moves it to another path.
    pub(super) is_moved: bool,
}

impl Processes {
    /// Returns the running processes.
    pub(super) fn of_this_machine() -> Processes {
        let mut processes = Processes { groups: ControlGroups::of_this_machine(), ..Processes::default() };
        let begin = start_of_system();
        ProcessEntry::all().for_each(|process| processes.remember(&process, begin));
        processes
    }

    /// Returns the process with an id.
    pub(super) fn get(&self, process_id: u32) -> Option<&Known> {
        self.known.get(&process_id)
    }

    /// Returns the ids in ascending order.
    pub(crate) fn ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.known.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Returns the file name of the program that a process runs.
    pub(crate) fn program_of(&self, process_id: u32) -> Option<&[u8]> {
        self.get(process_id).map(|known| &*known.image)
    }

    /// Returns the user and the start key of a process.
    pub(crate) fn identity(&self, process_id: u32) -> Option<(u32, u64)> {
        self.get(process_id).map(|known| (known.uid, known.key))
    }

    /// Adds a record of a process, if it is known.
    pub(crate) fn put(
        &self,
        process_id: u32,
        event: ProcessEvent,
        exit_status: i32,
        stamp: &Stamp,
        records: &mut RecordBuffer,
    ) {
        if let Some(known) = self.get(process_id) {
            records.put(stamp, &known.event(event, process_id, exit_status));
        }
    }

    /// Processes an event. Must be called before the event is translated.
    pub(crate) fn follow(&mut self, event: &Event<'_>) {
        match event.body {
            Body::Fork(fork) if fork.is_process() => self.begin(event.time, &fork),
            Body::Exec(exec) => self.run(event.time, event.process_id, &exec),
            Body::Move(moved) => self.change_group(&moved),
            _ => {}
        }
    }

    /// Drops what ends with an event. Must be called once the event has been translated for all sessions.
    pub(super) fn forget(&mut self, event: &Event<'_>) {
        match event.body {
            Body::Exit { process_code: Some(_), .. } => {
                self.known.remove(&event.process_id);
            }
            Body::Exec(_) => {
                if let Some(known) = self.known.get_mut(&event.process_id) {
                    known.is_told = true;
                }
            }
            Body::Move(moved) => {
                if let Some(known) = self.known.get_mut(&moved.process_id) {
                    known.is_moved = false;
                }
            }
            _ => {}
        }
    }

    /// Returns the next process that was forked long before `now` and has run no program.
    pub(crate) fn overdue(&mut self, now: u64) -> Option<u32> {
        while let Some((time, process_id)) = self.forked.front().copied() {
            if time.saturating_add(TIME_TO_EXEC_NANOS) > now {
                return None;
            }
            self.forked.pop_front();
            if let Some(known) = self.known.get_mut(&process_id).filter(|known| !known.is_told) {
                known.is_told = true;
                return Some(process_id);
            }
        }
        None
    }

    fn remember(&mut self, process: &ProcessEntry, begin: FileTime) {
        let event = process.event(ProcessEvent::DcStart);
        let (membership, group) = self.group_of_process(process.process_id);
        let known = Known {
            key: event.key,
            parent_id: event.parent_id,
            session_id: event.session_id,
            uid: event.uid,
            created: FileTime(begin.0.saturating_add_unsigned(process.start_ticks * FILETIME_A_TICK)),
            image: event.image_file_name.into(),
            path: process.path.as_slice().into(),
            arguments: event.command_line.into(),
            is_told: true,
            is_forked: true,
            membership,
            group_id: 0,
            group,
            is_moved: false,
        };
        self.known.insert(event.process_id, known);
    }

    /// Returns the groups of a running process.
    fn group_of_process(&mut self, process_id: u32) -> (Membership, Option<Arc<ControlGroup>>) {
        let membership = self.groups.of_process(process_id).unwrap_or_default();
        let group = (!membership.path().is_empty()).then(|| self.groups.at(membership.path()));
        (membership, group)
    }

    /// Puts a process that was forked into its group of version 2: that of its parent, unless it was started in another one
    /// (`CLONE_INTO_CGROUP`).
    fn in_group(&mut self, known: Known, fork: &Fork<'_>) -> Known {
        let group_id = fork.control_group;
        if group_id == known.group_id || group_id == 0 {
            return known;
        }
        let mut membership = known.membership.clone();
        // If the group is gone again, what is known of the parent is left.
        match control_group_path(group_id) {
            Some(path) => membership.move_to(0, &path),
            None => membership = self.groups.of_process(fork.process_id).unwrap_or(membership),
        }
        let group = (!membership.path().is_empty()).then(|| self.groups.at(membership.path()));
        Known { membership, group_id, group, ..known }
    }

    fn change_group(&mut self, moved: &Move<'_>) {
        let Some(known) = self.known.get_mut(&moved.process_id) else { return };
        known.membership.move_to(moved.hierarchy, &String::from_utf8_lossy(moved.path));
        if moved.hierarchy == 0 {
            known.group_id = moved.control_group;
        }
        let group = self.groups.at(known.membership.path());
        known.is_moved = known.group.as_ref() != Some(&group);
        known.group = Some(group);
    }

    /// Writes the control group of a process, if it is known and not that of all that are in none, the root, unless it has
    /// just moved there. Returns the number of records.
    pub(crate) fn put_group(&self, process_id: u32, time: Ticks, records: &mut RecordBuffer) -> usize {
        let Some(known) = self.get(process_id) else { return 0 };
        let Some(group) = known.group.as_deref().filter(|group| &*group.path != "/" || known.is_moved) else {
            return 0;
        };
        let event = ProcessControlGroup {
            process_id,
            control_group: &group.path,
            container_runtime: &group.runtime,
            container_id: &group.container_id,
            container_name: &group.names.container,
            container_image: &group.names.image,
            pod_name: &group.names.pod,
            pod_namespace: &group.names.namespace,
            pod_id: &group.names.pod_id,
        };
        let Ok(record) = event.record().time(time).build() else { return 0 };
        records.copy_bytes(&record);
        1
    }

    fn begin(&mut self, time: u64, fork: &Fork<'_>) {
        if let Some(known) = self.known.get_mut(&fork.process_id).filter(|known| !known.is_forked) {
            // Another processor reported its program first.
            (known.is_forked, known.parent_id) = (true, fork.parent_id);
            return;
        }
        // Unless it runs a program, it continues with its parent's.
        let parent = self.known.get(&fork.parent_id);
        let known = Known {
            key: key(fork.since_boot_nanos, fork.process_id),
            parent_id: fork.parent_id,
            session_id: fork.session_id,
            uid: fork.user_id,
            created: filetime_of(time),
            image: parent.map_or_else(|| fork.name.into(), |parent| parent.image.clone()),
            path: parent.map_or_else(Box::default, |parent| parent.path.clone()),
            arguments: parent.map_or_else(Box::default, |parent| parent.arguments.clone()),
            is_told: false,
            is_forked: true,
            membership: parent.map_or_else(Membership::default, |parent| parent.membership.clone()),
            group_id: parent.map_or(0, |parent| parent.group_id),
            group: parent.and_then(|parent| parent.group.clone()),
            is_moved: false,
        };
        let known = self.in_group(known, fork);
        if let Some(parent) = self.known.get_mut(&fork.parent_id)
            && parent.membership == known.membership
        {
            parent.group_id = known.group_id;
        }
        self.known.insert(fork.process_id, known);
        self.forked.push_back((time, fork.process_id));
    }

    fn run(&mut self, time: u64, process_id: u32, exec: &Exec<'_>) {
        let known = self.known.entry(process_id).or_insert_with(|| Known {
            key: key(exec.since_boot_nanos, process_id),
            parent_id: exec.parent_id,
            session_id: exec.session_id,
            uid: exec.user_id,
            created: filetime_of(time),
            image: Box::default(),
            path: Box::default(),
            arguments: Box::default(),
            is_told: false,
            is_forked: false,
            membership: Membership::default(),
            group_id: 0,
            group: None,
            is_moved: false,
        });
        known.session_id = exec.session_id;
        known.uid = exec.user_id;
        known.image = exec_name(process_id, exec);
        known.path = of_wine(process_id, exec)
            .map_or_else(|| full_path(process_id, exec.path), |program| program.into());
        known.arguments = exec.arguments.into();
    }
}

impl Known {
    /// Returns the path of the program; its name if only that is known, as for kernel threads.
    pub(super) fn path(&self) -> &[u8] {
        if self.path.is_empty() { &self.image } else { &self.path }
    }

    /// Returns an event of the process.
    pub(super) fn event(&self, event: ProcessEvent, process_id: u32, exit_status: i32) -> Process<'_> {
        Process {
            event,
            key: self.key,
            process_id,
            parent_id: self.parent_id,
            session_id: self.session_id,
            exit_status,
            uid: self.uid,
            image_file_name: &self.image,
            command_line: &self.arguments,
        }
    }
}

/// Returns the file name of the program that a process has just started to run, under Wine of the Windows program.
pub(crate) fn exec_name(process_id: u32, exec: &Exec<'_>) -> Box<[u8]> {
    match of_wine(process_id, exec) {
        Some(program) => program_file_name(&program).into(),
        None if is_descriptor(exec.path) => program_file_name(&full_path(process_id, exec.path)).into(),
        None => program_file_name(exec.path).into(),
    }
}

/// Returns the Windows program that a process has just started to run, as it was given.
fn of_wine<'a>(process_id: u32, exec: &Exec<'a>) -> Option<Cow<'a, [u8]>> {
    is_of_wine(process_id, exec.path).then(|| program_of_wine(exec.arguments, true)).flatten()
}

/// Returns the key of a process, as its entry in `/proc` has it.
fn key(since_boot_nanos: u64, process_id: u32) -> u64 {
    start_key(since_boot_nanos / (100 * FILETIME_A_TICK), process_id)
}

/// A clock tick of `/proc` in units of 100 ns: 10 ms on all current systems.
const FILETIME_A_TICK: u64 = 100_000;

/// Returns the time at which the system started.
fn start_of_system() -> FileTime {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds: f64 = uptime.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0);
    FileTime(clock::filetime() as i64 - (seconds * 1e7) as i64)
}

/// Returns the full path of a program that a process has just started to run. A relative path or a descriptor is returned
/// unchanged if the process is gone.
fn full_path(process_id: u32, given: &[u8]) -> Box<[u8]> {
    if given.starts_with(b"/") && !is_descriptor(given) {
        return given.into();
    }
    let path = is_in_first_pid_namespace()
        .then(|| program_file(Path::new(&format!("/proc/{process_id}"))))
        .flatten();
    path.map_or_else(|| given.into(), Vec::into_boxed_slice)
}
