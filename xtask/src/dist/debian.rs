//! The Debian package, written from the tree by `dpkg-deb`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::stage::{PROGRAMS, set_modes};
use super::{Release, write};
use shell::{root, succeeds};

/// Scripts that dpkg runs, in `packaging/debian`.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// systemd units, in which the path of the program is that of an installation by hand.
const UNITS: [&str; 2] = ["usr/lib/systemd/system/etwd.service", "usr/lib/systemd/user/etwd.service"];

/// Returns what is missing to write a package, with how to install it.
pub(super) fn missing() -> Option<&'static str> {
    if !succeeds(Command::new("dpkg-deb").arg("--version")) {
        return Some("dpkg-deb is missing; only Debian and its relatives can make the package");
    }
    if !succeeds(Command::new("objdump").arg("--version")) {
        return Some("objdump and strip are missing: apt-get install binutils");
    }
    None
}

/// Writes `openetw_VERSION_ARCH.deb` to `directory` and returns its path.
pub(super) fn package(release: &Release, tree: &Path, directory: &Path) -> Result<PathBuf> {
    let staged = directory.join("deb");
    shell::run(Command::new("cp").args(["--archive", "--no-target-directory"]).arg(tree).arg(&staged))?;
    for unit in UNITS {
        let path = staged.join(unit);
        let text = fs::read_to_string(&path)?;
        write(&path, text.replace("/usr/local/bin/etw", "/usr/bin/etw"))?;
    }
    let settings = staged.join("etc/openetw");
    write(&settings.join("access.toml"), fs::read(root().join("packaging/access.toml"))?)?;
    fs::create_dir_all(settings.join("autologgers"))?;
    // Debian names the licence file `copyright` and has its own format for both licences.
    let doc = staged.join("usr/share/doc/openetw");
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::remove_file(doc.join(name))?;
    }
    write(&doc.join("copyright"), copyright()?)?;
    set_modes(&staged)?;
    let (sums, bytes) = contents(&staged)?;
    let control = staged.join("DEBIAN");
    write(&control.join("control"), fields(release, &staged.join("usr/bin"), bytes)?)?;
    write(&control.join("conffiles"), "/etc/openetw/access.toml\n")?;
    write(&control.join("md5sums"), sums)?;
    for script in SCRIPTS {
        write(&control.join(script), fs::read(root().join("packaging/debian").join(script))?)?;
    }
    set_modes(&control)?;
    let path = directory.join(format!("openetw_{}_{}.deb", release.version, release.architecture));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&staged).arg(&path);
    shell::run(&mut build)?;
    fs::remove_dir_all(&staged)?;
    Ok(path)
}

/// The control file. Its format is that of the Debian Policy Manual, chapter 5.
fn fields(release: &Release, bin: &Path, bytes: u64) -> Result<String> {
    let Release { version, architecture } = release;
    let (kib, glibc) = (bytes.div_ceil(1024), glibc(bin)?);
    Ok(format!(
        "Package: openetw
Version: {version}
Architecture: {architecture}
Maintainer: The OpenETW contributors
Installed-Size: {kib}
Depends: libc6 (>= {glibc}), libgcc-s1, passwd
Recommends: libcap2-bin, curl
Suggests: libpam-cap, bash-completion
Section: utils
Priority: optional
Description: Event Tracing for Windows (ETW) on Linux
 The command etw reads Windows event traces (.etl), records events of programs
 and of the Linux kernel, reports what a machine did, and shows it in a browser.
 It is also logman, tracefmt, tracelog, tracepdb, tracerpt, wpr and xperf, and
 the daemon that keeps sessions.
"
    ))
}

/// Returns the newest version of the GNU C library whose symbols the programs use.
fn glibc(bin: &Path) -> Result<String> {
    let programs = PROGRAMS.map(|(program, _)| bin.join(program));
    let symbols = shell::output(Command::new("objdump").arg("--dynamic-syms").args(programs))?;
    let versions = symbols.split("GLIBC_").skip(1).filter_map(version);
    let (major, minor) = versions.max().context("the programs use no symbol of the GNU C library")?;
    Ok(format!("{major}.{minor}"))
}

/// Parses the version at the start of `text`, for example `2.34)  read`.
fn version(text: &str) -> Option<(u32, u32)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (major, rest) = text[..end].split_once('.')?;
    Some((major.parse().ok()?, rest.split('.').next()?.parse().ok()?))
}

/// Returns the text of `md5sums` and the number of bytes of all files.
fn contents(staged: &Path) -> Result<(String, u64)> {
    let mut find = Command::new("find");
    find.current_dir(staged).args(["usr", "-type", "f", "-exec", "md5sum", "{}", "+"]);
    let mut sums: Vec<String> = shell::output(&mut find)?.lines().map(|line| format!("{line}\n")).collect();
    if sums.is_empty() {
        bail!("nothing is staged in {}", staged.display());
    }
    sums.sort_unstable_by(|one, other| one[32..].cmp(&other[32..]));
    let size = shell::output(Command::new("du").args(["--summarize", "--bytes"]).arg(staged))?;
    let bytes = size.split_whitespace().next().context("du prints nothing")?.parse()?;
    Ok((sums.concat(), bytes))
}

/// The machine-readable copyright file of Debian.
fn copyright() -> Result<String> {
    let mit = fs::read_to_string(root().join("LICENSE-MIT"))?;
    let mut text = String::from(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: OpenETW
Comment: THIRD-PARTY-LICENCES.gz in this directory has the licences of the
 libraries that the program contains.

Files: *
Copyright: 2026 The OpenETW contributors
License: MIT or Apache-2.0

License: Apache-2.0
 On Debian systems, the Apache License 2.0 is in
 /usr/share/common-licenses/Apache-2.0.

License: MIT
",
    );
    for line in mit.lines().skip_while(|line| !line.starts_with("Permission")) {
        text.push_str(if line.is_empty() { " ." } else { " " });
        text.push_str(line);
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_symbols() {
        for (text, expected) in [
            ("2.34)  read", Some((2, 34))),
            ("2.2.5)  free", Some((2, 2))),
            ("PRIVATE) x", None),
            ("2.3", Some((2, 3))),
        ] {
            assert_eq!(version(text), expected, "{text}");
        }
    }
}
