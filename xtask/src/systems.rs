//! Checks that the crates compile for other systems and with fewer features, and that formats work on big-endian ones.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use shell::cargo;

/// Systems that are only checked, not run; this needs no C libraries of dependencies.
const TARGETS: &[&str] =
    &["x86_64-pc-windows-gnu", "aarch64-apple-darwin", "aarch64-unknown-linux-gnu", WINDOWS_ON_ARM];
/// Windows for ARM, whose C needs another compiler.
const WINDOWS_ON_ARM: &str = "aarch64-pc-windows-msvc";
/// Windows 7 and 8, for which Rust has no compiled standard library.
pub(crate) const WINDOWS_7: &str = "x86_64-win7-windows-gnu";
/// The target with 32 bits, for which only what reads traces compiles: the kernel is captured with `aya`, which has no
/// bindings for it.
const BITS_32: &str = "i686-unknown-linux-gnu";
/// Big-endian target whose programs run in QEMU.
const BIG_ENDIAN: &str = "s390x-unknown-linux-gnu";
/// Its linker, and the emulator with the directory of its C library, as named by Debian.
const BIG_ENDIAN_LINKER: &str = "s390x-linux-gnu-gcc";
const BIG_ENDIAN_RUNNER: [&str; 3] = ["qemu-s390x-static", "-L", "/usr/s390x-linux-gnu"];
/// The crate whose tests run there. Those of the other formats need the testing kit, whose system calls have no names for
/// that processor in stable Rust (`syscalls`).
const TESTED: &str = "etw_event";
/// Crates that must read and write the same bytes on every processor, and compile there.
const FORMATS: [&str; 2] = ["etw_etl", "etw_schema"];
/// Development tools, which run only on Linux.
const DEVELOPMENT: &[&str] =
    &["xtask", "bench", "pages", "peers", "schemas", "shell", "torture", "wine", "etw_fuzz", "etw_testkit"];

/// Features of `openetw`, each of which must compile alone; without `columns`, which the workspace's crates use.
const FEATURES: &[&str] = &["read", "provider", "session", "kernel", "export", "analysis", "windows-schemas"];

/// Checks `openetw` without features, and with each one alone.
pub(crate) fn check_features() -> Result<()> {
    for feature in std::iter::once("").chain(FEATURES.iter().copied()) {
        let check = ["check", "--quiet", "--package", "openetw", "--lib", "--no-default-features"];
        shell::run(cargo(check).args(["--features", feature]))?;
    }
    Ok(())
}

/// Checks each target whose standard library is installed, and reports the others.
pub(crate) fn check() -> Result<()> {
    for target in TARGETS {
        if !is_installed(target)? {
            eprintln!("{target}: skipped: not installed (`rustup target add {target}`)");
            continue;
        }
        let mut clippy = cargo(["clippy", "--quiet", "--workspace", "--target", target]);
        for package in DEVELOPMENT {
            clippy.args(["--exclude", package]);
        }
        // There `ring` and `zstd` compile their C with clang and the headers of Visual C++, whatever is set below.
        if *target == WINDOWS_ON_ARM {
            clippy.args(["--exclude", "etw_viewer", "--exclude", "etw_sql"]);
        }
        // Nothing is linked, so no C has to be compiled: that of `ring` needs a compiler for the target.
        for tool in ["CC", "AR"] {
            clippy.env(format!("{tool}_{}", target.replace('-', "_")), "true");
        }
        shell::run(clippy.args(["--", "-D", "warnings"]))?;
    }
    let mut check = cargo(["check", "--quiet", "--package", "openetw", "--target", WINDOWS_7]);
    match with_own_standard_library(&mut check)? {
        true => shell::run(&mut check)?,
        false => eprintln!(
            "{WINDOWS_7}: left out: there is no source of Rust's standard library (`rustup component add rust-src`)"
        ),
    }
    if is_there(BITS_32)? {
        let mut check = cargo(["check", "--quiet", "--package", "openetw", "--no-default-features"]);
        shell::run(check.args(["--features", "read,export,analysis", "--target", BITS_32]))?;
    }
    Ok(())
}

/// Has the standard library compiled with a build, which stable Rust only does when told that it is nightly; false if its
/// source is not installed.
///
/// It builds in a directory of its own ([`own_standard_library_dir`]): build scripts notice the variable that tells Rust so,
/// and everything that depends on them would be compiled again by the next build.
pub(crate) fn with_own_standard_library(build: &mut Command) -> Result<bool> {
    let sysroot = shell::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    build.args(["-Z", "build-std"]).env("RUSTC_BOOTSTRAP", "1");
    build.env("CARGO_TARGET_DIR", own_standard_library_dir());
    Ok(Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library").is_dir())
}

/// The target directory of [`with_own_standard_library`].
pub(crate) fn own_standard_library_dir() -> PathBuf {
    shell::target_dir().join("own-std")
}

/// Whether the target's standard library is installed; prints that the check is left out if not.
fn is_there(target: &str) -> Result<bool> {
    let is_installed = is_installed(target)?;
    if !is_installed {
        eprintln!("{target}: left out, since it is not installed (`rustup target add {target}`)");
    }
    Ok(is_installed)
}

/// Compiles the format crates for a big-endian processor, and runs the unit tests of one; skipped, with the reason, if not possible.
pub(crate) fn test_big_endian() -> Result<()> {
    let skipped = |what: &str| eprintln!("skipped: {what}");
    if !is_installed(BIG_ENDIAN)? {
        skipped(&format!("{BIG_ENDIAN} is not installed (`rustup target add {BIG_ENDIAN}`)"));
        return Ok(());
    }
    for (tool, package) in
        [(BIG_ENDIAN_LINKER, "gcc-s390x-linux-gnu"), (BIG_ENDIAN_RUNNER[0], "qemu-user-static")]
    {
        if !shell::succeeds(Command::new(tool).arg("--version")) {
            skipped(&format!("{tool} is missing: apt-get install {package} libc6-dev-s390x-cross"));
            return Ok(());
        }
    }
    let mut check = cargo(["check", "--quiet", "--lib", "--target", BIG_ENDIAN]);
    for package in FORMATS {
        check.args(["--package", package]);
    }
    shell::run(&mut check)?;
    let mut test = cargo(["test", "--quiet", "--lib", "--target", BIG_ENDIAN, "--package", TESTED]);
    test.env("CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER", BIG_ENDIAN_LINKER);
    test.env("CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_RUNNER", BIG_ENDIAN_RUNNER.join(" "));
    shell::run(&mut test)
}

fn is_installed(target: &str) -> Result<bool> {
    let directory =
        shell::output(Command::new("rustc").args(["--print", "target-libdir", "--target", target]))?;
    Ok(Path::new(directory.trim()).is_dir())
}
