//! The headers compile without warnings: both compilers, all versions of the languages, all kinds of wide characters.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use crate::support::{Workshop, has, source};

/// Whether a compiler has a version of the language.
fn knows(compiler: &str, version: &str) -> bool {
    let output = Command::new(compiler)
        .args([format!("-std={version}").as_str(), "-x", if version.contains("++") { "c++" } else { "c" }])
        .args(["-fsyntax-only", "/dev/null"])
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}; apt-get install gcc g++ clang"));
    output.status.success()
}

#[test]
fn headers_compile_everywhere() {
    let workshop = Workshop::new();
    let mut failures = String::new();
    for compiler in ["gcc", "clang"].into_iter().filter(|compiler| has(compiler)) {
        let all = ["c11", "c17", "c2x", "gnu11", "c++11", "gnu++11", "c++14", "c++17", "c++20", "c++23"];
        for version in all.into_iter().filter(|version| knows(compiler, version)) {
            // The kinds of wide characters do not depend on what versions between add.
            let kinds = ["-fno-short-wchar", "-fshort-wchar", "-DOPENETW_USE_CHAR16", "-DOPENETW_ANSI"];
            let all_kinds = ["c11", "c++11", "c++20"].contains(&version);
            for wide in kinds.into_iter().take(if all_kinds { kinds.len() } else { 1 }) {
                let language = if version.contains("++") { "c++" } else { "c" };
                let output = Command::new(compiler)
                    .args([&format!("-std={version}"), wide, "-x", language])
                    .args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
                    .arg(workshop.path("include"))
                    .arg(source("headers.c"))
                    .output()
                    .unwrap();
                if !output.status.success() {
                    let text = String::from_utf8_lossy(&output.stderr);
                    writeln!(failures, "{compiler} {version} {wide}:\n{text}").unwrap();
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// Each header includes what it needs.
#[test]
fn headers_stand_alone() {
    if !has("g++") {
        return;
    }
    let workshop = Workshop::new();
    for (name, _) in etw_capi::development::headers() {
        let file = workshop.path("alone.cpp");
        // The end of what another begins.
        let before = if name == "poppack.h" { "#include <pshpack1.h>\n".repeat(2) } else { String::new() };
        fs::write(&file, format!("{before}#include <{name}>\n#include <{name}>\nint main() {{}}\n")).unwrap();
        workshop.compile(&["g++"], &file);
    }
}
