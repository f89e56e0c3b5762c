//! Detection of Windows paths pasted into command lines of other systems.

use std::ffi::OsString;

use anyhow::Result;

use crate::status::{Failed, code};

/// Returns the path of a file, and on systems other than Windows rejects its paths, which would create oddly named files
/// there.
///
/// # Errors
///
/// Fails if the text is a Windows path; the error suggests a path for this system.
pub fn path(text: &str) -> Result<OsString> {
    if cfg!(windows) {
        return Ok(text.into());
    }
    let mut first = text.chars();
    let has_drive = first.next().is_some_and(|letter| letter.is_ascii_alphabetic())
        && first.next() == Some(':')
        && first.next().is_some();
    let is_of_windows =
        has_drive || text.contains('\\') || (text.starts_with('%') && text.matches('%').count() > 1);
    if !is_of_windows {
        return Ok(text.into());
    }
    // If a shell removed the backslashes, the file name cannot be recovered.
    let name =
        text.rsplit(['\\', ':', '%', '/']).next().filter(|name| !name.is_empty()).unwrap_or("trace.etl");
    Err(Failed::new(
        code::PATH_NOT_FOUND,
        format!("'{text}' is a Windows path; use a path of this system, such as {name} or /tmp/{name}"),
    )
    .into())
}

#[cfg(all(test, not(windows)))]
mod tests {
    use super::*;

    #[test]
    fn paths_of_windows_are_told_what_to_be() {
        let check = |text: &str, hint: &str| {
            let error = path(text).expect_err(text).to_string();
            assert!(error.contains(&format!("such as {hint} or /tmp/{hint}")), "{error}");
        };
        check(r"c:\trace.etl", "trace.etl");
        check("c:trace.etl", "trace.etl");
        check(r"C:\Perf Logs\a.etl", "a.etl");
        check(r"\\server\share\a.etl", "a.etl");
        check(r"logs\a.etl", "a.etl");
        check("%TEMP%a.etl", "a.etl");
        check("C:/x/a.etl", "a.etl");
        check(r"c:\", "trace.etl");
        for text in ["trace.etl", "/tmp/a b.etl", "part%d.etl", "50%.etl", "x", "c:"] {
            assert_eq!(path(text).unwrap(), text, "{text}");
        }
    }
}
