//! The filter language: accepted expressions, and messages for mistakes.

use etw_consumer::Predicate;

#[test]
fn mistakes_are_reported_with_their_column() {
    let check = |text: &str, expected: &str| {
        let error = text.parse::<Predicate>().expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    };
    check("", "column 1: expected a field, 'not' or '(', found the end");
    check("pid ==", "column 7: expected a value");
    check("pid == 4 tid == 5", "column 10: expected 'and', 'or' or the end, found 'tid'");
    check("(pid == 4", "column 10: expected ')'");
    check("pid 4", "column 5: expected an operator");
    check("pid", "column 1: expected an operator");
    check("pid == many", "column 8: pid is compared with numbers, not with 'many'");
    check("level <= loud", "column 10: level is compared with numbers or names of levels");
    check("time > noon", "column 8: time is compared with times");
    check("activity == 5", "column 13: activity is compared with GUIDs");
    check("pid contains 4", "column 5: 'contains' does not apply to pid, which has numbers");
    check("provider < x", "column 10: '<' does not apply to provider");
    check("stack >= x", "column 7: '>=' does not apply to stack, which has names");
    check("stack", "column 1: expected an operator");
    check("pid in 4", "column 8: expected '('");
    check("pid in (4", "column 10: expected ',' or ')'");
    check("Name == \"x", "column 9: unterminated text that starts with \"");
    check("a == 1 and and", "column 12: expected a field");
    check(&"(".repeat(100), "column 65: parentheses and 'not' are nested more than 64 deep");
    check(&"not ".repeat(100_000), "are nested more than 64 deep");
}

#[test]
fn forms_of_the_same_condition() {
    let check = |left: &str, right: &str| {
        let (left, right): (Predicate, Predicate) = (left.parse().unwrap(), right.parse().unwrap());
        assert_eq!(left.to_string(), right.to_string());
    };
    check("pid == 16 && !(tid = 0x10 || id == 1)", "pid==0b1_0000 AND NOT (tid == 16 or id == 0x1)");
    check("Name =~ abc", "Name iequals 'ABC'");
    check("pid in (1, 2)", "pid == 1 or pid == 2");
    check("level <= Warning", "level <= 3");
    check("`Name` == x", "data.Name == \"x\"");
    check("data.pid == 1", "`pid` == 1");
    check("a == 1 or b == 2 and c == 3", "a == 1 or (b == 2 and c == 3)");
    check(
        "provider == {9e814aad-3204-11d2-9a82-006008a86939}",
        "class == \"9E814AAD-3204-11D2-9A82-006008A86939\"",
    );
    check(r#"Path startswith "C:\Windows\""#, r"Path startswith 'C:\Windows\'");
    check("stack contains \"A!B\"", "stack icontains 'a!b'");
    // Conditions on the header come first, whatever the order of writing.
    check("Name == x and pid == 4", "pid == 4 and Name == x");
    check("stack == x and Name == x", "Name == x and stack == x");
}
