//! Pivots: rows grouped by columns, and what is counted of each group.

mod aggregate;
mod answer;
mod batch;
mod columns;
mod counted;
mod filter;
mod groups;
mod plan;
mod rows;

use crate::ColumnsError;
use crate::index::Table;
use crate::value::Value;

pub use aggregate::{Aggregate, AggregateError};
pub use counted::CountedRows;
pub use filter::{Comparison, Filter, TextPattern, TextPosition};

pub(crate) use batch::BATCH_ROWS;
use plan::Plan;

/// A question about a table: which rows, grouped by what, and what of each group.
///
/// Groups are opened level by level: the first [`run`](Pivot::run) groups by the first of the `keys`, and
/// [`expand`](Pivot::expand) makes the pivot of one of these groups, by the next key.
#[derive(Debug, Clone, PartialEq)]
pub struct Pivot {
    /// Columns of other tables that rows refer to, such as the name of the process of the thread of an event: paths of
    /// columns, each of which but the last is one of [`ColumnType::Row`](crate::ColumnType::Row), whose table has the
    /// next one. They are addressed by the numbers after those of the table's own columns.
    pub through: Vec<Vec<usize>>,
    /// Columns to group by, one for each level. Missing values are a group of their own.
    pub keys: Vec<usize>,
    /// The group that is opened: the values of the first keys.
    pub path: Vec<Value>,
    /// Number of the next keys to group by at once; 1 for one level.
    pub levels: usize,
    /// What to compute of each group.
    pub aggregates: Vec<Aggregate>,
    /// For each aggregate, which of the rows it is of: `Some` for those that meet the condition too. Aggregates beyond the
    /// end are of all rows that count.
    pub conditions: Vec<Option<Filter>>,
    /// Which rows count.
    pub filter: Filter,
    /// Order of the groups.
    pub order: Order,
    /// Most groups to return; the others become one.
    pub top: usize,
    /// Most groups to count, 1,048,576 unless changed. The groups of each thread take memory, and more are an error.
    pub max_groups: usize,
    /// Most values of which each thread computes [`Aggregate::Percentile`] exactly, 16,777,216 unless changed; more are
    /// rounded. Each takes about 20 bytes.
    pub max_exact: usize,
    /// Most values that each thread keeps for [`Aggregate::Unique`] of a column, and most rounded ones for
    /// [`Aggregate::Percentile`], beyond which a pivot fails; 16,777,216 unless changed. Each takes about 20 bytes.
    pub max_values: usize,
}

/// Order of the groups of a pivot. Groups that are equal in it are in the order of their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// What is compared.
    pub by: OrderBy,
    /// Greatest first. Missing values are last in both directions.
    pub descending: bool,
}

/// What the groups of a pivot are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderBy {
    /// The number of rows.
    Rows,
    /// An aggregate, by its number in [`Pivot::aggregates`].
    Aggregate(usize),
    /// A key, by its number in [`Group::keys`]. Texts are in the order of their characters' codes.
    Key(usize),
    /// Nothing: they are in the order in which they are counted.
    Nothing,
}

/// The answer to a pivot.
#[derive(Debug, Clone, PartialEq)]
pub struct PivotResult {
    /// The groups with rows, in order, at most [`Pivot::top`].
    pub groups: Vec<Group>,
    /// The remaining groups as one, without keys.
    pub other: Option<Group>,
    /// All rows that count as one group, without keys.
    pub total: Group,
    /// Number of groups, including the remaining ones.
    pub group_count: usize,
    /// For each aggregate, whether its values are rounded.
    pub approximate: Vec<bool>,
}

/// A group of rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The values of the keys of this level.
    pub keys: Vec<Value>,
    /// Number of rows.
    pub rows: u64,
    /// The value of each aggregate.
    pub values: Vec<Value>,
}

impl Pivot {
    /// Creates a pivot by these columns over all rows, with all groups in descending order of their rows.
    pub fn new(keys: impl Into<Vec<usize>>, aggregates: impl Into<Vec<Aggregate>>) -> Pivot {
        Pivot {
            through: Vec::new(),
            keys: keys.into(),
            path: Vec::new(),
            levels: 1,
            aggregates: aggregates.into(),
            conditions: Vec::new(),
            filter: Filter::All(Vec::new()),
            order: Order { by: OrderBy::Rows, descending: true },
            top: usize::MAX,
            max_groups: 1 << 20,
            max_exact: 1 << 24,
            max_values: 1 << 24,
        }
    }

    /// Returns the pivot that opens a group, by the next key.
    pub fn expand(&self, group: &Group) -> Pivot {
        let mut pivot = self.clone();
        pivot.path.extend_from_slice(&group.keys);
        pivot
    }

    /// Returns the numbers of the columns of [`Group::keys`].
    pub fn level(&self) -> &[usize] {
        let start = self.path.len().min(self.keys.len());
        &self.keys[start..self.keys.len().min(start.saturating_add(self.levels))]
    }

    /// Returns the condition of the rows that count: the filter, and the values of the path. With [`Filter::rows`] it gives
    /// the rows of a group.
    pub fn condition(&self) -> Filter {
        let path = self.keys.iter().zip(&self.path).map(|(column, value)| Filter::is(*column, *value));
        Filter::All(std::iter::once(self.filter.clone()).chain(path).collect())
    }

    /// Computes the pivot on up to `threads` threads, one of which is the calling one.
    ///
    /// Chunks whose least and greatest values exclude the filter are not read.
    ///
    /// # Errors
    ///
    /// Returns [`ColumnsError::NoColumn`] and [`ColumnsError::Type`] if a column does not exist or does not fit,
    /// [`ColumnsError::TooManyGroups`] and [`ColumnsError::TooManyValues`] beyond the limits,
    /// [`ColumnsError::Damaged`] if a needed chunk is damaged, and [`ColumnsError::Pivot`] for other mistakes.
    pub fn run(&self, table: Table<'_>, threads: usize) -> Result<PivotResult, ColumnsError> {
        let plan = Plan::new(self, table)?;
        let each = plan.chunks.len().div_ceil(threads.max(1)).max(1);
        let mut parts = plan.chunks.chunks(each);
        let first = parts.next().unwrap_or_default();
        let (own, others) = std::thread::scope(|scope| {
            let others: Vec<_> = parts.map(|part| scope.spawn(|| plan.work(part))).collect();
            let own = plan.work(first);
            let join = |other: std::thread::ScopedJoinHandle<'_, _>| {
                other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            (own, others.into_iter().map(join).collect::<Vec<_>>())
        });
        let mut all = own?;
        for other in others {
            all.absorb(other?)?;
        }
        plan.result(all)
    }
}
