//! `etw install-dev`: programs compile with what it installs.

use std::path::Path;
use std::process::Command;

use crate::Etw;

const HELLO: &str = r#"
#include <TraceLoggingProvider.h>
#include <openetw.h>
#include <stdio.h>
TRACELOGGING_DEFINE_PROVIDER(Provider, "MyCompany.MyProvider", );
int main(void) {
  TraceLoggingRegister(Provider);
  TraceLoggingWrite(Provider, "MyEvent", TraceLoggingInt32(42, "Answer"));
  TraceLoggingUnregister(Provider);
  return puts(openetw_version()) < 0;
}
"#;

const CMAKE: &str = "cmake_minimum_required(VERSION 3.13)\nproject(hello C)\nfind_package(openetw 0.1 REQUIRED)\n\
    add_executable(hello hello.c)\ntarget_link_libraries(hello openetw::openetw)\n";

/// Returns the output of a program; `None` if it is not installed.
fn run(command: &mut Command) -> Option<String> {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            etw_testkit::skip!("{}: {error}", command.get_program().display());
            return None;
        }
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn programs_compile_with_pkg_config_and_cmake() {
    let etw = Etw::new();
    let program = Path::new(env!("CARGO_BIN_EXE_etw"));
    let text = etw.ok(&["install-dev", "sdk"]);
    let prefix = std::fs::canonicalize(etw.path("sdk")).unwrap();
    assert!(
        text.starts_with(&format!("installed in {}", prefix.display())),
        "{text} ({})",
        program.display()
    );
    // Again is allowed.
    etw.ok(&["install-dev", "sdk"]);
    std::fs::write(etw.path("hello.c"), HELLO).unwrap();
    let lib = prefix.join("lib");
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "openetw"])
        .env("PKG_CONFIG_PATH", lib.join("pkgconfig"))
        .output();
    if let Ok(flags) = flags {
        let flags = String::from_utf8(flags.stdout).unwrap();
        let hello = etw.path("hello");
        run(Command::new("gcc").arg(etw.path("hello.c")).args(flags.split_whitespace()).args(["-o", &hello]));
        let version = run(Command::new(&hello).env("LD_LIBRARY_PATH", &lib));
        assert_eq!(version, Some(format!("{}\n", env!("CARGO_PKG_VERSION"))));
    }
    std::fs::write(etw.path("CMakeLists.txt"), CMAKE).unwrap();
    let made = run(Command::new("cmake")
        .args(["-S", &etw.path("."), "-B", &etw.path("build")])
        .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())));
    if made.is_some() {
        run(Command::new("cmake").args(["--build", &etw.path("build")]));
        let version = run(Command::new(etw.path("build/hello")).env("LD_LIBRARY_PATH", &lib));
        assert_eq!(version, Some(format!("{}\n", env!("CARGO_PKG_VERSION"))));
    }
}

#[test]
fn without_a_library_nothing_is_installed() {
    let etw = Etw::new();
    std::fs::create_dir(etw.path("empty")).unwrap();
    let (status, text) = etw.fails(&["install-dev", "sdk", "--libraries", "empty"]);
    assert_eq!(status, 1);
    assert!(text.contains("no libetw_capi.so or libopenetw.so.0 in empty"), "{text}");
    assert!(!Path::new(&etw.path("sdk")).exists());
}
