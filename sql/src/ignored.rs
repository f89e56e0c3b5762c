//! Clauses that the parser reads and the engine ignores: its answer would be that of another question.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select, TableFactor, Visit, Visitor};

/// Returns the message for the first such clause of a statement.
pub(crate) fn clause(statement: &Statement) -> Option<String> {
    let found = match statement {
        Statement::Statement(statement) => statement.visit(&mut Search).break_value(),
        Statement::Explain(explain) => return clause(&explain.statement),
        _ => None,
    };
    let (name, instead) = found?;
    Some(format!("{name} is not supported{instead}"))
}

/// A search, which ends with the name of a clause and what to use instead.
struct Search;

impl Visitor for Search {
    type Break = (&'static str, &'static str);

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Self::Break> {
        let (GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers)) = &select.group_by;
        if !modifiers.is_empty() {
            return ControlFlow::Break((
                "WITH after GROUP BY",
                ": write `group by rollup (…)` or `cube (…)`",
            ));
        }
        if select.prewhere.is_some() {
            return ControlFlow::Break(("PREWHERE", ": write `where`"));
        }
        if !select.connect_by.is_empty() {
            return ControlFlow::Break(("CONNECT BY", ": write `with recursive`"));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<Self::Break> {
        match table {
            TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
                ControlFlow::Break(("TABLESAMPLE", ": write `where random() < 0.1` for a tenth of the rows"))
            }
            TableFactor::Table { partitions, .. } if !partitions.is_empty() => {
                ControlFlow::Break(("PARTITION", ""))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<Self::Break> {
        match expression {
            // The engine takes the pattern for a regular expression that may match anywhere.
            Expr::SimilarTo { .. } => ControlFlow::Break(("SIMILAR TO", ": `~` takes regular expressions")),
            _ => ControlFlow::Continue(()),
        }
    }
}
