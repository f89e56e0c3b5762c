//! Headers of manifests: what `etw mc -um` writes compiles, and the events are those of the manifest.

use std::fs;

use etw_consumer::{Schemas, Trace};
use etw_controller::{EnableBuilder, Instance, SessionBuilder};
use etw_schema::{Providers, manifest};
use openetw::session::Runtime;

use crate::support::{Workshop, available, has, source};

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

fn check(compiler: &[&str]) {
    if !has(compiler[0]) {
        return;
    }
    let workshop = Workshop::new();
    let text = fs::read(source("provider.man")).unwrap();
    let read = manifest::check(&text, "provider.man");
    assert_eq!(read.problems, []);
    let header = manifest::c_header(&text, &read.providers, &manifest::CNames::default());
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
        .for_each_layout(|event| {
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
}

#[test]
fn events_of_a_manifest_from_c() {
    check(&["gcc", "-std=c11"]);
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
            let read = manifest::check(&text, "test");
            if read.providers.is_empty() || !read.problems.is_empty() {
                continue;
            }
            let header = manifest::c_header(&text, &read.providers, &manifest::CNames::default());
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
