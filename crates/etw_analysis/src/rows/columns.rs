//! Columns that many tables have.

use etw_columns::{Column, ColumnType, Role, Unit};

pub(super) const fn time(summary: &'static str) -> Column {
    Column::new("time", ColumnType::Time, summary)
}

/// Start of the period that a row is about; missing if that was before the trace.
pub(super) const fn start_of(name: &'static str, summary: &'static str) -> Column {
    Column::new(name, ColumnType::Time, summary).role(Role::Start)
}

/// End of the period that a row is about; missing if that was after the trace.
pub(super) const fn end_of(name: &'static str, summary: &'static str) -> Column {
    Column::new(name, ColumnType::Time, summary).role(Role::End)
}

pub(super) const fn text(name: &'static str, summary: &'static str) -> Column {
    Column::new(name, ColumnType::Text, summary).role(Role::Key)
}

pub(super) const fn id(name: &'static str, summary: &'static str) -> Column {
    Column::new(name, ColumnType::U32, summary).unit(Unit::Id)
}

pub(super) const fn duration(name: &'static str, summary: &'static str) -> Column {
    Column::new(name, ColumnType::Duration, summary).unit(Unit::Nanoseconds).role(Role::Measure)
}

pub(super) const fn bytes(name: &'static str, summary: &'static str) -> Column {
    Column::new(name, ColumnType::U64, summary).unit(Unit::Bytes).role(Role::Measure)
}

pub(super) const fn count(name: &'static str, summary: &'static str) -> Column {
    Column::new(name, ColumnType::U64, summary).unit(Unit::Count).role(Role::Measure)
}

pub(super) const fn address(name: &'static str, summary: &'static str) -> Column {
    Column::new(name, ColumnType::U64, summary).unit(Unit::Address)
}

pub(super) const fn code(name: &'static str, summary: &'static str) -> Column {
    Column::new(name, ColumnType::U32, summary).unit(Unit::Hex)
}

pub(super) const fn thread(name: &'static str, summary: &'static str) -> Column {
    Column::row_of("threads", name, summary)
}

pub(super) const fn process(name: &'static str, summary: &'static str) -> Column {
    Column::row_of("processes", name, summary)
}

pub(super) const fn frame(name: &'static str, summary: &'static str) -> Column {
    Column::row_of("frames", name, summary)
}

pub(super) const fn stack(name: &'static str, summary: &'static str) -> Column {
    Column::new(name, ColumnType::Stack, summary)
}

pub(super) const PROCESS: Column = process("process", "Process that did it.");
pub(super) const THREAD: Column = thread("thread", "Thread that did it.");
pub(super) const FILE: Column = Column::row_of("files", "file", "File, if the trace names it.");
pub(super) const PROCESSOR: Column =
    Column::new("processor", ColumnType::U32, "Processor that logged the event.")
        .unit(Unit::Id)
        .role(Role::Key);
pub(super) const STACK: Column =
    Column::new("stack", ColumnType::Stack, "Stack, whose frames are rows of `frames`, if the trace has it.");
