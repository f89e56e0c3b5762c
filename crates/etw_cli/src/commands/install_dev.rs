//! `etw install-dev`: headers, libraries, pkg-config and CMake files for programs in C and C++.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use etw_app::output;
use etw_capi::development::{CMAKE, CMAKE_VERSION, PKG_CONFIG, headers};

/// Names of the libraries as cargo builds them and as they are installed.
const NAMES: [[&str; 2]; 2] = [["libetw_capi.so", "libetw_capi.a"], ["libopenetw.so.0", "libopenetw.a"]];

/// Installs below a directory; the libraries come from another one, or from beside this program.
pub(crate) fn run(directory: &Path, libraries: Option<&Path>) -> Result<()> {
    let [shared, archive] = find(libraries)?;
    let create = |path: PathBuf| {
        fs::create_dir_all(&path).with_context(|| format!("cannot create '{}'", path.display()))?;
        path.canonicalize().with_context(|| format!("cannot open '{}'", path.display()))
    };
    let prefix = create(directory.to_owned())?;
    let [include, lib, pkg_config, cmake] = ["include/openetw", "lib", "lib/pkgconfig", "lib/cmake/openetw"]
        .map(|part| create(prefix.join(part)));
    let (include, lib, pkg_config, cmake) = (include?, lib?, pkg_config?, cmake?);
    for (name, text) in headers() {
        write(&include.join(name), text)?;
    }
    copy(&shared, &lib.join("libopenetw.so.0"))?;
    let link = lib.join("libopenetw.so");
    let _ = fs::remove_file(&link);
    symlink("libopenetw.so.0", &link).with_context(|| format!("cannot create '{}'", link.display()))?;
    if archive.is_file() {
        copy(&archive, &lib.join("libopenetw.a"))?;
    }
    let version = |text: &str| text.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    let text = version(PKG_CONFIG).replace("@PREFIX@", &prefix.display().to_string());
    write(&pkg_config.join("openetw.pc"), &text)?;
    write(&cmake.join("openetwConfig.cmake"), CMAKE)?;
    write(&cmake.join("openetwConfigVersion.cmake"), &version(CMAKE_VERSION))?;
    writeln!(
        output::open(None)?,
        "installed in {prefix}; to use it:\n  export PKG_CONFIG_PATH={prefix}/lib/pkgconfig LD_LIBRARY_PATH={prefix}/lib",
        prefix = prefix.display()
    )?;
    Ok(())
}

/// Returns the shared and the static library; the latter may not exist.
fn find(given: Option<&Path>) -> Result<[PathBuf; 2]> {
    let places = match given {
        Some(directory) => vec![directory.to_owned()],
        None => {
            let program = std::env::current_exe().context("cannot find the path of this program")?;
            let beside = program.parent().unwrap_or(Path::new("/")).to_owned();
            // The second one is of the build directory, where it is the one built with this program.
            vec![beside.join("../lib"), beside.join("deps"), beside]
        }
    };
    let all = places.iter().flat_map(|place| NAMES.map(|names| names.map(|name| place.join(name))));
    match all.into_iter().find(|[shared, _]| shared.is_file()) {
        Some(found) => Ok(found),
        None => bail!(
            "no libetw_capi.so or libopenetw.so.0 in {}; build it with `cargo build --release --package etw_capi`, or name its directory with --libraries",
            places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ")
        ),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write '{}'", path.display()))
}

/// Copies to a new file, so that running programs keep the old one.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let _ = fs::remove_file(to);
    fs::copy(from, to).with_context(|| format!("cannot copy '{}' to '{}'", from.display(), to.display()))?;
    Ok(())
}
