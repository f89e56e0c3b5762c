//! Traces that cannot be read beside others, and tables and views of what no trace has.

use crate::{EVENTS, Fixture, text};

/// A directory with `trace.etl` and `other.etl`, a file that is no trace, and one that ends within its header.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    std::fs::copy(fixture.path("trace.etl"), fixture.path("other.etl")).unwrap();
    std::fs::write(fixture.path("text.etl"), "no trace").unwrap();
    let bytes = std::fs::read(fixture.path("trace.etl")).unwrap();
    std::fs::write(fixture.path("cut.etl"), &bytes[..100]).unwrap();
    fixture
}

#[test]
fn one_unreadable_file_never_stops_the_others() {
    let fixture = fixture();
    for words in [&["*.etl"][..], &["."], &["trace.etl", "text.etl", "other.etl", "cut.etl", "gone.etl"]] {
        let query = |query: &'static str| [words, &[query, "--format", "csv"]].concat();
        let output = fixture.run(&query("select count(*) from events"));
        assert_eq!(text(&output.stdout), format!("count(*)\n{}\n", 2 * (EVENTS + 2)), "{words:?}");
        assert_eq!(output.status.code(), Some(3), "{words:?}");
        let errors = text(&output.stderr);
        assert!(
            errors.contains("text.etl cannot be read") && errors.contains("cut.etl cannot be read"),
            "{errors}"
        );
        let output = fixture
            .run(&query("select status, count(*) as n, count(error) as e from traces group by 1 order by 1"));
        let failed = if words.len() > 1 { 3 } else { 2 };
        let expected = format!("status,n,e\nread,2,0\nunreadable,{failed},{failed}\n");
        assert_eq!(text(&output.stdout), expected, "{words:?}");
        let output = fixture
            .run(&query("select trace from traces where status = 'unreadable' order by trace limit 1"));
        assert!(text(&output.stdout).ends_with("cut.etl\n"), "{}", text(&output.stdout));
        let strict = [&query("select count(*) from events")[..], &["--strict"]].concat();
        let output = fixture.run(&strict);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(output.stdout.is_empty());
    }
    // Nothing that can be read is an error.
    fixture.fail(&["text.etl", "cut.etl", "select 1"], 1);
    fixture.fail(&["text.etl", "select 1"], 1);
}

#[test]
fn kinds_that_no_trace_has_are_empty_tables() {
    let fixture = Fixture::new();
    for (query, expected) in [
        ("select count(*), sum(TransferSize) from \"DiskIo/Read\"", "0,"),
        ("select count(*) from \"Microsoft-Windows-DNS-Client/QueryCompleted\" where QueryName = 'x'", ""),
    ] {
        let output = fixture.run(&["trace.etl", query, "--format", "csv"]);
        let (text, error) = (text(&output.stdout), text(&output.stderr));
        if !expected.is_empty() {
            assert_eq!(text.lines().nth(1), Some(expected), "{query}: {error}");
        }
    }
    let error = fixture.fail(&["trace.etl", "select * from \"DiskIo/Nothing\""], 1);
    assert!(error.contains("DiskIo/Nothing"), "{error}");
}

#[test]
fn a_view_that_fails_fails_nothing_else() {
    let fixture = Fixture::new();
    let views =
        "create view good as select count(*) as n from events; create view bad as select nothing from events;
        create view reads as select count(*) as n from \"DiskIo/Read\"";
    std::fs::write(fixture.path("views.sql"), views).unwrap();
    let query =
        |query| fixture.run(&["trace.etl", "as", "a", query, "--views", "views.sql", "--format", "csv"]);
    for (sql, expected) in [
        ("select 1 as one", "one\n1\n".to_owned()),
        ("select n from good", format!("n\n{}\n", EVENTS + 2)),
        ("select n from reads", "n\n0\n".to_owned()),
        ("select n from a.good", format!("n\n{}\n", EVENTS + 2)),
        ("select count(*) as n from a.top_processes", "n\n0\n".to_owned()),
    ] {
        let output = query(sql);
        let errors = text(&output.stderr);
        assert_eq!(text(&output.stdout), expected, "{sql}: {errors}");
        assert!(
            output.status.success() && errors.contains("views.sql: a view is left out"),
            "{sql}: {errors}"
        );
    }
}
