//! Code of Python's interpreter, as functions with names and lines.

use std::sync::Arc;

use etw_capture::python::code_lines;
use etw_capture::records::{Event, PythonCode};
use etw_etl::encode::{JitFunction, JitSourceLine};
use etw_event::Ticks;
use etw_kernel_events::classes::RecordBuffer;

/// Writes the function that code is, without its lines if it is larger than `max_bytes` with them; its name has the form that
/// Python itself gives to perf (`py::NAME:FILE`). Returns the number of records.
pub(crate) fn put_code(
    event: &Event<'_>,
    code: &PythonCode<'_>,
    time: Ticks,
    max_bytes: usize,
    records: &mut RecordBuffer,
) -> usize {
    let file: Arc<str> = code.file.to_string().into();
    let lines = code_lines(code.lines, code.first_line);
    let lines = lines.map(|line| JitSourceLine { offset: line.offset, line: line.line, file: file.clone() });
    let function = JitFunction {
        process_id: event.process_id,
        address: code.instructions,
        len_bytes: code.len_bytes,
        name: format!("py::{}:{file}", code.name),
        lines: lines.collect(),
        is_load: true,
    };
    let Some(record) = function.fitting_record(time, max_bytes) else { return 0 };
    records.copy_bytes(&record);
    1
}
