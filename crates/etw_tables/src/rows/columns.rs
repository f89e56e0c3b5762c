//! Kinds of columns: type, unit, role, and the values that typed rows have for them.

use std::fmt::Debug;

use etw_columns::{Column, ColumnType, Role, Row, Unit};
use etw_event::{FileTime, Guid};
use etw_machine::{FileIndex, ProcessIndex, ThreadIndex};

/// A kind of column. `Option` of a kind is a column whose values may be missing.
pub(in crate::rows) trait ColumnKind {
    const TYPE: ColumnType;
    const UNIT: Unit;
    const ROLE: Role;
    /// The table whose rows are the values, for [`ColumnType::Row`].
    const TABLE: &'static str;
    type Value<'r>: Copy + Debug;

    fn put(value: Self::Value<'_>, column: usize, row: &mut Row<'_>);
}

impl<K: ColumnKind> ColumnKind for Option<K> {
    const TYPE: ColumnType = K::TYPE;
    const UNIT: Unit = K::UNIT;
    const ROLE: Role = K::ROLE;
    const TABLE: &'static str = K::TABLE;
    type Value<'r> = Option<K::Value<'r>>;

    #[inline]
    fn put(value: Self::Value<'_>, column: usize, row: &mut Row<'_>) {
        if let Some(value) = value {
            K::put(value, column, row);
        }
    }
}

/// Returns a column of a kind. The name may be a raw identifier.
pub(in crate::rows) const fn column<K: ColumnKind>(name: &'static str, summary: &'static str) -> Column {
    let name = match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    };
    match K::TYPE {
        ColumnType::Row => Column::row_of(K::TABLE, name, sentence(summary)),
        column_type => Column::new(name, column_type, sentence(summary)).unit(K::UNIT).role(K::ROLE),
    }
}

/// Returns a doc comment without the space before it.
pub(in crate::rows) const fn sentence(comment: &'static str) -> &'static str {
    match comment.as_bytes() {
        [b' ', ..] => comment.split_at(1).1,
        _ => comment,
    }
}

macro_rules! kinds {
    ($($(#[doc = $about:literal])+ $kind:ident: $type:ident, $unit:ident, $role:ident, $value:ty, $put:ident;)+) => {
        $(
            $(#[doc = $about])+
            #[derive(Debug)]
            pub(in crate::rows) struct $kind;

            impl ColumnKind for $kind {
                const TYPE: ColumnType = ColumnType::$type;
                const UNIT: Unit = Unit::$unit;
                const ROLE: Role = Role::$role;
                const TABLE: &'static str = "";
                type Value<'r> = $value;

                #[inline]
                fn put(value: $value, column: usize, row: &mut Row<'_>) {
                    row.$put(column, value);
                }
            }
        )+
    };
}

macro_rules! references {
    ($($(#[doc = $about:literal])+ $kind:ident: $table:literal, $value:ty, $number:expr;)+) => {
        $(
            $(#[doc = $about])+
            #[derive(Debug)]
            pub(in crate::rows) struct $kind;

            impl ColumnKind for $kind {
                const TYPE: ColumnType = ColumnType::Row;
                const UNIT: Unit = Unit::None;
                const ROLE: Role = Role::Key;
                const TABLE: &'static str = $table;
                type Value<'r> = $value;

                #[inline]
                fn put(value: $value, column: usize, row: &mut Row<'_>) {
                    let number: fn($value) -> u32 = $number;
                    row.code(column, number(value));
                }
            }
        )+
    };
}

kinds! {
    /// A point in time.
    Time: Time, None, Detail, FileTime, time;
    /// Start of the period that a row is about; missing if that was before the trace.
    Start: Time, None, Start, FileTime, time;
    /// End of the period that a row is about; missing if that was after the trace.
    End: Time, None, End, FileTime, time;
    /// A span of time in nanoseconds.
    Span: Duration, Nanoseconds, Measure, i64, duration;
    /// A number that identifies something.
    Id: U32, Id, Detail, u32, u32;
    /// Such a number of 64 bits.
    LongId: U64, Id, Detail, u64, u64;
    /// A number by which rows are grouped.
    Level: U32, Id, Key, u32, u32;
    /// A number of things by which rows are grouped.
    Depth: U32, Count, Key, u32, u32;
    /// The processor that logged an event.
    Processor: U32, Id, Key, u32, u32;
    /// A number of bytes.
    Bytes: U64, Bytes, Measure, u64, u64;
    /// A number of bytes that is less than 4 GB.
    ShortBytes: U32, Bytes, Measure, u32, u32;
    /// A number of bytes that is not summed up.
    Size: U64, Bytes, Detail, u64, u64;
    /// A number of things.
    Count: U64, Count, Measure, u64, u64;
    /// A number without a meaning of its own.
    Number: U64, None, Detail, u64, u64;
    /// A signed number.
    Signed: I64, None, Detail, i64, i64;
    /// A floating-point number.
    Float: F64, None, Detail, f64, f64;
    /// A share in whole percents.
    ShortPercent: U32, Percent, Detail, u32, u32;
    /// An address in memory.
    Address: U64, Address, Detail, u64, u64;
    /// Flags or a code.
    Hex: U32, Hex, Detail, u32, u32;
    /// Flags, a code or a place of 64 bits.
    LongHex: U64, Hex, Detail, u64, u64;
    /// Whether something is so.
    Bool: Bool, None, Detail, bool, bool;
    /// A text whose code the writer has given already.
    TextCode: Text, None, Key, u32, code;
    /// A stack.
    Stack: Stack, None, Detail, u32, code;
}

/// A text.
#[derive(Debug)]
pub(in crate::rows) struct Text;

impl ColumnKind for Text {
    const TYPE: ColumnType = ColumnType::Text;
    const UNIT: Unit = Unit::None;
    const ROLE: Role = Role::Key;
    const TABLE: &'static str = "";
    type Value<'r> = &'r str;

    #[inline]
    fn put(value: &str, column: usize, row: &mut Row<'_>) {
        row.text(column, value);
    }
}

/// A GUID.
#[derive(Debug)]
pub(in crate::rows) struct GuidValue;

impl ColumnKind for GuidValue {
    const TYPE: ColumnType = ColumnType::Guid;
    const UNIT: Unit = Unit::None;
    const ROLE: Role = Role::Detail;
    const TABLE: &'static str = "";
    type Value<'r> = Guid;

    #[inline]
    fn put(value: Guid, column: usize, row: &mut Row<'_>) {
        row.guid(column, value);
    }
}

references! {
    /// A process.
    Process: "processes", ProcessIndex, |ProcessIndex(process)| process;
    /// A thread.
    Thread: "threads", ThreadIndex, |ThreadIndex(thread)| thread;
    /// A file.
    File: "files", FileIndex, FileIndex::number;
    /// An instruction, in the memory of a process or of the kernel.
    Frame: "frames", u32, std::convert::identity;
    /// A kind of events.
    EventKind: "event_kinds", u32, std::convert::identity;
    /// A name of a registry key or value.
    RegistryKey: "registry_keys", u32, std::convert::identity;
    /// A disk.
    Disk: "disks", u32, std::convert::identity;
    /// A type of kernel objects.
    ObjectType: "object_types", u32, std::convert::identity;
    /// A context of the graphics kernel.
    GpuContext: "gpu_contexts", u32, std::convert::identity;
    /// An activity.
    Activity: "activities", u32, std::convert::identity;
    /// A region of interest.
    Region: "regions_of_interest", u32, std::convert::identity;
    /// A trace file.
    TraceFile: "traces", u32, std::convert::identity;
}
