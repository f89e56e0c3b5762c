//! Settings of a prefix, made with Wine's own program.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::functions::DLLS;

/// Time limit for Wine; a prefix of another version is updated first.
const PATIENCE: Duration = Duration::from_secs(120);

/// The class of `ITraceRelogger` (relogger.h).
const RELOGGER: &str = "HKEY_LOCAL_MACHINE\\Software\\Classes\\CLSID\\{7b40792d-05ff-44c4-9058-f440c71f17d4}";
const OVERRIDES: &str = "HKEY_CURRENT_USER\\Software\\Wine\\DllOverrides";

/// Makes Wine prefer the DLLs in the prefix to its own.
pub(super) fn add(prefix: &Path) -> io::Result<()> {
    let overrides: String = DLLS.iter().map(|dll| format!("\"{dll}\"=\"native,builtin\"\n")).collect();
    let server = "@=\"C:\\\\windows\\\\system32\\\\etw_win32.dll\"\n\"ThreadingModel\"=\"Both\"\n";
    merge(
        prefix,
        &format!(
            "[{OVERRIDES}]\n{overrides}\n[{RELOGGER}]\n@=\"TraceRelogger\"\n\n[{RELOGGER}\\InprocServer32]\n{server}"
        ),
    )
}

/// Undoes [`add`].
pub(super) fn remove(prefix: &Path) -> io::Result<()> {
    let overrides: String = DLLS.iter().map(|dll| format!("\"{dll}\"=-\n")).collect();
    merge(prefix, &format!("[{OVERRIDES}]\n{overrides}\n[-{RELOGGER}]\n"))
}

/// Merges keys into the registry.
fn merge(prefix: &Path, keys: &str) -> io::Result<()> {
    let file = prefix.join("drive_c/windows/temp/openetw.reg");
    fs::create_dir_all(file.parent().unwrap_or(prefix))?;
    fs::write(&file, format!("REGEDIT4\n\n{keys}"))?;
    let done = regedit(prefix);
    let _ = fs::remove_file(file);
    done
}

fn regedit(prefix: &Path) -> io::Result<()> {
    let program = std::env::var_os("WINE").unwrap_or_else(|| OsString::from("wine"));
    let mut command = Command::new(&program);
    command.args(["regedit", "/S", "C:\\windows\\temp\\openetw.reg"]);
    command.env("WINEPREFIX", prefix).env("WINEDEBUG", "-all");
    // Neither .NET nor HTML is offered for installation if the prefix is updated.
    command.env("WINEDLLOVERRIDES", "mscoree,mshtml=");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return match status.success() {
                true => Ok(()),
                false => Err(io::Error::other(format!("regedit: {status}"))),
            };
        }
        if Instant::now() > until {
            child.kill()?;
            child.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
