//! `etw record -k LOADER`: images that processes load and unload.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::kernel::{field, kind, record};
use crate::{Etw, json_lines};

/// Base, size and path of each image, as a process wrote them down from its `maps`.
fn images_of(maps: &str) -> Vec<(u64, u64, String)> {
    let mut images: Vec<(u64, u64, String, bool)> = Vec::new();
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (range, rights) = (words.next().unwrap(), words.next().unwrap());
        let Some(path) = words.nth(3).filter(|path| path.starts_with('/') || *path == "[vdso]") else {
            continue;
        };
        let (start, end) = range.split_once('-').unwrap();
        let hex = |digits| u64::from_str_radix(digits, 16).unwrap();
        if images.last().is_none_or(|last| last.2 != path) {
            images.push((hex(start), 0, path.to_owned(), false));
        }
        let last = images.last_mut().unwrap();
        last.1 = hex(end) - last.0;
        last.3 |= rights.contains('x');
    }
    images.into_iter().filter(|image| image.3).map(|(base, size, path, _)| (base, size, path)).collect()
}

/// Events of all providers: what names build ids is another one.
fn events(etw: &Etw) -> Vec<Value> {
    json_lines(&etw.ok(&["dump", "k.etl", "--format", "json"]))
}

pub(crate) fn number(event: &Value, name: &str) -> u64 {
    match &event["EventData"][name] {
        Value::String(text) => u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap(),
        number => number.as_u64().unwrap(),
    }
}

/// Returns base, size and path of the images in a process's events of a kind.
fn told(events: &[Value], wanted: &str, process: u64) -> Vec<(u64, u64, String)> {
    let ours = |event: &&Value| kind(event) == wanted && number(event, "ProcessId") == process;
    let image = |event: &Value| {
        (number(event, "ImageBase"), number(event, "ImageSize"), field(event, "FileName").to_owned())
    };
    let mut images: Vec<_> = events.iter().filter(ours).map(image).collect();
    images.sort();
    images
}

/// Returns the first 16 bytes of a file's build id, written as a GUID.
fn build_id(path: &str) -> String {
    let file = std::fs::read(path).unwrap();
    // The start of the note: lengths of name and content, type, name.
    let note = [4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0];
    let at = file.windows(16).position(|window| window == note).unwrap() + 16;
    let id: [u8; 16] = file[at..at + 16].try_into().unwrap();
    openetw::Guid::from_bytes(id).to_string()
}

fn build_ids_are_right(events: &[Value], process: u64) {
    let ours = |event: &&Value| kind(event) == "ImageID/DbgID_RSDS" && number(event, "ProcessId") == process;
    let mut compared = BTreeMap::new();
    for event in events.iter().filter(ours) {
        let (path, id) = (field(event, "PdbFileName"), field(event, "GuidSig"));
        if path.starts_with('/') {
            assert_eq!(id.trim_matches(['{', '}']), build_id(path).trim_matches(['{', '}']), "{path}");
            compared.insert(path, id);
        }
    }
    assert!(!compared.is_empty());
}

#[test]
fn images_are_those_of_the_process() {
    let etw = Etw::new();
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do cat /proc/self/maps >maps.$i; done";
    if record(&etw, "PROC_THREAD+LOADER", &["sh", "-c", script]).is_none() {
        return;
    }
    let events = events(&etw);
    let starts: Vec<(usize, &Value)> = events
        .iter()
        .enumerate()
        .filter(|(_, event)| {
            kind(event) == "Process/Start" && field(event, "CommandLine") == "cat /proc/self/maps"
        })
        .collect();
    assert_eq!(starts.len(), 10);
    for (number_of, (at, start)) in starts.iter().enumerate() {
        let process = number(start, "ProcessId");
        let maps = std::fs::read_to_string(etw.path(&format!("maps.{}", number_of + 1))).unwrap();
        let mut expected = images_of(&maps);
        expected.sort();
        assert!(expected.len() >= 4, "program, loader, C library, vdso: {maps}");
        assert_eq!(told(&events, "Image/Load", process), expected);
        assert_eq!(told(&events, "Image/Unload", process), expected);
        let first = events
            .iter()
            .position(|event| kind(event) == "Image/Load" && number(event, "ProcessId") == process);
        assert!(first.unwrap() > *at, "an image before its process");
        build_ids_are_right(&events, process);
    }
    // This process was there before, and is there afterwards.
    let own = std::process::id().into();
    let program = std::env::current_exe().unwrap();
    for rundown in ["Image/DCStart", "Image/DCEnd"] {
        let images = told(&events, rundown, own);
        assert_eq!(images.iter().filter(|image| Path::new(&image.2) == program).count(), 1, "{images:?}");
    }
}

/// Compiles a C program; nothing, with a line that says so, where there is no compiler.
pub(crate) fn compile(etw: &Etw, name: &str, source: &str, options: &[&str]) -> Option<String> {
    let (file, output) = (etw.path(&format!("{name}.c")), etw.path(name));
    std::fs::write(&file, source).unwrap();
    let Ok(status) = Command::new("cc").args(["-o", &output, &file]).args(options).status() else {
        etw_testkit::skip!("there is no C compiler");
        return None;
    };
    assert!(status.success());
    Some(output)
}

#[test]
fn libraries_are_loaded_and_unloaded() {
    let etw = Etw::new();
    let program = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        static void copy(const char *name) {
            FILE *from = fopen("/proc/self/maps", "r"), *to = fopen(name, "w");
            char buffer[4096];
            while (fgets(buffer, sizeof buffer, from)) fputs(buffer, to);
            fclose(from); fclose(to);
        }
        int main(int count, char **arguments) {
            for (int i = 0; i < 100; i++) {
                void *library = dlopen(arguments[1], RTLD_NOW);
                if (!library) return 1;
                if (i == 0) copy("maps");
                dlclose(library);
            }
            return 0;
        }"#;
    let Some(library) =
        compile(&etw, "lib.so", "int f(void) { return 1; }", &["-shared", "-fPIC", "-Wl,--build-id"])
    else {
        return;
    };
    let Some(program) = compile(&etw, "opens", program, &["-Wl,--build-id", "-ldl"]) else { return };
    let Some(output) = record(&etw, "PROC_THREAD+LOADER", &[&program, &library]) else { return };
    assert!(output.status.success());
    let events = events(&etw);
    let is_start =
        |event: &&Value| kind(event) == "Process/Start" && field(event, "CommandLine").contains(&library);
    let process = number(events.iter().find(is_start).unwrap(), "ProcessId");
    let maps = std::fs::read_to_string(etw.path("maps")).unwrap();
    let image = images_of(&maps).into_iter().find(|image| image.2 == library).unwrap();
    let ours = |event: &&Value| field(event, "FileName") == library && number(event, "ProcessId") == process;
    let steps: Vec<&Value> = events.iter().filter(ours).collect();
    assert_eq!(steps.len(), 200);
    for pair in steps.chunks(2) {
        assert_eq!((kind(pair[0]), kind(pair[1])), ("Image/Load", "Image/Unload"));
        assert_eq!(number(pair[0], "ImageBase"), number(pair[1], "ImageBase"));
    }
    assert_eq!((number(steps[0], "ImageBase"), number(steps[0], "ImageSize")), (image.0, image.1));
    build_ids_are_right(&events, process);
}
