//! Runs the command lines of the reference documents, with other paths. The documents are not part of the project;
//! without them, these tests print a message and skip.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Output;

use crate::json_lines;
use crate::tools::User;

/// A document, unless it is absent.
fn document(name: &str) -> Option<String> {
    let path = etw_testkit::data::data_dir()?.join("reference").join(name);
    let text = std::fs::read_to_string(&path);
    if text.is_err() {
        etw_testkit::skip!("{} is not there", path.display());
    }
    text.ok()
}

/// The command lines of these tools in a text: in backquotes, or as lines of a block of code.
fn command_lines(text: &str, tools: &[String]) -> Vec<String> {
    let inline = text.split('`').skip(1).step_by(2);
    let found = inline.flat_map(str::lines).map(str::trim).filter(|line| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|first| tools.iter().any(|tool| tool == first)) && words.next().is_some()
    });
    found.map(str::to_owned).collect()
}

/// A user with links to the tools on the path.
struct Desk {
    user: User,
    tools: Vec<String>,
}

impl Desk {
    fn new() -> Desk {
        let user = User::new();
        user.ok(&["install-links", "bin"]);
        let links = std::fs::read_dir(user.etw.path("bin")).unwrap();
        let tools = links.map(|link| link.unwrap().file_name().into_string().unwrap()).collect();
        Desk { user, tools }
    }

    /// Runs a line in a shell.
    fn run(&self, line: &str) -> Output {
        let path = format!("{}:{}", self.user.etw.path("bin"), std::env::var("PATH").unwrap());
        let mut command = std::process::Command::new("sh");
        let of_user = self.user.command(&[]);
        command.envs(of_user.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.args(["-c", line]).env("PATH", path).current_dir(self.user.etw.path("")).output().unwrap()
    }

    fn ok(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn the_command_lines_of_the_notes() {
    let Some(text) = document("etw-notes.md") else { return };
    let desk = Desk::new();
    let lines = command_lines(&text, &desk.tools);
    let of = |tool: &str| lines.iter().filter(|line| line.starts_with(tool)).count();
    assert_eq!((of("logman"), of("xperf")), (3, 2), "{lines:?}");
    for line in &lines {
        // The tools of the lines before have written a file of the same name, which wpr does not replace.
        if line.starts_with("wpr -stop") {
            let _ = std::fs::remove_file(desk.user.etw.path("trace.etl"));
        }
        // A Windows path is an error that suggests another path; one that is not used is ignored.
        let mut output = desk.run(line);
        if line.contains(r"c:\") && !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("Windows"), "{line}: {said}");
            output = desk.run(&line.replace(r"c:\", ""));
        }
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if errors.contains("which this process lacks") || errors.contains("/sys/kernel/btf/vmlinux") {
            etw_testkit::skip!("{line}: {errors}");
            continue;
        }
        assert!(output.status.success(), "{line}: {errors}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        match line.as_str() {
            "logman query providers" => assert!(said.contains("Microsoft-Windows-Kernel-Process"), "{said}"),
            line if line.starts_with("logman start MySession") => desk.user.write("MyProvider", 1),
            line if line.starts_with("logman stop MySession") => {
                assert_eq!(desk.user.numbers("trace.etl", "MyProvider"), [1]);
            }
            line if line.starts_with("xperf –on ProviderName") => desk.user.write("ProviderName", 2),
            line if line.starts_with("xperf –stop") => {
                assert_eq!(desk.user.numbers("trace.etl", "ProviderName"), [2]);
            }
            line if line.starts_with("wpr -start") => {}
            line if line.starts_with("wpr -stop") => {
                assert!(desk.user.ok(&["info", "trace.etl"]).contains("Windows Kernel Trace"));
            }
            line if line.starts_with("tracerpt") => {
                let text = std::fs::read_to_string(desk.user.etw.path("out.csv")).unwrap();
                assert!(text.lines().count() > 1, "{text}");
            }
            other => panic!("nothing is known of what this produces: {other}"),
        }
    }
    let names = std::fs::read_dir(desk.user.etw.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    let strange: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("c:")).collect();
    assert!(strange.is_empty(), "{strange:?}");
}

/// A call in the document: its name, and its arguments without the variables for results.
fn calls(text: &str) -> Vec<Vec<String>> {
    let known = ["etw_start_trace", "etw_enable_provider", "etw_stop_trace", "etw_dump_to_file"];
    let mut calls = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("(tcl)")) {
        let Some((name, rest)) = known.iter().find_map(|name| Some((name, line.split_once(name)?.1))) else {
            continue;
        };
        let words = rest.trim_end_matches(']').split_whitespace().map(str::to_owned);
        calls.push([vec![(*name).to_owned()], words.collect()].concat());
    }
    calls
}

/// One connection with some bytes each way, on this machine.
fn talk() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 5];
        stream.read_exact(&mut request).unwrap();
        stream.write_all(b"answer").unwrap();
    });
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"hello").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    server.join().unwrap();
}

/// The script's session, controlled by each of the tools that the words of its calls are put into.
#[test]
fn the_session_of_the_script() {
    let Some(text) = document("twapi-etw.txt") else { return };
    let calls = calls(&text);
    let names: Vec<&str> = calls.iter().map(|call| call[0].as_str()).collect();
    assert_eq!(
        names,
        [
            "etw_start_trace",
            "etw_enable_provider",
            "etw_enable_provider",
            "etw_stop_trace",
            "etw_dump_to_file"
        ]
    );
    let (session, file) = (&calls[0][1], &calls[0][3]);
    assert_eq!(
        (session.as_str(), calls[0][2].as_str(), file.as_str()),
        ("MyHttpTrace", "-logfile", "http.etl")
    );
    // Behind the handle: the script's own provider, all keywords, level 5; then the kernel's.
    let script = calls[1].iter().map(|word| word.trim_end_matches(']')).rev().take(2).collect::<Vec<_>>();
    assert_eq!(script, ["5", "-1"]);
    let [provider, keywords, level] = &calls[2][2..] else { panic!("{:?}", calls[2]) };
    let all = "0xffffffffffffffff";
    let by_logman = [
        format!("logman start {session} -o {file} -ets"),
        format!("logman update {session} -p TWAPI.Script {all} 5 -ets"),
        format!("logman update {session} -p {provider} {keywords} {level} -ets"),
        format!("logman query {session} -ets"),
        format!("logman stop {session} -ets"),
    ];
    let by_tracelog = [
        format!("tracelog -start {session} -f {file}"),
        format!("tracelog -enable {session} -guid '*TWAPI.Script' -matchanykw {all} -level 5"),
        format!("tracelog -enable {session} -guid '*{provider}' -matchanykw {keywords} -level {level}"),
        format!("tracelog -q {session} -lp"),
        format!("tracelog -stop {session}"),
    ];
    let by_xperf = [
        format!("xperf -start {session} -on TWAPI.Script:{all}:5 -f {file}"),
        format!("xperf -update {session} -on {provider}:{keywords}:{level}"),
        "xperf -flush MyHttpTrace".to_owned(),
        "xperf -loggers".to_owned(),
        format!("xperf -stop {session}"),
    ];
    for lines in [by_logman, by_tracelog, by_xperf] {
        let desk = Desk::new();
        let [start, first, second, query, stop] = &lines;
        desk.ok(start);
        desk.ok(first);
        desk.ok(second);
        let shown = desk.ok(query);
        assert!(shown.contains("http.etl") && shown.contains("Microsoft-Windows-Kernel-Network"), "{shown}");
        desk.user.write("TWAPI.Script", 1);
        talk();
        desk.user.write("TWAPI.Script", 2);
        let status = desk.user.ok(&["session", "query", session]);
        desk.ok(stop);
        assert_eq!(desk.user.numbers(file, "TWAPI.Script"), [1, 2]);
        if status.contains("missing") {
            etw_testkit::skip!("the kernel's events: {status}");
            continue;
        }
        // The script's events and those of the network are in one time order.
        let events = json_lines(&desk.user.ok(&["dump", file, "--format", "json"]));
        let ours = std::process::id();
        let kinds: Vec<&str> = events
            .iter()
            .filter_map(|event| match event["System"]["Provider"]["Name"].as_str()? {
                "TWAPI.Script" => Some("script"),
                "Microsoft-Windows-Kernel-Network" if event["EventData"]["PID"] == ours => {
                    event["System"]["Opcode"]["Name"].as_str()
                }
                _ => None,
            })
            .collect();
        assert!(
            kinds.first() == Some(&"script") && kinds.last() == Some(&"script") && kinds.len() > 4,
            "{kinds:?}"
        );
    }
}
