//! Tables whose rows are single events, or last from a start to the stop with the same key: the events of each table,
//! and the properties that its columns must add up to.

use std::collections::HashMap;

use etw_event::{Guid, classes};

use super::said::{
    CLR, CLR_RUNDOWN, DXG_KRNL, Expected, KERNEL_MEMORY, PROCESSOR_POWER, Part, Said, WIN32K, WIN32K_7,
    WININET, nanos,
};

const MILLISECOND: i128 = 1_000_000;
const PAGE: i128 = 4096;

/// Events: a provider or class, and ids or types.
type Kinds = &'static [(Guid, &'static [u16])];
/// A column, the properties of which the first one counts, and what they are multiplied with.
type Sum = (&'static str, &'static [&'static str], i128);

/// Tables with a row for each event.
const SINGLE: &[(&str, Kinds, &[Sum])] = &[
    (
        "page_faults",
        &[(classes::PAGE_FAULT, &[10, 11, 12, 13, 14, 15])],
        &[("address", &["VirtualAddress"], 1)],
    ),
    (
        "process_counters",
        &[(classes::PROCESS, &[32, 33])],
        &[
            ("page_faults", &["PageFaultCount"], 1),
            ("handles", &["HandleCount"], 1),
            ("working_set", &["WorkingSetSize"], 1),
            ("peak_working_set", &["PeakWorkingSetSize"], 1),
            ("virtual_size", &["VirtualSize"], 1),
            ("peak_virtual_size", &["PeakVirtualSize"], 1),
            ("commit", &["PagefileUsage"], 1),
            ("peak_commit", &["PeakPagefileUsage"], 1),
            ("paged_pool", &["QuotaPagedPoolUsage"], 1),
            ("peak_paged_pool", &["QuotaPeakPagedPoolUsage"], 1),
            ("nonpaged_pool", &["QuotaNonPagedPoolUsage"], 1),
            ("peak_nonpaged_pool", &["QuotaPeakNonPagedPoolUsage"], 1),
            ("private_size", &["PrivatePageCount"], 1),
        ],
    ),
    (
        "memory_utilization",
        &[(classes::PAGE_FAULT, &[112]), (KERNEL_MEMORY, &[1])],
        &[
            ("zero", &["ZeroPageCount"], PAGE),
            ("free", &["FreePageCount"], PAGE),
            ("modified", &["ModifiedPageCount"], PAGE),
            ("modified_no_write", &["ModifiedNoWritePageCount"], PAGE),
            ("bad", &["BadPageCount"], PAGE),
            ("paged_pool", &["PagedPoolPageCount"], PAGE),
            ("nonpaged_pool", &["NonPagedPoolPageCount"], PAGE),
            ("mdl", &["MdlPageCount"], PAGE),
            ("commit", &["CommitPageCount"], PAGE),
        ],
    ),
    (
        "services",
        &[(classes::SYSTEM_CONFIG, &[15])],
        &[("state", &["ServiceState"], 1), ("sub_process_tag", &["SubProcessTag"], 1)],
    ),
    ("marks", &[(classes::PERF_INFO, &[34])], &[]),
    (
        "cpu_frequency",
        &[(PROCESSOR_POWER, &[10])],
        &[("frequency", &["Speed"], 1), ("performance", &["Performance"], 1), ("processor", &["Number"], 1)],
    ),
    (
        "power",
        &[(classes::POWER, &[34, 35, 36, 37, 40, 41, 48, 49])],
        &[
            ("action", &["PowerAction", "SystemAction"], 1),
            ("state", &["SystemState", "LightestState", "MinSystemState"], 1),
            ("status", &["Status"], 1),
        ],
    ),
    (
        "ui_delays",
        &[(WIN32K, &[37, 38, 172, 173]), (WIN32K_7, &[37, 38, 172, 173])],
        &[
            ("duration", &["DelayTimeMs"], MILLISECOND),
            ("since_input_remove", &["TimeSinceInputRemoveMs"], MILLISECOND),
            ("since_oldest_input", &["TimeSinceOldestInputMs"], MILLISECOND),
            ("message_id", &["MessageId"], 1),
        ],
    ),
    ("mini_filters", &[(classes::FILE_IO, &[98, 99, 100, 101])], &[("status", &["Status"], 1)]),
    (
        "loader",
        &[(
            classes::IMAGE,
            &[
                128, 129, 130, 131, 132, 133, 134, 135, 144, 145, 146, 147, 148, 149, 150, 160, 161, 162,
                163, 164, 165, 166, 167, 168, 169, 170, 171, 173, 174, 176, 177, 192, 193, 208, 209, 210,
                211, 212, 213,
            ],
        )],
        &[
            ("base", &["NewDllBaseAddress", "BaseAddress"], 1),
            ("parent_base", &["ParentDllBaseAddress"], 1),
            ("load_reason", &["LoadReason"], 1),
            ("error_opcode", &["ErrorOpcode"], 1),
        ],
    ),
    (
        "allocations",
        &[(CLR, &[10])],
        &[("size", &["AllocationAmount64", "AllocationAmount"], 1), ("object_size", &["ObjectSize"], 1)],
    ),
    ("exceptions", &[(CLR, &[80])], &[("hresult", &["ExceptionHRESULT"], 1)]),
    (
        "threadpool",
        &[(CLR, &[50, 51, 55, 57])],
        &[("active_threads", &["ActiveWorkerThreadCount"], 1), ("new_threads", &["NewWorkerThreadCount"], 1)],
    ),
    (
        "dotnet_modules",
        &[(CLR, &[152, 153]), (CLR_RUNDOWN, &[153, 154])],
        &[("runtime", &["ClrInstanceID"], 1)],
    ),
    (
        "hard_faults",
        &[(classes::PAGE_FAULT, &[32])],
        &[("size", &["ByteCount"], 1), ("address", &["VirtualAddress"], 1), ("offset", &["ReadOffset"], 1)],
    ),
    ("dpc_isr", &[(classes::PERF_INFO, &[50, 66, 67, 68, 69, 95])], &[("vector", &["Vector"], 1)]),
    (
        "registry",
        &[(classes::REGISTRY, &[10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 26, 27, 28, 29])],
        &[("status", &["Status"], 1), ("index", &["Index"], 1)],
    ),
];

/// Single events with the time that they began at in a property: the table, its events, the column and the property.
const SINCE: &[(&str, Kinds, &str, &str)] = &[
    ("mini_filters", &[(classes::FILE_IO, &[98, 99])], "duration", "InitialTime"),
    ("hard_faults", &[(classes::PAGE_FAULT, &[32])], "duration", "InitialTime"),
    ("dpc_isr", &[(classes::PERF_INFO, &[50, 66, 67, 68, 69, 95])], "duration", "InitialTime"),
];

/// Tables with a row for each start.
struct Paired {
    table: &'static str,
    starts: Kinds,
    stops: Kinds,
    /// Properties of the key, of which the event has one each.
    key: &'static [&'static [&'static str]],
    /// What besides is a part of the key.
    scope: fn(&Said<'_, '_>) -> i128,
    duration: &'static str,
    of_starts: &'static [Sum],
    of_stops: &'static [Sum],
}

fn nothing(_: &Said<'_, '_>) -> i128 {
    0
}

fn processor(said: &Said<'_, '_>) -> i128 {
    said.0.record.processor().into()
}

const PAIRED: &[Paired] = &[
    Paired {
        table: "pool",
        starts: &[(classes::POOL, &[32, 33])],
        stops: &[(classes::POOL, &[34, 35])],
        key: &[&["Entry"]],
        scope: nothing,
        duration: "lifetime",
        of_starts: &[("size", &["NumberOfBytes"], 1)],
        of_stops: &[],
    },
    Paired {
        table: "handles",
        starts: &[(classes::OBJECT, &[32, 34, 38])],
        stops: &[(classes::OBJECT, &[33])],
        key: &[&["Handle", "TargetHandle"]],
        scope: |said| said.number(&["TargetProcessId", "ProcessId"]).unwrap_or_else(|| said.process()),
        duration: "lifetime",
        of_starts: &[("handle", &["Handle", "TargetHandle"], 1), ("object", &["Object"], 1)],
        of_stops: &[],
    },
    Paired {
        table: "cpu_idle_states",
        starts: &[(classes::POWER, &[57])],
        stops: &[(classes::POWER, &[58])],
        key: &[],
        scope: processor,
        duration: "duration",
        of_starts: &[("state", &["State"], 1), ("flags", &["Flags"], 1)],
        of_stops: &[("status", &["Status"], 1)],
    },
    Paired {
        table: "window_in_focus",
        starts: &[(WIN32K, &[2]), (WIN32K_7, &[2])],
        stops: &[(WIN32K, &[2]), (WIN32K_7, &[2])],
        key: &[],
        scope: nothing,
        duration: "duration",
        of_starts: &[],
        of_stops: &[],
    },
    Paired {
        table: "wininet_requests",
        starts: &[(WININET, &[1007])],
        stops: &[(WININET, &[1008])],
        key: &[&["Request"]],
        scope: |said| said.process(),
        duration: "duration",
        of_starts: &[("request", &["Request"], 1)],
        of_stops: &[],
    },
    Paired {
        table: "gpu_dma_packets",
        starts: &[(DXG_KRNL, &[175])],
        stops: &[(DXG_KRNL, &[176])],
        key: &[&["hContext"], &["ulQueueSubmitSequence"]],
        scope: nothing,
        duration: "duration",
        of_starts: &[("submit_sequence", &["ulQueueSubmitSequence"], 1)],
        of_stops: &[],
    },
    Paired {
        table: "gpu_queue_packets",
        starts: &[(DXG_KRNL, &[178, 244, 245])],
        stops: &[(DXG_KRNL, &[180])],
        key: &[&["hContext"], &["SubmitSequence"]],
        scope: nothing,
        duration: "duration",
        of_starts: &[("dma_buffer_size", &["DmaBufferSize"], 1), ("submit_sequence", &["SubmitSequence"], 1)],
        of_stops: &[],
    },
    Paired {
        table: "jit",
        starts: &[(CLR, &[145])],
        stops: &[(CLR, &[143])],
        key: &[&["MethodID"]],
        scope: |said| said.thread(),
        duration: "duration",
        of_starts: &[("il_size", &["MethodILSize"], 1)],
        of_stops: &[("native_size", &["MethodSize"], 1)],
    },
    Paired {
        table: "contention",
        starts: &[(CLR, &[81])],
        stops: &[(CLR, &[91])],
        key: &[],
        scope: |said| said.thread(),
        duration: "duration",
        of_starts: &[],
        of_stops: &[],
    },
];

fn has(kinds: &[(Guid, &[u16])], (provider, id): (Guid, u16)) -> bool {
    kinds.iter().any(|(guid, ids)| *guid == provider && ids.contains(&id))
}

/// The tables of this module.
#[derive(Default)]
pub(super) struct Listed {
    open: HashMap<(&'static str, i128, Vec<i128>), i64>,
}

impl Part for Listed {
    fn event(&mut self, said: &Said<'_, '_>, expected: &mut Expected) {
        let kind = said.kind();
        for (table, _, sums) in SINGLE.iter().filter(|(_, kinds, _)| has(kinds, kind)) {
            expected.row(table);
            for (column, properties, factor) in *sums {
                expected.add(table, column, said.number(properties).unwrap_or(0) * factor);
            }
        }
        for (table, _, column, property) in SINCE.iter().filter(|(_, kinds, ..)| has(kinds, kind)) {
            expected.add(table, column, said.since(property).unwrap_or(0));
        }
        for paired in PAIRED {
            let table = paired.table;
            let key = paired.key.iter().map(|names| said.number(names).unwrap_or(0)).collect();
            let key = (table, (paired.scope)(said), key);
            // The stop of one row comes before the start of the next one.
            if has(paired.stops, kind)
                && let Some(start) = self.open.remove(&key)
            {
                expected.add(table, paired.duration, nanos(said.time() - start));
                for (column, properties, factor) in paired.of_stops {
                    expected.add(table, column, said.number(properties).unwrap_or(0) * factor);
                }
            }
            if has(paired.starts, kind) {
                expected.row(table);
                for (column, properties, factor) in paired.of_starts {
                    expected.add(table, column, said.number(properties).unwrap_or(0) * factor);
                }
                self.open.insert(key, said.time());
            }
        }
    }
}
