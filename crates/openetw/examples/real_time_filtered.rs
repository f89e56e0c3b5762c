//! A session that requests a single event of a provider, from programs with one name. Level, keywords and filters are
//! checked where events are written, so unwanted events cost nothing. Run `cargo run --example real_time_filtered
//! [SECONDS]` while the example `demo_provider` runs.

#[cfg(any(target_os = "linux", windows))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use openetw::session::{EnableBuilder, Filter, Runtime, SessionBuilder};
    use openetw::{KeywordSpec, Level, ProviderKey, ProviderSpec, Trace};
    use std::time::Duration;

    let seconds = std::env::args().nth(1).map_or(Ok(5.0), |text| text.parse())?;
    let mut runtime = Runtime::connect_or_host()?;
    SessionBuilder::new("MyAdvancedSession").real_time().leased().start(runtime.controller())?;

    let provider = ProviderSpec {
        level: Level::INFORMATION,
        // The keyword of `FileCreate`.
        any: KeywordSpec { mask: 0x10, ..KeywordSpec::default() },
        ..ProviderSpec::new(ProviderKey::parse("MyCompany.Demo")?)
    };
    let enable = EnableBuilder::new(provider)
        .filter(Filter::EventIds { include: true, ids: vec![12] })
        .filter(Filter::ExecutableNames(vec!["demo_provider".to_owned()]));
    runtime.controller().enable("MyAdvancedSession", &enable)?;

    let mut trace = Trace::open_session("MyAdvancedSession")?;
    println!("listening");
    let stop = trace.stop_handle();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.stop();
    });
    trace.for_each_event(|event| {
        if let Ok(name) = event.get::<String>("FileName") {
            println!("process {} creates {name}", event.record.process_id().unwrap_or(0));
        }
    })?;
    runtime.controller().stop("MyAdvancedSession")?;
    Ok(())
}

#[cfg(not(any(target_os = "linux", windows)))]
fn main() {
    println!("sessions run on Linux and Windows");
}
