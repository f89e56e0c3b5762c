//! Filters of Windows Performance Analyzer as expressions over columns (`docs/filters.md`).
//!
//! `[Process]:<>"Unknown" AND ([Handle Type]:="Key" OR NOT [Size]:>"4096")`: a column, a colon, an operator and a value.

use anyhow::{Result, bail};
use openetw::tables::ColumnType;

use super::names::{Meaning, TableNames, column};

/// Maximum nesting.
const MAX_DEPTH: usize = 32;

/// Returns the expression of a filter.
///
/// # Errors
///
/// Fails if the filter cannot be read, or uses a column that has no counterpart.
pub(super) fn expression(query: &str, table: &TableNames) -> Result<String> {
    let mut parser = Parser { rest: query.trim(), table, depth: 0 };
    let text = parser.any()?;
    if !parser.rest.is_empty() {
        bail!("'{}' is not understood", parser.rest);
    }
    Ok(text)
}

struct Parser<'q, 't> {
    rest: &'q str,
    table: &'t TableNames,
    depth: usize,
}

impl Parser<'_, '_> {
    /// Takes a text if it is next.
    fn takes(&mut self, text: &str) -> bool {
        let is_word = text.starts_with(char::is_alphabetic);
        let found = self.rest.get(..text.len()).is_some_and(|start| start.eq_ignore_ascii_case(text))
            && !(is_word && self.rest[text.len()..].starts_with(char::is_alphanumeric));
        if found {
            self.rest = self.rest[text.len()..].trim_start();
        }
        found
    }

    fn any(&mut self) -> Result<String> {
        let mut text = self.all()?;
        while self.takes("OR") {
            text = format!("{text} or {}", self.all()?);
        }
        Ok(text)
    }

    fn all(&mut self) -> Result<String> {
        let mut text = self.one()?;
        // Without a word between them, both must hold.
        while self.takes("AND") || self.rest.starts_with(['[', '(']) {
            text = format!("{text} and {}", self.one()?);
        }
        Ok(text)
    }

    fn one(&mut self) -> Result<String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            bail!("the filter is nested too deeply");
        }
        let text = if self.takes("NOT") {
            format!("not {}", self.one()?)
        } else if self.takes("(") {
            let text = self.any()?;
            if !self.takes(")") {
                bail!("a parenthesis is not closed");
            }
            format!("({text})")
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(text)
    }

    fn comparison(&mut self) -> Result<String> {
        let found = match self.rest.strip_prefix('[') {
            Some(rest) => rest.split_once("]:"),
            // A name of one word needs no brackets.
            None => self.rest.split_once(':'),
        };
        let Some((name, rest)) = found else { bail!("'{}' is not understood", self.rest) };
        // The longer ones first.
        let operators = ["~=", "~!", "~<", "~>", "<>", "<=", ">=", "=", "<", ">"];
        let Some(operator) = operators.into_iter().find(|operator| rest.starts_with(operator)) else {
            bail!("'{name}' is followed by no known operator");
        };
        let rest = rest[operator.len()..].trim_start();
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => match quoted.split_once('"') {
                Some(parts) => parts,
                None => bail!("a text does not end"),
            },
            None => rest.split_at(rest.find([' ', ')']).unwrap_or(rest.len())),
        };
        self.rest = rest.trim_start();
        self.compare(name.trim(), operator, value)
    }

    fn compare(&self, name: &str, operator: &str, value: &str) -> Result<String> {
        let path = match self.table.column(name) {
            Meaning::Path(path) => path,
            Meaning::Missing(why) => bail!("'{name}': {why}"),
            Meaning::Rows | Meaning::Percent(_) => bail!("'{name}' is no column of single rows"),
        };
        let Some(column) = column(self.table.table, &path) else { bail!("'{name}' is no column") };
        // What is not known is missing here.
        if value.eq_ignore_ascii_case("Unknown") && matches!(operator, "=" | "<>") {
            return Ok(if operator == "=" { format!("not {path}") } else { path });
        }
        let is_text = matches!(column.column_type, ColumnType::Text | ColumnType::Row);
        let operator = match (operator, is_text) {
            ("=", true) => "=~",
            ("=", false) => "==",
            ("<>", true) => "!~",
            ("<>", false) => "!=",
            ("~=", true) => "icontains",
            ("~<", true) => "istartswith",
            ("~>", true) => "iendswith",
            ("~!", true) => return Ok(format!("not {path} icontains {}", quoted(value))),
            ("<" | ">" | "<=" | ">=", false) => operator,
            _ => bail!("'{name}' cannot be compared so"),
        };
        Ok(match is_text || column.column_type == ColumnType::Guid {
            true => format!("{path} {operator} {}", quoted(value)),
            false if value.parse::<f64>().is_ok() => format!("{path} {operator} {value}"),
            false => bail!("'{value}' is not a number"),
        })
    }
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::super::names::table_of;
    use super::*;

    #[test]
    fn filters_become_expressions() {
        let of = |guid: &str, query: &str| expression(query, table_of(guid, &[]).unwrap());
        let handles = "7b47975b-040d-4901-9a3f-e410228e30df";
        let events = "04f69f98-176e-4d1c-b44e-97f734996ab8";
        let check = |guid: &str, query: &str, wanted: &str| assert_eq!(of(guid, query).unwrap(), wanted);
        check(
            handles,
            "[Creating Process]:<>\"Unknown\" AND [Handle Type]:=\"Key\"",
            "creating_process and object_type.object_type =~ \"Key\"",
        );
        check(handles, "[Creating Process]:=\"Unknown\"", "not creating_process");
        check(
            events,
            "[Provider Id]:=\"487d6e37-1b9d-46d3-a8fd-54ce8bdf8a53\" OR ([Id]:=7 AND NOT [Provider Name]:~<\"A\")",
            "kind.provider_guid == \"487d6e37-1b9d-46d3-a8fd-54ce8bdf8a53\" or \
             (kind.id == 7 and not kind.provider istartswith \"A\")",
        );
        check(
            events,
            "[Provider Name]:~!\"x\" [Id]:<>1",
            "not kind.provider icontains \"x\" and kind.id != 1",
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let table = table_of("04f69f98-176e-4d1c-b44e-97f734996ab8", &[]).unwrap();
        let check = |query: &str| assert!(expression(query, table).is_err(), "{query}");
        for query in [
            "",
            "[",
            "[Id]",
            "[Id]:",
            "[Id]:=",
            "([Id]:=1",
            "[Id]:=1)",
            "[None]:=1",
            "[Id]:=x",
            "[Id]:~=\"1\"",
            "OR",
        ] {
            check(query);
        }
        check(&"(".repeat(100_000));
        check(&"NOT ".repeat(100_000));
    }
}
