//! Which rows are in a time window.

use etw_columns::{Comparison, Filter, Role, TableSchema, Value};
use etw_machine::Window;

/// Returns the condition that a row of a table is in a time window.
///
/// A row with a period counts if the two overlap. A period without a start or an end began before or ended after the
/// trace. Rows of tables without times are in every window.
pub fn in_window(table: &TableSchema, window: Window) -> Filter {
    if window == Window::ALL {
        return Filter::All(Vec::new());
    }
    let [from, to] = [window.from, window.to].map(Value::Time);
    let compare = |column, comparison, value| Filter::Compare { column, comparison, value };
    match (table.column("time"), table.column_of(Role::Start), table.column_of(Role::End)) {
        (Some(time), ..) | (None, Some(time), None) | (None, None, Some(time)) => {
            Filter::range(time, from, to)
        }
        (None, Some(start), Some(end)) => Filter::All(vec![
            Filter::Any(vec![Filter::Null { column: start }, compare(start, Comparison::Less, to)]),
            Filter::Any(vec![
                Filter::Null { column: end },
                compare(end, Comparison::Greater, from),
                // A period without a length is in the window that it starts.
                compare(start, Comparison::GreaterOrEqual, from),
            ]),
        ]),
        (None, None, None) => Filter::All(Vec::new()),
    }
}
