//! Reads a trace file on any system, and prints a line for each event: `cargo run --example read_file FILE`.

use openetw::Trace;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("which file?")?;
    // The role of `OpenTrace`.
    let mut trace = Trace::open_file(file)?;
    // The role of `ProcessTrace`: it returns when all events have been read. `record.raw_time()` has the time as the
    // session's clock tells it (`PROCESS_TRACE_MODE_RAW_TIMESTAMP`).
    trace.for_each_event(|event| {
        println!(
            "{} {} {} id {} process {}",
            event.time,
            event.provider.as_deref().unwrap_or("?"),
            event.name.as_deref().unwrap_or("?"),
            event.descriptor.id,
            event.process_id.unwrap_or(0),
        );
        for (name, value) in event.properties.iter() {
            println!("    {name} = {value:?}");
        }
    })?;
    println!("{} events lost", trace.statistics().events_lost());
    Ok(())
}
