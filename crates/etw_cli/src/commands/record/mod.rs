//! `etw record`: runs a session and writes a trace file that can be read on any machine.

mod summary;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use etw_app::enabling::{all_wanted, kernel_flags, stack_tracing};
use etw_app::profiles::{self, Combined};
use etw_app::providers::Known;
use etw_app::recording::wait::{Event, Waiting};
use etw_app::recording::{begin, buffer_size_kib, check_writable, serve, verdict};
use etw_app::schemas::Schemas;
use etw_app::text::grouped;
use etw_app::{UsageError, input, output};
use openetw::kernel::EnableFlags;
use openetw::profile::CaptureState;
#[cfg(target_os = "linux")]
use openetw::recording::dotnet::DotNet;
use openetw::recording::{self, Contents, Processes};
use openetw::session::{
    Controller, EnableBuilder, ErrorKind, LogFileMode, Runtime, SessionBuilder, SessionState,
};
use openetw::{EventFilter, Trace, classes};

use crate::args::record::RecordArgs;
use summary::Summary;

/// Runs the command; returns the exit status of the recorded program.
pub(crate) fn run(args: &RecordArgs) -> Result<u8> {
    args.want.check(!args.provider.is_empty())?;
    let schemas = Schemas::load(&args.schemas.options())?;
    let path = std::path::absolute(&args.output)?;
    check_writable(&path)?;
    let mut runtime = Runtime::connect_or_host()?;
    let mut waiting = Waiting::new()?;
    let name = args.session.clone().unwrap_or_else(|| format!("etw-record-{}", std::process::id()));
    let profiles = of_profiles(&args.profile)?;
    let kernel = args.kernel.as_deref().map_or(Ok(EnableFlags::empty()), kernel_flags)? | profiles.flags;
    let builder = builder(args, &name, &path)?
        .enable_flags(kernel.0)
        .stack_tracing(&stack_tracing(args.system.stackwalk.as_deref())?.unwrap_or(profiles.stacks))
        .sample_interval(args.system.sample_interval.unwrap_or(0));
    let controller = runtime.controller();
    let mut enables = all_wanted(&args.provider, &args.want.wants(), &schemas, controller)?;
    if !profiles.providers.is_empty() {
        enables.extend(profiles::enables(&profiles.providers, &Known::load()?, controller)?);
    }
    let mut recording = Recording {
        controller,
        name,
        path,
        is_ring: args.ring.is_some(),
        schemas: &schemas,
        processes: Processes::new(),
        missing: Vec::new(),
        #[cfg(target_os = "linux")]
        dotnet: None,
    };
    begin(builder, &recording.name, &enables, recording.controller)?;
    let status = recording.controller.query(&recording.name)?;
    recording.warn_of_missing(status.system_missing);
    if let Some(expression) = &args.trigger {
        recording.watch_for(expression, kernel, &enables, &waiting)?;
    }
    #[cfg(target_os = "linux")]
    if !args.dotnet.is_empty() {
        match DotNet::start(&args.dotnet, &args.dotnet_provider, &recording.path, output::warn) {
            Ok(dotnet) => recording.dotnet = Some(dotnet),
            Err(error) => {
                recording.abandon();
                return Err(UsageError(error.to_string()).into());
            }
        }
    }
    let start = Instant::now();
    waiting.end_at(args.duration.and_then(|duration| start.checked_add(duration)));
    if !args.command.is_empty() {
        if let Err(error) = waiting.run(&args.command) {
            recording.abandon();
            return Err(error);
        }
    } else if args.duration.is_none() {
        etw_app::say!("etw: recording to {}; Ctrl-C ends it", args.output.display());
    }
    let end = recording.run(&mut waiting, start)?;
    let took = start.elapsed();
    #[cfg_attr(windows, expect(unused_mut, reason = "only recordings of .NET programs add an error"))]
    let mut error = recording.finish(end.is_over);
    #[cfg(target_os = "linux")]
    if let Some(Err(failure)) = recording.dotnet.take().map(|dotnet| dotnet.finish(&recording.path)) {
        error.get_or_insert(failure.to_string());
    }
    let is_whole = error.is_none();
    let contents = recording.complete(&recording.path)?;
    let asked = args.provider.iter().chain(&args.kernel).chain(&args.profile);
    #[cfg(target_os = "linux")]
    let dotnet = (!args.dotnet.is_empty()).then_some(".NET");
    #[cfg(windows)]
    let dotnet = None;
    let asked: Vec<&str> = asked.map(String::as_str).chain(dotnet).collect();
    let is_of_kernel = !kernel.is_empty();
    Summary { contents: &contents, took, path: &args.output, error, asked: &asked, is_of_kernel }.print();
    if runtime.is_host() {
        serve(runtime.controller(), &mut waiting);
    }
    match end.failure {
        Some(failure) => Err(failure),
        // The summary has reported write errors.
        None => Ok(end.program.filter(|status| *status != 0).unwrap_or(u8::from(!is_whole))),
    }
}

/// Returns what recording profiles record.
fn of_profiles(names: &[String]) -> Result<Combined> {
    if names.is_empty() {
        return Ok(Combined::default());
    }
    let loaded: Vec<_> = names.iter().map(|name| profiles::load(name, None)).collect::<Result<_>>()?;
    let all = Combined::from_profiles(&loaded)?;
    if all.providers.iter().any(|provider| provider.capture_state != CaptureState::default()) {
        output::warn(
            &"`etw record` does not capture the provider state that the profile requests; use `etw wpr`",
        );
    }
    Ok(all)
}

/// A recording session.
struct Recording<'r> {
    controller: &'r mut Controller,
    name: String,
    path: PathBuf,
    is_ring: bool,
    schemas: &'r Schemas,
    /// Processes that have written events so far.
    processes: Processes,
    /// Missing kernel events that have been reported.
    missing: Vec<String>,
    /// Sessions in .NET programs.
    #[cfg(target_os = "linux")]
    dotnet: Option<DotNet>,
}

/// Reason for the end of a recording.
#[derive(Default)]
struct End {
    /// Exit status of the program.
    program: Option<u8>,
    /// Whether the session has already stopped.
    is_over: bool,
    /// Error to return after saving the recorded events.
    failure: Option<anyhow::Error>,
}

impl Recording<'_> {
    /// Waits for the end of the recording; saves the events in memory on request.
    fn run(&mut self, waiting: &mut Waiting, start: Instant) -> Result<End> {
        let mut dumps = 0;
        let mut status_line = StatusLine::new();
        let mut is_failing = false;
        let end = loop {
            match waiting.wait()? {
                Event::Exited(status) => break End { program: Some(status), ..End::default() },
                Event::Ended => break End::default(),
                Event::Triggered => {
                    status_line.clear();
                    etw_app::say!("etw: an event matched the trigger");
                    break End::default();
                }
                Event::Dump if self.is_ring => {
                    dumps += 1;
                    status_line.clear();
                    self.dump(&numbered(&self.path, dumps));
                }
                Event::Dump => output::warn(&"SIGUSR1 writes a file only with --ring"),
                Event::Tick => match self.controller.query(&self.name) {
                    Ok(status) => {
                        // Once the session stops by itself, its processes cannot be queried.
                        self.ask_for_processes();
                        #[cfg(target_os = "linux")]
                        if let Some(dotnet) = &mut self.dotnet {
                            dotnet.look_for_new();
                        }
                        status_line.show(&status, start);
                        let fails = status.state == SessionState::Failing;
                        if fails && !is_failing {
                            status_line.clear();
                            output::warn(&format_args!("{}; still recording", status.last_error));
                        }
                        is_failing = fails;
                    }
                    Err(error) if error.kind() == Some(ErrorKind::NotFound) => {
                        etw_app::say!(
                            "etw: the session has stopped: its file is full, or another program stopped it"
                        );
                        break End { is_over: true, ..End::default() };
                    }
                    Err(error) => {
                        break End { is_over: true, failure: Some(error.into()), ..End::default() };
                    }
                },
            }
        };
        status_line.clear();
        Ok(end)
    }

    /// Stops the session after writing all events to the file; returns the error, if any.
    fn finish(&mut self, is_over: bool) -> Option<String> {
        let _ = self.controller.stop(&self.trigger_session());
        if is_over {
            return None;
        }
        self.ask_for_processes();
        let dumped = if self.is_ring {
            recording::dump(&self.name, &self.path, self.controller).map(drop)
        } else {
            Ok(())
        };
        let stopped = match self.controller.stop(&self.name) {
            Ok(status) => {
                self.warn_of_missing(status.system_missing);
                Some(status.last_error).filter(|error| !error.is_empty())
            }
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => None,
            Err(error) => Some(error.to_string()),
        };
        dumped.err().map(|error| error.to_string()).or(stopped)
    }

    /// Warns of missing kernel events, once per line.
    fn warn_of_missing(&mut self, missing: Vec<String>) {
        for line in missing {
            if !self.missing.contains(&line) {
                output::warn(&format_args!("missing: {line}"));
                self.missing.push(line);
            }
        }
    }

    /// Adds schemas and processes to a file, so that it can be read on other machines.
    fn complete(&self, path: &Path) -> Result<Contents> {
        let contents = Contents::of_file(path, &self.schemas.sources())?;
        if let Err(error) = contents.embed(path, &self.processes) {
            output::warn(&format_args!("cannot add schemas and processes to the file: {error}"));
        }
        Ok(contents)
    }

    /// Saves the events in memory to a file without stopping the session.
    fn dump(&mut self, path: &Path) {
        self.ask_for_processes();
        let dumped = recording::dump(&self.name, path, self.controller);
        match dumped.map_err(anyhow::Error::from).and_then(|_| self.complete(path)) {
            Ok(contents) => etw_app::say!("etw: wrote {}: {}", path.display(), verdict(&contents)),
            // Recording continues.
            Err(error) => output::warn(&format_args!("{}: {error:#}", path.display())),
        }
    }

    /// Queries the processes that have written events; of processes with the same id, keeps the last one.
    fn ask_for_processes(&mut self) {
        if let Ok(processes) = self.controller.processes(&self.name) {
            self.processes.extend(processes.into_iter().map(|process| (process.pid, process)));
        }
    }

    /// Stops the session and removes its file.
    fn abandon(&mut self) {
        let _ = self.controller.stop(&self.name);
        let _ = std::fs::remove_file(&self.path);
    }

    fn trigger_session(&self) -> String {
        format!("{}-trigger", self.name)
    }

    /// Starts a second, real-time session and reads it until an event matches the expression.
    ///
    /// The events of a session in memory cannot be read while it runs.
    fn watch_for(
        &mut self,
        expression: &str,
        kernel: EnableFlags,
        enables: &[EnableBuilder],
        waiting: &Waiting,
    ) -> Result<()> {
        let filter = EventFilter::default().expression(expression);
        let filter = filter.map_err(|error| UsageError(error.to_string()))?;
        input::refuse_stacks(&filter)?;
        let session = self.trigger_session();
        let builder = SessionBuilder::new(&session).real_time().enable_flags(kernel.0).leased();
        begin(builder, &session, enables, self.controller)?;
        let builder = Trace::builder().session(&session).filter(&filter).schemas(&self.schemas.sources());
        let mut trace = builder.open().context("cannot watch for the trigger")?;
        let (sender, stop) = (waiting.sender(), trace.stop_handle());
        let watch = move || {
            let mut is_met = false;
            // If the session stops before an event matches, the watch ends too.
            let _ = trace.for_each_event(|event| {
                if event.record.provider_id() != classes::EVENT_TRACE {
                    is_met = true;
                    stop.stop();
                }
            });
            if is_met {
                let _ = sender.send(Event::Triggered);
            }
        };
        std::thread::Builder::new().name("trigger".into()).spawn(watch)?;
        Ok(())
    }
}

/// Returns the builder of the session.
fn builder(args: &RecordArgs, name: &str, path: &Path) -> Result<SessionBuilder> {
    let usage = |text: &str| anyhow!(UsageError(text.to_owned()));
    let buffer_size = buffer_size_kib(args.buffer_size)?;
    // A leased session stops when this process exits, even on a crash.
    let builder = SessionBuilder::new(name).buffer_size_kib(buffer_size).leased();
    if let Some(bytes) = args.ring {
        // A quarter more, for events written while the ring is saved.
        let buffers = bytes.div_ceil(args.buffer_size);
        let buffers = u32::try_from(buffers + buffers / 4 + 8).unwrap_or(u32::MAX);
        return Ok(builder.mode(LogFileMode::BUFFERING).buffers(0, buffers));
    }
    path.to_str().ok_or_else(|| usage("the name of the output file is not UTF-8"))?;
    let mode = if args.circular { LogFileMode::CIRCULAR } else { LogFileMode::SEQUENTIAL };
    let builder = builder.mode(mode).file(path).buffers(0, args.buffers.unwrap_or(0));
    let builder = if args.real_time { builder.real_time() } else { builder };
    let Some(bytes) = args.max_size else { return Ok(builder) };
    let kibibytes = u32::try_from(bytes.div_ceil(1024)).map_err(|_| usage("--max-size is too large"))?;
    Ok(builder.mode(LogFileMode::KBYTES_FOR_SIZE).maximum_file_size_mib(kibibytes))
}

/// Adds a number to a file name: `trace.etl` becomes `trace-1.etl`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    path.with_file_name(format!("{stem}-{number}{}", extension.unwrap_or_default()))
}

/// Status line on a terminal.
struct StatusLine {
    is_terminal: bool,
    is_shown: bool,
}

impl StatusLine {
    fn new() -> StatusLine {
        StatusLine { is_terminal: std::io::stderr().is_terminal(), is_shown: false }
    }

    fn show(&mut self, status: &openetw::session::SessionStatus, start: Instant) {
        if self.is_terminal {
            let (seconds, events) = (start.elapsed().as_secs(), grouped(status.events_written));
            eprint!("\r{seconds} s: {events} events, {} lost\x1b[K", status.loss().events);
            self.is_shown = true;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            eprint!("\r\x1b[K");
        }
    }
}
