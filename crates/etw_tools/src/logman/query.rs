//! `logman query`: sets, sessions and providers in logman's format.

use std::io::Write;

use anyhow::Result;
use etw_app::providers::{KERNEL, Known, is_class, is_kernel};
use etw_app::status::{Failed, code, usage};
use openetw::kernel::{EnableFlags, Support};
use openetw::session::{
    Controller, EnableStatus, LogFileMode, ProviderStatus, SessionClock, SessionProperties, SessionState,
    SessionStatus,
};
use openetw::{Guid, Level, classes};

use super::collector::{Collector, Set, Version};
use super::{Command, is_not_found, is_running};
use crate::options::number_of;
use crate::{host, session};

const LINE: &str = "-------------------------------------------------------------------------------";

impl Command<'_> {
    /// Runs `query`, `query NAME` or `query providers`.
    pub(super) fn query(&self, rest: &[String], out: &mut Vec<u8>) -> Result<()> {
        match rest {
            [what, rest @ ..] if what.eq_ignore_ascii_case("providers") => {
                let pid = self.options.value("pid").map(|pid| number_of("pid", pid)).transpose()?;
                match (rest, self.options.value("n")) {
                    ([], None) => list_providers(pid, out),
                    ([name], None) => show_provider(name, out),
                    ([], Some(name)) => show_provider(name, out),
                    ([_, more, ..], _) | ([more], Some(_)) => {
                        Err(usage(format_args!("unexpected second name '{more}'")))
                    }
                }
            }
            [] if self.options.value("n").is_none() => self.list(out),
            rest => {
                let name = self.name(rest)?;
                self.show(&name, out)
            }
        }
    }

    fn list(&self, out: &mut Vec<u8>) -> Result<()> {
        let mut controller = host::running()?;
        let mut rows = Vec::new();
        if self.is_ets {
            let sessions = controller.as_mut().map(Controller::list).transpose()?.unwrap_or_default();
            rows.extend(sessions.into_iter().map(|status| (status.properties.logger_name, "Running")));
        } else {
            for set in self.store.list()? {
                let is_running = set_is_running(&set, controller.as_mut())?;
                rows.push((set.name, if is_running { "Running" } else { "Stopped" }));
            }
        }
        rows.sort();
        writeln!(out, "\n{:<39} {:<29} Status\n{LINE}", "Data Collector Set", "Type")?;
        for (name, status) in rows {
            writeln!(out, "{name:<39} {:<29} {status}", "Trace")?;
        }
        Ok(writeln!(out)?)
    }

    fn show(&self, name: &str, out: &mut Vec<u8>) -> Result<()> {
        if !self.is_ets
            && let Some(set) = self.store.load(name)?
        {
            let is_running = set_is_running(&set, host::running()?.as_mut())?;
            return put_set(out, &set, is_running);
        }
        let show = |controller: &mut Controller| {
            put_session(out, &controller.query(name)?, &controller.enables(name)?)
        };
        session::with(name, super::LISTER, show).map_err(|error| match self.is_ets || !is_not_found(&error) {
            true => error,
            false => {
                let text =
                    format!("there is no data collector set '{name}'; `logman query` lists the saved sets");
                Failed::new(code::SET_NOT_FOUND, text).into()
            }
        })
    }
}

fn set_is_running(set: &Set, controller: Option<&mut Controller>) -> Result<bool> {
    let Some(controller) = controller else { return Ok(false) };
    for collector in &set.collectors {
        if is_running(controller, &collector.session)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn put(out: &mut Vec<u8>, name: &str, value: impl std::fmt::Display) -> Result<()> {
    Ok(writeln!(out, "{:<21} {value}", format!("{name}:"))?)
}

fn on(is_on: bool) -> &'static str {
    if is_on { "On" } else { "Off" }
}

fn put_set(out: &mut Vec<u8>, set: &Set, is_running: bool) -> Result<()> {
    let first = set.collectors.first();
    let directory = first.and_then(|collector| collector.file.as_ref()?.parent());
    writeln!(out)?;
    put(out, "Name", &set.name)?;
    put(out, "Status", if is_running { "Running" } else { "Stopped" })?;
    put(out, "Root Path", directory.unwrap_or("".as_ref()).display())?;
    put(out, "Segment", on(first.is_some_and(|collector| collector.changes_files)))?;
    put(out, "Schedules", "Off")?;
    if let Some(size) = first.map(|collector| collector.maximum_mib).filter(|size| *size != 0) {
        put(out, "Segment Max Size", format_args!("{size} MB"))?;
    }
    for collector in &set.collectors {
        put_collector(out, set, collector)?;
    }
    Ok(writeln!(out)?)
}

fn put_collector(out: &mut Vec<u8>, set: &Set, collector: &Collector) -> Result<()> {
    writeln!(out)?;
    put(out, "Name", format_args!("{}\\{}", set.name, collector.session))?;
    put(out, "Type", "Trace")?;
    if let Some(file) = &collector.file {
        put(out, "Output Location", file.display())?;
    }
    let version = match collector.version {
        Version::None => "none",
        Version::Serial => "nnnnnn",
        Version::MonthDayHourMinute => "mmddhhmm",
    };
    put(out, "File Version", version)?;
    let or_default = |number: u32| if number == 0 { "default".to_owned() } else { number.to_string() };
    put_mode(out, collector.mode, collector.overwrites)?;
    put(out, "Buffer Size", or_default(collector.buffer_size))?;
    put(out, "Minimum Buffers", or_default(collector.minimum_buffers))?;
    put(out, "Maximum Buffers", or_default(collector.maximum_buffers))?;
    put(out, "Buffer Flush Timer", seconds(collector.flush_timer_millis))?;
    put(out, "Clock Type", collector.clock.map_or("default", clock_name))?;
    put(out, "File Mode", file_mode(collector.mode, collector.file.is_some()))?;
    for wanted in &collector.providers {
        let masks = Masks {
            level: wanted.level,
            any: wanted.any,
            all: wanted.all,
            properties: wanted.properties,
            filters: 0,
        };
        put_enabled(out, &wanted.name, wanted.guid, masks)?;
    }
    Ok(())
}

fn put_session(out: &mut Vec<u8>, status: &SessionStatus, enables: &[EnableStatus]) -> Result<()> {
    let p = &status.properties;
    let file = std::path::Path::new(&p.log_file_name);
    writeln!(out)?;
    put(out, "Name", &p.logger_name)?;
    put(out, "Status", if status.state == SessionState::Failing { "Failing" } else { "Running" })?;
    put(out, "Root Path", file.parent().unwrap_or("".as_ref()).display())?;
    put(out, "Segment", on(p.log_file_mode.contains(LogFileMode::NEW_FILE)))?;
    put(out, "Schedules", "Off")?;
    if p.maximum_file_size != 0 {
        let unit = if p.log_file_mode.contains(LogFileMode::KBYTES_FOR_SIZE) { "KB" } else { "MB" };
        put(out, "Segment Max Size", format_args!("{} {unit}", p.maximum_file_size))?;
    }
    writeln!(out)?;
    put(out, "Name", format_args!("{0}\\{0}", p.logger_name))?;
    put(out, "Type", "Trace")?;
    if !p.log_file_name.is_empty() {
        put(out, "Output Location", file.display())?;
    }
    put_mode(out, p.log_file_mode, false)?;
    put_numbers(out, status, p)?;
    for missing in &status.system_missing {
        put(out, "Missing", missing)?;
    }
    if !status.last_error.is_empty() {
        put(out, "Last Error", &status.last_error)?;
    }
    if p.enable_flags != 0 {
        let masks = Masks { any: p.enable_flags.into(), ..Masks::default() };
        put_enabled(out, KERNEL, classes::SYSTEM_TRACE, masks)?;
    }
    let known = Known::load()?;
    for enabled in enables {
        let name = Some(enabled.name.clone()).filter(|name| !name.is_empty());
        let name =
            name.or_else(|| known.name_of(enabled.provider)).unwrap_or_else(|| enabled.provider.to_string());
        let e = &enabled.enable;
        let masks = Masks {
            level: e.level,
            any: e.any.0,
            all: e.all.0,
            properties: e.properties.0,
            filters: e.filters.len(),
        };
        put_enabled(out, &name, enabled.provider, masks)?;
    }
    Ok(writeln!(out)?)
}

fn put_numbers(out: &mut Vec<u8>, status: &SessionStatus, p: &SessionProperties) -> Result<()> {
    put(out, "Buffer Size", p.buffer_size)?;
    put(out, "Minimum Buffers", p.minimum_buffers)?;
    put(out, "Maximum Buffers", p.maximum_buffers)?;
    put(out, "Buffers", status.number_of_buffers)?;
    put(out, "Free Buffers", status.free_buffers)?;
    put(out, "Buffers Lost", status.log_buffers_lost)?;
    put(out, "Buffers Written", status.buffers_written)?;
    put(out, "Real-time Buffers Lost", status.real_time_buffers_lost)?;
    put(out, "Events", status.events_written)?;
    put(out, "Events Lost", status.events_lost + status.log_events_lost)?;
    put(out, "Buffer Flush Timer", seconds(p.flush_timer_millis))?;
    put(out, "Clock Type", clock_name(p.clock))?;
    put(out, "File Mode", file_mode(p.log_file_mode, !p.log_file_name.is_empty()))
}

fn put_mode(out: &mut Vec<u8>, mode: LogFileMode, overwrites: bool) -> Result<()> {
    put(out, "Append", on(mode.contains(LogFileMode::APPEND)))?;
    put(out, "Circular", on(mode.contains(LogFileMode::CIRCULAR)))?;
    put(out, "Overwrite", on(overwrites))
}

fn file_mode(mode: LogFileMode, has_file: bool) -> &'static str {
    match (mode.contains(LogFileMode::REAL_TIME), mode.contains(LogFileMode::BUFFERING), has_file) {
        (_, true, _) => "Buffering",
        (true, _, true) => "File, Real-time",
        (true, _, false) => "Real-time",
        _ => "File",
    }
}

fn clock_name(clock: SessionClock) -> &'static str {
    match clock {
        SessionClock::Qpc => "Performance",
        SessionClock::SystemTime => "System",
        SessionClock::CpuCycle => "Cycle",
    }
}

fn seconds(millis: u32) -> String {
    if millis == 0 { "default".to_owned() } else { (f64::from(millis) / 1000.0).to_string() }
}

/// The requested settings of a provider.
#[derive(Default)]
struct Masks {
    level: Level,
    any: u64,
    all: u64,
    properties: u32,
    filters: usize,
}

fn put_enabled(out: &mut Vec<u8>, name: &str, guid: Guid, masks: Masks) -> Result<()> {
    writeln!(out, "\nProvider:")?;
    put(out, "Name", name)?;
    put(out, "Provider Guid", upper(guid))?;
    put(out, "Level", masks.level.0)?;
    put(out, "KeywordsAll", format_args!("{:#x}", masks.all))?;
    match guid == classes::SYSTEM_TRACE {
        true => put(out, "KeywordsAny", format_args!("{:#x} ({})", masks.any, flag_names(masks.any)))?,
        false => put(out, "KeywordsAny", format_args!("{:#x}", masks.any))?,
    }
    put(out, "Properties", masks.properties)?;
    put(out, "Filter Type", masks.filters)
}

fn flag_names(mask: u64) -> String {
    let flags =
        EnableFlags::KNOWN.iter().filter(|flag| mask & u64::from(flag.bit) != 0 && !flag.logman.is_empty());
    flags.map(|flag| flag.logman).collect::<Vec<_>>().join(",")
}

/// Formats a GUID as logman does: `{22FB2CD6-…}`.
fn upper(guid: Guid) -> String {
    guid.to_string().to_uppercase()
}

/// Writes a row of the provider list.
fn put_row(out: &mut Vec<u8>, name: &str, guid: Guid) -> Result<()> {
    Ok(writeln!(out, "{name:<40} {}", upper(guid))?)
}

fn put_providers_head(out: &mut Vec<u8>) -> Result<()> {
    Ok(writeln!(out, "\n{:<40} GUID\n{LINE}", "Provider")?)
}

/// Returns the providers that programs have registered; empty if no host runs.
fn registered() -> Result<Vec<ProviderStatus>> {
    Ok(host::running()?.as_mut().map(Controller::providers).transpose()?.unwrap_or_default())
}

fn list_providers(pid: Option<u32>, out: &mut Vec<u8>) -> Result<()> {
    let known = Known::load()?;
    let mut rows: Vec<(String, Guid)> = Vec::new();
    if pid.is_none() {
        // Classes of kernel events are not providers.
        let listed = known.schemas.list()?.into_iter().filter(|listed| !is_class(listed.guid));
        rows.extend(listed.map(|listed| (listed.name, listed.guid)));
    }
    for status in registered()? {
        if pid.is_none_or(|pid| status.pids.contains(&pid)) {
            let name =
                Some(status.name).filter(|name| !name.is_empty()).or_else(|| known.name_of(status.guid));
            rows.push((name.unwrap_or_else(|| upper(status.guid)), status.guid));
        }
    }
    rows.sort_by_key(|(name, guid)| (name.to_lowercase(), *guid));
    rows.dedup_by_key(|(_, guid)| *guid);
    put_providers_head(out)?;
    for (name, guid) in rows {
        put_row(out, &name, guid)?;
    }
    Ok(writeln!(out)?)
}

fn show_provider(name: &str, out: &mut Vec<u8>) -> Result<()> {
    if is_kernel(name) {
        return show_kernel(out);
    }
    let known = Known::load()?;
    let found = known.schemas.find(name)?;
    let guid = name.parse::<Guid>().ok();
    let is_it = |status: &ProviderStatus| Some(status.guid) == guid || status.name.eq_ignore_ascii_case(name);
    let mut registered = registered()?;
    registered
        .retain(|status| is_it(status) || found.iter().any(|provider| provider.info.guid == status.guid));
    let (title, guid) = match (found.first(), registered.first()) {
        (Some(provider), _) => (provider.info.name.to_string(), provider.info.guid),
        (None, Some(status)) => (status.name.clone(), status.guid),
        (None, None) => {
            let text =
                format!("there is no provider '{name}'; `logman query providers` lists the known ones");
            return Err(Failed::new(code::GUID_NOT_FOUND, text).into());
        }
    };
    put_providers_head(out)?;
    put_row(out, &title, guid)?;
    let info = found.first().map(|provider| &provider.info);
    if let Some(info) = info {
        let text =
            |message: &Option<std::sync::Arc<str>>| message.as_deref().unwrap_or_default().trim().to_owned();
        let rows = info
            .keywords
            .iter()
            .map(|keyword| (keyword.mask, keyword.name.to_string(), text(&keyword.message)));
        let channels = info.channels.iter().filter_map(|channel| {
            // Channels are the highest keyword bits.
            let bit = 1u64.checked_shl(63 - u32::from(channel.value.checked_sub(16)?))?;
            Some((bit, channel.name.to_string(), String::new()))
        });
        let mut rows: Vec<_> = rows.collect();
        for channel in channels {
            if rows.iter().all(|row| row.0 != channel.0) {
                rows.push(channel);
            }
        }
        put_table(
            out,
            "Keyword",
            rows.into_iter().map(|(mask, name, text)| (format!("{mask:#018x}"), name, text)),
        )?;
        let levels = info
            .levels
            .iter()
            .map(|level| (format!("{:#04x}", level.value), level.name.to_string(), text(&level.message)));
        put_table(out, "Level", levels)?;
    }
    writeln!(out, "\n{:<19} Image\n{LINE}", "PID")?;
    for pid in registered.iter().flat_map(|status| &status.pids) {
        writeln!(out, "{:<19} {}", format!("{pid:#010x}"), image_of(*pid))?;
    }
    Ok(writeln!(out)?)
}

/// Returns the path of a process's program; empty if it cannot be determined.
#[cfg(target_os = "linux")]
fn image_of(pid: u32) -> String {
    std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default().display().to_string()
}

/// Returns the path of a process's program; empty if it cannot be determined.
#[cfg(windows)]
fn image_of(pid: u32) -> String {
    etw_sys::process::image(pid).unwrap_or_default()
}

fn put_table(
    out: &mut Vec<u8>,
    title: &str,
    rows: impl Iterator<Item = (String, String, String)>,
) -> Result<()> {
    writeln!(out, "\n{:<19} {title:<20} Description\n{LINE}", "Value")?;
    for (value, name, text) in rows {
        let line = format!("{value:<19} {name:<20} {}", text.replace(['\r', '\n'], " "));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Writes the kernel flags by logman's names.
fn show_kernel(out: &mut Vec<u8>) -> Result<()> {
    put_providers_head(out)?;
    put_row(out, KERNEL, classes::SYSTEM_TRACE)?;
    let flags = EnableFlags::KNOWN.iter().filter(|flag| !flag.logman.is_empty()).map(|flag| {
        let text = match flag.support {
            Support::Refused(reason) => format!("not here: {reason}"),
            _ => flag.name.to_lowercase().replace('_', " "),
        };
        (format!("{:#018x}", flag.bit), flag.logman.to_owned(), text)
    });
    put_table(out, "Keyword", flags)?;
    Ok(writeln!(out)?)
}
