//! Traces at URLs, from a server of this machine.

use std::path::Path;
use std::process::{Output, Stdio};

use etw_app::index::{IndexOptions, place};
use etw_app::symbols::SymbolOptions;
use etw_consumer::Trace;
use etw_tables::IndexHome;

use crate::server::{Habit, Server, sent_once};
use crate::{EVENTS, Fixture, KIND, machine, text, text_of, time, wait, write_trace};

/// Makes the index beside a trace.
pub(crate) fn index(path: &Path) {
    let symbols = SymbolOptions::default();
    let options = IndexOptions { home: Some(IndexHome::Beside), ..IndexOptions::default() };
    let place = place(&[path.to_owned()], &options, &symbols).unwrap();
    let mut trace = Trace::open_file(path).unwrap();
    place.build(&mut trace, &symbols.symbolizer().unwrap(), &mut |_| {}).unwrap();
}

/// Puts a file of a fixture into the bucket `traces`.
fn put(fixture: &Fixture, server: &Server, name: &str) {
    server.put(&format!("traces/{name}"), std::fs::read(fixture.path(name)).unwrap());
}

/// Runs a query of a trace at a URL, with keys for S3.
fn run(fixture: &Fixture, server: &Server, words: &[&str]) -> Output {
    let temporary = fixture.path("temporary");
    std::fs::create_dir_all(&temporary).unwrap();
    let mut command = fixture.program(&[words, &["--format", "csv"]].concat());
    command.env("AWS_ENDPOINT_URL", format!("http://{}", server.address)).env("TMPDIR", &temporary);
    command.env("AWS_ACCESS_KEY_ID", "the-id").env("AWS_SECRET_ACCESS_KEY", "the-secret");
    let output = wait(command.spawn().unwrap());
    let left = std::fs::read_dir(&temporary).unwrap().count();
    assert_eq!(left, 0, "files are left");
    output
}

/// Checks that a query fails with one line.
fn fail(fixture: &Fixture, server: &Server, words: &[&str], wanted: &str) {
    let output = run(fixture, server, words);
    let error = text(&output.stderr);
    assert!(!output.status.success(), "{words:?}: {}", text(&output.stdout));
    assert!(error.contains(wanted) && error.lines().count() == 1, "{words:?}: {error}");
    assert!(!error.contains("the-secret"), "{error}");
}

#[test]
fn only_the_ranges_of_a_query_are_read() {
    let fixture = Fixture::empty();
    const MANY: u32 = 200_000;
    write_trace(&fixture.path("trace.etl"), MANY);
    index(&fixture.path("trace.etl"));
    let server = Server::start(Habit::Good);
    put(&fixture, &server, "trace.etl");
    put(&fixture, &server, "trace.etl.etwindex");
    let bytes = std::fs::metadata(fixture.path("trace.etl")).unwrap().len() as usize;
    let of_index = std::fs::metadata(fixture.path("trace.etl.etwindex")).unwrap().len() as usize;
    let url = server.url("traces/trace.etl");
    let at = |number: u32| time(number).to_string();
    let one_percent = format!("time >= '{}' and time < '{}'", at(MANY / 2), at(MANY / 2 + MANY / 100));
    // Each with the greatest part of the trace and of the index that it may fetch. Half of the index are the names of the
    // trace's processes, of which each event starts one.
    for (query, of_trace, part_of_index) in [
        (format!("select count(*) as n, sum(size) as s from events where {one_percent}"), 0.15, 0.65),
        (
            format!("select sum(ProcessID) as s, max(ImageName) as m from {KIND} where {one_percent}"),
            0.25,
            0.75,
        ),
        (
            format!("select time, process_id from events where {one_percent} order by time limit 7"),
            0.15,
            0.65,
        ),
        ("select count(*) as n from processes".to_owned(), 0.1, 1.0),
        ("select count(*) as n from events where time >= '2030-01-01T00:00:00Z'".to_owned(), 0.15, 0.65),
        ("select count(*) as n from (select process_id from events limit 3) e".to_owned(), 0.99, 0.65),
        (format!("select sum(ProcessID) as s, count(distinct ImageName) as m from {KIND}"), 1.0, 1.0),
        ("select id, count(*) as n, sum(size) as s from events group by id order by id".to_owned(), 1.0, 1.0),
        ("select count(*) as n from damage".to_owned(), 1.0, 1.0),
    ] {
        let local = text_of(&fixture.run(&["trace.etl", &query, "--format", "csv"]));
        let output = run(&fixture, &server, &[&url, &query]);
        assert_eq!((text_of(&output), text(&output.stderr)), (local, String::new()), "{query}");
        let asked = server.asked();
        let sent = sent_once(&asked, "traces/trace.etl");
        assert!(sent as f64 <= bytes as f64 * of_trace, "{query}: {sent} of {bytes}");
        let sent = sent_once(&asked, "traces/trace.etl.etwindex");
        assert!(sent as f64 <= of_index as f64 * part_of_index, "{query}: {sent} of {of_index} of the index");
        // All requests but the first one of each object are about the state that it told.
        let without =
            asked.iter().filter(|asked| !asked.head.to_lowercase().contains("if-match: \"state-0\""));
        assert_eq!(without.count(), 2, "{asked:?}");
    }
}

#[test]
fn traces_without_an_index_are_fetched_as_a_whole() {
    let fixture = Fixture::new();
    let query = format!("select count(*) as n, min(trace) as t from {KIND}");
    let bytes = std::fs::metadata(fixture.path("trace.etl")).unwrap().len() as usize;
    for habit in [Habit::Good, Habit::NoTags, Habit::NoRanges] {
        let server = Server::start(habit);
        put(&fixture, &server, "trace.etl");
        let url = server.url("traces/trace.etl");
        let answer = format!("n,t\n{EVENTS},{url}\n");
        assert_eq!(text_of(&run(&fixture, &server, &[&url, &query])), answer, "{habit:?}");
        let asked = server.asked();
        if habit == Habit::Good {
            assert_eq!(sent_once(&asked, "traces/trace.etl"), bytes);
        }
        assert!(asked.iter().all(|asked| !asked.head.contains("AWS4")));
        // What follows `?` is not shown, as it may be a signature.
        let signed = format!("{url}?X-Amz-Signature=the-secret");
        assert_eq!(text_of(&run(&fixture, &server, &[&signed, &query])), answer, "{habit:?}");
        assert!(server.asked()[0].head.contains("?X-Amz-Signature=the-secret"));
    }
    // An index that is of an earlier state, and one that may not be used.
    index(&fixture.path("trace.etl"));
    let server = Server::start(Habit::Good);
    let url = server.url("traces/trace.etl");
    put(&fixture, &server, "trace.etl.etwindex");
    put(&fixture, &server, "trace.etl");
    let no_index = run(&fixture, &server, &[&url, &query, "--no-index"]);
    assert_eq!(text_of(&no_index), format!("n,t\n{EVENTS},{url}\n"));
    assert!(server.asked().iter().all(|asked| asked.path == "traces/trace.etl"));
    write_trace(&fixture.path("trace.etl"), EVENTS / 2);
    put(&fixture, &server, "trace.etl");
    let output = run(&fixture, &server, &[&url, &query]);
    assert_eq!(text_of(&output), format!("n,t\n{},{url}\n", EVENTS / 2));
    let warning = text(&output.stderr);
    assert!(warning.contains("earlier state") && warning.lines().count() == 1, "{warning}");
    assert!(warning.contains(&format!("{url}.etwindex")), "{warning}");
    // One that is packed.
    let packed = std::process::Command::new("gzip").arg("-k").arg(fixture.path("trace.etl")).status();
    if packed.is_ok_and(|status| status.success()) {
        put(&fixture, &server, "trace.etl.gz");
        let url = server.url("traces/trace.etl.gz");
        let answer = format!("n,t\n{},{url}\n", EVENTS / 2);
        assert_eq!(text_of(&run(&fixture, &server, &[&url, &query])), answer);
    } else {
        etw_testkit::skip!("there is no program `gzip`");
    }
}

#[test]
fn buckets_are_directories() {
    let fixture = Fixture::empty();
    let server = Server::start(Habit::Good);
    for (number, name) in ["a.etl", "b.etl", "notes.txt"].iter().enumerate() {
        machine::write(&fixture.path(name), number as u32, 20);
        server.put(&format!("traces/day/{name}"), std::fs::read(fixture.path(name)).unwrap());
        server.put(&format!("traces/day/more/{name}"), std::fs::read(fixture.path(name)).unwrap());
    }
    let query = "select trace, count(*) > 0 as has from events group by trace order by trace";
    let both = "trace,has\ns3://traces/day/a.etl,true\ns3://traces/day/b.etl,true\n";
    for word in ["s3://traces/day/", "s3://traces/day/*.etl", "s3://traces/day/?.etl"] {
        assert_eq!(text_of(&run(&fixture, &server, &[word, query])), both, "{word}");
        // Requests are signed.
        let asked = server.asked();
        assert!(
            asked.iter().all(|asked| asked.head.contains("AWS4-HMAC-SHA256 Credential=the-id/")),
            "{asked:?}"
        );
        assert!(asked.iter().all(|asked| !asked.head.contains("the-secret")));
    }
    let named = ["s3://traces/day/a.etl", "AS", "one", "select count(*) > 0 as has from one.events"];
    assert_eq!(text_of(&run(&fixture, &server, &named)), "has\ntrue\n");
    fail(&fixture, &server, &["s3://traces/none/*.etl", "select 1"], "no object matches");
    fail(&fixture, &server, &["s3://traces/none/", "select 1"], "has no traces");
    fail(&fixture, &server, &["s3://traces", "select 1"], "names no object");
    fail(&fixture, &server, &["s3:///x", "select 1"], "s3://BUCKET/KEY");
    fail(&fixture, &server, &[&server.url("traces/"), "select 1"], "only files and buckets");
    fail(
        &fixture,
        &server,
        &["s3://traces/day/notes.txt", "s3://traces/x.etl", "select 1"],
        "x.etl: there is no such object",
    );
}

#[test]
fn an_object_that_changes_is_an_error() {
    let fixture = Fixture::new();
    index(&fixture.path("trace.etl"));
    let original = std::fs::read(fixture.path("trace.etl")).unwrap();
    let mut other = original.clone();
    let middle = other.len() / 2;
    other[middle..].fill(1);
    let query = "select count(*) as n, sum(size) as s from events";
    for habit in [Habit::Good, Habit::NoConditions] {
        for is_indexed in [true, false] {
            let server = Server::start(habit);
            if is_indexed {
                put(&fixture, &server, "trace.etl.etwindex");
            }
            put(&fixture, &server, "trace.etl");
            let url = server.url("traces/trace.etl");
            // From its second request on, whenever the state changes.
            let needed = {
                text_of(&run(&fixture, &server, &[&url, query]));
                server.asked().iter().filter(|asked| asked.path == "traces/trace.etl").count()
            };
            assert!(needed > 1);
            for after in 1..needed {
                server.put("traces/trace.etl", original.clone());
                server.change_after(after, "traces/trace.etl", other.clone());
                fail(&fixture, &server, &[&url, query], "has changed");
                server.asked();
            }
        }
    }
}

#[test]
fn servers_that_fail_are_one_line() {
    let fixture = Fixture::new();
    let server = Server::start(Habit::Good);
    put(&fixture, &server, "trace.etl");
    let query = "select count(*) as n from events";
    let url = server.url("traces/trace.etl");
    fail(&fixture, &server, &[&server.url("traces/none.etl"), query], "none.etl: there is no such object");
    fail(&fixture, &server, &[&url, query, "--disk", "1"], "1 MiB of --disk");
    fail(&fixture, &server, &["http://127.0.0.1:1/trace.etl", query], "127.0.0.1:1/trace.etl: ");
    fail(&fixture, &server, &["http://ann:the-secret@127.0.0.1/trace.etl", query], "has a user");
    fail(&fixture, &server, &["http://[/trace.etl", query], "a URL is wrong");
    server.put("traces/text.etl", b"Hello, this is no trace. ".repeat(40));
    fail(&fixture, &server, &[&server.url("traces/text.etl"), query], "text.etl");
    server.put("traces/empty.etl", Vec::new());
    fail(&fixture, &server, &[&server.url("traces/empty.etl"), query], "empty.etl");
    for (habit, wanted) in [(Habit::Short, "trace.etl: "), (Habit::Talkative, "400 Bad Request")] {
        let server = Server::start(habit);
        put(&fixture, &server, "trace.etl");
        fail(&fixture, &server, &[&server.url("traces/trace.etl"), query], wanted);
        fail(&fixture, &server, &["s3://traces/trace.etl", query], wanted);
    }
}

/// Runs `etw`, which has this program fetch what is at URLs.
fn run_etw(fixture: &Fixture, server: &Server, words: &[&str]) -> Output {
    let temporary = fixture.path("temporary");
    std::fs::create_dir_all(&temporary).unwrap();
    let etw = Path::new(env!("CARGO_BIN_EXE_etw-sql")).with_file_name("etw");
    let mut command = std::process::Command::new(etw);
    command.args(words).current_dir(fixture.path("")).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("AWS_ENDPOINT_URL", format!("http://{}", server.address)).env("TMPDIR", &temporary);
    command.env("AWS_ACCESS_KEY_ID", "the-id").env("AWS_SECRET_ACCESS_KEY", "the-secret");
    let output = wait(command.spawn().unwrap());
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "files are left");
    output
}

#[test]
fn etw_reads_traces_at_urls_as_it_reads_files() {
    let fixture = Fixture::new();
    write_trace(&fixture.path("other.etl"), 100);
    let server = Server::start(Habit::Good);
    for name in ["trace.etl", "other.etl"] {
        put(&fixture, &server, name);
    }
    let url = server.url("traces/trace.etl");
    let signed = format!("{url}?X-Amz-Signature=the-secret");
    // A URL, one with a signature, and a pattern beside a file.
    for (words, files) in [
        (vec![url.as_str()], vec!["trace.etl"]),
        (vec![signed.as_str()], vec!["trace.etl"]),
        (vec!["s3://traces/*.etl", "other.etl"], vec!["other.etl", "trace.etl", "other.etl"]),
    ] {
        for command in [&["info"][..], &["dump", "--format", "json", "--source"], &["stats"], &["report"]] {
            let far = run_etw(&fixture, &server, &[command, &words].concat());
            let near = run_etw(&fixture, &server, &[command, &files].concat());
            let local = |output: &[u8]| {
                let text = text(output).replace("s3://traces/", "");
                text.replace(url.strip_suffix("trace.etl").unwrap(), "")
            };
            assert_eq!(local(&far.stdout), text(&near.stdout), "{command:?} {words:?}");
            assert_eq!((text(&far.stderr), far.status), (text(&near.stderr), near.status), "{command:?}");
        }
    }
    // What cannot be fetched does not stop the others.
    let none = server.url("traces/none.etl");
    for command in [&["info"][..], &["dump"], &["stats"]] {
        let output = run_etw(&fixture, &server, &[command, &[none.as_str(), "other.etl"]].concat());
        let error = text(&output.stderr);
        assert!(error.contains(&format!("{none}: there is no such object")), "{command:?}: {error}");
        assert_eq!(output.status.code(), Some(1), "{command:?}: {error}");
        assert!(!output.stdout.is_empty(), "{command:?}");
    }
    let output = run_etw(&fixture, &server, &["dump", &none]);
    assert_eq!(text(&output.stderr).lines().count(), 1, "{}", text(&output.stderr));
}
