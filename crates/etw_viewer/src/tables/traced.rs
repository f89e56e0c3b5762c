//! What stacks of a table can weigh besides its columns: what is in no row, and so is counted in the trace itself.

use openetw::analysis::StackWeight;

/// A weight that is counted in the trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TracedWeight {
    table: &'static str,
    /// Its name in questions.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) summary: &'static str,
    pub(crate) weight: StackWeight,
}

const fn weight(
    table: &'static str,
    [name, title, summary]: [&'static str; 3],
    weight: StackWeight,
) -> TracedWeight {
    TracedWeight { table, name, title, summary, weight }
}

const TRACED: &[TracedWeight] = &[
    weight(
        "cpu_precise",
        [
            "trace:wait-chains",
            "wait chains",
            "Time that threads waited, by the stack at which they did, and further by what ended the wait: its stack, and \
             where it had waited itself before.",
        ],
        StackWeight::WaitChains,
    ),
    weight(
        "cpu_precise",
        [
            "trace:ready",
            "readying stacks",
            "Times that a thread made another one ready, by the stack that did.",
        ],
        StackWeight::Ready,
    ),
    weight(
        "cpu_precise",
        ["trace:running", "running", "Time that threads ran, by the stacks of switches."],
        StackWeight::Running,
    ),
    weight(
        "cpu_precise",
        [
            "trace:offcpu",
            "off-CPU",
            "Time that threads did not run, waiting or ready, by the stacks at which they waited.",
        ],
        StackWeight::OffCpu,
    ),
    weight(
        "syscalls",
        ["trace:syscalls", "calls", "Number of system calls, by the stacks of their entries."],
        StackWeight::Syscalls,
    ),
    weight(
        "dpc_isr",
        [
            "trace:interrupts",
            "duration",
            "Time of interrupts and deferred calls, by the stacks of their events.",
        ],
        StackWeight::Interrupts,
    ),
];

/// Returns the weights of a table that are counted in the trace.
pub(super) fn traced_of(table: &str) -> impl Iterator<Item = &'static TracedWeight> {
    TRACED.iter().filter(move |traced| traced.table == table)
}

/// Returns the weight of a table that has a name; nothing if it is a column, or unknown.
pub(crate) fn traced_weight(table: &str, name: &str) -> Option<StackWeight> {
    traced_of(table).find(|traced| traced.name == name).map(|traced| traced.weight)
}
