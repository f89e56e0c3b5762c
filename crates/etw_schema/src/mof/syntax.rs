//! The syntax of MOF text (DMTF DSP0004, as read by WMI's compiler): class declarations with their qualifiers.
//!
//! Instances, methods and qualifier declarations are skipped, since event classes do not use them.

use super::MofProblem;

/// A class declaration.
#[derive(Debug, Default)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) parent: Option<String>,
    pub(super) namespace: String,
    pub(super) qualifiers: Vec<Qualifier>,
    pub(super) properties: Vec<Member>,
    pub(super) line: usize,
}

/// A property of a class.
#[derive(Debug, Default)]
pub(super) struct Member {
    pub(super) name: String,
    /// The CIM type, in lower case.
    pub(super) cim_type: String,
    /// `[n]` after the name; `Some(None)` is `[]`.
    pub(super) array: Option<Option<u16>>,
    pub(super) qualifiers: Vec<Qualifier>,
    pub(super) line: usize,
}

/// A qualifier with its values. A qualifier without values is true.
#[derive(Debug, Default)]
pub(super) struct Qualifier {
    /// In lower case: MOF is case-insensitive.
    pub(super) name: String,
    pub(super) values: Vec<Value>,
}

/// A literal.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Number(i64),
    /// `true`, `null`, an alias, …
    Word(String),
}

impl Value {
    /// Returns the number, also of a number written as a string, as in `ValueMap`.
    pub(super) fn number(&self) -> Option<i64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Text(text) | Value::Word(text) => parse_number(text.trim()),
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// A declaration with qualifiers.
pub(super) trait Qualified {
    fn qualifiers(&self) -> &[Qualifier];

    /// Returns the values of a qualifier (its name in lower case), if present.
    fn values(&self, name: &str) -> Option<&[Value]> {
        self.qualifiers().iter().find(|qualifier| qualifier.name == name).map(|qualifier| &*qualifier.values)
    }
    fn has(&self, name: &str) -> bool {
        self.values(name).is_some()
    }
    fn text(&self, name: &str) -> Option<&str> {
        self.values(name)?.first()?.text()
    }
    fn number(&self, name: &str) -> Option<i64> {
        self.values(name)?.first()?.number()
    }
}

impl Qualified for Class {
    fn qualifiers(&self) -> &[Qualifier] {
        &self.qualifiers
    }
}

impl Qualified for Member {
    fn qualifiers(&self) -> &[Qualifier] {
        &self.qualifiers
    }
}

/// Returns the classes of a text. Invalid parts are skipped and reported.
pub(super) fn classes(text: &str, problems: &mut Vec<MofProblem>) -> Vec<Class> {
    let mut parser = Parser { lexer: Lexer { rest: text, line: 1 }, peeked: None, namespace: String::new() };
    let mut classes = Vec::new();
    loop {
        match parser.declaration() {
            Ok(Some(class)) => classes.push(class),
            Ok(None) if parser.at_end() => return classes,
            Ok(None) => {}
            Err(what) => {
                super::report(problems, parser.lexer.line, what);
                parser.skip_declaration();
            }
        }
    }
}

fn parse_number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let value = if let Some(hex) = hex {
        u64::from_str_radix(hex, 16).ok()? as i64
    } else if let Some(binary) = digits.strip_suffix(['b', 'B']) {
        i64::from_str_radix(binary, 2).ok()?
    } else {
        digits.parse().ok()?
    };
    Some(if negative { value.wrapping_neg() } else { value })
}

#[derive(Debug, Clone, PartialEq)]
enum Token<'a> {
    /// Letters, digits, `_`, `$`, `-`, `+`, `.`: names, numbers, aliases.
    Word(&'a str),
    Text(String),
    Char(char),
    End,
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Lexer<'a> {
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        self.line += memchr::memchr_iter(b'\n', taken.as_bytes()).count();
        taken
    }

    fn skip_space_and_comments(&mut self) {
        loop {
            let trimmed =
                self.rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}' || c == '\0');
            self.take(self.rest.len() - trimmed.len());
            if self.rest.starts_with("//") {
                let end = memchr::memchr(b'\n', self.rest.as_bytes()).unwrap_or(self.rest.len());
                self.take(end);
            } else if self.rest.starts_with("/*") {
                let end =
                    memchr::memmem::find(self.rest.as_bytes(), b"*/").map_or(self.rest.len(), |at| at + 2);
                self.take(end);
            } else {
                return;
            }
        }
    }

    fn next(&mut self) -> Result<Token<'a>, &'static str> {
        self.skip_space_and_comments();
        let Some(first) = self.rest.chars().next() else { return Ok(Token::End) };
        if first == '"' || first == '\'' {
            return self.quoted(first).map(Token::Text);
        }
        let is_word = |c: char| c.is_alphanumeric() || "_$-+.".contains(c);
        if !is_word(first) {
            self.take(first.len_utf8());
            return Ok(Token::Char(first));
        }
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        Ok(Token::Word(self.take(end)))
    }

    fn quoted(&mut self, quote: char) -> Result<String, &'static str> {
        self.take(1);
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                _ if c == quote => {
                    self.take(at + 1);
                    return Ok(text);
                }
                '\n' => break,
                '\\' => match chars.next().map(|(_, escaped)| escaped) {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some('b') => text.push('\u{8}'),
                    Some('f') => text.push('\u{c}'),
                    Some('x' | 'X') => {
                        let digits =
                            chars.clone().take(4).take_while(|(_, c)| c.is_ascii_hexdigit()).map(|(_, c)| c);
                        let digits: String = digits.collect();
                        for _ in 0..digits.len() {
                            chars.next();
                        }
                        let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                        text.push(code.unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    Some(other) => text.push(other),
                    None => break,
                },
                _ => text.push(c),
            }
        }
        // A string does not extend past the end of its line.
        let end = memchr::memchr(b'\n', self.rest.as_bytes()).unwrap_or(self.rest.len());
        self.take(end);
        Err("unterminated string")
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    peeked: Option<Token<'a>>,
    namespace: String,
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Result<Token<'a>, &'static str> {
        match self.peeked.take() {
            Some(token) => Ok(token),
            None => self.lexer.next(),
        }
    }

    fn peek(&mut self) -> Result<&Token<'a>, &'static str> {
        let token = self.next()?;
        Ok(self.peeked.insert(token))
    }

    fn accept(&mut self, wanted: char) -> Result<bool, &'static str> {
        let found = *self.peek()? == Token::Char(wanted);
        if found {
            self.peeked = None;
        }
        Ok(found)
    }

    fn expect(&mut self, wanted: char, what: &'static str) -> Result<(), &'static str> {
        if self.accept(wanted)? { Ok(()) } else { Err(what) }
    }

    fn accept_word(&mut self, wanted: &str) -> Result<bool, &'static str> {
        let found = matches!(self.peek()?, Token::Word(word) if word.eq_ignore_ascii_case(wanted));
        if found {
            self.peeked = None;
        }
        Ok(found)
    }

    fn word(&mut self, what: &'static str) -> Result<&'a str, &'static str> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            _ => Err(what),
        }
    }

    fn at_end(&mut self) -> bool {
        matches!(self.peek(), Ok(Token::End))
    }

    /// Parses one declaration. Returns `None` at the end and for kinds that are skipped.
    fn declaration(&mut self) -> Result<Option<Class>, &'static str> {
        if self.accept('#')? {
            self.pragma()?;
            return Ok(None);
        }
        if self.accept(';')? || *self.peek()? == Token::End {
            return Ok(None);
        }
        let qualifiers = self.qualifiers()?;
        match self.next()? {
            Token::Word(word) if word.eq_ignore_ascii_case("class") => self.class(qualifiers).map(Some),
            Token::Word(word)
                if ["instance", "qualifier"].iter().any(|kind| word.eq_ignore_ascii_case(kind)) =>
            {
                self.skip_declaration();
                Ok(None)
            }
            _ => Err("expected a class, instance, qualifier or pragma"),
        }
    }

    fn pragma(&mut self) -> Result<(), &'static str> {
        self.word("no pragma after #")?;
        let name = self.word("no name of a pragma")?;
        if self.accept('(')? {
            let value = self.literal()?;
            if name.eq_ignore_ascii_case("namespace") {
                self.namespace = value.text().unwrap_or_default().to_ascii_lowercase();
            }
            while !self.accept(')')? {
                if self.next()? == Token::End {
                    return Err("unterminated pragma");
                }
            }
        }
        Ok(())
    }

    fn class(&mut self, qualifiers: Vec<Qualifier>) -> Result<Class, &'static str> {
        let line = self.lexer.line;
        let name = self.word("no name of a class")?.to_owned();
        if self.accept_word("as")? {
            self.word("no alias after \"as\"")?;
        }
        let parent =
            if self.accept(':')? { Some(self.word("no name of a parent class")?.to_owned()) } else { None };
        let mut class =
            Class { name, parent, namespace: self.namespace.clone(), qualifiers, line, ..Class::default() };
        if self.accept('{')? {
            while !self.accept('}')? {
                class.properties.extend(self.member()?);
            }
        }
        self.expect(';', "missing semicolon after a class")?;
        Ok(class)
    }

    /// Parses a property. Returns `None` for a method.
    fn member(&mut self) -> Result<Option<Member>, &'static str> {
        let qualifiers = self.qualifiers()?;
        let line = self.lexer.line;
        let mut cim_type = self.word("no type of a property")?.to_ascii_lowercase();
        if self.accept(':')? {
            self.word("no class after \"object:\"")?;
        }
        if self.accept_word("ref")? {
            cim_type = "ref".to_owned();
        }
        let name = self.word("no name of a property")?.to_owned();
        if self.accept('(')? {
            while !self.accept(')')? {
                if self.next()? == Token::End {
                    return Err("unterminated method");
                }
            }
            self.expect(';', "missing semicolon after a method")?;
            return Ok(None);
        }
        let mut array = None;
        if self.accept('[')? {
            array = Some(match self.accept(']')? {
                true => None,
                false => {
                    let size = self.literal()?.number().and_then(|size| u16::try_from(size).ok());
                    self.expect(']', "missing closing bracket of an array")?;
                    Some(size.ok_or("no size of an array")?)
                }
            });
        }
        if self.accept('=')? {
            while *self.peek()? != Token::Char(';') {
                if self.next()? == Token::End {
                    return Err("unterminated value");
                }
            }
        }
        self.expect(';', "missing semicolon after a property")?;
        Ok(Some(Member { name, cim_type, array, qualifiers, line }))
    }

    fn qualifiers(&mut self) -> Result<Vec<Qualifier>, &'static str> {
        let mut qualifiers = Vec::new();
        if !self.accept('[')? {
            return Ok(qualifiers);
        }
        while !self.accept(']')? {
            let name = self.word("no name of a qualifier")?.to_ascii_lowercase();
            let mut values = Vec::new();
            if self.accept('(')? {
                if self.accept('{')? {
                    self.list(&mut values)?;
                } else {
                    values.push(self.literal()?);
                }
                self.expect(')', "missing closing parenthesis of a qualifier")?;
            } else if self.accept('{')? {
                self.list(&mut values)?;
            }
            if self.accept(':')? {
                // Flavors: amended, ToSubclass, ToInstance, …; there may be several.
                while matches!(self.peek()?, Token::Word(_)) {
                    self.peeked = None;
                }
            }
            qualifiers.push(Qualifier { name, values });
            if !self.accept(',')? && *self.peek()? != Token::Char(']') {
                return Err("missing comma or bracket after a qualifier");
            }
        }
        Ok(qualifiers)
    }

    fn list(&mut self, values: &mut Vec<Value>) -> Result<(), &'static str> {
        while !self.accept('}')? {
            values.push(self.literal()?);
            if !self.accept(',')? && *self.peek()? != Token::Char('}') {
                return Err("missing comma or brace after a value");
            }
        }
        Ok(())
    }

    fn literal(&mut self) -> Result<Value, &'static str> {
        match self.next()? {
            Token::Text(mut text) => {
                // Adjacent strings are joined.
                while let Token::Text(more) = self.peek()? {
                    text.push_str(more);
                    self.peeked = None;
                }
                Ok(Value::Text(text))
            }
            Token::Word(word) => match parse_number(word) {
                Some(number) => Ok(Value::Number(number)),
                None => Ok(Value::Word(word.to_owned())),
            },
            _ => Err("expected a value"),
        }
    }

    /// Skips past the semicolon that ends the declaration with the error.
    fn skip_declaration(&mut self) {
        let mut depth = 0usize;
        loop {
            match self.next() {
                Ok(Token::End) => {
                    self.peeked = Some(Token::End);
                    return;
                }
                Ok(Token::Char('{')) => depth += 1,
                Ok(Token::Char('}')) => {
                    depth = depth.saturating_sub(1);
                }
                Ok(Token::Char(';')) if depth == 0 => {
                    // Inside a class that started before the error, its members' semicolons come first. The rest of
                    // the class ends with "}" or "};", and parsing resumes after it.
                    return;
                }
                Ok(_) => {}
                // An unterminated string: continue at the next line.
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Class>, Vec<String>) {
        let mut problems = Vec::new();
        let classes = classes(text, &mut problems);
        (classes, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn classes_qualifiers_and_members() {
        let (classes, problems) = read(
            r#"#pragma namespace ("\\\\.\\Root\\WMI")
            /* a comment; with class X {}; */
            [Dynamic : ToInstance ToSubclass, Guid("{6a399ae0-4bc6-4de9-870b-3657f8947e7e}") : amended,
             EventType{1, 0x10, 101b}, EventTypeName{"A" "b", "C\"\x41\\"}, Version(-3)]
            class Foo as $Alias : Bar
            {
                [read, key] uint32 A = 5; // not the end
                char16 Name[256];
                uint8 Data[];
                [Implemented] void Method([in] uint32 x);
                Other ref Link;
            };
            instance of Foo as $I { A = 1; Name = "x"; };
            Qualifier Units : string, scope(any);
            class Empty;
            "#,
        );
        assert_eq!(problems, [""; 0]);
        assert_eq!(classes.len(), 2);
        let foo = &classes[0];
        assert_eq!((&*foo.name, foo.parent.as_deref(), foo.line), ("Foo", Some("Bar"), 5));
        assert_eq!(foo.namespace, r"\\.\root\wmi");
        assert_eq!(foo.values("eventtype").unwrap(), [Value::Number(1), Value::Number(16), Value::Number(5)]);
        assert_eq!(foo.values("eventtypename").unwrap()[0].text(), Some("Ab"));
        assert_eq!(foo.values("eventtypename").unwrap()[1].text(), Some("C\"A\\"));
        assert_eq!((foo.number("version"), foo.has("dynamic"), foo.has("static")), (Some(-3), true, false));
        let members: Vec<_> = foo.properties.iter().map(|m| (&*m.name, &*m.cim_type, m.array)).collect();
        assert_eq!(
            members,
            [
                ("A", "uint32", None),
                ("Name", "char16", Some(Some(256))),
                ("Data", "uint8", Some(None)),
                ("Link", "ref", None)
            ]
        );
    }

    #[test]
    fn errors_name_the_line_and_reading_goes_on() {
        let check = |text: &str, names: &[&str], problem: &str| {
            let (classes, problems) = read(text);
            assert_eq!(classes.iter().map(|class| &*class.name).collect::<Vec<_>>(), names, "{text}");
            assert_eq!(problems.first().map_or("", |first| first), problem, "{text}");
        };
        check("class A {};\nclass B { uint32 };\nclass C {};", &["A", "C"], "line 2: no name of a property");
        check(
            "class A {}\n;\n[Guid(\"x)]\nclass B {};\nclass C {};",
            &["A", "C"],
            "line 3: unterminated string",
        );
        check("nonsense; class C {};", &["C"], "line 1: expected a class, instance, qualifier or pragma");
        check("class A { uint32 B; ", &[], "line 1: no type of a property");
        check("[Guid(", &[], "line 1: expected a value");
    }
}
