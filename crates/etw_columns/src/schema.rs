//! What tables and columns are: names, types, units.

use std::borrow::Cow;

/// The description of a table.
///
/// Tables declared in code borrow their texts; tables made at run time own them.
///
/// ```
/// use etw_columns::{Column, ColumnType, Role, TableSchema, Unit};
///
/// const COLUMNS: &[Column] = &[
///     Column::new("time", ColumnType::Time, "When the request completed."),
///     Column::new("file", ColumnType::Text, "Path of the file.").role(Role::Key),
///     Column::new("size", ColumnType::U64, "Size of the request.").unit(Unit::Bytes).role(Role::Measure),
/// ];
/// static DISK: TableSchema = TableSchema::new("disk", "Disk I/O", "One row for each request to a disk.", COLUMNS);
///
/// assert_eq!(DISK.column("size"), Some(2));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    /// Name for programs, unique within an index.
    pub name: Cow<'static, str>,
    /// Title for display.
    pub title: Cow<'static, str>,
    /// One sentence that says what a row is.
    pub summary: Cow<'static, str>,
    /// The columns. Everywhere in this crate they are addressed by their number, from 0.
    pub columns: Cow<'static, [Column]>,
}

impl TableSchema {
    /// Creates the description of a table that is declared in code.
    pub const fn new(
        name: &'static str,
        title: &'static str,
        summary: &'static str,
        columns: &'static [Column],
    ) -> TableSchema {
        TableSchema {
            name: Cow::Borrowed(name),
            title: Cow::Borrowed(title),
            summary: Cow::Borrowed(summary),
            columns: Cow::Borrowed(columns),
        }
    }

    /// Returns the number of the column called `name`.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Returns the number of the column with a role that one column has at most, such as [`Role::Start`].
    pub fn column_of(&self, role: Role) -> Option<usize> {
        self.columns.iter().position(|column| column.role == role)
    }
}

/// The description of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name for programs, unique within the table.
    pub name: Cow<'static, str>,
    /// Type of the values. A value of any type may be missing.
    pub column_type: ColumnType,
    /// Unit of the values.
    pub unit: Unit,
    /// How the column is used by default.
    pub role: Role,
    /// One sentence that says what the values mean.
    pub summary: Cow<'static, str>,
    /// For [`ColumnType::Row`]: name of the table whose row numbers are the values. Empty for other types.
    pub table: Cow<'static, str>,
}

impl Column {
    /// Creates a column without a unit, with [`Role::Detail`].
    pub const fn new(name: &'static str, column_type: ColumnType, summary: &'static str) -> Column {
        Column {
            name: Cow::Borrowed(name),
            column_type,
            unit: Unit::None,
            role: Role::Detail,
            summary: Cow::Borrowed(summary),
            table: Cow::Borrowed(""),
        }
    }

    /// Creates a key whose values are rows of `table`, such as the process of an event.
    pub const fn row_of(table: &'static str, name: &'static str, summary: &'static str) -> Column {
        Column {
            name: Cow::Borrowed(name),
            column_type: ColumnType::Row,
            unit: Unit::None,
            role: Role::Key,
            summary: Cow::Borrowed(summary),
            table: Cow::Borrowed(table),
        }
    }

    /// Sets the unit.
    pub const fn unit(mut self, unit: Unit) -> Column {
        self.unit = unit;
        self
    }

    /// Sets the role.
    pub const fn role(mut self, role: Role) -> Column {
        self.role = role;
        self
    }
}

/// The type of a column's values.
///
/// The type says what values mean; each chunk is stored with the fewest bytes that its values need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ColumnType {
    /// Whole numbers from 0 to `u64::MAX`.
    U64,
    /// Whole numbers from 0 to `u32::MAX`.
    U32,
    /// Signed whole numbers.
    I64,
    /// Floating-point numbers. Negative zero is stored as zero, and every NaN as the same NaN.
    F64,
    /// True or false.
    Bool,
    /// Points in time: UTC in units of 100 ns since 1601, as [`FileTime`](etw_event::FileTime).
    Time,
    /// Signed spans of time in nanoseconds.
    Duration,
    /// Codes of texts in the index's dictionary, [`Index::texts`](crate::Index::texts).
    Text,
    /// Codes of GUIDs in the index's dictionary, [`Index::guids`](crate::Index::guids).
    Guid,
    /// Codes of stacks in the index's dictionary, [`Index::stacks`](crate::Index::stacks).
    Stack,
    /// Row numbers of another table of the index, which [`Column::table`] names.
    Row,
}

impl ColumnType {
    /// Every type, in the order of the numbers in index files.
    pub(crate) const ALL: [ColumnType; 11] = [
        ColumnType::U64,
        ColumnType::U32,
        ColumnType::I64,
        ColumnType::F64,
        ColumnType::Bool,
        ColumnType::Time,
        ColumnType::Duration,
        ColumnType::Text,
        ColumnType::Guid,
        ColumnType::Stack,
        ColumnType::Row,
    ];

    /// Returns true for types whose values can be added up: numbers and durations.
    pub fn is_number(self) -> bool {
        matches!(
            self,
            ColumnType::U64 | ColumnType::U32 | ColumnType::I64 | ColumnType::F64 | ColumnType::Duration
        )
    }

    /// Returns true for types whose values are codes of a dictionary or row numbers.
    pub fn is_code(self) -> bool {
        matches!(self, ColumnType::Text | ColumnType::Guid | ColumnType::Stack | ColumnType::Row)
    }

    /// Returns true if the values are signed whole numbers.
    pub(crate) fn is_signed(self) -> bool {
        matches!(self, ColumnType::I64 | ColumnType::Time | ColumnType::Duration)
    }

    /// Returns the largest word of the type.
    pub(crate) fn max_word(self) -> u64 {
        match self {
            ColumnType::Bool => 1,
            ColumnType::U32 => u64::from(u32::MAX),
            _ if self.is_code() => u64::from(u32::MAX),
            _ => u64::MAX,
        }
    }
}

/// The unit of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unit {
    /// No unit, or the one that the type implies.
    None,
    /// Number of things.
    Count,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Hundredths of a whole; 50 is one half.
    Percent,
    /// Address in memory, shown in hexadecimal.
    Address,
    /// Flags or codes, shown in hexadecimal.
    Hex,
    /// Number that identifies something, such as a process id; shown without separators.
    Id,
}

impl Unit {
    /// Every unit, in the order of the numbers in index files.
    pub(crate) const ALL: [Unit; 8] = [
        Unit::None,
        Unit::Count,
        Unit::Nanoseconds,
        Unit::Bytes,
        Unit::Percent,
        Unit::Address,
        Unit::Hex,
        Unit::Id,
    ];
}

/// How a column is used by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// Shown for single rows only.
    Detail,
    /// Rows are grouped by it.
    Key,
    /// Summed up for each group.
    Measure,
    /// Start of the period that a row is about; shown for single rows only. Missing if that was before the trace.
    Start,
    /// End of the period that a row is about; shown for single rows only. Missing if that was after the trace.
    End,
}

impl Role {
    /// Every role, in the order of the numbers in index files.
    pub(crate) const ALL: [Role; 5] = [Role::Detail, Role::Key, Role::Measure, Role::Start, Role::End];
}
