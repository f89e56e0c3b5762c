//! The tree of installed files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{licences, write};
use shell::root;

/// The programs and their packages.
pub(super) const PROGRAMS: [(&str, &str); 2] = [("etw", "etw_cli"), ("etw-view", "etw_viewer")];

/// Windows tools as which `etw` runs if called by their names.
pub(super) const TOOLS: [&str; 7] =
    ["logman", "tracefmt", "tracelog", "tracepdb", "tracerpt", "wpr", "xperf"];

/// Shells and the paths of their completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/etw"),
    ("zsh", "usr/share/zsh/vendor-completions/_etw"),
    ("fish", "usr/share/fish/vendor_completions.d/etw.fish"),
];

/// Files of the repository and their installed paths.
const FILES: [(&str, &str); 6] = [
    ("packaging/systemd/etwd.service", "usr/lib/systemd/system/etwd.service"),
    ("packaging/systemd/etwd-user.service", "usr/lib/systemd/user/etwd.service"),
    ("packaging/access.toml", "usr/share/doc/openetw/examples/access.toml"),
    ("packaging/sysusers.conf", "usr/lib/sysusers.d/openetw.conf"),
    ("packaging/autologgers/example.toml", "usr/share/doc/openetw/examples/autologgers/example.toml"),
    ("README.md", "usr/share/doc/openetw/README.md"),
];

/// Writes what both the package and the tarball contain to `tree`, with the programs in a directory.
pub(super) fn tree(programs: &Path, tree: &Path) -> Result<()> {
    let bin = tree.join("usr/bin");
    let etw = bin.join("etw");
    fs::create_dir_all(&bin)?;
    for (program, _) in PROGRAMS {
        shell::run(Command::new("strip").arg("-o").arg(bin.join(program)).arg(programs.join(program)))?;
    }
    for tool in TOOLS {
        symlink("etw", bin.join(tool))?;
    }
    for (shell, path) in COMPLETIONS {
        write(&tree.join(path), shell::output(Command::new(&etw).args(["completions", shell]))?)?;
    }
    manual(&etw, &tree.join("usr/share/man/man1"))?;
    for (from, to) in FILES {
        write(&tree.join(to), fs::read(root().join(from))?)?;
    }
    let doc = tree.join("usr/share/doc/openetw");
    write(&doc.join("changelog"), fs::read(root().join("CHANGELOG.md"))?)?;
    write(&doc.join("THIRD-PARTY-LICENCES"), licences::linked_in(None)?)?;
    for name in ["changelog", "THIRD-PARTY-LICENCES"] {
        compress(&doc.join(name))?;
    }
    set_modes(tree)
}

/// Adds the texts of the licences, which the tarball has. Debian has its own format for both.
pub(super) fn add_licences(tree: &Path) -> Result<()> {
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let path = tree.join("usr/share/doc/openetw").join(name);
        write(&path, fs::read(root().join(name))?)?;
        set_mode(&path, 0o644)?;
    }
    Ok(())
}

/// Writes the manual pages, those of the tools as links to those of `etw TOOL`.
fn manual(etw: &Path, directory: &Path) -> Result<()> {
    shell::run(Command::new(etw).arg("man").arg(directory))?;
    for entry in fs::read_dir(directory)? {
        compress(&entry?.path())?;
    }
    for tool in TOOLS {
        symlink(format!("etw-{tool}.1.gz"), directory.join(format!("{tool}.1.gz")))?;
    }
    Ok(())
}

/// Compresses a file in its place, always to the same bytes.
fn compress(path: &Path) -> Result<()> {
    shell::output(Command::new("gzip").args(["--best", "--no-name"]).arg(path))?;
    Ok(())
}

/// Gives each file and directory the mode that Debian expects, whatever the umask is.
fn set_modes(directory: &Path) -> Result<()> {
    set_mode(directory, 0o755)?;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let kind = fs::symlink_metadata(&path)?.file_type();
        if kind.is_dir() {
            set_modes(&path)?;
        } else if kind.is_file() {
            set_mode(&path, if directory.ends_with("usr/bin") { 0o755 } else { 0o644 })?;
        }
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the mode of {}", path.display()))
}
