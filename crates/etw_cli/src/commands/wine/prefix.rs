//! Installation in a prefix, and its removal.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow, bail};

use super::forwarder::{self, Export};
use super::functions::{DLLS, functions_of};
use super::registry;

/// The library, and the file that names `etw`.
const LIBRARY: &str = "etw_win32";
/// A DLL that Wine 8 lacks.
const RANDOM: &str = "bcryptprimitives.dll";

/// Makes programs in a prefix use OpenETW: the library that `etw_win32` is built as, with the program `etw` as the host of
/// their sessions. A second installation replaces the first.
///
/// # Errors
///
/// Fails if the prefix is none for x86-64, its files cannot be changed, or Wine does not run.
pub(super) fn install(prefix: &Path, library: &Path, etw: &Path) -> Result<()> {
    let (prefix, system) = open(prefix)?;
    // Wine updates only DLLs of its own, when the next program starts after its update.
    restore(&system)?;
    registry::add(&prefix)
        .map_err(|error| anyhow!("cannot change the registry of the prefix with `wine regedit`: {error}"))?;
    let installed = system.join(LIBRARY).with_extension("dll");
    let _ = fs::remove_file(&installed);
    fs::copy(library, &installed).map_err(failed("copy to", &installed))?;
    let path = installed.with_extension("path");
    let etw = format!("{}\n", etw.display());
    fs::write(&path, etw).map_err(failed("write", &path))?;
    for dll in DLLS {
        forward(&system, dll)?;
    }
    let random = system.join(RANDOM);
    if !random.exists() {
        let export = Export {
            ordinal: 1,
            name: Some("ProcessPrng".into()),
            target: "advapi32.SystemFunction036".into(),
        };
        write(&random, &[export])?;
    }
    Ok(())
}

/// Undoes [`install`]; does nothing to a prefix without an installation.
///
/// # Errors
///
/// Fails if the prefix is none for x86-64, its files cannot be changed, or Wine does not run.
pub(super) fn remove(prefix: &Path) -> Result<()> {
    let (prefix, system) = open(prefix)?;
    restore(&system)?;
    let random = system.join(RANDOM);
    if is_forwarder(&random)? {
        delete(&random)?;
    }
    for extension in ["dll", "path"] {
        delete(&system.join(LIBRARY).with_extension(extension))?;
    }
    registry::remove(&prefix)
        .map_err(|error| anyhow!("cannot change the registry of the prefix with `wine regedit`: {error}"))
}

/// Returns the prefix's absolute path, and its system directory.
fn open(prefix: &Path) -> Result<(PathBuf, PathBuf)> {
    let not_a_prefix = || {
        let prefix = prefix.display();
        anyhow!("'{prefix}' is not a Wine prefix; `WINEPREFIX={prefix} wineboot -i` makes one")
    };
    let real = prefix.canonicalize().map_err(|_| not_a_prefix())?;
    let system = real.join("drive_c/windows/system32");
    let registry = fs::read(real.join("system.reg")).map_err(|_| not_a_prefix())?;
    if !system.is_dir() {
        return Err(not_a_prefix());
    }
    if registry.windows(11).take(4096).any(|text| text == b"#arch=win32") {
        bail!(
            "'{}' is a prefix for programs of 32 bits; OpenETW needs one with WINEARCH=win64",
            real.display()
        );
    }
    Ok((real, system))
}

fn places(system: &Path, dll: &str) -> (PathBuf, PathBuf) {
    (system.join(format!("{dll}.dll")), system.join(format!("wine{dll}.dll")))
}

/// Puts Wine's DLLs back in their places.
fn restore(system: &Path) -> Result<()> {
    for dll in DLLS {
        let (own, renamed) = places(system, dll);
        if !is_forwarder(&own)? {
            delete(&renamed)?;
        } else if renamed.exists() {
            fs::rename(&renamed, &own).map_err(failed("restore", &own))?;
        } else {
            delete(&own)?;
        }
    }
    Ok(())
}

/// Renames a DLL of Wine, and puts one in its place that forwards.
fn forward(system: &Path, dll: &str) -> Result<()> {
    let (own, renamed) = places(system, dll);
    fs::rename(&own, &renamed).map_err(failed("rename", &own))?;
    let bytes = fs::read(&renamed).map_err(failed("read", &renamed))?;
    let mut exports = forwarder::exports_to(&bytes, &format!("wine{dll}"))
        .map_err(|reason| anyhow!("'{}': {reason}", renamed.display()))?;
    forwarder::redirect(&mut exports, functions_of(dll), LIBRARY);
    write(&own, &exports)
}

fn write(path: &Path, exports: &[Export]) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let bytes =
        forwarder::encode(&name, exports).map_err(|reason| anyhow!("'{}': {reason}", path.display()))?;
    let _ = fs::remove_file(path);
    fs::write(path, bytes).map_err(failed("write", path))
}

/// Returns whether a file is a DLL of an installation; `false` if there is none.
fn is_forwarder(path: &Path) -> Result<bool> {
    match fs::read(path) {
        Ok(bytes) => Ok(forwarder::is_forwarder(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed("read", path)(error)),
    }
}

fn delete(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |error| anyhow!("cannot {action} '{}': {error}", path.display())
}
