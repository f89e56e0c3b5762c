//! Prints a provider's events as JSON while they are written: `cargo run --example real_time [PROVIDER] [SECONDS]`.
//!
//! PROVIDER is `(Name|{GUID})[:Level[:[!]EventIDs[:MatchAnyKeyword[:MatchAllKeyword]]]]`, by default `MyCompany.Demo`,
//! which the example `demo_provider` writes.

#[cfg(any(target_os = "linux", windows))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use openetw::Trace;
    use openetw::export::{JsonWriter, Options};
    use openetw::session::{EnableBuilder, Runtime, SessionBuilder};
    use std::io::Write;
    use std::time::Duration;

    let mut arguments = std::env::args().skip(1);
    let provider = arguments.next().unwrap_or_else(|| "MyCompany.Demo".to_owned());
    let seconds = arguments.next().map_or(Ok(5.0), |text| text.parse())?;

    // Consumers find a session by its name. A leased session stops when this program ends, however that happens, so
    // none is left running.
    let mut runtime = Runtime::connect_or_host()?;
    SessionBuilder::new("MyRealtimeSession").real_time().leased().start(runtime.controller())?;
    runtime.controller().enable("MyRealtimeSession", &EnableBuilder::new(provider.parse()?))?;

    // A consumer attaches to the session.
    let mut trace = Trace::open_session("MyRealtimeSession")?;
    println!("listening");

    // Blocks until the trace is stopped or the session stops.
    let stop = trace.stop_handle();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.stop();
    });
    let mut json = JsonWriter::new(&Options::default());
    let mut line = Vec::new();
    trace.for_each_event(|event| {
        line.clear();
        json.put(&mut line, event);
        line.push(b'\n');
        // The reader of the output may be gone.
        let _ = std::io::stdout().write_all(&line);
    })?;
    let status = runtime.controller().stop("MyRealtimeSession")?;
    println!("{}", status.loss());
    Ok(())
}

#[cfg(not(any(target_os = "linux", windows)))]
fn main() {
    println!("sessions run on Linux and Windows");
}
