//! Conditions on events: the filter language, predicates, points in time.
//!
//! A part of OpenETW that may change in every version: programs use the crate `openetw`, which is kept stable.
//!
//! ```text
//! id == 1 and (ImageName icontains "chrome" or pid in (4, 0x1F4)) and not level >= Warning
//! ```
//!
//! | | |
//! |---|---|
//! | operators | `==` (also `=`), `!=`, `<`, `<=`, `>`, `>=`, `contains`, `startswith`, `endswith`, `in (a, b)` |
//! | without regard to case | `=~`, `!~`, `iequals`, `icontains`, `istartswith`, `iendswith`, `iin (a, b)` |
//! | joined by | `not` (`!`), `and` (`&&`), `or` (`\|\|`), in this order of strength; parentheses |
//! | header fields | `provider` (`class`), `event` (`name`), `id`, `version`, `channel`, `level`, `opcode`, `task`, `keyword`, `pid`, `tid`, `process`, `processor` (`cpu`), `time`, `activity`, `related_activity`, `user` (`sid`), `size` (of the payload), `stack` (`module!function` of any frame; [`Predicate::with_stacks`]) |
//! | properties | any other name, in its exact spelling; `Struct.Member`; `` `With Blanks` ``; `data.level` for one that a header field hides; alone: the event has it |
//! | numbers | `10`, `0x0A`, `0o12`, `0b1010`, `-1`, `1.5` |
//! | texts | in `"` or `'`, which is doubled inside; backslashes stand for themselves; a text without blanks and signs needs no quotes |
//! | times | `time >= 2026-01-02T03:04:05Z`, `time < 12.5s` (from the start of the trace) |
//!
//! Names in headers are those that exports show ([`etw_schema::Names`]). Names in headers (provider, process, event,
//! task, …) are compared without regard to case, texts of payloads exactly. `keyword contains 0x10` tests bits;
//! `keyword contains Name` tests for the keyword. To compare a property that is not a string with a text, its
//! displayed text is used. A comparison with an array is true if it is true for one of the elements. A comparison with
//! a field that the event does not have is false.

#![forbid(unsafe_code)]

mod error;
mod expression;
mod field;
mod lexer;
mod options;
mod parser;
mod predicate;
mod time_point;

use std::str::FromStr;

pub use error::FilterError;
pub use expression::{Expression, FilterComparison, FilterName, FilterValue};
pub use options::{EventFilter, EventFilterError};
pub use predicate::{FilterScope, Operator, Predicate};
pub use time_point::{TimePoint, TimePointError};

impl FromStr for Predicate {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Predicate, FilterError> {
        field::predicate(&parser::parse(text)?)
    }
}
