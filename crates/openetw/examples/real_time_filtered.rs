//! A session that wants of a provider one event only, from programs of one name: level, keywords and filters are decided
//! where events are written, and what is not wanted costs nothing. `cargo run --example real_time_filtered [SECONDS]`,
//! beside the example `demo_provider`.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use openetw::session::{EnableBuilder, Filter, Runtime, SessionBuilder};
    use openetw::{KeywordSpec, Level, ProviderKey, ProviderSpec, Trace};
    use std::time::Duration;

    let seconds = std::env::args().nth(1).map_or(Ok(5.0), |text| text.parse())?;
    let mut runtime = Runtime::connect_or_host()?;
    SessionBuilder::new("MyAdvancedSession").real_time().leased().start(runtime.controller())?;

    let provider = ProviderSpec {
        level: Level::INFORMATION,
        // Bit of `FileCreate`.
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
    trace.for_each_layout(|event| {
        if let Ok(name) = event.get::<String>("FileName") {
            println!("process {} creates {name}", event.record.process_id().unwrap_or(0));
        }
    })?;
    runtime.controller().stop("MyAdvancedSession")?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("sessions run on Linux");
}
