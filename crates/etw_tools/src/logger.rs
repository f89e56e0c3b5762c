//! A session as shown by `xperf -loggers` and `tracelog -q`.

use etw_app::providers::Known;
use openetw::kernel::EnableFlags;
use openetw::session::{EnableStatus, LogFileMode, SessionStatus};

/// Returns the rows that both tools show, with their labels.
pub(super) fn rows(status: &SessionStatus) -> Vec<(&'static str, String)> {
    let p = &status.properties;
    let unit = if p.log_file_mode.contains(LogFileMode::KBYTES_FOR_SIZE) { "Kb" } else { "Mb" };
    vec![
        ("Logger Name", p.logger_name.clone()),
        ("Logger Id", status.logger_id.to_string()),
        ("Logger Thread Id", format!("{:#x}", status.logger_thread_id)),
        ("Buffer Size", format!("{} Kb", p.buffer_size)),
        ("Maximum Buffers", p.maximum_buffers.to_string()),
        ("Minimum Buffers", p.minimum_buffers.to_string()),
        ("Number of Buffers", status.number_of_buffers.to_string()),
        ("Free Buffers", status.free_buffers.to_string()),
        ("Buffers Written", status.buffers_written.to_string()),
        ("Events Lost", (status.events_lost + status.log_events_lost).to_string()),
        ("Log Buffers Lost", status.log_buffers_lost.to_string()),
        ("Real Time Buffers Lost", status.real_time_buffers_lost.to_string()),
        ("Flush Timer", (f64::from(p.flush_timer_millis) / 1000.0).to_string()),
        ("Log File Mode", modes(p.log_file_mode)),
        ("Maximum File Size", format!("{} {unit}", p.maximum_file_size)),
        ("Log Filename", p.log_file_name.clone()),
    ]
}

fn modes(mode: LogFileMode) -> String {
    let squeezed = |name: &str| {
        let parts = name.split('_').map(|part| {
            let (first, rest) = part.split_at(1);
            format!("{first}{}", rest.to_lowercase())
        });
        parts.collect::<String>()
    };
    let names: Vec<String> = mode.iter_names().map(|(name, _)| squeezed(name)).collect();
    if names.is_empty() { "Sequential".to_owned() } else { names.join(" ") }
}

/// Returns xperf's names of kernel flags, without duplicates.
pub(super) fn flags(flags: u32) -> String {
    let mut names: Vec<&str> = Vec::new();
    for flag in EnableFlags::KNOWN.iter().filter(|flag| flags & flag.bit != 0) {
        let name = if flag.xperf.is_empty() { flag.name } else { flag.xperf };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join("+")
}

/// Returns the providers of a session in xperf's syntax: `"Name":0xFLAGS:0xLEVEL`.
pub(super) fn providers(enables: &[EnableStatus], known: &Known) -> Vec<String> {
    let name = |enabled: &EnableStatus| {
        let registered = Some(enabled.name.clone()).filter(|name| !name.is_empty());
        registered.or_else(|| known.name_of(enabled.provider)).unwrap_or_else(|| enabled.provider.to_string())
    };
    let text = |enabled: &EnableStatus| {
        format!("\"{}\":{:#x}:{:#x}", name(enabled), enabled.enable.any.0, enabled.enable.level.0)
    };
    enables.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_flags_have_names() {
        assert_eq!(modes(LogFileMode::empty()), "Sequential");
        assert_eq!(modes(LogFileMode::CIRCULAR.union(LogFileMode::REAL_TIME)), "Circular RealTime");
        assert_eq!(flags(0x13), "PROC_THREAD+CSWITCH");
        assert_eq!(flags(0), "");
    }
}
