//! Exit codes of the tools: Windows error codes, of which a process on Linux returns the lowest byte.

use std::fmt;
use std::io;

use openetw::relog::RelogError;
use openetw::{InputError, TraceError};

use crate::UsageError;

/// Codes of `winerror.h` and `pla.h`, without the prefix `ERROR_`.
pub mod code {
    /// `ERROR_FILE_NOT_FOUND`.
    pub const FILE_NOT_FOUND: u32 = 2;
    /// `ERROR_PATH_NOT_FOUND`.
    pub const PATH_NOT_FOUND: u32 = 3;
    /// `ERROR_ACCESS_DENIED`.
    pub const ACCESS_DENIED: u32 = 5;
    /// `ERROR_GEN_FAILURE`.
    pub const GEN_FAILURE: u32 = 31;
    /// `ERROR_NOT_SUPPORTED`.
    pub const NOT_SUPPORTED: u32 = 50;
    /// `ERROR_FILE_EXISTS`.
    pub const FILE_EXISTS: u32 = 80;
    /// `ERROR_INVALID_PARAMETER`.
    pub const INVALID_PARAMETER: u32 = 87;
    /// `ERROR_DISK_FULL`.
    pub const DISK_FULL: u32 = 112;
    /// `ERROR_ALREADY_EXISTS`.
    pub const ALREADY_EXISTS: u32 = 183;
    /// `ERROR_NO_SYSTEM_RESOURCES`.
    pub const NO_SYSTEM_RESOURCES: u32 = 1450;
    /// `ERROR_WMI_GUID_NOT_FOUND`.
    pub const GUID_NOT_FOUND: u32 = 4200;
    /// `ERROR_WMI_INSTANCE_NOT_FOUND`: no session of this name.
    pub const INSTANCE_NOT_FOUND: u32 = 4201;
    /// `ERROR_NOT_FOUND`.
    pub const NOT_FOUND: u32 = 1168;
    /// The code of `wpr` for a file that is not a valid recording profile.
    pub const PROFILE_SCHEMA: u32 = 0xC558_0701;
    /// Code of `wpr` for profiles that request no events.
    pub const NO_PROVIDERS: u32 = 0xC558_0612;
    /// Code of `wpr` when it is not recording.
    pub const NOT_RECORDING: u32 = 0xC558_3000;
    /// Code of `wpr` when it is already recording.
    pub const ALREADY_RECORDING: u32 = 0xC558_3001;
    /// `PLA_E_DCS_NOT_FOUND`: no data collector set of this name.
    pub const SET_NOT_FOUND: u32 = 0x8030_0002;
    /// `PLA_E_DCS_IN_USE`.
    pub const SET_IN_USE: u32 = 0x8030_00AA;
    /// `PLA_E_DCS_ALREADY_EXISTS`.
    pub const SET_EXISTS: u32 = 0x8030_00B7;
    /// `PLA_E_DCS_NOT_RUNNING`.
    pub const SET_NOT_RUNNING: u32 = 0x8030_0104;
}

/// A failure of a tool, with the Windows error code.
#[derive(Debug)]
pub struct Failed {
    /// The Windows error code, one of [`code`](mod@code).
    pub code: u32,
    /// What failed, in one line.
    pub text: String,
}

impl Failed {
    /// Creates a failure with a code.
    pub fn new(code: u32, text: impl Into<String>) -> Failed {
        Failed { code, text: text.into() }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failed {}

/// Creates the error for an invalid command line.
pub fn usage(text: impl fmt::Display) -> anyhow::Error {
    Failed::new(code::INVALID_PARAMETER, text.to_string()).into()
}

/// Returns the Windows error code of an error.
pub fn code_of(error: &anyhow::Error) -> u32 {
    if let Some(failed) = error.downcast_ref::<Failed>() {
        return failed.code;
    }
    #[cfg(any(target_os = "linux", windows))]
    if let Some(code) = session::code_of(error) {
        return code;
    }
    if let Some(code) = error.downcast_ref().and_then(of_trace) {
        return code;
    }
    if let Some(RelogError::Trace(error)) = error.downcast_ref()
        && let Some(code) = of_trace(error)
    {
        return code;
    }
    match error.is::<UsageError>() {
        true => code::INVALID_PARAMETER,
        false => error.downcast_ref().map_or(code::GEN_FAILURE, of_io),
    }
}

/// Returns the exit status for a code: its lowest byte, as a shell sees it, but never 0.
pub fn exit_status(code: u32) -> u8 {
    match code as u8 {
        0 => 1,
        byte => byte,
    }
}

fn of_trace(error: &TraceError) -> Option<u32> {
    match error {
        TraceError::Session(_) => Some(code::INSTANCE_NOT_FOUND),
        TraceError::Input(InputError::Io { source, .. }) => Some(of_io(source)),
        _ => None,
    }
}

fn of_io(error: &io::Error) -> u32 {
    match error.kind() {
        io::ErrorKind::NotFound => code::FILE_NOT_FOUND,
        io::ErrorKind::PermissionDenied => code::ACCESS_DENIED,
        io::ErrorKind::AlreadyExists => code::FILE_EXISTS,
        io::ErrorKind::StorageFull => code::DISK_FULL,
        _ => code::GEN_FAILURE,
    }
}

/// Codes of the errors that hosts return.
#[cfg(any(target_os = "linux", windows))]
mod session {
    use openetw::kernel::FlagError;
    use openetw::session::{ControllerError, ErrorKind, RuntimeError};

    use super::{code, of_io};

    pub(super) fn code_of(error: &anyhow::Error) -> Option<u32> {
        if let Some(RuntimeError::Controller(error)) = error.downcast_ref() {
            return Some(of_controller(error));
        }
        if let Some(error) = error.downcast_ref() {
            return Some(match error {
                FlagError::Refused { .. } => code::NOT_SUPPORTED,
                _ => code::INVALID_PARAMETER,
            });
        }
        error.downcast_ref().map(of_controller)
    }

    fn of_controller(error: &ControllerError) -> u32 {
        match error {
            ControllerError::Refused(failure) => of_kind(failure.kind),
            #[cfg(windows)]
            ControllerError::Windows { failure, code: 0 } => of_kind(failure.kind),
            #[cfg(windows)]
            ControllerError::Windows { code, .. } => *code,
            ControllerError::File { error, .. } => of_io(error),
            ControllerError::NoHost { .. } => code::INSTANCE_NOT_FOUND,
            ControllerError::KeywordName { .. } => code::INVALID_PARAMETER,
            _ => code::GEN_FAILURE,
        }
    }

    fn of_kind(kind: ErrorKind) -> u32 {
        match kind {
            ErrorKind::AlreadyExists => code::ALREADY_EXISTS,
            ErrorKind::NotFound => code::INSTANCE_NOT_FOUND,
            ErrorKind::AccessDenied => code::ACCESS_DENIED,
            ErrorKind::NoSystemResources => code::NO_SYSTEM_RESOURCES,
            ErrorKind::InvalidParameter | ErrorKind::Malformed => code::INVALID_PARAMETER,
            ErrorKind::NotSupported => code::NOT_SUPPORTED,
            ErrorKind::File => code::PATH_NOT_FOUND,
            _ => code::GEN_FAILURE,
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn errors_have_codes_and_statuses() {
        let check = |error: anyhow::Error, code: u32, status: u8| {
            assert_eq!((code_of(&error), exit_status(code_of(&error))), (code, status), "{error}");
        };
        check(Failed::new(code::SET_NOT_FOUND, "").into(), 0x8030_0002, 2);
        check(UsageError(String::new()).into(), 87, 87);
        check(io::Error::from(io::ErrorKind::PermissionDenied).into(), 5, 5);
        check(io::Error::from(io::ErrorKind::StorageFull).into(), 112, 112);
        check(anyhow!("other"), 31, 31);
        let source = || io::Error::from(io::ErrorKind::NotFound);
        let no_file = || TraceError::from(InputError::Io { path: "no.etl".into(), source: source() });
        check(no_file().into(), 2, 2);
        check(RelogError::from(no_file()).into(), 2, 2);
        #[cfg(target_os = "linux")]
        {
            use openetw::session::{ControllerError, ErrorKind, Failure};
            check(ControllerError::Refused(Failure::new(ErrorKind::NotFound, "")).into(), 4201, 105);
        }
        assert_eq!(exit_status(0x100), 1);
    }
}
