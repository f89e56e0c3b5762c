//! Lexer of filter expressions: words, values and signs with their columns.

use super::FilterError;

/// A token and the column where it starts (from 1, in characters).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token<'a> {
    pub(super) column: usize,
    pub(super) kind: TokenKind<'a>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind<'a> {
    /// A bare word: a field, a word operator, or a value.
    Word(&'a str),
    /// A text in quotes, without them.
    Quoted(String),
    /// A field in backquotes, without them.
    Field(&'a str),
    /// `(`, `)`, `,` or an operator of signs.
    Sign(&'a str),
    End,
}

impl TokenKind<'_> {
    /// Describes the token for an error's "found".
    pub(super) fn describe(&self) -> String {
        match self {
            TokenKind::Word(text) | TokenKind::Sign(text) => format!("'{text}'"),
            TokenKind::Field(text) => format!("`{text}`"),
            TokenKind::Quoted(text) => format!("\"{text}\""),
            TokenKind::End => "the end".to_owned(),
        }
    }
}

/// The signs, longest first.
const SIGNS: [&str; 15] = ["==", "!=", "<=", ">=", "=~", "!~", "&&", "||", "=", "<", ">", "!", "(", ")", ","];

pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, FilterError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let column = text[..text.len() - rest.len()].chars().count() + 1;
        let (kind, length) = next(rest, column)?;
        let end = kind == TokenKind::End;
        tokens.push(Token { column, kind });
        if end {
            return Ok(tokens);
        }
        rest = &rest[length..];
    }
}

fn next(rest: &str, column: usize) -> Result<(TokenKind<'_>, usize), FilterError> {
    let Some(first) = rest.chars().next() else { return Ok((TokenKind::End, 0)) };
    if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
        return Ok((TokenKind::Sign(&rest[..sign.len()]), sign.len()));
    }
    match first {
        '"' | '\'' => quoted(rest, first).ok_or(FilterError::Unterminated { column, quote: first }),
        '`' => match rest[1..].split_once('`') {
            Some((name, _)) => Ok((TokenKind::Field(name), name.len() + 2)),
            None => Err(FilterError::Unterminated { column, quote: first }),
        },
        // A GUID in braces is a word.
        _ => {
            let stops = |c: char| c.is_whitespace() || "()<>=!,\"'`&|~".contains(c);
            let length = rest.find(stops).unwrap_or(rest.len());
            match length {
                0 => Err(FilterError::Character { column, character: first }),
                _ => Ok((TokenKind::Word(&rest[..length]), length)),
            }
        }
    }
}

/// Parses a quoted text. A doubled quote is the quote itself; backslashes are literal, as paths need.
fn quoted(rest: &str, quote: char) -> Option<(TokenKind<'static>, usize)> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c != quote {
            text.push(c);
        } else if chars.next_if(|(_, next)| *next == quote).is_some() {
            text.push(quote);
        } else {
            return Some((TokenKind::Quoted(text), at + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_signs_and_texts() {
        let kinds: Vec<_> = tokens(r#"pid==4 and(Name contains "a""b\c")"#)
            .unwrap()
            .into_iter()
            .map(|token| (token.column, token.kind.describe()))
            .collect();
        let expected = [
            (1, "'pid'"),
            (4, "'=='"),
            (6, "'4'"),
            (8, "'and'"),
            (11, "'('"),
            (12, "'Name'"),
            (17, "'contains'"),
            (26, r#""a"b\c""#),
            (34, "')'"),
            (35, "the end"),
        ];
        assert_eq!(kinds, expected.map(|(column, text)| (column, text.to_owned())));
        assert_eq!(tokens("`Process Name`").unwrap()[0].kind, TokenKind::Field("Process Name"));
    }

    #[test]
    fn columns_count_characters() {
        assert_eq!(tokens("é == \"x").unwrap_err(), FilterError::Unterminated { column: 6, quote: '"' });
        assert_eq!(tokens("a ~ b").unwrap_err(), FilterError::Character { column: 3, character: '~' });
    }
}
