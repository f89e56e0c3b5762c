//! Queries of a cluster during which a trace changes, in a file or in a bucket.

use std::process::Command;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::remote::index;
use crate::server::{Habit, Server};
use crate::{Fixture, KIND, text, wait, write_trace};

/// Stops the executors, or lets them go on.
fn signal(cluster: &Cluster<'_>, name: &str) {
    for executor in &cluster.executors {
        let id = executor.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }
}

/// Changes one of two traces while the executors stand still, and so after the query was planned, if the scheduler is fast
/// enough. The other trace has 500 events.
fn change_after_planning(
    cluster: &Cluster<'_>,
    words: &[&str],
    are_known: bool,
    mut change: impl FnMut(u32),
) {
    for seconds in [1, 3, 9] {
        change(1000);
        // What executors have fetched of an object stays right, so they must not know it.
        assert!(!are_known || cluster.answer(words).ends_with("\n1500\n"));
        signal(cluster, "-STOP");
        let asked = cluster.ask(words).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(seconds));
        change(2000);
        signal(cluster, "-CONT");
        let output = wait(asked);
        if output.status.success() {
            // It was planned later.
            assert!(text(&output.stdout).ends_with("\n2500\n"));
            continue;
        }
        let error = text(&output.stderr);
        assert!(error.contains("has changed since the query was planned"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        // The next query is about the new state.
        assert!(cluster.answer(words).ends_with("\n2500\n"));
        return;
    }
    panic!("no query was planned in 9 seconds");
}

#[test]
#[cfg(unix)]
fn a_file_that_changes_after_planning_is_an_error() {
    let fixture = Fixture::empty();
    write_trace(&fixture.path("other.etl"), 500);
    let cluster = Cluster::start_with(&fixture, 2, &[], &[]);
    let query = format!("select count(*) as n from {KIND}");
    change_after_planning(&cluster, &["other.etl", "trace.etl", &query, "--format", "csv"], true, |events| {
        write_trace(&fixture.path("next"), events);
        std::fs::rename(fixture.path("next"), fixture.path("trace.etl")).unwrap();
    });
}

#[test]
#[cfg(unix)]
fn an_object_that_changes_after_planning_is_an_error() {
    let fixture = Fixture::empty();
    let server = Server::start(Habit::Good);
    let endpoint = format!("http://{}", server.address);
    write_trace(&fixture.path("other.etl"), 500);
    server.put("traces/other.etl", std::fs::read(fixture.path("other.etl")).unwrap());
    let cluster = Cluster::start_with(&fixture, 2, &[], &[("AWS_ENDPOINT_URL", &endpoint)]);
    let query = format!("select count(*) as n from {KIND}");
    let words = ["s3://traces/other.etl", "s3://traces/trace.etl", query.as_str(), "--format", "csv"];
    change_after_planning(&cluster, &words, false, |events| {
        let trace = fixture.path("trace.etl");
        write_trace(&trace, events);
        index(&trace);
        let index = std::fs::read(fixture.path("trace.etl.etwindex")).unwrap();
        server.put("traces/trace.etl.etwindex", index);
        server.put("traces/trace.etl", std::fs::read(&trace).unwrap());
    });
}

#[test]
fn a_file_that_changes_while_it_is_read_gives_no_mixed_answer() {
    let fixture = Fixture::empty();
    for name in ["t0.etl", "t1.etl", "t2.etl", "other"] {
        write_trace(&fixture.path(name), 60_000);
    }
    write_trace(&fixture.path("other"), 50_000);
    let cluster = Cluster::start_with(&fixture, 2, &[], &[]);
    let query = "select count(*) as n, sum(length(payload)) as p, count(distinct payload) as d from events";
    let words = ["t*.etl", query, "--format", "csv"];
    let before = cluster.answer(&words);
    let (mut failed, mut answered) = (0, 0);
    for delay in [0, 50, 100, 200, 400, 800, 1600] {
        let asked = cluster.ask(&words).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        std::fs::rename(fixture.path("t1.etl"), fixture.path("kept")).unwrap();
        std::fs::rename(fixture.path("other"), fixture.path("t1.etl")).unwrap();
        let output = wait(asked);
        let (answer, error) = (text(&output.stdout), text(&output.stderr));
        match output.status.success() {
            true => {
                let after = cluster.answer(&words);
                assert!(answer == before || answer == after, "after {delay} ms: {answer}");
                answered += 1;
            }
            false => {
                assert!(error.contains("t1.etl") && error.lines().count() == 1, "after {delay} ms: {error}");
                failed += 1;
            }
        }
        std::fs::rename(fixture.path("t1.etl"), fixture.path("other")).unwrap();
        std::fs::rename(fixture.path("kept"), fixture.path("t1.etl")).unwrap();
    }
    assert_eq!(failed + answered, 7);
    assert_eq!(cluster.answer(&words), before);
}
