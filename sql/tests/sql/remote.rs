//! Traces at URLs, from a server of this machine.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use crate::{EVENTS, Fixture, KIND, text, text_of, wait};

/// Serves one file under `/traces/trace.etl` until the test ends; returns the address, and the requests with their headers.
fn serve(file: Vec<u8>) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (send, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let request: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
            let is_found = request.first().is_some_and(|line| line.starts_with("GET /traces/trace.etl "));
            let (status, body) = if is_found { ("200 OK", &file[..]) } else { ("404 Not Found", &b""[..]) };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            // A client that goes away is no error of the server.
            let _ = (&stream).write_all(head.as_bytes()).and_then(|()| (&stream).write_all(body));
            if send.send(request.join("\n")).is_err() {
                break;
            }
        }
    });
    (address, requests)
}

#[test]
fn traces_are_downloaded() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: there is no program `curl`");
        return;
    }
    let fixture = Fixture::new();
    let (address, requests) = serve(std::fs::read(fixture.path("trace.etl")).unwrap());
    let query = format!("select count(*) as n, min(trace) as t from {KIND}");
    let run = |url: &str, more: &[&str]| {
        let mut command = fixture.program(&[&[url, &query, "--format", "csv"], more].concat());
        command.env("AWS_ENDPOINT_URL", format!("http://{address}")).env("TMPDIR", fixture.directory.path());
        command.env("AWS_ACCESS_KEY_ID", "the-id").env("AWS_SECRET_ACCESS_KEY", "the-secret");
        wait(command.spawn().unwrap())
    };
    let url = format!("http://{address}/traces/trace.etl");
    assert_eq!(text_of(&run(&url, &[])), format!("n,t\n{EVENTS},{url}\n"));
    assert!(!requests.recv().unwrap().contains("AWS4"));
    // Objects are asked for with a signature.
    let object = "s3://traces/trace.etl";
    assert_eq!(text_of(&run(object, &[])), format!("n,t\n{EVENTS},{object}\n"));
    let request = requests.recv().unwrap();
    assert!(
        request.contains("AWS4-HMAC-SHA256 Credential=the-id/") && !request.contains("the-secret"),
        "{request}"
    );
    let fail = |url: &str, more: &[&str], wanted: &str| {
        let output = run(url, more);
        let error = text(&output.stderr);
        assert!(!output.status.success() && error.contains(wanted) && error.lines().count() == 1, "{error}");
    };
    fail(&format!("http://{address}/none.etl"), &[], "404");
    fail("s3://traces", &[], "s3://BUCKET/KEY");
    fail(&url, &["--disk", "1"], "file size");
    fail("http://127.0.0.1:1/trace.etl", &[], "127.0.0.1");
    // Nothing is left.
    let left: Vec<_> = std::fs::read_dir(fixture.directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["trace.etl"]);
}
