//! Reads a trace file on any system and prints a line for each event: `cargo run --example read_file FILE`.

use openetw::Trace;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("missing argument: FILE")?;
    // Corresponds to `OpenTrace`.
    let mut trace = Trace::open_file(file)?;
    // Corresponds to `ProcessTrace`: returns when all events have been read. `record.raw_time()` is the time on the
    // session's clock (`PROCESS_TRACE_MODE_RAW_TIMESTAMP`).
    trace.for_each_event(|event| {
        let (record, names) = (event.record, event.names());
        println!(
            "{} {} {} id {} process {}",
            record.time(),
            names.provider_text(),
            names.event(),
            record.descriptor().id,
            record.process_id().unwrap_or(0),
        );
        match &event.properties {
            Ok(properties) => {
                for property in properties.iter() {
                    println!("    {} = {}", property.name(), property.text());
                }
            }
            Err(reason) => println!("    not decoded: {reason}"),
        }
    })?;
    println!("{} events lost", trace.statistics().events_lost());
    Ok(())
}
