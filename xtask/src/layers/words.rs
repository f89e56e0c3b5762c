//! Checks of names: types are nouns that say what they are, and conversions are called `new` and `from_…`.

/// Names of types that say nothing without the module that they are in.
const VAGUE: [&str; 6] = ["Held", "Of", "Pen", "Said", "Seen", "Told"];

/// Returns the places of a file with names that say too little.
pub(super) fn breaches(text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in (1..).zip(&lines) {
        let code = line.trim_start();
        if code.starts_with("//") {
            continue;
        }
        if let Some(name) = type_of(code).filter(|name| VAGUE.contains(name)) {
            breaches.push(format!("{number}: call the type `{name}` what it is"));
        }
        let declared = code.split_once("fn of(").filter(|(before, _)| !before.contains('"'));
        if let Some((_, arguments)) = declared {
            let rest = lines.get(number).map_or("", |next| next.trim_start());
            let first = if arguments.is_empty() { rest } else { arguments };
            if !is_method(first) {
                breaches.push(format!("{number}: call the conversion `new` or `from_…`, not `of`"));
            }
        }
    }
    breaches
}

/// Returns the name of the type that a line declares.
fn type_of(code: &str) -> Option<&str> {
    let mut words = code.split([' ', '<', '{', '(', ';']).skip_while(|word| word.starts_with("pub"));
    // What is behind `pub(in path)` ends with a parenthesis.
    let keyword = words.find(|word| !word.is_empty() && !word.ends_with(')'))?;
    matches!(keyword, "struct" | "enum" | "trait" | "type" | "union").then(|| words.next()).flatten()
}

/// Whether arguments begin with `self` in one of its forms.
fn is_method(arguments: &str) -> bool {
    let first = arguments.split([',', ')', ':']).next().unwrap_or_default();
    first.split([' ', '&']).any(|word| word == "self")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vague_names_are_found() {
        let check = |text: &str, expected: usize| assert_eq!(breaches(text).len(), expected, "{text}");
        check("pub(crate) enum Told {\n", 1);
        check("struct Seen;", 1);
        check("struct SeenPage {", 0);
        check("// struct Seen;", 0);
        check("impl X {\n    pub fn of(event: &Event) -> X {", 1);
        check("    fn of(\n        event: &Event,", 1);
        check("    fn of(&'a self, event: &Event) -> X {", 0);
        check("    fn of(\n        &mut self,", 0);
        check("    fn of_event(event: &Event) -> X {", 0);
    }
}
