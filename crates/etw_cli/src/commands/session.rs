//! `etw session`: controls sessions.

use std::io::Write;
use std::path::Path;

use anyhow::{Result, anyhow};
use etw_app::UsageError;
use etw_app::enabling::{all_wanted, kernel_flags, resolve, stack_tracing};
use etw_app::output;
use etw_app::schemas::Schemas;
use openetw::kernel::{EnableFlags, StackWalks};
use openetw::recording::dump;
use openetw::session::{
    Controller, EnableBuilder, EnableStatus, Instance, LogFileMode, SessionBuilder, SessionClock,
    SessionState, SessionStatus, SessionUpdate, UserStatus,
};
use openetw::{Keyword, Level};
use serde_json::{Value, json};

use crate::args::Format;
use crate::args::session::{
    ClockArg, InstanceArgs, ListArgs, ProvidersArgs, SessionCommand, StartArgs, UpdateArgs,
};

/// Sampling interval of a session that names none, in units of 100 ns.
const DEFAULT_SAMPLE_INTERVAL: u32 = 10_000;

/// Runs the command.
pub(crate) fn run(command: &SessionCommand) -> Result<()> {
    let mut out = Vec::new();
    // Results of actions before a failure are shown too.
    let result = act(command, &mut out);
    output::open(None)?.write_all(&out)?;
    result
}

/// Returns the instance that the arguments select.
#[cfg(windows)]
pub(crate) fn instance(_: &InstanceArgs) -> Instance {
    Instance::default_of_user()
}

/// Returns the instance that the arguments select.
#[cfg(target_os = "linux")]
pub(crate) fn instance(args: &InstanceArgs) -> Instance {
    match (Instance::named(), args.system, args.user) {
        (Some(named), ..) => named,
        (None, true, _) => Instance::system(),
        (None, _, true) => Instance::user(),
        _ => Instance::default_of_user(),
    }
}

fn act(command: &SessionCommand, out: &mut Vec<u8>) -> Result<()> {
    match command {
        SessionCommand::Start(args) => start(args, out),
        SessionCommand::Stop(args) => each(&args.sessions, &args.common, out, Controller::stop),
        SessionCommand::Flush(args) => each(&args.sessions, &args.common, out, Controller::flush),
        SessionCommand::IncrementFile(args) => {
            each(&args.sessions, &args.common, out, Controller::increment_file)
        }
        SessionCommand::ConvertToRealTime(args) => {
            each(&args.sessions, &args.common, out, Controller::convert_to_real_time)
        }
        SessionCommand::Query(args) => {
            let mut controller = connect(&args.common.instance)?;
            for name in &args.sessions {
                let status = controller.query(name)?;
                let enables = controller.enables(name)?;
                put_status(out, &status, Some(&enables), args.common.format)?;
            }
            Ok(())
        }
        #[cfg(windows)]
        SessionCommand::List(args) if args.orphans => {
            let mut controller = connect(&args.common.instance)?;
            let mut orphans = controller.orphans()?;
            if args.stop {
                for orphan in &mut orphans {
                    *orphan = controller.stop(&orphan.properties.logger_name)?;
                }
            }
            put_list(out, &orphans, args.common.format)
        }
        SessionCommand::List(args) => {
            let mut sessions = connect(&args.common.instance)?.list()?;
            sessions.sort_by(|a, b| a.properties.logger_name.cmp(&b.properties.logger_name));
            put_list(out, &sessions, args.common.format)
        }
        SessionCommand::Update(args) => update(args, out),
        SessionCommand::Dump(args) => {
            let status = dump(&args.session, &args.file, &mut connect(&args.common.instance)?)?;
            put_status(out, &status, None, args.common.format)
        }
        SessionCommand::Enable(args) => {
            let mut controller = connect(&args.providers.instance)?;
            let schemas = Schemas::load(&args.providers.schemas.options())?;
            let providers = &args.providers.providers;
            for enable in all_wanted(providers, &args.want.wants(), &schemas, &mut controller)? {
                controller.enable(&args.providers.session, &enable)?;
            }
            Ok(())
        }
        SessionCommand::Disable(args) => with_providers(args, |controller, enable| {
            let (provider, _) = enable.build()?;
            Ok(controller.disable(&args.session, provider)?)
        }),
        SessionCommand::CaptureState(args) => with_providers(args, |controller, enable| {
            let (provider, enable) = enable.build()?;
            let (level, any): (Level, Keyword) = (enable.level, enable.any);
            Ok(controller.capture_state(&args.session, provider, level, any)?)
        }),
    }
}

fn connect(args: &InstanceArgs) -> Result<Controller> {
    Ok(Controller::connect_to(&instance(args))?)
}

fn each(
    names: &[String],
    common: &ListArgs,
    out: &mut Vec<u8>,
    act: impl Fn(&mut Controller, &str) -> Result<SessionStatus, openetw::session::ControllerError>,
) -> Result<()> {
    let mut controller = connect(&common.instance)?;
    for name in names {
        let status = act(&mut controller, name)?;
        put_status(out, &status, None, common.format)?;
    }
    Ok(())
}

fn with_providers(
    args: &ProvidersArgs,
    act: impl Fn(&mut Controller, &EnableBuilder) -> Result<()>,
) -> Result<()> {
    let mut controller = connect(&args.instance)?;
    let schemas = Schemas::load(&args.schemas.options())?;
    for provider in &args.providers {
        let enable = EnableBuilder::new(resolve(provider, &schemas, &mut controller)?);
        act(&mut controller, &enable)?;
    }
    Ok(())
}

fn start(args: &StartArgs, out: &mut Vec<u8>) -> Result<()> {
    let mut session = SessionBuilder::new(&args.name)
        .buffer_size_kib(args.buffer_size)
        .maximum_file_size_mib(args.max_file_size)
        .flush_threshold(args.flush_threshold)
        .clock(match args.clock {
            ClockArg::Qpc => SessionClock::Qpc,
            ClockArg::System => SessionClock::SystemTime,
            ClockArg::Cycle => SessionClock::CpuCycle,
        });
    if let Some(flags) = &args.kernel {
        session = session.enable_flags(kernel_flags(flags)?.0);
    }
    session = session
        .stack_tracing(&stack_tracing(args.system.stackwalk.as_deref())?.unwrap_or_default())
        .sample_interval(args.system.sample_interval.unwrap_or(0));
    for name in &args.mode {
        let known = LogFileMode::of_name(name).ok_or_else(|| unknown_mode(name))?;
        session = session.mode(known);
    }
    if args.real_time {
        session = session.real_time();
    }
    if let Some(seconds) = args.flush_timer {
        session = session.flush_timer_millis(millis(seconds)?);
    }
    if let Some(path) = &args.output {
        session = session.file(path);
    }
    session = match args.ring {
        Some(mib) => session.ring(mib.saturating_mul(1024)),
        None => session.buffers(args.min_buffers, args.max_buffers),
    };
    // Invalid combinations are rejected before a session starts.
    check_delivery(args)?;
    args.want.check(!args.provider.is_empty())?;
    let mut controller = connect(&args.common.instance)?;
    let mut enables = Vec::new();
    if !args.provider.is_empty() {
        let schemas = Schemas::load(&args.schemas.options())?;
        enables = all_wanted(&args.provider, &args.want.wants(), &schemas, &mut controller)?;
    }
    let mut status = session.start(&mut controller)?;
    for enable in &enables {
        if let Err(error) = controller.enable(&args.name, enable) {
            // Do not leave a session running that lacks requested providers.
            let _ = controller.stop(&args.name);
            return Err(error.into());
        }
    }
    if !enables.is_empty() {
        status = controller.query(&args.name)?;
    }
    put_status(out, &status, None, args.common.format)
}

/// Checks that the events are delivered, and that a named file would receive events.
fn check_delivery(args: &StartArgs) -> Result<()> {
    let has = |bit| args.mode.iter().any(|name| LogFileMode::of_name(name) == Some(bit));
    let is_ring = args.ring.is_some() || has(LogFileMode::BUFFERING);
    let is_real_time = args.real_time || has(LogFileMode::REAL_TIME);
    let text = match &args.output {
        None if !is_ring && !is_real_time => {
            "no destination for events: use -o FILE, --real-time or --ring MIB".to_owned()
        }
        Some(path) if is_ring => format!(
            "a session of mode buffering keeps events in memory and writes no file; omit -o, and save them with \
                         `etw session dump {} {}`",
            args.name,
            path.display()
        ),
        _ => return Ok(()),
    };
    Err(UsageError(text).into())
}

fn update(args: &UpdateArgs, out: &mut Vec<u8>) -> Result<()> {
    let absolute =
        |path: &Path| Ok::<_, std::io::Error>(std::path::absolute(path)?.to_string_lossy().into_owned());
    let update = SessionUpdate {
        maximum_buffers: args.max_buffers,
        flush_timer_millis: args.flush_timer.map(millis).transpose()?,
        log_file_name: args.output.as_deref().map(absolute).transpose()?,
        real_time: args.real_time,
        enable_flags: args.kernel.as_deref().map(kernel_flags).transpose()?.map(|flags| flags.0),
        stack_tracing: stack_tracing(args.system.stackwalk.as_deref())?,
        sample_interval: args.system.sample_interval,
    };
    if update == SessionUpdate::default() {
        return Err(UsageError("nothing to change; use one of the options in --help".to_owned()).into());
    }
    let status = connect(&args.common.instance)?.update(&args.session, update)?;
    put_status(out, &status, None, args.common.format)
}

fn millis(seconds: f64) -> Result<u32> {
    let millis = (seconds * 1000.0).round();
    if millis.is_finite() && (1.0..=f64::from(u32::MAX)).contains(&millis) {
        Ok(millis as u32)
    } else {
        Err(UsageError(format!("--flush-timer {seconds}: expected 0.001 to 4294967 seconds")).into())
    }
}

fn unknown_mode(name: &str) -> anyhow::Error {
    let known: Vec<String> = LogFileMode::all().iter_names().map(|(name, _)| mode_name(name)).collect();
    anyhow!(UsageError(format!("unknown mode '{name}'; expected one of {}", known.join(", "))))
}

fn mode_name(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

fn modes(mode: LogFileMode) -> Vec<String> {
    let names: Vec<String> = mode.iter_names().map(|(name, _)| mode_name(name)).collect();
    if names.is_empty() { vec!["sequential".to_owned()] } else { names }
}

fn state_name(state: SessionState) -> &'static str {
    match state {
        SessionState::Running => "running",
        SessionState::Stopped => "stopped",
        SessionState::Failing => "failing",
    }
}

fn clock_name(clock: SessionClock) -> &'static str {
    match clock {
        SessionClock::Qpc => "qpc",
        SessionClock::SystemTime => "system",
        SessionClock::CpuCycle => "cycle",
    }
}

fn put_status(
    out: &mut Vec<u8>,
    status: &SessionStatus,
    enables: Option<&[EnableStatus]>,
    format: Format,
) -> Result<()> {
    let object = to_json(status, enables);
    let Format::Text = format else { return Ok(writeln!(out, "{object}")?) };
    let p = &status.properties;
    writeln!(out, "session {} (number {}, {})", p.logger_name, status.logger_id, state_name(status.state))?;
    let mut line = |name: &str, value: String| writeln!(out, "  {name:<24} {value}");
    line("file", if p.log_file_name.is_empty() { "none".to_owned() } else { p.log_file_name.clone() })?;
    line("mode", modes(p.log_file_mode).join(", "))?;
    if p.maximum_file_size != 0 {
        let unit = if p.log_file_mode.contains(LogFileMode::KBYTES_FOR_SIZE) { "KiB" } else { "MiB" };
        line("maximum file size", format!("{} {unit}", p.maximum_file_size))?;
    }
    line("clock", clock_name(p.clock).to_owned())?;
    line("buffer size", format!("{} KiB", p.buffer_size))?;
    line(
        "buffers",
        format!(
            "{} (minimum {}, maximum {})",
            status.number_of_buffers, p.minimum_buffers, p.maximum_buffers
        ),
    )?;
    line("free buffers", status.free_buffers.to_string())?;
    line("flush timer", format!("{} s", f64::from(p.flush_timer_millis) / 1000.0))?;
    line("events written", status.events_written.to_string())?;
    line("events lost", status.events_lost.to_string())?;
    line("events refused", status.events_refused.to_string())?;
    line("buffers written", format!("{} ({} bytes)", status.buffers_written, status.bytes_written))?;
    line("log buffers lost", format!("{} ({} events)", status.log_buffers_lost, status.log_events_lost))?;
    let lost = format!("{} ({} events)", status.real_time_buffers_lost, status.real_time_events_lost);
    line("real-time buffers lost", lost)?;
    line(
        "started",
        format!("{} by process {} of user {}", status.start_time, status.owner_pid, status.owner_uid),
    )?;
    line("ends with its starter", if status.leased { "yes" } else { "no" }.to_owned())?;
    line("logger thread", status.logger_thread_id.to_string())?;
    line("guid", p.guid.to_string())?;
    line("processes", status.processes.to_string())?;
    line("consumers", status.consumers.to_string())?;
    line("enabled providers", status.enabled_providers.to_string())?;
    if p.enable_flags != 0 {
        line("system flags", EnableFlags(p.enable_flags).to_string())?;
        if let Ok(walks) = StackWalks::from_hook_ids(&p.stack_tracing) {
            line("stacks of", walks.to_string())?;
        }
        if EnableFlags(p.enable_flags).contains(EnableFlags::PROFILE) {
            let units = if p.sample_interval == 0 { DEFAULT_SAMPLE_INTERVAL } else { p.sample_interval };
            line("sampling interval", format!("{} us", f64::from(units) / 10.0))?;
        }
    }
    for missing in &status.system_missing {
        line("missing", missing.clone())?;
    }
    if !status.last_error.is_empty() {
        line("last error", status.last_error.clone())?;
    }
    for user in &status.users {
        writeln!(
            out,
            "    user {}: {} regions ({} refused), {} buffers, {} events written, {} lost, {} refused",
            user.uid,
            user.regions,
            user.regions_refused,
            user.buffers,
            user.events_written,
            user.events_lost,
            user.events_refused,
        )?;
        for (process, refused) in &user.refused_by_process {
            writeln!(out, "      process {process}: {refused} refused")?;
        }
    }
    for enabled in enables.unwrap_or_default() {
        let e = &enabled.enable;
        let name = if enabled.name.is_empty() { String::new() } else { format!(" {}", enabled.name) };
        writeln!(
            out,
            "    {}{name}: level {}, any {:#x}, all {:#x}, properties {:#x}, {} filters, {} processes",
            enabled.provider,
            e.level.0,
            e.any.0,
            e.all.0,
            e.properties.0,
            e.filters.len(),
            enabled.processes,
        )?;
    }
    Ok(())
}

fn to_json(status: &SessionStatus, enables: Option<&[EnableStatus]>) -> Value {
    let p = &status.properties;
    let mut object = json!({
        "Name": p.logger_name,
        "Guid": p.guid.to_string(),
        "LoggerId": status.logger_id,
        "State": state_name(status.state),
        "LogFileName": p.log_file_name,
        "LogFileMode": p.log_file_mode.0,
        "Modes": modes(p.log_file_mode),
        "MaximumFileSize": p.maximum_file_size,
        "Clock": clock_name(p.clock),
        "BufferSize": p.buffer_size,
        "MinimumBuffers": p.minimum_buffers,
        "MaximumBuffers": p.maximum_buffers,
        "NumberOfBuffers": status.number_of_buffers,
        "FreeBuffers": status.free_buffers,
        "FlushTimerMillis": p.flush_timer_millis,
        "FlushThreshold": p.flush_threshold,
        "EnableFlags": p.enable_flags,
        "StackTracing": p.stack_tracing,
        "SampleInterval": p.sample_interval,
        "EventsWritten": status.events_written,
        "EventsLost": status.events_lost,
        "EventsRefused": status.events_refused,
        "BuffersWritten": status.buffers_written,
        "BytesWritten": status.bytes_written,
        "LogBuffersLost": status.log_buffers_lost,
        "LogEventsLost": status.log_events_lost,
        "RealTimeBuffersLost": status.real_time_buffers_lost,
        "RealTimeEventsLost": status.real_time_events_lost,
        "LoggerThreadId": status.logger_thread_id,
        "StartTime": status.start_time.to_string(),
        "OwnerUid": status.owner_uid,
        "OwnerPid": status.owner_pid,
        "Leased": status.leased,
        "Processes": status.processes,
        "Consumers": status.consumers,
        "EnabledProviders": status.enabled_providers,
        "Missing": status.system_missing,
        "Users": users_to_json(status),
        "LastError": status.last_error,
    });
    if let (Some(enables), Some(object)) = (enables, object.as_object_mut()) {
        let list = enables.iter().map(|enabled| {
            json!({
                "Provider": enabled.provider.to_string(),
                "Name": enabled.name,
                "Level": enabled.enable.level.0,
                "MatchAnyKeyword": format!("{:#x}", enabled.enable.any.0),
                "MatchAllKeyword": format!("{:#x}", enabled.enable.all.0),
                "EnableProperty": enabled.enable.properties.0,
                "Filters": enabled.enable.filters.iter().map(|filter| format!("{filter:?}")).collect::<Vec<_>>(),
                "Processes": enabled.processes,
            })
        });
        object.insert("Enables".to_owned(), list.collect());
    }
    object
}

fn users_to_json(status: &SessionStatus) -> Value {
    let user = |user: &UserStatus| {
        json!({
            "Uid": user.uid,
            "Regions": user.regions,
            "RegionsRefused": user.regions_refused,
            "Buffers": user.buffers,
            "EventsWritten": user.events_written,
            "EventsLost": user.events_lost,
            "EventsRefused": user.events_refused,
            "RefusedByProcess": user.refused_by_process.iter().map(|(process, refused)| {
                json!({ "ProcessID": process, "EventsRefused": refused })
            }).collect::<Vec<_>>(),
        })
    };
    status.users.iter().map(user).collect()
}

fn put_list(out: &mut Vec<u8>, sessions: &[SessionStatus], format: Format) -> Result<()> {
    if let Format::Json = format {
        for session in sessions {
            writeln!(out, "{}", to_json(session, None))?;
        }
        return Ok(());
    }
    let width =
        sessions.iter().map(|s| s.properties.logger_name.chars().count()).max().unwrap_or(0).clamp(7, 40);
    writeln!(out, "{:width$} {:>12} {:>10} {:>8}  FILE", "SESSION", "EVENTS", "LOST", "BUFFERS")?;
    for session in sessions {
        let p = &session.properties;
        let place = match p.log_file_name.as_str() {
            "" => format!("({})", modes(p.log_file_mode).join(", ")),
            name => name.to_owned(),
        };
        writeln!(
            out,
            "{:width$} {:>12} {:>10} {:>8}  {place}",
            p.logger_name,
            session.events_written,
            session.loss().events,
            session.number_of_buffers,
        )?;
    }
    Ok(())
}

/// `etw provider list --registered`.
pub(crate) fn put_registered(
    out: &mut Vec<u8>,
    pattern: Option<&str>,
    format: Format,
    instance: &InstanceArgs,
) -> Result<()> {
    let mut controller = connect(instance)?;
    let wanted = pattern.unwrap_or_default().to_lowercase();
    let sessions = controller.list()?;
    let name_of = |id: &u16| {
        let found = sessions.iter().find(|session| session.logger_id == *id);
        found.map_or_else(|| id.to_string(), |session| session.properties.logger_name.clone())
    };
    for provider in controller.providers()? {
        if !provider.name.to_lowercase().contains(&wanted) && !provider.guid.to_string().contains(&wanted) {
            continue;
        }
        let enabled: Vec<String> = provider.sessions.iter().map(name_of).collect();
        match format {
            Format::Text => {
                let pids: Vec<String> = provider.pids.iter().take(8).map(u32::to_string).collect();
                let more = if provider.pids.len() > 8 { ", …" } else { "" };
                let by = if enabled.is_empty() { "no session".to_owned() } else { enabled.join(", ") };
                let name = if provider.name.is_empty() { "(no name)" } else { &provider.name };
                let whose = match pids.join(", ") {
                    none if none.is_empty() => "of the system".to_owned(),
                    pids => format!("processes {pids}{more}"),
                };
                writeln!(out, "{} {name} ({whose}; enabled by {by})", provider.guid)?;
            }
            Format::Json => {
                let object = json!({
                    "Name": provider.name,
                    "Guid": provider.guid.to_string(),
                    "Group": (!provider.group.is_zero()).then(|| provider.group.to_string()),
                    "Processes": provider.pids,
                    "Sessions": enabled,
                    "Enables": provider.enables.iter().map(|enable| json!({
                        "Session": name_of(&enable.logger_id),
                        "Level": enable.level.0,
                        "MatchAnyKeyword": format!("{:#x}", enable.any.0),
                        "MatchAllKeyword": format!("{:#x}", enable.all.0),
                        "EnableProperty": enable.properties.0,
                        "Processes": enable.pids,
                    })).collect::<Vec<_>>(),
                });
                writeln!(out, "{object}")?;
            }
        }
    }
    Ok(())
}
