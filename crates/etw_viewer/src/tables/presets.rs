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
    Preset {
        table: "disk_queue",
        keys: &["disk", "depth"],
        values: &["sum(duration)", "percent(sum(duration))", "sum(request_time)", "rows"],
    },
    Preset {
        table: "page_faults",
        keys: &["thread.process", "type", "instruction.function"],
        values: &["rows", "percent(rows)"],
    },
    Preset {
        table: "connections",
        keys: &["process", "protocol", "remote_address"],
        values: &["rows", "sum(bytes_sent)", "sum(bytes_received)", "sum(retransmits)"],
    },
    Preset {
        table: "registry",
        keys: &["thread.process", "operation", "key"],
        values: &["rows", "sum(elapsed_time)", "max(elapsed_time)"],
    },
    Preset {
        table: "virtual_alloc",
        keys: &["process", "type", "committing_thread"],
        values: &["sum(size)", "rows", "max(size)"],
    },
    Preset {
        table: "virtual_memory_snapshots",
        keys: &["process"],
        values: &["max(commit)", "max(working_set)", "max(private_working_set)", "rows"],
    },
    Preset {
        table: "heap",
        keys: &["process", "type", "thread"],
        values: &["sum(size)", "rows", "mean(lifetime)"],
    },
    Preset { table: "pool", keys: &["tag", "type"], values: &["sum(size)", "rows", "mean(lifetime)"] },
    Preset {
        table: "handles",
        keys: &["owning_process", "object_type", "origin"],
        values: &["rows", "mean(lifetime)"],
    },
    Preset {
        table: "activities",
        keys: &["kind.provider", "kind.event", "process"],
        values: &["rows", "sum(duration)", "mean(duration)", "max(duration)"],
    },
    Preset {
        table: "regions_of_interest",
        keys: &["path", "instance_name"],
        values: &["rows", "sum(duration)", "mean(duration)", "max(duration)"],
    },
    Preset {
        table: "gc",
        keys: &["process", "generation", "reason"],
        values: &["rows", "sum(pause)", "max(pause)", "mean(pause)", "max(size_before)", "sum(promoted)"],
    },
    Preset {
        table: "jit",
        keys: &["process", "type", "method"],
        values: &["rows", "sum(duration)", "max(duration)", "sum(native_size)"],
    },
    Preset {
        table: "allocations",
        keys: &["process", "type", "heap"],
        values: &["sum(size)", "percent(sum(size))", "rows"],
    },
    Preset {
        table: "exceptions",
        keys: &["process", "type", "message"],
        values: &["rows", "percent(rows)", "min(time)", "max(time)"],
    },
    Preset {
        table: "contention",
        keys: &["process", "thread", "lock"],
        values: &["rows", "sum(duration)", "max(duration)"],
    },
    Preset {
        table: "cpu_idle_states",
        keys: &["processor", "state"],
        values: &["sum(duration)", "percent(sum(duration))", "rows", "max(duration)"],
    },
    Preset {
        table: "gpu_dma_packets",
        keys: &["context.process", "context.node", "packet_type"],
        values: &["sum(duration)", "rows", "max(duration)"],
    },
    Preset {
        table: "gpu_queue_packets",
        keys: &["context.process", "operation", "packet_type"],
        values: &["sum(duration)", "rows", "max(duration)"],
    },
    Preset {
        table: "window_in_focus",
        keys: &["thread.process"],
        values: &["sum(duration)", "percent(sum(duration))", "rows"],
    },
    Preset {
        table: "ui_delays",
        keys: &["process", "delay_type"],
        values: &["rows", "sum(duration)", "max(duration)"],
    },
    Preset {
        table: "mini_filters",
        keys: &["routine.module", "major_function", "process"],
        values: &["rows", "sum(duration)", "max(duration)"],
    },
    Preset { table: "loader", keys: &["process", "step"], values: &["rows"] },
];

#[cfg(test)]
mod tests {
    use openetw::tables::{TableSchema, row_tables};

    use super::*;

    fn is_column(schema: &TableSchema, path: &str) -> bool {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        let column = schema.column(first).and_then(|number| schema.columns.get(number));
        match (column, rest) {
            (Some(column), Some(rest)) => row_tables()
                .find(|schema| schema.name == column.table)
                .is_some_and(|schema| is_column(schema, rest)),
            (column, _) => column.is_some(),
        }
    }

    #[test]
    fn presets_have_columns_that_are_there() {
        for preset in PRESETS {
            let schema = row_tables().find(|schema| schema.name == preset.table);
            let schema = schema.unwrap_or_else(|| panic!("no table {}", preset.table));
            for key in preset.keys {
                assert!(is_column(schema, key), "{}: {key}", preset.table);
            }
            for value in preset.values.iter().filter(|value| value.contains('(')) {
                let column = value.rsplit('(').next().unwrap().trim_end_matches(')');
                assert!(column == "rows" || is_column(schema, column), "{}: {value}", preset.table);
            }
        }
    }
}
