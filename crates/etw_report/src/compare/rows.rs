//! Rows of a comparison, sorted by what grew.

use etw_app::table::cell_text;
use openetw::analysis::{Cell, Change, Duration, WeightSum, WeightUnit};

use super::Compared;

/// A process, function or stack, with its weight per second and its share of all before and after.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) sums: [WeightSum; 2],
    /// Per second, in the unit of the stacks.
    pub(super) rates: [f64; 2],
    /// In percent.
    pub(super) shares: [f64; 2],
}

impl Row {
    pub(super) fn new(name: &str, sums: [WeightSum; 2], compared: &Compared) -> Row {
        let totals = compared.comparison.totals();
        let rate = |side: usize| compared.amount(sums[side]) as f64 / compared.seconds[side];
        let rates = [rate(0), rate(1)];
        let shares = [0, 1].map(|side: usize| sums[side].percent_of(totals[side]));
        Row { name: name.to_owned(), sums, rates, shares }
    }

    /// Returns the change per second.
    pub(super) fn change(&self) -> f64 {
        self.rates[1] - self.rates[0]
    }

    /// Returns the change in percent of the rate before: infinite for what is new.
    pub(super) fn change_percent(&self) -> f64 {
        match (self.rates[0] > 0.0, self.rates[1] > 0.0) {
            (true, _) => self.change() * 100.0 / self.rates[0],
            (false, true) => f64::INFINITY,
            (false, false) => 0.0,
        }
    }

    /// Returns the change of the share in percentage points.
    pub(super) fn change_points(&self) -> f64 {
        self.shares[1] - self.shares[0]
    }
}

/// What rows are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    Processes,
    /// Without what they call.
    Functions,
    /// With what they call.
    WithCallees,
    Stacks,
}

impl Subject {
    pub(super) const ALL: [Subject; 4] =
        [Subject::Processes, Subject::Functions, Subject::WithCallees, Subject::Stacks];

    pub(super) fn title(self) -> &'static str {
        match self {
            Subject::Processes => "By process",
            Subject::Functions => "By function",
            Subject::WithCallees => "By function, with what it calls",
            Subject::Stacks => "By stack",
        }
    }

    pub(super) fn key(self) -> &'static str {
        match self {
            Subject::Processes => "processes",
            Subject::Functions => "functions",
            Subject::WithCallees => "with_callees",
            Subject::Stacks => "stacks",
        }
    }
}

impl Compared {
    /// Returns the row of everything.
    pub(super) fn all(&self) -> Row {
        Row::new("all", self.comparison.totals(), self)
    }

    /// Returns the weight, or the number of events if nothing has a weight.
    pub(super) fn amount(&self, sum: WeightSum) -> u64 {
        match self.comparison.totals().iter().all(|total| total.weight == 0) {
            true => sum.count,
            false => sum.weight,
        }
    }

    /// Returns a weight per second for people.
    pub(super) fn rate_text(&self, rate: f64) -> String {
        let is_count = self.comparison.totals().iter().all(|total| total.weight == 0);
        let text = match self.unit {
            WeightUnit::Time if !is_count => cell_text(&Cell::Duration(Duration(rate as u64))),
            WeightUnit::Bytes if !is_count => cell_text(&Cell::Bytes(rate as u64)),
            _ => format!("{rate:.1}"),
        };
        format!("{text}/s")
    }

    /// Returns all rows about something, those that grew most first.
    pub(super) fn rows(&self, subject: Subject) -> Vec<Row> {
        let comparison = &self.comparison;
        let changes: Vec<Change> = match subject {
            Subject::Processes => comparison.processes(),
            Subject::Functions | Subject::WithCallees => comparison.functions(),
            Subject::Stacks => comparison.stacks(|_| true),
        };
        let is_own = subject == Subject::Functions;
        let rows = changes.into_iter().map(|change| {
            let sums = if is_own { change.exclusive } else { change.inclusive };
            Row::new(&change.name, sums, self)
        });
        let mut rows: Vec<Row> = rows.filter(|row| row.sums.iter().any(|sum| !sum.is_zero())).collect();
        rows.sort_by(|one, other| {
            other.change().total_cmp(&one.change()).then_with(|| one.name.cmp(&other.name))
        });
        rows
    }
}

/// Returns the first rows that grew, the last rows that shrank, and the number of the others.
pub(super) fn ends(rows: &[Row], top: usize) -> ([&[Row]; 2], usize) {
    let grew = rows.iter().take(top).take_while(|row| row.change() > 0.0).count();
    let shrank = rows.iter().rev().take(top).take_while(|row| row.change() < 0.0).count();
    let (first, rest) = rows.split_at(grew);
    let (others, last) = rest.split_at(rest.len() - shrank.min(rest.len()));
    ([first, last], others.len())
}

/// Returns a change in percent for people.
pub(super) fn percent_text(percent: f64) -> String {
    if percent.is_infinite() { "new".to_owned() } else { format!("{percent:+.1} %") }
}
