//! A program in C, compiled with MinGW and its headers, as somebody without OpenETW writes it.

use std::process::Command;

use anyhow::{Result, ensure};

use super::place::Place;
use shell::process::MINUTES_2;
use shell::{output, output_within, root, target_dir};

/// Compiles and runs it.
pub(super) fn run(place: &Place) -> Result<String> {
    let program = target_dir().join("wine/program_in_c.exe");
    let mut compiler = Command::new("x86_64-w64-mingw32-gcc");
    compiler.args(["-std=c11", "-municode", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    output(compiler.arg(root().join("bindings/wine/c/program.c")).args(["-ltdh", "-ladvapi32"]))?;
    let host = place.host()?;
    let printed = output_within(&mut host.program(&program, &[&host.windows_directory()]), MINUTES_2)?;
    ensure!(printed.trim_end().ends_with("done"), "{printed}");
    Ok(printed.lines().filter(|line| *line != "done").collect::<Vec<_>>().join(", "))
}
