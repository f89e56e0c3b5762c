//! Writes `docs/tables.md`: the tables with rows, from their declarations.

use std::fmt::Write;

use anyhow::Result;
use openetw::tables::{Column, ColumnType, Unit, row_label, row_summary, row_tables};

use crate::Files;

const PAGE: &str = "docs/tables.md";

const HEAD: &str = "# Tables with rows

`etw report` sums up what a machine did; these tables have a row for each event, request, switch, sample and call behind the sums.
`cargo xtask tables` writes this page from their declarations; `etw tables` and `etw tables NAME` print the same.

```sh
etw tables disk                                                          # the columns of a table
etw report t.etl --table connections                                     # grouped as the table says below
etw report t.etl --table disk --columns time,process,path,size,duration  # row by row
etw report t.etl --table disk --group-by process,path --sum size --values 'p95(duration)'
etw report t.etl --table cpu_sampled --group-by module,function --sum weight --top 50
etw report t.etl --table cpu_precise --group-by new_thread,readying_thread --sum waits --format csv
etw report t.etl --table events --group-by provider,event --from 1.5 --to 2
etw report t.etl --table file_io --where 'duration > 10ms and operation == Read' --group-by process --sum duration
etw tables t.etl                                                         # the kinds of events, which are tables too
etw report t.etl --table DiskIo/Read --group-by DiskNumber --sum TransferSize
```

- A column may be named by a path through the tables that rows refer to (`thread.process.command_line`). A name that is not a column of the table is looked for in those tables, the nearest first, so `process` and `function` are enough.
- A reference is shown by the name of its row: a process with its id, a thread with its process, a file by its path, a frame by its function, a registry key by its name. Tables whose rows have names say so, and whether rows of one name are one group where others are grouped by them.
- Without columns, a table is shown by the groups that this page names, or else row by row; tables of which reports have a summary of their own (`disk`, `processes`, …) show that. The viewer opens a table with the same groups; shares (`percent(…)`) are only there.
- `--group-by` without a value counts rows. `--sum COLUMN` adds up a column; `--values` also has `min`, `max`, `mean`, `count` (of rows that have a value), `unique`, and percentiles (`p50`, `p95`, `p99.9`). A value may be of some rows only: `--values 'rows where operation == Read, sum(size) where size >= 4096'`.
- `--where` selects the rows that count, in the [language of filters](filters.md#rows-of-tables) with columns as names.
- Groups are sorted by the first value, the greatest first; `--sort` names another one, or a column to group by.
- `--from`, `--to`, `--top`, `--symbols`, `--format text|json|csv|html` and `-o` are those of [reports](report.md). Times in JSON and CSV are nanoseconds from the start of the trace, and durations nanoseconds.
- A stack is shown as its functions from the outermost to the innermost, separated by `;`.
- Every kind of events is a table, `Provider/Event` or `Class/Type`: `time`, `process`, `thread`, `processor`, `version`, `level`, `activity`, `related_activity`, `stack`, and a column for each field that any version of the event has. Fields with names for their values have these in a second column, `FIELD_name`. Structs, arrays, addresses of networks and SIDs are texts; [`etw export --table`](export.md#tables-with-rows) writes structs and arrays as such.
- The tables are made from all traces that are named: of large ones in [an index](index.md) beside the trace, of small ones in memory, which grows by about 24 bytes for each event. `--no-index` makes them in memory.
- `--from` and `--to` select rows by `time`. Of tables whose rows have a start and an end, those count whose period overlaps the range; a missing start or end was before or after the trace. Rows without times always count.

Regions of interest are intervals between events, which a file of Windows Performance Analyzer defines (`*.regions.xml`); `--regions FILE` makes their rows:

```xml
<InstrumentationManifest><Instrumentation><Regions>
  <RegionRoot Guid=\"{00000000-0000-0000-0000-000000000001}\" Name=\"GC\">
    <Region Guid=\"{00000000-0000-0000-0000-000000000002}\" Name=\"Suspension\">
      <Match><Event PID=\"true\" /></Match>
      <Start><Event Provider=\"{e13c0d23-ccbc-4e12-931b-d9cc2eee27e4}\" Id=\"9\" /></Start>
      <Stop><Event Provider=\"{e13c0d23-ccbc-4e12-931b-d9cc2eee27e4}\" Id=\"3\" /></Stop>
    </Region>
  </RegionRoot>
</Regions></Instrumentation></InstrumentationManifest>
```

```sh
etw report t.etl --table regions_of_interest --regions gc.regions.xml --group-by region --values 'sum(duration),p95(duration)'
```

Programs use [`openetw::tables`](library.md): `RowTables` fills the tables, in memory or in a file, and `Pivot` groups them.

";

/// Returns the page.
pub(crate) fn made() -> Result<Files> {
    let mut page = String::from(HEAD);
    for table in row_tables() {
        writeln!(page, "## `{}`: {}\n\n{}\n", table.name, table.title, table.summary)?;
        if let Some(label) = row_label(&table.name) {
            let columns: Vec<String> = label.columns.iter().map(|column| format!("`{column}`")).collect();
            write!(page, "Other tables show a row by its {}", columns.join(" and "))?;
            if let Some(otherwise) = label.otherwise {
                write!(page, ", or `{otherwise}` if that is missing")?;
            }
            writeln!(page, "{}\n", if label.is_group { "; rows of one name are one group." } else { "." })?;
        }
        if let Some(summary) = row_summary(&table.name) {
            let list = |names: &[&str]| {
                let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                names.join(", ")
            };
            writeln!(page, "Shown at first by {}, with {}.\n", list(summary.by), list(&summary.values))?;
        }
        writeln!(page, "| column | type | meaning |\n|---|---|---|")?;
        for column in table.columns.iter() {
            writeln!(page, "| `{}` | {} | {} |", column.name, kind(column), column.summary)?;
        }
        writeln!(page)?;
    }
    page.truncate(page.trim_end().len() + 1);
    Ok(vec![(PAGE, page)])
}

fn kind(column: &Column) -> String {
    let kind = match column.column_type {
        ColumnType::U64 | ColumnType::U32 | ColumnType::I64 => "integer",
        ColumnType::F64 => "number",
        ColumnType::Bool => "boolean",
        ColumnType::Time => "time",
        ColumnType::Duration => "duration",
        ColumnType::Text => "text",
        ColumnType::Guid => "GUID",
        ColumnType::Stack => "stack",
        ColumnType::Row => return format!("row of [`{0}`](#{0})", column.table),
        _ => "other",
    };
    match column.unit {
        Unit::Bytes => format!("{kind}, bytes"),
        Unit::Address => format!("{kind}, address"),
        Unit::Hex => format!("{kind}, hexadecimal"),
        Unit::Id => format!("{kind}, id"),
        _ => kind.to_owned(),
    }
}
