//! The columns that a table shows at first.

/// Columns left and right of the golden bar.
pub(super) struct Preset {
    pub(super) table: &'static str,
    pub(super) keys: &'static [&'static str],
    pub(super) values: &'static [&'static str],
}

/// The presets of the tables that are shown as groups; other tables show single rows.
pub(super) const PRESETS: &[Preset] = &[
    Preset {
        table: "cpu_sampled",
        keys: &["thread.process", "thread", "frame.module", "frame.function"],
        values: &["sum(count)", "sum(weight)", "percent(sum(weight))"],
    },
    Preset {
        table: "cpu_precise",
        keys: &["new_thread.process", "new_thread", "new_wait_reason"],
        values: &["rows", "sum(waits)", "max(waits)", "sum(ready)", "max(ready)"],
    },
    Preset {
        table: "disk",
        keys: &["disk", "operation", "thread.process", "file"],
        values: &["rows", "sum(size)", "sum(duration)", "mean(duration)", "max(duration)"],
    },
    Preset {
        table: "file_io",
        keys: &["thread.process", "operation", "file"],
        values: &["rows", "sum(size)", "sum(duration)", "max(duration)"],
    },
    Preset {
        table: "hard_faults",
        keys: &["thread.process", "file"],
        values: &["rows", "sum(size)", "sum(duration)", "max(duration)"],
    },
    Preset {
        table: "dpc_isr",
        keys: &["type", "routine.function", "processor"],
        values: &["rows", "sum(duration)", "max(duration)", "p99(duration)"],
    },
    Preset {
        table: "syscalls",
        keys: &["thread.process", "routine.function"],
        values: &["rows", "sum(duration)", "mean(duration)", "max(duration)"],
    },
    Preset {
        table: "network",
        keys: &["process", "protocol", "operation", "remote_address"],
        values: &["rows", "sum(size)", "percent(sum(size))"],
    },
    Preset {
        table: "events",
        keys: &["kind.provider", "kind.event", "process"],
        values: &["rows", "percent(rows)", "sum(size)"],
    },
];
