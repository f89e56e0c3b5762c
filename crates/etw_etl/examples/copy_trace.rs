//! Copies a trace record by record.
//!
//! `cargo run -p etw_etl --example copy_trace -- IN.etl OUT.etl [compressed]`

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;

use etw_etl::{BufferType, EtlFile, EtlWriter, Records, WriterOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, rest @ ..] = &arguments[..] else {
        return Err("usage: copy_trace IN.etl OUT.etl [compressed]".into());
    };
    let bytes = std::fs::read(from)?;
    let file = EtlFile::open(&bytes)?;
    let mut options = WriterOptions::relog(file.header());
    if rest.iter().any(|argument| argument == "compressed") {
        options = options.compressed();
    }
    let mut writer = None;
    let mut scratch = Vec::new();
    for buffer in file.buffers() {
        let buffer = match buffer {
            Ok(buffer) => buffer,
            Err(damage) => {
                eprintln!("{from}: {damage}");
                continue;
            }
        };
        let origin = buffer.origin(file.clock(), 0);
        let data = buffer.data(&mut scratch);
        if let Some(damage) = data.damage {
            eprintln!("{from}: {damage}");
        }
        let is_first = buffer.header.buffer_type == BufferType::HEADER;
        for record in Records::new(data.bytes, &origin, buffer.place()) {
            match record {
                Ok(record) if is_first && record.is_log_file_header() => {}
                Ok(record) if is_first => options.records.others.push(record.as_bytes().to_vec()),
                Ok(record) => {
                    if writer.is_none() {
                        let out = BufWriter::new(File::create(to)?);
                        writer = Some(EtlWriter::new(out, options.clone())?);
                    }
                    if let Some(writer) = &mut writer {
                        writer.write(record.processor(), record.as_bytes())?;
                    }
                }
                Err(damage) => eprintln!("{from}: {damage}"),
            }
        }
    }
    let Some(writer) = writer else { return Err(format!("{from}: no records").into()) };
    let written = writer.finish(file.header().end_time)?;
    println!("{to}: {} buffers, {} bytes", written.buffers, written.len_bytes);
    Ok(())
}
