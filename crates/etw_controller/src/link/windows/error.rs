//! Errors of Windows as those of requests.

use std::io;

use etw_protocol::{ErrorKind, Failure};

use crate::ControllerError;

/// Returns the kind of an error of Windows (`winerror.h`).
pub(super) fn kind(error: &io::Error) -> ErrorKind {
    let Some(code) = error.raw_os_error() else {
        return match error.kind() {
            io::ErrorKind::Unsupported => ErrorKind::NotSupported,
            _ => ErrorKind::InvalidParameter,
        };
    };
    match code {
        5 | 1314 => ErrorKind::AccessDenied,
        // ERROR_ALREADY_EXISTS, ERROR_FILE_EXISTS
        183 | 80 => ErrorKind::AlreadyExists,
        // ERROR_WMI_INSTANCE_NOT_FOUND, ERROR_WMI_GUID_NOT_FOUND, ERROR_NOT_FOUND
        4201 | 4200 | 1168 => ErrorKind::NotFound,
        // ERROR_NO_SYSTEM_RESOURCES, ERROR_NOT_ENOUGH_MEMORY, ERROR_OUTOFMEMORY
        1450 | 8 | 14 => ErrorKind::NoSystemResources,
        // ERROR_INVALID_FUNCTION, ERROR_NOT_SUPPORTED, ERROR_CALL_NOT_IMPLEMENTED
        1 | 50 | 120 => ErrorKind::NotSupported,
        // Missing files and directories, sharing violations, full disks, invalid names and paths.
        2 | 3 | 32 | 39 | 110 | 112 | 123 | 161 | 206 => ErrorKind::File,
        _ => ErrorKind::InvalidParameter,
    }
}

/// Returns the error of a request, with what to do about it.
pub(super) fn refused(subject: &str, what: &str, error: &io::Error) -> ControllerError {
    let kind = kind(error);
    let reason = match kind {
        ErrorKind::AccessDenied => {
            "access is denied; it needs an administrator, or a member of the group Performance Log Users"
                .to_owned()
        }
        ErrorKind::AlreadyExists => "a session with this name or GUID exists already".to_owned(),
        ErrorKind::NotFound => "it does not exist".to_owned(),
        ErrorKind::NoSystemResources => {
            "no system resources; Windows runs at most 64 sessions, and one NT Kernel Logger".to_owned()
        }
        _ => reason(error),
    };
    let code = error.raw_os_error().map_or(0, i32::cast_unsigned);
    ControllerError::Windows { failure: Failure::new(kind, format!("{subject} {what}: {reason}")), code }
}

/// Returns the error of a request that Windows cannot carry out.
pub(super) fn unsupported(text: &str) -> ControllerError {
    ControllerError::Windows { failure: Failure::new(ErrorKind::NotSupported, text), code: 0 }
}

/// Returns the text of Windows for an error, in one line.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    text.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_kind_a_reason_and_a_code() {
        let check = |code: i32, kind: ErrorKind| {
            let error = refused("session 'S'", "cannot start", &io::Error::from_raw_os_error(code));
            assert_eq!(error.kind(), Some(kind));
            let text = error.to_string();
            assert!(text.starts_with("session 'S' cannot start: "), "{text}");
            assert!(text.ends_with(&format!("(Windows error {code})")) && !text.contains('\n'), "{text}");
        };
        check(5, ErrorKind::AccessDenied);
        check(183, ErrorKind::AlreadyExists);
        check(4201, ErrorKind::NotFound);
        check(1450, ErrorKind::NoSystemResources);
        check(87, ErrorKind::InvalidParameter);
        check(50, ErrorKind::NotSupported);
        check(161, ErrorKind::File);
    }
}
