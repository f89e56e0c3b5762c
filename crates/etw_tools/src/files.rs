//! Input checks, symbol files of programs, output files, and the directory of the tools' own files.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use etw_app::status::{Failed, code};
use etw_app::{output, pipes};
use openetw::export::PlainWriter;

/// Fails if a trace does not exist or cannot be accessed.
pub(crate) fn check_inputs(files: &[PathBuf]) -> Result<()> {
    for file in files.iter().filter(|file| !pipes::is_standard_input(file)) {
        if let Err(error) = std::fs::metadata(file) {
            let code = match error.kind() {
                std::io::ErrorKind::PermissionDenied => code::ACCESS_DENIED,
                _ => code::FILE_NOT_FOUND,
            };
            return Err(Failed::new(code, format!("{}: {error}", file.display())).into());
        }
    }
    Ok(())
}

/// Returns the symbol file of a program: from one of the directories, or from the program's own.
pub(crate) fn symbols_of(image: &Path, directories: &[PathBuf]) -> Result<PathBuf> {
    let name = image.with_extension("pdb");
    let in_directories = directories.iter().filter_map(|directory| Some(directory.join(name.file_name()?)));
    let mut places = in_directories.chain([name.clone()]);
    places.find(|place| place.exists()).ok_or_else(|| {
        let text =
            format!("{}: its symbol file is neither beside it nor in the directories of -r", image.display());
        Failed::new(code::FILE_NOT_FOUND, text).into()
    })
}

/// Writes a file of text, in which what could disrupt a terminal is escaped; errors name it.
pub(crate) fn write(path: &Path, text: &[u8]) -> Result<()> {
    let mut out = PlainWriter::new(output::create(path)?);
    out.write_all(text).with_context(|| format!("{}: cannot be written", path.display()))
}

/// Returns the directory of the tools' saved data: `openetw` in the user's application data.
#[cfg(windows)]
pub(crate) fn config_directory() -> Result<PathBuf> {
    let data = std::env::var_os("APPDATA").map(PathBuf::from).filter(|path| path.is_absolute());
    Ok(data.context("no directory of application data; set APPDATA")?.join("openetw"))
}

/// Returns the directory of the tools' saved data: `openetw` in the configuration directory (`XDG_CONFIG_HOME`, else
/// `~/.config`).
#[cfg(target_os = "linux")]
pub(crate) fn config_directory() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| home.join(".config")));
    let missing = || anyhow::anyhow!("no configuration directory; set XDG_CONFIG_HOME or HOME");
    Ok(config.ok_or_else(missing)?.join("openetw"))
}
