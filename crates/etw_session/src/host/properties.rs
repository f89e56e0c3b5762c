//! Checks of a session's properties, and their defaults.

use std::path::Path;

use etw_etl::LogFileMode;
use etw_event::Guid;
use etw_protocol::limits::BUFFER_SIZE_KIB;
use etw_protocol::{ErrorKind, Failure, SessionProperties};

/// Default maximum of a session's buffer memory in KiB: 90 ms of events at 15 million events a second. Only what is
/// needed is allocated.
const DEFAULT_MAXIMUM_KIB: u32 = 128 << 10;
/// Default of the flush timer in milliseconds.
const DEFAULT_FLUSH_TIMER_MILLIS: u32 = 1000;
/// Upper limit of a session's buffer memory in bytes.
const MAX_BUFFER_BYTES: u64 = 16 << 30;

/// Checks the properties of a new session and fills in the defaults. `has_file` means that the starter has opened the
/// file itself, `is_private` that only this process can reach the host, `has_system` that the host provides system events.
///
/// Fails with `InvalidParameter` and the property's name, or with `NotSupported`.
pub(super) fn complete(
    mut properties: SessionProperties,
    has_file: bool,
    is_private: bool,
    has_system: bool,
    processors: u32,
) -> Result<SessionProperties, Failure> {
    let p = &mut properties;
    const PRIVATE: LogFileMode = LogFileMode::PRIVATE_LOGGER.union(LogFileMode::PRIVATE_IN_PROC);
    if is_private {
        p.log_file_mode |= PRIVATE;
    } else if p.log_file_mode.intersects(PRIVATE) {
        let text = "log_file_mode has PRIVATE_LOGGER or PRIVATE_IN_PROC: private sessions live in the program itself";
        return Err(Failure::new(ErrorKind::NotSupported, text));
    }
    let mode = p.log_file_mode;
    if p.logger_name.trim().is_empty() {
        return Err(invalid("logger_name", "a session needs a name"));
    }
    if !BUFFER_SIZE_KIB.contains(&p.buffer_size) {
        return Err(invalid("buffer_size", format!("{} KiB is not between 4 and 16384", p.buffer_size)));
    }
    fill(&mut p.minimum_buffers, (2 * processors).max(2));
    let default_maximum = (DEFAULT_MAXIMUM_KIB / p.buffer_size).max(p.minimum_buffers.saturating_add(20));
    fill(&mut p.maximum_buffers, default_maximum);
    if p.maximum_buffers < 2 {
        return Err(invalid("maximum_buffers", "a session needs at least 2 buffers"));
    }
    // Like ETW, take the smaller number if the minimum is a default.
    if p.minimum_buffers > p.maximum_buffers {
        if p.minimum_buffers > 2 * processors {
            let text = format!("{} is more than maximum_buffers {}", p.minimum_buffers, p.maximum_buffers);
            return Err(invalid("minimum_buffers", text));
        }
        p.minimum_buffers = p.maximum_buffers;
    }
    if u64::from(p.maximum_buffers) * u64::from(p.buffer_size) * 1024 > MAX_BUFFER_BYTES {
        return Err(invalid("maximum_buffers", "the buffers would have more than 16 GiB"));
    }
    fill(&mut p.flush_timer_millis, DEFAULT_FLUSH_TIMER_MILLIS);
    if p.guid.is_zero() {
        p.guid = new_guid();
    }
    if mode.contains(LogFileMode::SYSTEM_LOGGER) && !has_system {
        let text = "log_file_mode has SYSTEM_LOGGER: this host does not provide system events";
        return Err(Failure::new(ErrorKind::NotSupported, text));
    }
    check_mode(mode)?;
    check_file(p, has_file)?;
    Ok(properties)
}

/// Checks that the modes can be combined.
fn check_mode(mode: LogFileMode) -> Result<(), Failure> {
    for (bit, name) in [
        (LogFileMode::NON_STOPPABLE, "NON_STOPPABLE"),
        (LogFileMode::ADD_TO_TRIAGE_DUMP, "ADD_TO_TRIAGE_DUMP"),
    ] {
        if mode.contains(bit) {
            return Err(Failure::new(ErrorKind::NotSupported, format!("log_file_mode has {name}")));
        }
    }
    const PAIRS: [(LogFileMode, LogFileMode, &str); 10] = [
        // As in ETW; the program knows its own events already.
        (LogFileMode::PRIVATE_IN_PROC, LogFileMode::REAL_TIME, "PRIVATE_IN_PROC and REAL_TIME"),
        (LogFileMode::SEQUENTIAL, LogFileMode::CIRCULAR, "SEQUENTIAL and CIRCULAR"),
        (LogFileMode::SEQUENTIAL, LogFileMode::NEW_FILE, "SEQUENTIAL and NEW_FILE"),
        (LogFileMode::CIRCULAR, LogFileMode::NEW_FILE, "CIRCULAR and NEW_FILE"),
        (LogFileMode::APPEND, LogFileMode::CIRCULAR, "APPEND and CIRCULAR"),
        (LogFileMode::APPEND, LogFileMode::NEW_FILE, "APPEND and NEW_FILE"),
        (LogFileMode::APPEND, LogFileMode::REAL_TIME, "APPEND and REAL_TIME"),
        (LogFileMode::APPEND, LogFileMode::PREALLOCATE, "APPEND and PREALLOCATE"),
        (LogFileMode::BUFFERING, LogFileMode::REAL_TIME, "BUFFERING and REAL_TIME"),
        (LogFileMode::BUFFERING, LogFileMode::CIRCULAR, "BUFFERING and CIRCULAR"),
    ];
    match PAIRS.iter().find(|(one, other, _)| mode.contains(*one) && mode.contains(*other)) {
        Some((_, _, names)) => Err(invalid("log_file_mode", format!("{names} exclude each other"))),
        None => Ok(()),
    }
}

/// Checks that the file's name and size match the mode.
fn check_file(p: &SessionProperties, has_file: bool) -> Result<(), Failure> {
    let mode = p.log_file_mode;
    if p.log_file_name.is_empty() && !has_file {
        if mode.contains(LogFileMode::REAL_TIME) || mode.contains(LogFileMode::BUFFERING) {
            return Ok(());
        }
        return Err(invalid("log_file_name", "a session needs a file, or the mode REAL_TIME or BUFFERING"));
    }
    check_path("log_file_name", &p.log_file_name, has_file)?;
    let needs_size = [LogFileMode::CIRCULAR, LogFileMode::NEW_FILE, LogFileMode::PREALLOCATE];
    if p.maximum_file_size == 0 && needs_size.iter().any(|bit| mode.contains(*bit)) {
        let text = "CIRCULAR, NEW_FILE and PREALLOCATE need a size";
        return Err(invalid("maximum_file_size", text));
    }
    if mode.contains(LogFileMode::NEW_FILE) {
        if has_file {
            let text = "NEW_FILE creates files, which this host does for its own user only";
            return Err(Failure::new(ErrorKind::NotSupported, text));
        }
        if !p.log_file_name.contains("%d") {
            return Err(invalid(
                "log_file_name",
                "NEW_FILE needs %d in the name, for the number of the file",
            ));
        }
    }
    Ok(())
}

/// Checks that the host can open a path: it does not know the client's working directory.
pub(crate) fn check_path(field: &str, path: &str, has_file: bool) -> Result<(), Failure> {
    if has_file || Path::new(path).is_absolute() {
        return Ok(());
    }
    Err(invalid(field, format!("'{path}' is not absolute")))
}

pub(crate) fn invalid(field: &str, text: impl Into<String>) -> Failure {
    Failure::new(ErrorKind::InvalidParameter, format!("invalid parameter {field}: {}", text.into()))
}

fn fill(value: &mut u32, default: u32) {
    if *value == 0 {
        *value = default;
    }
}

/// Returns a random GUID (version 4) from the kernel's random numbers.
fn new_guid() -> Guid {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    text.trim().parse().unwrap_or(Guid::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_the_host_is_filled_in() {
        let given = SessionProperties {
            logger_name: "S".into(),
            log_file_name: "/tmp/s.etl".into(),
            ..SessionProperties::default()
        };
        let done = complete(given.clone(), false, false, false, 4).unwrap();
        assert_eq!((done.minimum_buffers, done.maximum_buffers, done.flush_timer_millis), (8, 2048, 1000));
        assert!(!done.guid.is_zero());
        let few = SessionProperties { maximum_buffers: 4, ..given };
        assert_eq!(complete(few, false, false, false, 4).unwrap().minimum_buffers, 4);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let check = |change: &dyn Fn(&mut SessionProperties), expected: &str| {
            let mut properties = SessionProperties {
                logger_name: "S".into(),
                log_file_name: "/tmp/s.etl".into(),
                ..SessionProperties::default()
            };
            change(&mut properties);
            let failure = complete(properties, false, false, false, 2).unwrap_err();
            assert!(failure.text.contains(expected), "{failure} / {expected}");
        };
        check(&|p| p.logger_name = " ".into(), "logger_name");
        check(&|p| p.buffer_size = 3, "buffer_size: 3 KiB is not between 4 and 16384");
        check(&|p| p.buffer_size = 16385, "buffer_size");
        check(&|p| (p.minimum_buffers, p.maximum_buffers) = (20, 10), "minimum_buffers: 20 is more than");
        check(&|p| p.maximum_buffers = 1, "maximum_buffers");
        check(&|p| p.maximum_buffers = u32::MAX, "more than 16 GiB");
        check(&|p| p.log_file_name = "s.etl".into(), "log_file_name: 's.etl' is not absolute");
        check(&|p| p.log_file_name = String::new(), "log_file_name: a session needs a file");
        check(&|p| p.log_file_mode = LogFileMode::CIRCULAR, "maximum_file_size");
        check(&|p| p.log_file_mode = LogFileMode(0x3), "SEQUENTIAL and CIRCULAR exclude each other");
        check(&|p| p.log_file_mode = LogFileMode::SYSTEM_LOGGER, "SYSTEM_LOGGER: this host does not provide");
        let new_file = |p: &mut SessionProperties| {
            (p.log_file_mode, p.maximum_file_size) = (LogFileMode::NEW_FILE, 1);
        };
        check(&new_file, "NEW_FILE needs %d");
    }
}
