//! Programs in C, compiled with MinGW and its headers, as somebody without OpenETW writes them.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::place::Place;
use shell::process::MINUTES_2;
use shell::{output, output_within, root, target_dir};

/// Tests of what such programs rely on, which run as Linux programs too: the argument of each, and what it prints.
const TESTS: [(&str, Option<&str>, &str); 3] = [
    ("levels.c", None, "levels: 0 failures"),
    ("properties.c", Some("members.etl"), "properties: 0 failures"),
    ("live_header.c", None, "live header: 0 failures"),
];

/// Tests of what such programs do with the kernel's events, and what each prints.
const TESTS_OF_ROOT: [(&str, &str); 2] =
    [("system_values.c", "thread 1, file 1, program 1"), ("group_masks.c", "groups: 0 failures")];

/// Compiles and runs them.
pub(super) fn run(place: &Place) -> Result<String> {
    let program = compile(&root().join("bindings/wine/c/program.c"), &["-municode"])?;
    let host = place.host()?;
    let printed = output_within(&mut host.program(&program, &[&host.windows_directory()]), MINUTES_2)?;
    ensure!(printed.trim_end().ends_with("done"), "{printed}");
    for (name, argument, expected) in TESTS {
        let program = compile(&root().join("crates/etw_capi/tests/c").join(name), &[])?;
        let host = place.host()?;
        let argument = argument.map(|file| host.windows_path(file));
        let arguments: Vec<&str> = argument.iter().map(String::as_str).collect();
        let printed = output_within(&mut host.program(&program, &arguments), MINUTES_2)?;
        ensure!(printed.trim() == expected, "{name}: {printed}");
    }
    let mut tests = TESTS.len();
    // The kernel's events are for root.
    if rustix::process::geteuid().is_root() {
        for (name, expected) in TESTS_OF_ROOT {
            let program = compile(&root().join("bindings/wine/c").join(name), &[])?;
            let printed = output_within(&mut place.host()?.program(&program, &[]), MINUTES_2)?;
            ensure!(printed.trim() == expected, "{name}: {printed}");
            tests += 1;
        }
    }
    let of_program = printed.lines().filter(|line| *line != "done").collect::<Vec<_>>().join(", ");
    Ok(format!("{of_program}; {tests} tests of the library"))
}

/// Compiles a program.
fn compile(source: &Path, options: &[&str]) -> Result<std::path::PathBuf> {
    let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let program = target_dir().join(format!("wine/{name}_in_c.exe"));
    let mut compiler = Command::new("x86_64-w64-mingw32-gcc");
    compiler.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).args(options);
    output(compiler.arg(source).args(["-ltdh", "-ladvapi32", "-lntdll"]))?;
    Ok(program)
}
