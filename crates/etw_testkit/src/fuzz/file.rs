//! Fuzz bodies of what a trace file is made of.

use std::hint::black_box;

use etw_etl::{ContextSwitches, EtlFile, Records, loss_of, xpress};
use etw_event::Fields;

use super::touch;

/// A whole file: every buffer, every record.
pub fn etl_file(bytes: &[u8]) {
    let Ok(file) = EtlFile::open(bytes) else { return };
    black_box(file.header());
    let mut scratch = Vec::new();
    for buffer in file.buffers() {
        let buffer = match buffer {
            Ok(buffer) => buffer,
            Err(damage) => {
                black_box(damage.to_string());
                continue;
            }
        };
        black_box(buffer.first_time(&mut scratch));
        let data = buffer.data(&mut scratch);
        black_box(data.damage.map(|damage| damage.to_string()));
        let origin = buffer.origin(file.clock(), 0);
        for record in Records::new(data.bytes, &origin, buffer.place()) {
            match record {
                Ok(record) => {
                    touch(&record);
                    black_box(loss_of(&record));
                }
                Err(damage) => {
                    black_box(damage.to_string());
                }
            }
        }
    }
}

/// A compressed buffer: a `u16` says how long it is when decompressed.
pub fn xpress(bytes: &[u8]) {
    let (Some(len), Some(input)) = (bytes.u16_at(0), bytes.get(2..)) else { return };
    let mut out = vec![0; usize::from(len)];
    black_box(xpress::decompress(input, &mut out).map_err(|error| error.to_string())).ok();
}

/// Compact context switches.
pub fn context_switches(bytes: &[u8]) {
    for switch in ContextSwitches::new(bytes) {
        black_box(switch);
    }
}
