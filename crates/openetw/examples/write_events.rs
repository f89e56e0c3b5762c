//! A program with a provider that records itself: it starts a session, writes events, stops the session and reads the
//! file. `cargo run --example write_events [FILE]`; the default file is `write_events.etl`.
//!
//! A program that others record (`etw record -p MyCompany.Requests -- ./program`) needs only the lines marked as
//! needed.

#[cfg(any(target_os = "linux", windows))]
use openetw::provider::{ControlCode, activity};
#[cfg(any(target_os = "linux", windows))]
use openetw::session::{EnableBuilder, Runtime, SessionBuilder};
#[cfg(any(target_os = "linux", windows))]
use openetw::{Keyword, Level, Opcode, Trace, event, provider};

#[cfg(any(target_os = "linux", windows))]
provider! {
    /// Requests of this program. (Needed.)
    static REQUESTS: "MyCompany.Requests";
}

/// Keyword of events about the cache.
#[cfg(any(target_os = "linux", windows))]
const CACHE: Keyword = Keyword(0x1);

#[cfg(any(target_os = "linux", windows))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "write_events.etl".to_owned());
    let file = std::path::absolute(file)?;

    // The running host, or one in this process.
    let mut runtime = Runtime::connect_or_host()?;
    SessionBuilder::new("Requests").file(&file).start(runtime.controller())?;
    runtime.controller().enable("Requests", &EnableBuilder::new("MyCompany.Requests".parse()?))?;

    // Needed: from here on sessions can enable the provider.
    REQUESTS.register_with(|control| {
        if control.code == ControlCode::CaptureState {
            event!(REQUESTS, "State", level: Level::INFORMATION, u32("open", 0));
        }
    });
    for number in 0..100 {
        request(number);
    }

    let status = runtime.controller().stop("Requests")?;
    let mut read = 0;
    Trace::open_file(&file)?.for_each_event(|event| {
        let is_ours = event.record.provider_id() == REQUESTS.guid();
        if is_ours && event.get::<u32>("number").is_ok() {
            read += 1;
        }
    })?;
    println!("{read} events read; {}", status.loss());
    Ok(())
}

/// Writes an activity with a start, a stop and an event in between.
#[cfg(any(target_os = "linux", windows))]
fn request(number: u32) {
    let scope = activity::Scope::new();
    let related = scope.parent();
    event!(
        REQUESTS, "Request", level: Level::INFORMATION, opcode: Opcode::START, related: &related,
        u32("number", number), str8("path", &format!("/item/{number}")),
    );
    event!(REQUESTS, "CacheMiss", level: Level::VERBOSE, keyword: CACHE, u32("number", number));
    event!(REQUESTS, "Request", level: Level::INFORMATION, opcode: Opcode::STOP, u32("number", number), u16("status", 200));
}

#[cfg(not(any(target_os = "linux", windows)))]
fn main() {
    println!("sessions run on Linux and Windows");
}
