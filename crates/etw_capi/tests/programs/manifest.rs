//! Headers of manifests: what `etw mc -um` writes compiles, and the events are those of the manifest.

use std::fs;
use std::path::Path;

use etw_consumer::{Schemas, Trace};
use etw_controller::{EnableBuilder, Instance, SessionBuilder};
use etw_schema::Providers;
use openetw::session::Runtime;

use crate::support::{SANITIZED_C, SANITIZED_CPP, Workshop, available, has, source};

const EXPECTED: &[&str] = &[
    "1: Small=-1 Byte=blue Short=-300 Port=443 Int=-70000 Pid=77 Long=-5000000000 Huge=18446744073709551615 Half=0.5 \
     Double=0.25 Flag=true Id={1f0e9a51-7a3c-4b1e-9d54-0c6f5f1b7a10} Where=0x1000 When=2020-02-29T12:30:15.2500000Z \
     Parts=2020-02-29T12:30:15.2500000Z User=S-1-5-18 Hex=0x1F Hexes=0x20",
    "2: Wide=wäde Ansi=ansi Fixed=abcd Size=3 Sized=xyz Bytes=0x010203 Counted=count CountedAnsi=he \
     CountedBytes=0x010203 Address=2001:db8::1",
    "2: Wide=NULL Ansi=NULL Fixed=abcd Size=0 Sized= Bytes= Counted= CountedAnsi= CountedBytes= Address=2001:db8::1",
    "3: Count=2 Numbers=[7, 8] Three=[-1, 0, 1] Names=[one, two] Codes=[ab, cd] Place={X=1, Y=2} \
     Places=[{Z=1}, {Z=2}] Last=9",
    "4:",
];

/// What the consumer prints.
const CONSUMED: &str = "\
OpenETW-Test-Manifest/1 level=Information Small=-1 Byte=blue Short=-300 Port=443 Int=-70000 Pid=77 \
    Long=-5000000000 Huge=18446744073709551615 Half=0.5 Double=0.25 Flag=true \
    Id={1f0e9a51-7a3c-4b1e-9d54-0c6f5f1b7a10} Where=0x1000 When=2020-02-29T12:30:15.2500000Z \
    Parts=2020-02-29T12:30:15.2500000Z User=S-1-5-18 Hex=0x1F Hexes=0x20
OpenETW-Test-Manifest/2 level=Warning Wide=wäde Ansi=ansi Fixed=abcd Size=3 Sized=xyz Bytes=0x010203 \
    Counted=count CountedAnsi=he CountedBytes=0x010203 Address=2001:db8::1
OpenETW-Test-Manifest/2 level=Warning Wide=NULL Ansi=NULL Fixed=abcd Size=0 Sized= Bytes= Counted= \
    CountedAnsi= CountedBytes= Address=2001:db8::1
OpenETW-Test-Manifest/3 level=Error task=Count Count=2 Numbers=|7|8 Three=|-1|0|1 Names=|one|two \
    Codes=|ab|cd Place= X=1 Y=2 Places=| Z=1| Z=2 Last=9
OpenETW-Test-Manifest/4 level=Information
";

fn check(compiler: &[&str]) {
    if !has(compiler[0]) {
        return;
    }
    let workshop = Workshop::new();
    let text = fs::read(source("provider.man")).unwrap();
    let read = etw_mc::check(&text, "provider.man");
    assert_eq!(read.problems, []);
    let header = etw_mc::c_header(&text, &read.providers, &etw_mc::CNames::default());
    assert_eq!(header.left_out, []);
    fs::write(workshop.path("provider.h"), header.text).unwrap();
    fs::copy(source("manifest.c"), workshop.path("manifest.c")).unwrap();
    let program = workshop.compile(compiler, &workshop.path("manifest.c"));

    let trace_path = workshop.path("trace.etl");
    let mut runtime = Runtime::connect_or_host_at(&Instance::at(workshop.runtime())).unwrap();
    SessionBuilder::new("Manifest").file(&trace_path).start(runtime.controller()).unwrap();
    let guid = read.providers[0].info.guid;
    let enable = EnableBuilder::new(format!("{guid}:5").parse().unwrap());
    runtime.controller().enable("Manifest", &enable).unwrap();
    assert_eq!(workshop.run(&program, &[]), "");
    runtime.controller().stop("Manifest").unwrap();

    let mut schemas = Schemas::new();
    schemas.add(std::sync::Arc::new(Providers::from_iter(read.providers)));
    let mut trace = Trace::builder().schemas(&schemas).file(&trace_path).open().unwrap();
    let mut found = Vec::new();
    trace
        .for_each_event(|event| {
            if event.record.provider_id() == guid {
                let mut line = format!("{}:", event.record.descriptor().id);
                for property in event.properties.as_ref().unwrap().iter() {
                    line += &format!(" {}={}", property.name(), property.text());
                }
                found.push(line);
            }
        })
        .unwrap();
    assert_eq!(found, EXPECTED, "{compiler:?}");
    consume(&workshop, &trace_path);
}

/// Prints the same trace with a consumer in C++.
fn consume(workshop: &Workshop, trace: &Path) {
    let sanitized = [SANITIZED_CPP, &["-Wno-unknown-pragmas"]].concat();
    for compiler in available(&[&["g++", "-std=c++11", "-Wno-unknown-pragmas"], &sanitized]) {
        let program = workshop.compile(compiler, &source("consumer.cpp"));
        assert_eq!(workshop.run(&program, &[trace, &source("provider.man")]), CONSUMED, "{compiler:?}");
    }
}

#[test]
fn events_of_a_manifest_from_c() {
    check(&["gcc", "-std=c11"]);
}

#[test]
fn events_of_a_manifest_with_sanitizers() {
    check(SANITIZED_C);
}

#[test]
fn events_of_a_manifest_from_cpp_with_char16() {
    check(&["g++", "-std=c++11", "-DOPENETW_USE_CHAR16", "-x", "c++"]);
}

#[test]
fn events_of_a_manifest_from_cpp_with_short_wchar() {
    check(&["clang++", "-std=c++20", "-fshort-wchar", "-x", "c++"]);
}

/// The manifests of many projects.
#[test]
fn headers_of_real_manifests_compile() {
    let Some(data) = etw_testkit::data::data_dir() else { return };
    let compilers = available(&[&["gcc"], &["g++", "-x", "c++"]]);
    if compilers.len() < 2 {
        return;
    }
    let workshop = Workshop::new();
    let mut headers = 0;
    for project in fs::read_dir(data.join("manifests")).unwrap() {
        let Ok(files) = fs::read_dir(project.unwrap().path()) else { continue };
        for file in files {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "man") {
                continue;
            }
            let text = fs::read(&path).unwrap();
            let read = etw_mc::check(&text, "test");
            if read.providers.is_empty() || !read.problems.is_empty() {
                continue;
            }
            let header = etw_mc::c_header(&text, &read.providers, &etw_mc::CNames::default());
            assert_eq!(header.left_out, [], "{}", path.display());
            fs::write(workshop.path("real.h"), header.text).unwrap();
            let file = workshop.path("real.c");
            fs::write(&file, "#include \"real.h\"\nint main(void) { return 0; }\n").unwrap();
            for compiler in &compilers {
                workshop.compile(compiler, &file);
            }
            headers += 1;
        }
    }
    assert!(headers > 15, "{headers} headers");
}

/// Programs for the manifests of Microsoft's samples, whose macros have the names and parameters of Windows' compiler.
#[test]
fn providers_of_the_public_samples_work() {
    let Some(data) = etw_testkit::data::data_dir() else { return };
    if !has("gcc") {
        return;
    }
    let workshop = Workshop::new();
    let trace_path = workshop.path("trace.etl");
    let mut runtime = Runtime::connect_or_host_at(&Instance::at(workshop.runtime())).unwrap();
    SessionBuilder::new("Samples").file(&trace_path).start(runtime.controller()).unwrap();
    let mut schemas = Schemas::new();
    for (manifest_name, header, program) in [
        ("SimpleProvider.man", "SimpleProviderEvents.h", "simple.c"),
        ("AdvancedProvider.man", "AdvancedProviderEvents.h", "advanced.c"),
    ] {
        let path = data.join("manifests/microsoft-Windows-classic-samples").join(manifest_name);
        let text = fs::read(path).unwrap();
        let read = etw_mc::check(&text, manifest_name);
        let written = etw_mc::c_header(&text, &read.providers, &etw_mc::CNames::default());
        fs::write(workshop.path(header), written.text).unwrap();
        fs::copy(source(program), workshop.path(program)).unwrap();
        let enable = EnableBuilder::new(format!("{}:5", read.providers[0].info.guid).parse().unwrap());
        runtime.controller().enable("Samples", &enable).unwrap();
        let program = workshop.compile(SANITIZED_C, &workshop.path(program));
        let output = workshop.run_any(&program, &[]);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        schemas.add(std::sync::Arc::new(Providers::from_iter(read.providers)));
    }
    runtime.controller().stop("Samples").unwrap();
    let mut trace = Trace::builder().schemas(&schemas).file(&trace_path).open().unwrap();
    let mut found = Vec::new();
    trace
        .for_each_event(|event| {
            if event.names().provider().is_some_and(|name| name.starts_with("Microsoft-Windows-SDKSample")) {
                let mut line = format!("{}:", event.record.descriptor().id);
                for property in event.properties.as_ref().unwrap().iter() {
                    line += &format!(" {}", property.text());
                }
                found.push(line);
            }
        })
        .unwrap();
    let times = |line: &String| line.contains(": 20");
    assert_eq!(found.iter().filter(|line| times(line)).count(), 2, "{found:?}");
    found.retain(|line| !times(line));
    assert_eq!(found, SAMPLES);
}

/// The events of both programs without the two that have times.
const SAMPLES: &[&str] = &[
    "101: 3",
    "102: 5.75",
    "103: true",
    "104: a text",
    "105: {21a9201e-73b0-43fe-9821-7e159a59bc6f}",
    "102: -8",
    "112: 127.0.0.1",
    "125: {21a9201e-73b0-43fe-9821-7e159a59bc70}",
    "126: 0x12345678",
    "129: S-1-5-18",
    "201: an ansi text",
    "202: abcdefghijklmno",
    "207: 4 0x00010203",
    "300: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]",
    "301: [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o]",
    "302: [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o]",
    "303: [abcdefghijklmno, abcdefghijklmno, abcdefghijklmno, abcdefghijklmno, abcdefghijklmno, abcdefghijklmno, \
    abcdefghijklmno, abcdefghijklmno, abcdefghijklmno, abcdefghijklmno, abcdefghijklmno, abcdefghijklmno, \
    abcdefghijklmno, abcdefghijklmno, abcdefghijklmno]",
    "305: [0x000102030405060708090A0B0C0D0E, 0x0F101112131415161718191A1B1C1D, 0x1E1F202122232425262728292A2B2C, \
    0x2D2E2F303132333435363738393A3B, 0x3C3D3E3F404142434445464748494A, 0x4B4C4D4E4F50515253545556575859, \
    0x5A5B5C5D5E5F606162636465666768, 0x696A6B6C6D6E6F7071727374757677, 0x78797A7B7C7D7E7F80818283848586, \
    0x8788898A8B8C8D8E8F909192939495, 0x969798999A9B9C9D9E9FA0A1A2A3A4, 0xA5A6A7A8A9AAABACADAEAFB0B1B2B3, \
    0xB4B5B6B7B8B9BABBBCBDBEBFC0C1C2, 0xC3C4C5C6C7C8C9CACBCCCDCECFD0D1, 0xD2D3D4D5D6D7D8D9DADBDCDDDEDFE0]",
    "309: 3 [0, 1, 2]",
    "605: OK",
    "602: 7",
    "102: 2",
];
