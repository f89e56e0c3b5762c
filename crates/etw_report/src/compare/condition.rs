//! Conditions on the difference of two traces.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};
use openetw::analysis::{FramePattern, StackFrame, StackWeight, TableKind};

use super::Compared;
use super::rows::{Row, percent_text};

/// A condition on the difference of two traces, such as `cpu > 10%` or `waits function:read* > 2pp`.
///
/// It consists of a table, something in it, a comparison and a limit:
///
/// ```text
/// condition = [table] [what ":" name] (">" | ">=" | "<" | "<=") limit
/// table     = "cpu" | "samples" | "running" | "waits" | "ready" | "disk" | "files" | "network" | "faults"
///           | "memory" | "syscalls" | "dotnet" | "events"
/// what      = "process" | "function" | "exclusive"
/// limit     = ["+" | "-"] number ("%" | "pp")
/// ```
///
/// `%` is the change of the weight per second in percent of that before. `pp` is the change of the share of the whole
/// table in percentage points. Without a table, it is `cpu`, the samples; without what, it is the whole table.
/// `function` is with what it calls, `exclusive` without. Names are [patterns](FramePattern).
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    text: String,
    table: TableKind,
    what: What,
    order: Order,
    limit: f64,
    is_points: bool,
}

/// What a condition is about.
#[derive(Debug, Clone, PartialEq)]
enum What {
    All,
    Process(FramePattern),
    Function(FramePattern),
    Exclusive(FramePattern),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// The outcome of a condition.
#[derive(Debug, Clone)]
pub(super) struct Verdict {
    pub(super) condition: Condition,
    pub(super) row: Row,
    pub(super) holds: bool,
    rates: [String; 2],
}

impl fmt::Display for Condition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { condition, row, rates: [before, after], .. } = self;
        let change = percent_text(row.change_percent());
        write!(
            out,
            "{condition}: {before} before, {after} after ({change}); share {:.2} % before, {:.2} % after ({:+.2} pp)",
            row.shares[0],
            row.shares[1],
            row.change_points()
        )
    }
}

/// The error of a condition that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionError(String);

impl fmt::Display for ConditionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for ConditionError {}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Condition, ConditionError> {
        let fail = |reason: String| Err(ConditionError(format!("`{text}`: {reason}")));
        // Names may contain the signs; a limit does not.
        let Some(at) = text.rfind(['<', '>']) else {
            return fail("no `>` or `<`, as in `cpu > 10%`".to_owned());
        };
        let (subject, rest) = text.split_at(at);
        let (sign, limit) = rest.split_at(1);
        let (order, limit) = match (sign, limit.strip_prefix('=')) {
            (">", Some(limit)) => (Order::GreaterOrEqual, limit),
            (">", None) => (Order::Greater, limit),
            (_, Some(limit)) => (Order::LessOrEqual, limit),
            (_, None) => (Order::Less, limit),
        };
        let limit = limit.trim();
        let (number, is_points) = match (limit.strip_suffix('%'), limit.strip_suffix("pp")) {
            (Some(number), _) => (number, false),
            (_, Some(number)) => (number, true),
            _ => return fail(format!("`{limit}` has no unit: `%` of the rate before, or `pp` of the share")),
        };
        let limit: f64 = match number.trim().parse() {
            Ok(limit) if f64::is_finite(limit) => limit,
            _ => return fail(format!("`{}` is not a number", number.trim())),
        };
        let (table, what) =
            subject_of(subject.trim()).map_err(|reason| ConditionError(format!("`{text}`: {reason}")))?;
        if is_points && what == What::All {
            return fail("the share of a whole table is always 100 %; use `%`".to_owned());
        }
        Ok(Condition { text: text.trim().to_owned(), table, what, order, limit, is_points })
    }
}

/// Returns the table and what in it a condition is about.
fn subject_of(subject: &str) -> Result<(TableKind, What), String> {
    const PREFIXES: [(&str, fn(FramePattern) -> What); 3] =
        [("process:", What::Process), ("function:", What::Function), ("exclusive:", What::Exclusive)];
    let of = |subject: &str| {
        let found = PREFIXES.iter().find_map(|(prefix, what)| Some((subject.strip_prefix(prefix)?, what)));
        found.map(|(name, what)| (name.trim().to_owned(), what))
    };
    let (table, rest) = match of(subject) {
        Some(_) => ("cpu", subject),
        None => subject.split_once(char::is_whitespace).unwrap_or((subject, "")),
    };
    let Some(table) = table_of(table) else {
        let weights = StackWeight::ALL.map(StackWeight::name).join(", ");
        return Err(format!(
            "`{subject}` is none of cpu, {weights}, process:NAME, function:NAME, exclusive:NAME"
        ));
    };
    match (rest.trim(), of(rest.trim())) {
        ("", _) => Ok((table, What::All)),
        (_, Some((name, _))) if name.is_empty() => Err("the name is empty".to_owned()),
        (_, Some((name, what))) => Ok((table, what(FramePattern::new(&name)))),
        (rest, None) => Err(format!("`{rest}` is not process:NAME, function:NAME or exclusive:NAME")),
    }
}

fn table_of(name: &str) -> Option<TableKind> {
    if ["cpu", "samples"].contains(&name) {
        return Some(TableKind::Functions);
    }
    StackWeight::of_name(name).map(TableKind::ByFunction)
}

impl Condition {
    /// Returns the table that the condition is about.
    pub fn table(&self) -> TableKind {
        self.table
    }

    /// Checks the condition.
    ///
    /// # Errors
    ///
    /// Fails if neither trace has what the condition is about: a condition that is never checked must not pass.
    pub(super) fn check(&self, compared: &[Compared]) -> Result<Verdict> {
        let found = compared.iter().find(|compared| compared.kind == self.table);
        let Some(compared) = found.filter(|compared| !compared.all().sums.iter().all(|sum| sum.is_zero()))
        else {
            bail!(
                "--fail-if {self}: neither trace has stacks of it; they are recorded by {}",
                self.table.flags()
            );
        };
        let comparison = &compared.comparison;
        let process = |pattern: &FramePattern, frame: &StackFrame| {
            let name = frame.name().unwrap_or_default();
            let stem = name
                .get(..name.len().saturating_sub(4))
                .filter(|stem| name.get(stem.len()..).is_some_and(|end| end.eq_ignore_ascii_case(".exe")));
            let is_it = |name| pattern.matches(&StackFrame::process(Some(name)));
            frame.is_process() && (is_it(name) || stem.is_some_and(is_it))
        };
        let sums = match &self.what {
            What::All => Some(comparison.totals()),
            What::Process(pattern) => {
                comparison.of_frames(|frame| process(pattern, frame)).map(|[inclusive, _]| inclusive)
            }
            What::Function(pattern) => comparison
                .of_frames(|frame| !frame.is_process() && pattern.matches(frame))
                .map(|[inclusive, _]| inclusive),
            What::Exclusive(pattern) => comparison
                .of_frames(|frame| !frame.is_process() && pattern.matches(frame))
                .map(|[_, exclusive]| exclusive),
        };
        let Some(sums) = sums else {
            bail!(
                "--fail-if {self}: neither trace has a stack with this name; see `etw compare` without --fail-if"
            );
        };
        let row = Row::new("", sums, compared);
        let holds = self.holds(&row);
        let rates = row.rates.map(|rate| compared.rate_text(rate));
        Ok(Verdict { condition: self.clone(), row, holds, rates })
    }

    fn holds(&self, row: &Row) -> bool {
        let change = if self.is_points { row.change_points() } else { row.change_percent() };
        match self.order {
            Order::Greater => change > self.limit,
            Order::GreaterOrEqual => change >= self.limit,
            Order::Less => change < self.limit,
            Order::LessOrEqual => change <= self.limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use openetw::analysis::{Comparison, NamedStacks, WeightSum, WeightUnit};

    use super::*;

    fn stacks(frames: &[(&[&str], u64)]) -> NamedStacks {
        let mut stacks = NamedStacks::new(WeightUnit::Time);
        for (names, weight) in frames {
            let frames = names.iter().enumerate().map(|(index, name)| match index {
                0 => StackFrame::process(Some(name)),
                _ => StackFrame::function(Some("m"), Some(name), false),
            });
            stacks.add(frames, WeightSum { weight: *weight, count: 1 });
        }
        stacks
    }

    fn compared() -> Compared {
        let before = stacks(&[(&["a.exe", "main", "work"], 100), (&["b", "main"], 100)]);
        // In twice the time.
        let after =
            stacks(&[(&["a.exe", "main", "work"], 300), (&["b", "main"], 100), (&["b", "fresh"], 20)]);
        Compared {
            kind: TableKind::Functions,
            unit: WeightUnit::Time,
            seconds: [1.0, 2.0],
            comparison: Comparison::new(&before, &after),
        }
    }

    #[test]
    fn conditions_hold_by_rate_or_by_share() {
        let compared = [compared()];
        let check = |text: &str, expected: bool| {
            let condition: Condition = text.parse().unwrap();
            let verdict = condition.check(&compared).unwrap();
            assert_eq!(verdict.holds, expected, "{verdict}");
        };
        // 200 per second, then 210.
        check("cpu > 4.9%", true);
        check("cpu > 5.1%", false);
        check("samples>=5 %", true);
        check("cpu < 0%", false);
        // 100, then 150.
        check("process:a > 49%", true);
        check("process:A.EXE > 51%", false);
        check("cpu process:b < -10%", true);
        check("function:main > 0%", false);
        check("function:m!main <= 0%", true);
        check("exclusive:main < -49%", true);
        check("function:work > 21pp", true);
        check("function:work > 22pp", false);
        check("function:fresh > 1000000%", true);
        check("function:fresh < 5%", false);
    }

    #[test]
    fn names_may_have_signs() {
        let parse = |text: &str| text.parse::<Condition>().unwrap().what;
        assert_eq!(
            parse("function:vec<int>::push > 5%"),
            What::Function(FramePattern::new("vec<int>::push"))
        );
        assert_eq!(parse("exclusive:operator< >= 5%"), What::Exclusive(FramePattern::new("operator<")));
        assert_eq!(
            "waits function:a b > 5%".parse::<Condition>().unwrap().table,
            TableKind::ByFunction(StackWeight::Waits)
        );
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<Condition>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("", "no `>`");
        check("cpu", "no `>`");
        check("cpu > ", "no unit");
        check("cpu > 10", "no unit");
        check("cpu > x%", "not a number");
        check("cpu > nan%", "not a number");
        check("cpu > 5pp", "always 100 %");
        check("gpu > 5%", "`gpu` is none of");
        check("waits read > 5%", "`read` is not process:NAME");
        check("function: > 5%", "empty");
        let compared = [compared()];
        for (text, expected) in
            [("function:other > 5%", "no stack"), ("waits > 5%", "neither trace has stacks")]
        {
            let condition: Condition = text.parse().unwrap();
            let error = condition.check(&compared).unwrap_err().to_string();
            assert!(error.contains("neither trace has"), "{error} {expected}");
        }
    }
}
