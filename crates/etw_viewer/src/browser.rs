//! Opening the page in the user's browser.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

/// Returns whether this session has a desktop on which a browser can open a window.
#[must_use]
pub fn has_desktop() -> bool {
    if !cfg!(target_os = "linux") {
        return true;
    }
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")) && !is_set("SSH_CONNECTION")
}

/// Opens a URL in the user's browser, by a file that leads to it: other users can see the arguments of a program, but not
/// read the file, which must be kept until the browser has.
///
/// # Errors
///
/// Fails if the file cannot be written, or if no program can open it.
pub fn open_browser(url: &str) -> Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("etw-view-").suffix(".html").tempfile()?;
    write!(
        file,
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={url}\"><a href=\"{url}\">Open</a>"
    )?;
    file.flush()?;
    let mut command = if cfg!(target_os = "windows") {
        let mut command = Command::new("cmd");
        command.args(["/C", "start", ""]);
        command
    } else if cfg!(target_os = "macos") {
        Command::new("open")
    } else {
        Command::new("xdg-open")
    };
    let command = command.arg(file.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().context("cannot open a browser")?;
    // The program ends at once, or with the browser.
    std::thread::Builder::new().name("browser".to_owned()).spawn(move || child.wait())?;
    Ok(file)
}
