//! A scheduler and executors, as processes of this machine.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::{Fixture, KIND, machine, text, text_of, wait, write_trace};

const TOKEN: &str = "only-for-this-test-0123456789";
/// Time in which a process says what it is to say.
const SAID: Duration = Duration::from_secs(60);
pub(crate) const TRACES: u32 = 60;
pub(crate) const QUERIES: usize = 40;

/// A process that is killed at the end of a test.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: Receiver<String>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        // Nobody reads what it would say on standard error.
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let (send, lines) = channel();
        let out: ChildStdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| send.send(line)).ok()
        });
        Running { child, lines }
    }

    /// Waits for a line with a text.
    pub(crate) fn said(&self, wanted: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(SAID);
            let line = line.unwrap_or_else(|error| panic!("no line with '{wanted}': {error}"));
            if line.contains(wanted) {
                return line;
            }
        }
    }

    /// Returns the address that it listens on.
    pub(crate) fn address(&self) -> String {
        self.said("listening on ").rsplit_once(' ').unwrap().1.to_owned()
    }

    /// Kills it at once, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct Cluster<'f> {
    fixture: &'f Fixture,
    pub(crate) scheduler: Running,
    pub(crate) address: String,
    pub(crate) executors: Vec<Running>,
    options: Vec<String>,
    variables: Vec<(String, String)>,
}

pub(crate) fn command(fixture: &Fixture, words: &[&str]) -> Command {
    let mut command = fixture.program(&[&["cluster"], words].concat());
    command.env("OPENETW_CLUSTER_TOKEN", TOKEN);
    command
}

impl<'f> Cluster<'f> {
    fn start(fixture: &'f Fixture, executors: usize) -> Cluster<'f> {
        Cluster::start_with(fixture, executors, &[], &[])
    }

    /// Starts the processes with more options and variables.
    pub(crate) fn start_with(
        fixture: &'f Fixture,
        executors: usize,
        options: &[&str],
        variables: &[(&str, &str)],
    ) -> Cluster<'f> {
        let words = [&["scheduler", "--listen", "127.0.0.1:0", "--root", "."], options].concat();
        let mut scheduler = command(fixture, &words);
        scheduler.envs(variables.iter().copied());
        let scheduler = Running::start(scheduler);
        let address = scheduler.address();
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut cluster = Cluster { fixture, scheduler, address, executors: Vec::new(), options, variables };
        (0..executors).for_each(|_| cluster.add());
        cluster
    }

    pub(crate) fn add(&mut self) {
        let words = ["executor", "--scheduler", &self.address, "--threads", "1", "--root", "."];
        let mut options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        if !options.contains(&"--memory") {
            options.extend(["--memory", "128"]);
        }
        let mut executor = command(self.fixture, &[&words, &options[..]].concat());
        executor.envs(self.variables.iter().cloned());
        let executor = Running::start(executor);
        executor.said("joined");
        self.executors.push(executor);
    }

    pub(crate) fn ask(&self, words: &[&str]) -> Command {
        let mut command = self.fixture.program(&[&["--cluster", &self.address], words].concat());
        command.env("OPENETW_CLUSTER_TOKEN", TOKEN);
        command
    }

    pub(crate) fn answer(&self, words: &[&str]) -> String {
        text_of(&wait(self.ask(words).spawn().unwrap()))
    }

    /// Kills an executor at each delay (ms) after the start of a query, which gives the whole answer or an error.
    pub(crate) fn check_kills(&mut self, words: &[&str], delays: &[u64]) {
        let expected = self.answer(words);
        for delay in delays {
            let asked = self.ask(words).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(*delay));
            self.executors.remove(0).kill();
            let output = wait(asked);
            let error = text(&output.stderr);
            match output.status.success() {
                true => assert_eq!(text(&output.stdout), expected, "after {delay} ms"),
                false => assert!(error.contains("executor") && error.lines().count() == 1, "{error}"),
            }
            self.scheduler.said("has left");
            self.add();
        }
        assert_eq!(self.answer(words), expected);
    }

    pub(crate) fn fail(&self, words: &[&str]) -> String {
        let output = wait(self.ask(words).spawn().unwrap());
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", text(&output.stdout));
        text(&output.stderr)
    }
}

/// Returns the first queries that DuckDB answers too (`cargo xtask sql`), and whether each orders its rows.
pub(crate) fn queries() -> Vec<(String, bool)> {
    let mut queries: Vec<(String, bool)> = Vec::new();
    for line in include_str!("../queries.sql").lines() {
        let number = line.strip_prefix("-- ").and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
        match (number, queries.last_mut()) {
            (Some(_), _) => queries.push((String::new(), line.ends_with(" ordered"))),
            (None, Some((query, _))) => query.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    queries.truncate(QUERIES);
    queries
}

/// Returns the rows of an answer, sorted if their order does not count.
pub(crate) fn rows(answer: &str, is_ordered: bool) -> Vec<&str> {
    let inner = answer.trim().trim_start_matches("[{").trim_end_matches("}]");
    let mut rows: Vec<&str> = inner.split("},{").collect();
    if !is_ordered {
        rows.sort_unstable();
    }
    rows
}

#[test]
fn a_cluster_answers_as_one_process_does() {
    let fixture = Fixture::empty();
    (0..TRACES).for_each(|number| machine::write(&fixture.path(&format!("t{number:02}.etl")), number, 40));
    let traces = fixture.path("t*.etl").display().to_string();
    let queries = queries();
    assert_eq!(queries.len(), QUERIES);
    let script: String = queries.iter().map(|(query, _)| query.as_str()).collect();
    std::fs::write(fixture.path("queries.sql"), script).unwrap();
    let words = [traces.as_str(), "-f", "queries.sql", "--format", "json"];
    let alone = text_of(&fixture.run(&words));
    let cluster = Cluster::start(&fixture, 3);
    let together = cluster.answer(&words);
    let (alone, together): (Vec<&str>, Vec<&str>) = (alone.lines().collect(), together.lines().collect());
    assert_eq!((alone.len(), together.len()), (QUERIES, QUERIES));
    for ((one, other), (query, is_ordered)) in alone.iter().zip(&together).zip(&queries) {
        assert_eq!(rows(one, *is_ordered), rows(other, *is_ordered), "{query}");
    }
    let with_rows = alone.iter().filter(|answer| answer.len() > 2).count();
    assert!(with_rows >= 30, "only {with_rows} queries have rows");
    // The work is divided.
    let plan = cluster.answer(&[&traces, "explain analyze select count(*) from events", "--format", "csv"]);
    assert!(plan.contains("Network") && plan.contains("EventScan"), "{plan}");
    // Functions and views of ours, also those that know the traces.
    for query in [
        "select stack_text(stack) as s, count(*) as n from cpu_sampled group by s order by s",
        "select flame(stack, weight) as f from cpu_sampled",
        "select count(*) as n from cpu_sampled where stack_contains(stack, 'takeorder')",
        "select frame(stack, 0) as f, sum(weight) as w from cpu_sampled group by f order by f",
        "select cardinality(stack_frames(stack)) as c, count(*) as n from cpu_sampled group by c order by c",
        "select hex(max(size)) as h, ntstatus(0) as s, sid_name('S-1-5-18') as i from generic_events",
        "select process, samples, trace from top_processes order by trace, process limit 50",
        "select count(*) as n, max(depth) as d from process_tree",
        "select count(*) as n from damage",
    ] {
        let words = [traces.as_str(), query, "--format", "json"];
        assert_eq!(cluster.answer(&words), text_of(&fixture.run(&words)), "{query}");
    }
    // Statements that are wrong.
    let text = cluster.fail(&[&traces, "select levle from events"]);
    assert!(text.contains("levle") && text.contains('^'), "{text}");
    let text = cluster.fail(&[&traces, "create table t as select 1"]);
    assert!(
        text.contains("only queries, DESCRIBE, SHOW and EXPLAIN are allowed here")
            && text.lines().count() == 1,
        "{text}"
    );
    let text = cluster.fail(&["/nowhere/none.etl", "select 1"]);
    assert!(text.contains("none.etl") && text.lines().count() == 1, "{text}");
}

#[test]
fn damage_is_reported_by_a_cluster() {
    let fixture = Fixture::new();
    let mut bytes = std::fs::read(fixture.path("trace.etl")).unwrap();
    bytes[5 * 65_536 + 0x48..5 * 65_536 + 0x4C].fill(0xFF);
    std::fs::write(fixture.path("trace.etl"), &bytes).unwrap();
    let cluster = Cluster::start(&fixture, 2);
    let query = format!("select count(*) as n from {KIND}");
    let words = ["trace.etl", query.as_str(), "--format", "csv"];
    let output = wait(cluster.ask(&words).spawn().unwrap());
    assert_eq!(text_of(&output), text_of(&fixture.run(&words)));
    let note = text(&output.stderr);
    assert!(note.contains("damaged places") && note.lines().count() == 1, "{note}");
}

#[test]
fn a_trace_that_changes_is_an_error() {
    let fixture = Fixture::new();
    let cluster = Cluster::start(&fixture, 1);
    let count = |wanted: &str| {
        let query = format!("select count(*) as n from {KIND}");
        assert_eq!(cluster.answer(&["trace.etl", &query, "--format", "csv"]), format!("n\n{wanted}\n"));
    };
    count("40000");
    write_trace(&fixture.path("trace.etl"), 1000);
    // A new query plans with the new file.
    count("1000");
}

#[test]
fn an_executor_that_dies_gives_no_short_answer() {
    let fixture = Fixture::empty();
    for number in 0..4 {
        write_trace(&fixture.path(&format!("t{number}.etl")), 60_000);
    }
    let mut cluster = Cluster::start(&fixture, 3);
    let query = "select count(*) as n, sum(length(payload)) as p, count(distinct payload) as d from events";
    let words = ["t*.etl", query, "--format", "csv"];
    let expected = text_of(&fixture.run(&words));
    assert_eq!(cluster.answer(&words), expected);
    cluster.check_kills(&words, &[0, 100, 300, 600, 1000, 1500]);
    // Without executors, the query fails.
    cluster.executors.clear();
    cluster.scheduler.said("has left");
    cluster.scheduler.said("has left");
    cluster.scheduler.said("has left");
    assert!(cluster.fail(&words).contains("no executor"));
}

#[test]
fn joins_of_more_than_executors_may_use_take_temporary_files() {
    let fixture = Fixture::empty();
    write_trace(&fixture.path("trace.etl"), 1_000_000);
    // Some 15 MB on each side for each executor.
    let query = format!(
        "select count(*), max(one.time), max(other.time) from {KIND} one join {KIND} other on one.ProcessID = other.ProcessID"
    );
    let words = ["trace.etl", query.as_str(), "--format", "csv"];
    let cluster = Cluster::start_with(&fixture, 2, &["--memory", "64"], &[]);
    assert_eq!(cluster.answer(&words), text_of(&fixture.run(&words)));
}

#[test]
fn strangers_are_refused() {
    let fixture = Fixture::new();
    let cluster = Cluster::start(&fixture, 1);
    let refused = |mut command: Command, status: i32, wanted: &str| {
        let output = wait(command.spawn().unwrap());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{error}");
        assert!(error.contains(wanted) && error.lines().count() == 1, "{error}");
    };
    let ask = || cluster.ask(&["trace.etl", "select 1"]);
    let mut wrong = ask();
    wrong.env("OPENETW_CLUSTER_TOKEN", "another-token-0123456789");
    refused(wrong, 1, "does not accept the token");
    let mut short = ask();
    short.env("OPENETW_CLUSTER_TOKEN", "short");
    refused(short, 1, "at least 16");
    let mut none = ask();
    none.env_remove("OPENETW_CLUSTER_TOKEN");
    refused(none, 2, "--token-file");
    let mut wrong = command(&fixture, &["executor", "--scheduler", &cluster.address]);
    wrong.env("OPENETW_CLUSTER_TOKEN", "another-token-0123456789");
    refused(wrong, 1, "does not accept the token");
    // Beyond this machine only with TLS.
    refused(command(&fixture, &["scheduler", "--listen", "0.0.0.0:0"]), 2, "needs TLS");
    refused(command(&fixture, &["executor", "--listen", "[::]:0"]), 2, "needs TLS");
    refused(command(&fixture, &["executor", "--scheduler", "192.0.2.1:7411"]), 2, "without TLS");
    // A token in a file.
    std::fs::write(fixture.path("token"), format!("{TOKEN}\n")).unwrap();
    let mut file = cluster.ask(&["trace.etl", "select 1 as a", "--token-file", "token", "--format", "csv"]);
    file.env_remove("OPENETW_CLUSTER_TOKEN");
    assert_eq!(text_of(&wait(file.spawn().unwrap())), "a\n1\n");
    refused(cluster.ask(&["trace.etl", "select 1", "--no-index"]), 2, "belong to the scheduler");
}

#[test]
fn clients_name_only_traces_below_a_root() {
    let fixture = Fixture::new();
    let outside = Fixture::new();
    let cluster = Cluster::start(&fixture, 1);
    // Waiting for what writes to a pipe would stop the scheduler.
    let made = Command::new("mkfifo").arg(fixture.path("pipe.etl")).status().unwrap();
    assert!(made.success());
    let fail = |path: &str| {
        let start = std::time::Instant::now();
        let error = cluster.fail(&[path, "select 1"]);
        assert!(start.elapsed() < Duration::from_secs(20) && error.lines().count() == 1, "{error}");
        error
    };
    assert!(fail("pipe.etl").contains("not a regular file"));
    // Outside, nobody learns what is there.
    let elsewhere = text_of_path(&outside.path("trace.etl"));
    for path in ["/etc/*", "/none/*"] {
        assert!(fail(path).contains("no file matches"));
    }
    std::os::unix::fs::symlink(outside.path("trace.etl"), fixture.path("link.etl")).unwrap();
    std::os::unix::fs::symlink(outside.path("none.etl"), fixture.path("broken.etl")).unwrap();
    let up = format!("../{}", elsewhere.trim_start_matches('/'));
    for path in [&elsewhere, "/etc/passwd", "/etc/none", "/etc", "/", "link.etl", "broken.etl", &up] {
        let error = fail(path);
        assert!(error.contains("only name files below the directories of --root"), "{error}");
    }
    // Inside, nobody learns what is in files that are no traces.
    std::fs::write(fixture.path("secret"), "hunter2 ".repeat(50)).unwrap();
    let error = fail("secret");
    assert!(error.contains("secret' is not a trace that can be read"), "{error}");
    assert!(!error.contains("hunter2") && !error.contains("68 75"), "{error}");
    let query = format!("select count(*) as n from {KIND}");
    let answer = cluster.answer(&["*ace.etl", &query, "--format", "csv"]);
    assert_eq!(answer, "n\n40000\n");
    // Without a directory, there are only URLs.
    let none = Running::start(command(&fixture, &["scheduler", "--listen", "127.0.0.1:0"]));
    let mut ask = fixture.program(&["--cluster", &none.address(), "trace.etl", "select 1"]);
    ask.env("OPENETW_CLUSTER_TOKEN", TOKEN);
    assert!(text_of_error(&wait(ask.spawn().unwrap())).contains("--root DIR"));
}

fn text_of_path(path: &std::path::Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_scheduler_that_is_gone_is_one_line() {
    let fixture = Fixture::new();
    let mut cluster = Cluster::start(&fixture, 1);
    cluster.scheduler.kill();
    let text = cluster.fail(&["trace.etl", "select 1"]);
    assert!(text.contains("cannot be reached") && text.lines().count() == 1, "{text}");
    // The executor waits for another one.
    cluster.executors[0].said("trying again");
    // In the middle of a query.
    let mut cluster = Cluster::start(&fixture, 1);
    let query = "select count(*) from events a, events b, events c where a.id + b.id + c.id = 77";
    let asked = cluster.ask(&["trace.etl", query]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    cluster.scheduler.kill();
    let output = wait(asked);
    let error = text_of_error(&output);
    assert!(error.contains("scheduler") && error.lines().count() == 1, "{error}");
}

fn text_of_error(output: &std::process::Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    text(&output.stderr)
}
