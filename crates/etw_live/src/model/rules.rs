//! Filters as in Process Monitor: rules that include, exclude or highlight events by the columns of their lines.

use super::line::Line;

/// What a rule compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Process,
    ProcessId,
    ThreadId,
    Operation,
    Path,
    Detail,
    Result,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Is,
    IsNot,
    LessThan,
    MoreThan,
    BeginsWith,
    EndsWith,
    Contains,
    Lacks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Include,
    Exclude,
    Highlight,
}

/// A rule about the events to show. Texts are compared without case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    column: Column,
    relation: Relation,
    /// In lower case.
    value: String,
    action: Action,
}

impl Rule {
    /// Creates a rule.
    ///
    /// `column` is `process`, `pid`, `tid`, `operation`, `path`, `detail` or `result`; `relation` is `is`, `is not`,
    /// `less than`, `more than`, `begins with`, `ends with`, `contains` or `lacks`; `action` is `include`, `exclude` or
    /// `highlight`.
    ///
    /// # Errors
    ///
    /// Returns a message for the user if one of them is something else, or if `less than` and `more than` have no number.
    pub fn new(column: &str, relation: &str, value: &str, action: &str) -> Result<Rule, String> {
        let column = match column {
            "process" => Column::Process,
            "pid" => Column::ProcessId,
            "tid" => Column::ThreadId,
            "operation" => Column::Operation,
            "path" => Column::Path,
            "detail" => Column::Detail,
            "result" => Column::Result,
            other => return Err(format!("no column '{other}'")),
        };
        let relation = match relation {
            "is" => Relation::Is,
            "is not" => Relation::IsNot,
            "less than" => Relation::LessThan,
            "more than" => Relation::MoreThan,
            "begins with" => Relation::BeginsWith,
            "ends with" => Relation::EndsWith,
            "contains" => Relation::Contains,
            "lacks" => Relation::Lacks,
            other => return Err(format!("no relation '{other}'")),
        };
        let action = match action {
            "include" => Action::Include,
            "exclude" => Action::Exclude,
            "highlight" => Action::Highlight,
            other => return Err(format!("no action '{other}'")),
        };
        if matches!(relation, Relation::LessThan | Relation::MoreThan) && value.trim().parse::<f64>().is_err()
        {
            return Err(format!("'{value}' is not a number"));
        }
        Ok(Rule { column, relation, value: value.trim().to_lowercase(), action })
    }

    /// Whether the column of an event is what the rule says.
    fn matches(&self, line: &Line, path: &str) -> bool {
        let text = match self.column {
            Column::Process => &line.process,
            Column::ProcessId => &line.process_id,
            Column::ThreadId => &line.thread_id,
            Column::Operation => &line.operation,
            Column::Path => path,
            Column::Detail => &line.detail,
            Column::Result => &line.result,
        };
        let text = text.to_lowercase();
        let value = self.value.as_str();
        let numbers = || Some((text.parse::<f64>().ok()?, value.parse::<f64>().ok()?));
        match self.relation {
            Relation::Is => text == value,
            Relation::IsNot => text != value,
            Relation::LessThan => numbers().is_some_and(|(text, value)| text < value),
            Relation::MoreThan => numbers().is_some_and(|(text, value)| text > value),
            Relation::BeginsWith => text.starts_with(value),
            Relation::EndsWith => text.ends_with(value),
            Relation::Contains => text.contains(value),
            Relation::Lacks => !text.contains(value),
        }
    }
}

/// Rules that include, exclude and highlight events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Creates rules; without any, every event is shown.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Rules {
        Rules(rules)
    }

    /// Whether every event is shown.
    pub(crate) fn is_open(&self) -> bool {
        !self.0.iter().any(|rule| rule.action != Action::Highlight)
    }

    /// Whether a rule needs more of a line than what is known without decoding the event.
    pub(crate) fn needs_event(&self) -> bool {
        let needs = |rule: &Rule| {
            rule.action != Action::Highlight
                && matches!(rule.column, Column::Operation | Column::Detail | Column::Result)
        };
        self.0.iter().any(needs)
    }

    /// Whether an event is shown: no rule excludes it, and of each column with rules that include, one does.
    pub(crate) fn shows(&self, line: &Line, path: &str) -> bool {
        let of = |action: Action| self.0.iter().filter(move |rule| rule.action == action);
        let is_excluded = of(Action::Exclude).any(|rule| rule.matches(line, path));
        !is_excluded
            && of(Action::Include).all(|wanted| {
                of(Action::Include).any(|rule| rule.column == wanted.column && rule.matches(line, path))
            })
    }

    /// Whether an event is highlighted.
    pub(crate) fn highlights(&self, line: &Line, path: &str) -> bool {
        self.0.iter().any(|rule| rule.action == Action::Highlight && rule.matches(line, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(process: &str, process_id: &str, operation: &str) -> Line {
        Line {
            process: process.to_owned(),
            process_id: process_id.to_owned(),
            operation: operation.to_owned(),
            ..Line::default()
        }
    }

    #[test]
    fn excludes_win_and_columns_must_all_include() {
        let rules = |texts: &[[&str; 4]]| {
            let rules = texts
                .iter()
                .map(|[column, relation, value, action]| Rule::new(column, relation, value, action).unwrap());
            Rules::new(rules.collect())
        };
        let make = line("Make", "12", "FileIo/Read");
        let check = |texts: &[[&str; 4]], expected: bool| {
            assert_eq!(rules(texts).shows(&make, "/etc/Passwd"), expected, "{texts:?}");
        };
        check(&[], true);
        check(&[["process", "is", "make", "include"]], true);
        check(&[["process", "is", "sh", "include"]], false);
        check(&[["process", "is", "sh", "include"], ["process", "is", "make", "include"]], true);
        check(&[["process", "is", "make", "include"], ["operation", "ends with", "write", "include"]], false);
        check(&[["process", "is", "make", "include"], ["path", "contains", "passwd", "exclude"]], false);
        check(&[["pid", "less than", "100", "include"]], true);
        check(&[["pid", "more than", "100", "include"]], false);
        check(&[["operation", "begins with", "FILEIO", "include"]], true);
        check(&[["path", "lacks", "etc", "include"]], false);
        check(&[["path", "is not", "/etc/passwd", "exclude"]], true);
        let lit = rules(&[["path", "contains", "etc", "highlight"]]);
        assert!(lit.is_open() && lit.highlights(&make, "/etc/x") && !lit.highlights(&make, "/tmp"));
        assert!(!rules(&[["pid", "is", "1", "include"]]).needs_event());
        assert!(rules(&[["detail", "contains", "x", "exclude"]]).needs_event());
    }

    #[test]
    fn wrong_rules_are_told() {
        assert!(Rule::new("colour", "is", "x", "include").unwrap_err().contains("colour"));
        assert!(Rule::new("pid", "like", "x", "include").unwrap_err().contains("like"));
        assert!(Rule::new("pid", "is", "x", "delete").unwrap_err().contains("delete"));
        assert!(Rule::new("pid", "more than", "x", "include").unwrap_err().contains("number"));
    }
}
