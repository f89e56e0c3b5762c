//! A session, its providers and their callbacks in one object. Run `cargo run --example user_trace [SECONDS]` while the
//! example `demo_provider` runs.

#[cfg(any(target_os = "linux", windows))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use openetw::Predicate;
    use openetw::session::{Filter, TracedProvider, UserTrace};
    use std::time::Duration;

    let seconds = std::env::args().nth(1).map_or(Ok(5.0), |text| text.parse())?;
    let mut files = Vec::new();
    let mut others = 0;

    // Level, keywords and filters are checked where events are written; predicates where they are read.
    let demo = TracedProvider::new("MyCompany.Demo:Verbose::0x30".parse()?)
        .filter(Filter::ExecutableNames(vec!["demo_provider".to_owned()]))
        .on(Predicate::id_is(12), |event| {
            files.push(event.get::<String>("FileName")?);
            Ok(())
        })
        .on(Predicate::id_is(15), |event| {
            // The event has no such property.
            event.get::<u32>("Offset")?;
            Ok(())
        })
        .on_error(|_, _| others += 1);
    let trace = UserTrace::new("MyUserTrace")
        .enable(demo)
        .otherwise(|event| assert_ne!(event.names().provider(), Some("MyCompany.Demo")));

    // Both handles work on any thread.
    let (stop, counts) = (trace.stop_handle(), trace.statistics_handle());
    let watcher = std::thread::spawn(move || {
        // The first record is the session's header.
        while counts.read().delivered == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        println!("listening");
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.stop();
        counts.read()
    });

    // Blocks until the trace is stopped, and delivers everything that was written before.
    let end = trace.start()?;
    let counts = watcher.join().map_err(|_| "the watcher failed")?;
    let loss = end.status.map(|status| status.loss()).unwrap_or_default();
    println!("{} files, {others} failed callbacks, {loss}", files.len());
    println!("{} of {} events before the stop", counts.delivered, end.statistics.delivered);
    Ok(())
}

#[cfg(not(any(target_os = "linux", windows)))]
fn main() {
    println!("sessions run on Linux and Windows");
}
