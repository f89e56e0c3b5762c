//! The two programs of the reference document, as they stand there.

use std::fs;

use etw_consumer::Trace;
use etw_controller::{EnableBuilder, Instance, SessionBuilder};
use openetw::session::Runtime;

use crate::support::{SANITIZED_C, SANITIZED_CPP, Workshop, has};

/// Returns the text of the code block that begins with this line.
fn code(document: &str, first_line: &str) -> String {
    let start = document.find(first_line).unwrap();
    let block = &document[start..];
    block[..block.find("```").unwrap()].to_owned()
}

#[test]
fn both_programs_compile_and_work() {
    let Some(data) = etw_testkit::data::data_dir() else { return };
    if !has("gcc") || !has("g++") {
        return;
    }
    let document = fs::read_to_string(data.join("reference/etw-notes.md")).unwrap();
    let workshop = Workshop::new();
    let trace_path = workshop.path("trace.etl");
    // The provider: nothing is changed, not even the place of its GUID.
    let provider = workshop.path("provider.c");
    fs::write(&provider, code(&document, "// Provider code snippet")).unwrap();
    let provider = workshop.compile(SANITIZED_C, &provider);
    // The consumer: only the path.
    let consumer = workshop.path("consumer.cpp");
    let text = code(&document, "#include <evntrace.h>");
    assert!(text.contains(r"C:\\trace.etl"));
    fs::write(&consumer, text.replace(r"C:\\trace.etl", trace_path.to_str().unwrap())).unwrap();
    // Compilers warn of the constant text that it gives to a pointer, of `{0}`, and of an unused parameter.
    let consumer = workshop.compile(&[SANITIZED_CPP, &["-w"]].concat(), &consumer);

    // Without a trace it says so.
    let output = workshop.run_any(&consumer, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "Failed to open trace\n");
    // Without a session the provider runs too.
    assert_eq!(workshop.run(&provider, &[]), "");

    let mut runtime = Runtime::connect_or_host_at(&Instance::at(workshop.runtime())).unwrap();
    SessionBuilder::new("Document").file(&trace_path).start(runtime.controller()).unwrap();
    let enable = EnableBuilder::new("MyCompany.MyProvider".parse().unwrap());
    runtime.controller().enable("Document", &enable).unwrap();
    assert_eq!(workshop.run(&provider, &[]), "");
    runtime.controller().stop("Document").unwrap();

    let mut found = Vec::new();
    let mut trace = Trace::open_file(&trace_path).unwrap();
    trace
        .for_each_event(|event| {
            if event.names().provider() == Some("MyCompany.MyProvider") {
                let name = event.names().event_type().unwrap().into_owned();
                found.push((name, event.get::<String>("Message").unwrap()));
            }
        })
        .unwrap();
    assert_eq!(found, [("MyEvent".to_owned(), "Hello from ETW".to_owned())]);
    let output = workshop.run_any(&consumer, &[]);
    assert!(output.status.success());
    assert_eq!(output.stderr, b"");
}
