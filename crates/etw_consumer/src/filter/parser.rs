//! Recursive descent parser with bounded depth, from tokens to a predicate.

use etw_event::Guid;

use super::lexer::{Token, TokenKind, tokens};
use super::{FilterError, field};
use crate::predicate::{Comparison, Field, Literal, Operator, Predicate};
use etw_schema::parse_number;

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

pub(super) fn parse(text: &str) -> Result<Predicate, FilterError> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, depth: 0 };
    let predicate = parser.any()?;
    match parser.peek().kind {
        TokenKind::End => Ok(predicate),
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

    fn any(&mut self) -> Result<Predicate, FilterError> {
        let mut operands = vec![self.all()?];
        while self.take(&["or", "||"]) {
            operands.push(self.all()?);
        }
        Ok(Predicate::any_of(operands))
    }

    fn all(&mut self) -> Result<Predicate, FilterError> {
        let mut operands = vec![self.not()?];
        while self.take(&["and", "&&"]) {
            operands.push(self.not()?);
        }
        Ok(Predicate::all_of(operands))
    }

    fn not(&mut self) -> Result<Predicate, FilterError> {
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
            self.not()?.not()
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

    fn comparison(&mut self) -> Result<Predicate, FilterError> {
        let field = match &self.peek().kind {
            TokenKind::Word(word) if !is_reserved(word) => field::by_name(word),
            TokenKind::Field(name) => Field::Property((*name).into()),
            _ => return Err(self.expected("a field, 'not' or '('")),
        };
        let field_token = self.advance();
        let token = self.peek();
        let known = match &token.kind {
            TokenKind::Word(word) => {
                WORD_OPERATORS.into_iter().find(|(name, ..)| name.eq_ignore_ascii_case(word))
            }
            TokenKind::Sign(sign) => SIGN_OPERATORS.into_iter().find(|(name, ..)| name == sign),
            _ => None,
        };
        let Some((name, operator, ignore_case)) = known else {
            // A field alone tests whether the event has it.
            let ends = match &token.kind {
                TokenKind::End | TokenKind::Sign(")" | "&&" | "||") => true,
                TokenKind::Word(word) => ["and", "or"].iter().any(|end| end.eq_ignore_ascii_case(word)),
                _ => false,
            };
            return match (ends, field) {
                (true, Field::Property(name)) => Ok(Predicate::property_is(&name)),
                _ => {
                    let expected =
                        "an operator (==, !=, <, <=, >, >=, =~, !~, contains, startswith, endswith, in)";
                    let found = if ends { field_token } else { token };
                    Err(FilterError::Expected {
                        column: found.column,
                        expected,
                        found: found.kind.describe(),
                    })
                }
            };
        };
        self.advance();
        field::check_operator(&field, operator, token)?;
        let compare =
            |value| Predicate::compare(Comparison { field: field.clone(), operator, ignore_case, value });
        if !matches!(name, "in" | "iin") {
            return Ok(compare(self.value(&field, operator)?));
        }
        if !self.take(&["("]) {
            return Err(self.expected("'(' and a list of values"));
        }
        let mut values = vec![compare(self.value(&field, operator)?)];
        while self.take(&[","]) {
            values.push(compare(self.value(&field, operator)?));
        }
        if !self.take(&[")"]) {
            return Err(self.expected("',' or ')'"));
        }
        Ok(Predicate::any_of(values))
    }

    fn value(&mut self, field: &Field, operator: Operator) -> Result<Literal, FilterError> {
        let token = self.peek();
        let (text, literal) = match &token.kind {
            TokenKind::Word(word) => (*word, word_literal(word)),
            TokenKind::Quoted(text) => (text.as_str(), Literal::Text(text.as_str().into())),
            _ => return Err(self.expected("a value: a number, a word, or a text in quotes")),
        };
        self.advance();
        field::check_value(field, operator, literal, text, token.column)
    }
}

/// Reserved words of the language, which name a property only in backquotes.
fn is_reserved(word: &str) -> bool {
    let joins = ["and", "or", "not"].into_iter();
    joins.chain(WORD_OPERATORS.map(|(name, ..)| name)).any(|reserved| reserved.eq_ignore_ascii_case(word))
}

/// Returns the meaning of a bare word: a number, a GUID, a truth value, or else a text.
fn word_literal(word: &str) -> Literal {
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, word),
    };
    if digits.starts_with(|c: char| c.is_ascii_digit()) {
        if let Some(number) = parse_number(digits) {
            return Literal::Integer(sign * i128::from(number));
        }
        if let Ok(guid) = word.parse::<Guid>() {
            return Literal::Guid(guid);
        }
        if let Ok(number) = word.parse::<f64>() {
            return Literal::Float(number);
        }
    }
    match word {
        "true" => Literal::Boolean(true),
        "false" => Literal::Boolean(false),
        _ => word.parse().map_or_else(|_| Literal::Text(word.into()), Literal::Guid),
    }
}
