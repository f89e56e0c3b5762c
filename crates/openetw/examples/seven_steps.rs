//! The seven steps of every program that consumes events. Run `cargo run --example seven_steps [SECONDS]` while the
//! example `demo_provider` runs.

#[cfg(any(target_os = "linux", windows))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use openetw::session::{EnableBuilder, Runtime, SessionBuilder};
    use openetw::{Callbacks, KeywordSpec, Predicate, ProviderKey, ProviderSpec, Subscription, Trace};
    use std::time::Duration;

    let seconds = std::env::args().nth(1).map_or(Ok(5.0), |text| text.parse())?;

    // 1. Create a session.
    let mut runtime = Runtime::connect_or_host()?;
    let session = SessionBuilder::new("SevenSteps").real_time().leased();

    // 2. Choose the providers.
    let mut demo = ProviderSpec::new(ProviderKey::parse("MyCompany.Demo")?);

    // 3. For each, choose the keywords: events with any bit of `any` and all bits of `all`.
    demo.any = KeywordSpec { mask: 0x30, ..KeywordSpec::default() };
    demo.all = KeywordSpec { mask: 0x10, ..KeywordSpec::default() };

    // 4. Register callbacks.
    let mut files = Vec::new();
    let creates = Subscription::to(demo.clone())
        .on(Predicate::property_icontains("FileName", "FILE"), |event| {
            files.push(event.get::<String>("FileName")?);
            Ok(())
        })
        .on_error(|event, error| eprintln!("{}: {error}", event.record.time()));
    let mut callbacks = Callbacks::new().subscribe(creates);

    // 5. Start the session and enable the providers.
    session.start(runtime.controller())?;
    runtime.controller().enable("SevenSteps", &EnableBuilder::new(demo))?;

    // 6. Process events on this thread until another one stops it.
    let mut trace = Trace::open_session("SevenSteps")?;
    println!("listening");
    let stop = trace.stop_handle();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.stop();
    });
    trace.for_each_subscribed(&mut callbacks)?;
    drop(callbacks);

    // 7. Stop the session.
    let status = runtime.controller().stop("SevenSteps")?;
    println!("{} files; {}", files.len(), status.loss());
    Ok(())
}

#[cfg(not(any(target_os = "linux", windows)))]
fn main() {
    println!("sessions run on Linux and Windows");
}
