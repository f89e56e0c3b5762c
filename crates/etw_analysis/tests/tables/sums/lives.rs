//! Tables without sums: what there is for each of them in the events.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use etw_columns::{ColumnType, Index, Table, Value};
use etw_consumer::Stack;
use etw_event::{EventDescriptor, FileTime, Guid, classes};

use super::said::{DXG_KRNL, Expected, Part, Said};

/// Maximum number of frames of a stack.
const MAX_FRAMES: usize = 1024;

/// Returns a value of a table.
pub(super) fn value(table: Table<'_>, row: u64, column: &str) -> Value {
    let path = etw_tables::column_path(table, column).unwrap_or_else(|| panic!("{column}"));
    table.path_value(row, &path).unwrap()
}

pub(super) fn number(table: Table<'_>, row: u64, column: &str) -> Option<i128> {
    match value(table, row, column) {
        Value::Integer(number) => Some(number),
        Value::Time(time) => Some(time.0.into()),
        Value::Code(code) => Some(code.into()),
        _ => None,
    }
}

/// Returns a text of a table, which is empty if it is missing.
pub(super) fn text<'i>(index: &'i Index, table: Table<'_>, row: u64, column: &str) -> &'i str {
    match value(table, row, column) {
        Value::Code(code) => index.texts().unwrap().get(code).unwrap(),
        _ => "",
    }
}

/// Processes, threads and images.
#[derive(Default)]
pub(super) struct Lives {
    process_starts: Vec<(i128, i128)>,
    process_ends: Vec<(i128, i128)>,
    exit_statuses: i128,
    names: BTreeSet<(i128, String)>,
    /// Processes that have ended, and those whose first thread started before they did.
    ended: HashSet<i128>,
    early: HashSet<i128>,
    thread_starts: Vec<(i128, i128)>,
    thread_ends: Vec<(i128, i128)>,
    /// How often each process id was named and given to another process.
    generations: HashMap<i128, (bool, u32)>,
    /// Ends and bases by process.
    images: HashMap<(i128, u32), BTreeMap<u64, u64>>,
}

impl Part for Lives {
    fn event(&mut self, said: &Said<'_, '_>, _expected: &mut Expected) {
        let time = said.time().into();
        match said.kind() {
            (classes::PROCESS, kind @ (1..=4 | 39)) => {
                let Some(id) = said.number(&["ProcessId"]) else { return };
                let name = said.get::<String>("ImageFileName").unwrap_or_default();
                let (is_named, generation) = self.generations.entry(id).or_default();
                if kind == 1 && std::mem::take(is_named) {
                    *generation += 1;
                    // A process of Linux that starts itself has replaced its program.
                    if said.process() == id && !self.ended.contains(&id) {
                        self.process_ends.push((id, time));
                        self.thread_starts.push((said.thread(), time));
                        self.thread_ends.push((said.thread(), time));
                    }
                }
                *is_named |= !name.is_empty();
                match kind {
                    1 if self.early.remove(&id) => {}
                    1 => {
                        self.ended.remove(&id);
                        self.process_starts.push((id, time));
                    }
                    2 => {
                        self.ended.insert(id);
                        self.process_ends.push((id, time));
                        self.exit_statuses += said.number(&["ExitStatus"]).unwrap_or(0);
                    }
                    _ => {}
                }
                self.names.insert((id, name));
            }
            (classes::THREAD, kind @ (1 | 2)) => {
                let (Some(id), Some(process)) = (said.number(&["TThreadId"]), said.number(&["ProcessId"]))
                else {
                    return;
                };
                // On Linux, the first thread starts before the process has a name.
                if kind == 1 && self.ended.remove(&process) {
                    self.early.insert(process);
                    self.process_starts.push((process, time));
                    let (is_named, generation) = self.generations.entry(process).or_default();
                    (*is_named, *generation) = (false, *generation + 1);
                }
                if id != 0 {
                    let of_kind = if kind == 1 { &mut self.thread_starts } else { &mut self.thread_ends };
                    of_kind.push((id, time));
                }
            }
            (classes::IMAGE, 2..=4 | 10) => {
                let base = said.get::<u64>("ImageBase").or_else(|| said.get("BaseAddress"));
                let size = said.get::<u64>("ImageSize").or_else(|| said.get("ModuleSize"));
                let (Some(base), Some(size @ 1..)) = (base, size) else { return };
                let process = said.number(&["ProcessId"]).unwrap_or_else(|| said.process()).max(0);
                let generation = self.generations.get(&process).map_or(0, |(_, generation)| *generation);
                let images = self.images.entry((process, generation)).or_default();
                // What is mapped over others takes their place.
                let end = base + size;
                images.retain(|other, other_end| *other_end <= base || *other >= end);
                images.insert(base, end);
            }
            _ => {}
        }
    }

    fn finish(&mut self, expected: &mut Expected) {
        for (base, end) in self.images.values().flatten() {
            expected.row("images");
            expected.add("images", "size", (end - base).into());
            expected.add("images", "base", (*base).into());
        }
        expected.add("processes", "exit_status", self.exit_statuses);
    }
}

impl Lives {
    pub(super) fn check(&mut self, name: &str, index: &Index) {
        let all = |table: &str, id: &str, time: &str| {
            let table = index.table(table).unwrap();
            let row = |row| Some((number(table, row, id)?, number(table, row, time)?));
            let mut all: Vec<_> = (0..table.rows()).filter_map(row).collect();
            all.sort_unstable();
            all
        };
        for (table, id, time, told) in [
            ("processes", "process_id", "start", &mut self.process_starts),
            ("processes", "process_id", "end", &mut self.process_ends),
            ("threads", "thread_id", "start_time", &mut self.thread_starts),
            ("threads", "thread_id", "end_time", &mut self.thread_ends),
        ] {
            told.sort_unstable();
            assert_eq!(all(table, id, time), *told, "{name}: {table}.{time}");
        }
        // Each process of an event has a row, and no other process has a name.
        let processes = index.table("processes").unwrap();
        let found: BTreeSet<(i128, String)> = (0..processes.rows())
            .map(|row| {
                let id = number(processes, row, "process_id").unwrap();
                (id, text(index, processes, row, "name").to_owned())
            })
            .collect();
        for told in self.names.iter().filter(|(_, name)| !name.is_empty()) {
            assert!(found.contains(told), "{name}: {told:?}");
        }
        for named in found.iter().filter(|(_, name)| !name.is_empty()) {
            assert!(self.names.contains(named), "{name}: {named:?}");
        }
    }
}

/// Types of objects and contexts of the graphics kernel: each number once, unless it is given to another one.
#[derive(Default)]
pub(super) struct Numbered {
    types: HashSet<i128>,
    /// Whether an event described the context.
    contexts: HashMap<i128, bool>,
}

impl Part for Numbered {
    fn event(&mut self, said: &Said<'_, '_>, expected: &mut Expected) {
        match said.kind() {
            (classes::OBJECT, kind @ (32 | 34 | 36 | 37 | 38)) => {
                let Some(number) = said.number(&["ObjectType"]) else { return };
                let is_told = matches!(kind, 32 | 34 | 38) || said.get::<String>("TypeName").is_some();
                if is_told && self.types.insert(number) {
                    expected.row("object_types");
                    expected.add("object_types", "number", number);
                }
            }
            (DXG_KRNL, id @ (30 | 32 | 175 | 178 | 244 | 245)) => {
                let Some(context) = said.number(&["hContext"]) else { return };
                let is_described = matches!(id, 30 | 32) && said.number(&["hDevice"]).is_some();
                let before = self.contexts.get(&context).copied();
                if before.is_none() || id == 30 && before == Some(true) {
                    expected.row("gpu_contexts");
                }
                self.contexts.insert(context, is_described || before == Some(true) && id != 30);
            }
            _ => {}
        }
    }
}

/// All events: their kinds, their sizes, and their stacks.
#[derive(Default)]
pub(super) struct Events {
    kinds: HashMap<(Guid, EventDescriptor), (i128, i128)>,
    stacks: Vec<Vec<u64>>,
}

impl Events {
    pub(super) fn event(&mut self, said: &Said<'_, '_>, stack: &Stack<'_>, expected: &mut Expected) {
        if said.kind().0 == classes::STACK_WALK {
            return;
        }
        let record = said.0.record;
        let size = record.as_bytes().len() as i128;
        expected.row("events");
        expected.add("events", "size", size);
        expected.add("events", "processor", record.processor().into());
        let of_kind = self.kinds.entry((said.0.names().provider_guid(), record.descriptor())).or_default();
        *of_kind = (of_kind.0 + 1, of_kind.1 + size);
        self.stacks.push(stack.addresses().take(MAX_FRAMES).collect());
    }

    pub(super) fn check(&self, name: &str, index: &Index) {
        let (events, kinds) = (index.table("events").unwrap(), index.table("event_kinds").unwrap());
        // The events of each descriptor; several schemas of one make several kinds.
        let descriptors: Vec<(Guid, EventDescriptor)> = (0..kinds.rows())
            .map(|row| {
                let Value::Code(guid) = value(kinds, row, "provider_guid") else { panic!("{name}") };
                let get = |column: &str| number(kinds, row, column).unwrap();
                let descriptor = EventDescriptor {
                    id: get("id") as u16,
                    version: get("version") as u8,
                    channel: get("channel") as u8,
                    level: etw_event::Level(get("level") as u8),
                    opcode: etw_event::Opcode(get("opcode") as u8),
                    task: get("task") as u16,
                    keyword: etw_event::Keyword(get("keywords") as u64),
                };
                (index.guids().unwrap().get(guid).unwrap(), descriptor)
            })
            .collect();
        let mut found: HashMap<(Guid, EventDescriptor), (i128, i128)> = HashMap::new();
        let mut is_used = vec![false; descriptors.len()];
        let column = |column: &str| events.column(events.schema().column(column).unwrap()).unwrap();
        let (kind, size, stack) = (column("kind"), column("size"), column("stack"));
        let (stacks, frames) = (index.stacks().unwrap(), index.table("frames").unwrap());
        assert_eq!(kind.column().column_type, ColumnType::Row);
        let mut row = 0;
        for chunk in 0..events.chunks() {
            let [mut kinds, mut sizes, mut codes] = [(); 3].map(|()| etw_columns::Values::<u32>::default());
            kind.read(chunk, &mut kinds).unwrap();
            size.read(chunk, &mut sizes).unwrap();
            stack.read(chunk, &mut codes).unwrap();
            for place in 0..events.chunk_rows(chunk) {
                let kind = kinds.get(place).unwrap() as usize;
                is_used[kind] = true;
                let of_kind = found.entry(descriptors[kind]).or_default();
                *of_kind = (of_kind.0 + 1, of_kind.1 + i128::from(sizes.get(place).unwrap()));
                let told = &self.stacks[row];
                let has = codes.get(place).map_or(0, |code| stacks.frames(code).count());
                assert_eq!(has, told.len(), "{name}: the stack of event {row}");
                for (number, (frame, address)) in
                    codes.get(place).into_iter().flat_map(|code| stacks.frames(code)).zip(told).enumerate()
                {
                    let found = self::number(frames, frame, "address").unwrap() as u64;
                    // A caller's frame is the last byte of its call.
                    let is_call = number > 0 && found == address.wrapping_sub(1);
                    assert!(is_call || found == *address, "{name}: {found:#x} {address:#x}");
                }
                row += 1;
            }
        }
        assert!(found == self.kinds, "{name}: {found:?} {:?}", self.kinds);
        assert!(is_used.iter().all(|is_used| *is_used), "{name}: a kind without events");
    }
}

/// The names of files, and of what operations on the registry name.
#[derive(Default)]
pub(super) struct Names {
    files: BTreeSet<String>,
    volumes: BTreeSet<(String, String)>,
    remainders: Vec<String>,
}

impl Part for Names {
    fn event(&mut self, said: &Said<'_, '_>, _expected: &mut Expected) {
        match said.kind() {
            (classes::FILE_IO, 0 | 32 | 35 | 36) => {
                self.files.extend(
                    said.get::<String>("FileName").filter(|_| said.number(&["FileObject"]).is_some()),
                );
            }
            (classes::SYS_CONFIG_EX, 35) => {
                self.volumes.extend(said.get("NtPath").zip(said.get("DosPath")));
            }
            (classes::FILE_IO, 64) => self.files.extend(said.get::<String>("OpenPath")),
            (classes::REGISTRY, 10..=21 | 26..=29) => {
                self.remainders.push(said.get("KeyName").unwrap_or_default());
            }
            _ => {}
        }
    }
}

impl Names {
    pub(super) fn check(&self, name: &str, index: &Index) {
        // Volumes are shown by their drive letters.
        let shown = |path: &String| {
            let of_path = self.volumes.iter().filter(|(from, _)| path.starts_with(from.as_str()));
            match of_path.max_by_key(|(from, _)| from.len()) {
                Some((from, to)) => format!("{to}{}", &path[from.len()..]),
                None => path.clone(),
            }
        };
        let told: BTreeSet<String> = self.files.iter().map(shown).collect();
        let files = index.table("files").unwrap();
        for row in 0..files.rows() {
            let path = text(index, files, row, "path");
            // Or a key or an object that no event names.
            assert!(path.starts_with('[') || told.contains(path), "{name}: {path}");
        }
        let (operations, keys) = (index.table("registry").unwrap(), index.table("registry_keys").unwrap());
        for (row, told) in self.remainders.iter().enumerate() {
            assert_eq!(text(index, operations, row as u64, "key.remainder"), told, "{name}: {row}");
        }
        let key = operations.path("key").unwrap();
        let of_row = |row| match operations.path_value(row, &key).unwrap() {
            Value::Code(code) => Some(code),
            _ => None,
        };
        let used: HashSet<_> = (0..operations.rows()).filter_map(of_row).collect();
        assert_eq!(used.len() as u64, keys.rows(), "{name}: each key belongs to an operation");
        for row in 0..keys.rows() {
            let parts = ["base", "remainder"].map(|column| text(index, keys, row, column));
            let whole: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            assert_eq!(text(index, keys, row, "name"), whole.join("\\"), "{name}");
        }
    }
}

/// Returns a time in units of 100 ns.
pub(super) fn at(time: FileTime) -> i128 {
    time.0.into()
}
