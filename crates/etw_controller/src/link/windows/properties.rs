//! Properties and status of sessions, as Windows has them.

use etw_etl::LogFileMode;
use etw_event::FileTime;
use etw_protocol::{SessionClock, SessionProperties, SessionState, SessionStatus, SessionUpdate};
use etw_sys::Properties;

use super::lease;

/// `EVENT_TRACE_USE_MS_FLUSH_TIMER`: the flush timer is in milliseconds.
const MS_FLUSH_TIMER: u32 = 0x10;

/// Returns the properties to start a session with.
pub(super) fn wanted(properties: &SessionProperties) -> Properties {
    let (flush_timer, in_millis) = flush_timer(properties.flush_timer_millis);
    Properties {
        guid: properties.guid,
        client_context: properties.clock as u32,
        buffer_size: properties.buffer_size,
        minimum_buffers: properties.minimum_buffers,
        maximum_buffers: properties.maximum_buffers,
        maximum_file_size: properties.maximum_file_size,
        log_file_mode: properties.log_file_mode.0 | in_millis,
        flush_timer,
        flush_threshold: properties.flush_threshold,
        enable_flags: properties.enable_flags,
        logger_name: properties.logger_name.clone(),
        log_file_name: properties.log_file_name.clone(),
        ..Properties::default()
    }
}

/// Returns the properties of a session with changes, for an update.
pub(super) fn updated(now: Properties, update: &SessionUpdate) -> Properties {
    let mut new = Properties { log_file_name: String::new(), ..now };
    if let Some(buffers) = update.maximum_buffers {
        new.maximum_buffers = buffers;
    }
    if let Some(millis) = update.flush_timer_millis {
        let (timer, in_millis) = flush_timer(millis);
        new.flush_timer = timer;
        new.log_file_mode = new.log_file_mode & !MS_FLUSH_TIMER | in_millis;
    }
    if let Some(path) = &update.log_file_name {
        new.log_file_name.clone_from(path);
    }
    if let Some(is_real_time) = update.real_time {
        let bit = LogFileMode::REAL_TIME.0;
        new.log_file_mode = if is_real_time { new.log_file_mode | bit } else { new.log_file_mode & !bit };
    }
    if let Some(flags) = update.enable_flags {
        new.enable_flags = flags;
    }
    new
}

/// Returns the number of a session, as events and registrations have it.
pub(super) fn logger_id(handle: u64) -> u16 {
    handle as u16
}

/// Returns the status of a session. What Windows does not count is 0.
pub(super) fn status(found: &Properties, state: SessionState) -> SessionStatus {
    let owner = lease::owner(&found.guid);
    SessionStatus {
        logger_id: logger_id(found.handle),
        state,
        number_of_buffers: found.number_of_buffers,
        free_buffers: found.free_buffers,
        events_lost: found.events_lost.into(),
        events_written: 0,
        buffers_written: found.buffers_written.into(),
        log_buffers_lost: found.log_buffers_lost.into(),
        log_events_lost: 0,
        real_time_buffers_lost: found.real_time_buffers_lost.into(),
        real_time_events_lost: 0,
        bytes_written: u64::from(found.buffers_written) * u64::from(found.buffer_size) * 1024,
        logger_thread_id: found.logger_thread_id,
        start_time: FileTime(0),
        owner_uid: 0,
        owner_pid: owner.unwrap_or(0),
        leased: owner.is_some(),
        consumers: 0,
        processes: 0,
        enabled_providers: 0,
        last_error: String::new(),
        system_missing: Vec::new(),
        events_refused: 0,
        users: Vec::new(),
        properties: session_properties(found),
    }
}

/// Returns the properties of a session of Windows.
pub(super) fn session_properties(found: &Properties) -> SessionProperties {
    let in_millis = found.log_file_mode & MS_FLUSH_TIMER != 0;
    SessionProperties {
        logger_name: found.logger_name.clone(),
        guid: found.guid,
        buffer_size: found.buffer_size,
        minimum_buffers: found.minimum_buffers,
        maximum_buffers: found.maximum_buffers,
        maximum_file_size: found.maximum_file_size,
        log_file_mode: LogFileMode(found.log_file_mode & !MS_FLUSH_TIMER),
        flush_timer_millis: found.flush_timer.saturating_mul(if in_millis { 1 } else { 1000 }),
        flush_threshold: found.flush_threshold,
        clock: match found.client_context {
            2 => SessionClock::SystemTime,
            3 => SessionClock::CpuCycle,
            _ => SessionClock::Qpc,
        },
        enable_flags: found.enable_flags,
        stack_tracing: Vec::new(),
        sample_interval: 0,
        log_file_name: found.log_file_name.clone(),
    }
}

/// Returns the timer in seconds if possible, since older versions of Windows know no other; and the bit for the mode.
fn flush_timer(millis: u32) -> (u32, u32) {
    if millis.is_multiple_of(1000) { (millis / 1000, 0) } else { (millis, MS_FLUSH_TIMER) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_come_back_in_the_status() {
        let asked = SessionProperties {
            logger_name: "S".to_owned(),
            flush_timer_millis: 1500,
            log_file_mode: LogFileMode::REAL_TIME,
            clock: SessionClock::SystemTime,
            ..SessionProperties::default()
        };
        let wanted = wanted(&asked);
        assert_eq!((wanted.flush_timer, wanted.client_context), (1500, 2));
        assert_eq!(status(&wanted, SessionState::Running).properties, asked);
        let update =
            SessionUpdate { flush_timer_millis: Some(2000), real_time: Some(false), ..Default::default() };
        let changed = updated(wanted, &update);
        assert_eq!((changed.flush_timer, changed.log_file_mode), (2, 0));
    }
}
