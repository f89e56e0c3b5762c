//! Recursive descent parser with bounded depth, from tokens to an expression.

use super::FilterError;
use super::expression::{Expression, FilterComparison, FilterName, FilterValue};
use super::lexer::{Token, TokenKind, tokens};
use crate::predicate::Operator;

/// What is expected after a name that is not a condition of its own.
pub(super) const AN_OPERATOR: &str =
    "an operator (==, !=, <, <=, >, >=, =~, !~, contains, startswith, endswith, in)";

/// Maximum nesting depth of parentheses and `not`.
const MAX_DEPTH: usize = 64;

/// Word operators; the variants with the prefix `i` ignore case.
const WORD_OPERATORS: [(&str, Operator, bool); 10] = [
    ("contains", Operator::Contains, false),
    ("icontains", Operator::Contains, true),
    ("startswith", Operator::StartsWith, false),
    ("istartswith", Operator::StartsWith, true),
    ("endswith", Operator::EndsWith, false),
    ("iendswith", Operator::EndsWith, true),
    ("equals", Operator::Equal, false),
    ("iequals", Operator::Equal, true),
    ("in", Operator::Equal, false),
    ("iin", Operator::Equal, true),
];

const SIGN_OPERATORS: [(&str, Operator, bool); 9] = [
    ("==", Operator::Equal, false),
    ("=", Operator::Equal, false),
    ("!=", Operator::NotEqual, false),
    ("<=", Operator::LessOrEqual, false),
    (">=", Operator::GreaterOrEqual, false),
    ("<", Operator::Less, false),
    (">", Operator::Greater, false),
    ("=~", Operator::Equal, true),
    ("!~", Operator::NotEqual, true),
];

pub(super) fn parse(text: &str) -> Result<Expression, FilterError> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, depth: 0 };
    let expression = parser.any()?;
    match parser.peek().kind {
        TokenKind::End => Ok(expression),
        _ => Err(parser.expected("'and', 'or' or the end")),
    }
}

struct Parser<'t> {
    tokens: &'t [Token<'t>],
    depth: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> &'t Token<'t> {
        const END: &Token<'static> = &Token { column: 0, kind: TokenKind::End };
        self.tokens.first().unwrap_or(END)
    }

    fn advance(&mut self) -> &'t Token<'t> {
        let token = self.peek();
        // The end token is never removed, so there always is a current token.
        if self.tokens.len() > 1 {
            self.tokens = &self.tokens[1..];
        }
        token
    }

    fn expected(&self, expected: &'static str) -> FilterError {
        let token = self.peek();
        FilterError::Expected { column: token.column, expected, found: token.kind.describe() }
    }

    /// Consumes the token if it is one of these words (ignoring case) or signs.
    fn take(&mut self, words: &[&str]) -> bool {
        let taken = match &self.peek().kind {
            TokenKind::Word(text) => words.iter().any(|word| word.eq_ignore_ascii_case(text)),
            TokenKind::Sign(text) => words.contains(text),
            _ => false,
        };
        if taken {
            self.advance();
        }
        taken
    }

    fn any(&mut self) -> Result<Expression, FilterError> {
        let first = self.all()?;
        if !self.take(&["or", "||"]) {
            return Ok(first);
        }
        let mut operands = vec![first, self.all()?];
        while self.take(&["or", "||"]) {
            operands.push(self.all()?);
        }
        Ok(Expression::Any(operands))
    }

    fn all(&mut self) -> Result<Expression, FilterError> {
        let first = self.not()?;
        if !self.take(&["and", "&&"]) {
            return Ok(first);
        }
        let mut operands = vec![first, self.not()?];
        while self.take(&["and", "&&"]) {
            operands.push(self.not()?);
        }
        Ok(Expression::All(operands))
    }

    fn not(&mut self) -> Result<Expression, FilterError> {
        let column = self.peek().column;
        let negated = self.take(&["not", "!"]);
        if !negated && self.peek().kind != TokenKind::Sign("(") {
            return self.comparison();
        }
        if self.depth == MAX_DEPTH {
            return Err(FilterError::TooDeep { column, limit: MAX_DEPTH });
        }
        self.depth += 1;
        let inner = if negated {
            Expression::Not(Box::new(self.not()?))
        } else {
            self.advance();
            let inner = self.any()?;
            if !self.take(&[")"]) {
                return Err(self.expected("')', 'and' or 'or'"));
            }
            inner
        };
        self.depth -= 1;
        Ok(inner)
    }

    fn comparison(&mut self) -> Result<Expression, FilterError> {
        let (text, is_quoted) = match &self.peek().kind {
            TokenKind::Word(word) if !is_reserved(word) => (*word, false),
            TokenKind::Field(name) => (*name, true),
            _ => return Err(self.expected("a field, 'not' or '('")),
        };
        let name = FilterName { text: text.to_owned(), is_quoted, column: self.advance().column };
        let token = self.peek();
        let known = match &token.kind {
            TokenKind::Word(word) => {
                WORD_OPERATORS.into_iter().find(|(name, ..)| name.eq_ignore_ascii_case(word))
            }
            TokenKind::Sign(sign) => SIGN_OPERATORS.into_iter().find(|(name, ..)| name == sign),
            _ => None,
        };
        let Some((operator_name, operator, ignore_case)) = known else {
            let ends = match &token.kind {
                TokenKind::End | TokenKind::Sign(")" | "&&" | "||") => true,
                TokenKind::Word(word) => ["and", "or"].iter().any(|end| end.eq_ignore_ascii_case(word)),
                _ => false,
            };
            return if ends { Ok(Expression::Has(name)) } else { Err(self.expected(AN_OPERATOR)) };
        };
        self.advance();
        let mut values = Vec::new();
        if matches!(operator_name, "in" | "iin") {
            if !self.take(&["("]) {
                return Err(self.expected("'(' and a list of values"));
            }
            values.push(self.value()?);
            while self.take(&[","]) {
                values.push(self.value()?);
            }
            if !self.take(&[")"]) {
                return Err(self.expected("',' or ')'"));
            }
        } else {
            values.push(self.value()?);
        }
        Ok(Expression::Compare(FilterComparison {
            name,
            operator,
            ignore_case,
            operator_text: token.kind.describe().trim_matches('\'').to_owned(),
            operator_column: token.column,
            values,
        }))
    }

    fn value(&mut self) -> Result<FilterValue, FilterError> {
        let token = self.peek();
        let (text, is_quoted) = match &token.kind {
            TokenKind::Word(word) => (*word, false),
            TokenKind::Quoted(text) => (text.as_str(), true),
            _ => return Err(self.expected("a value: a number, a word, or a text in quotes")),
        };
        self.advance();
        Ok(FilterValue { text: text.to_owned(), is_quoted, column: token.column })
    }
}

/// Reserved words of the language, which name a property only in backquotes.
fn is_reserved(word: &str) -> bool {
    let joins = ["and", "or", "not"].into_iter();
    joins.chain(WORD_OPERATORS.map(|(name, ..)| name)).any(|reserved| reserved.eq_ignore_ascii_case(word))
}
