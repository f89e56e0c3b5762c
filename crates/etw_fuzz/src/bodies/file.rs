//! Fuzz bodies for the parts of a trace file.

use std::hint::black_box;

use etw_etl::{ContextSwitches, EtlFile, Records, loss_of, xpress};
use etw_event::Fields;

use super::record::touch;

/// Reads a whole file: every buffer, every record.
pub fn etl_file(bytes: &[u8]) {
    let Ok(file) = EtlFile::open(bytes) else { return };
    black_box(file.header());
    let (mut scratch, mut buffers) = (Vec::new(), 0);
    for buffer in file.buffers() {
        buffers += 1;
        assert!(buffers <= 2 + bytes.len() / 8, "more buffers than the file has room for");
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
        let mut records = 0;
        for record in Records::new(data.bytes, &origin, buffer.place()) {
            records += 1;
            assert!(records <= 2 + data.bytes.len() / 4, "more records than the buffer has room for");
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

/// Decompresses a buffer whose first `u16` is its decompressed size; also compresses and decompresses the input.
pub fn xpress(bytes: &[u8]) {
    let (Some(len), Some(input)) = (bytes.u16_at(0), bytes.get(2..)) else { return };
    let mut out = vec![0; usize::from(len)];
    black_box(xpress::decompress(input, &mut out).map_err(|error| error.to_string())).ok();
    let mut compressed = Vec::new();
    xpress::Compressor::default().compress(input, &mut compressed);
    let mut again = vec![0; input.len()];
    let result = xpress::decompress(&compressed, &mut again);
    assert!(result.is_ok() && again == input, "{result:?}");
}

/// Reads packed context switches.
pub fn context_switches(bytes: &[u8]) {
    for switch in ContextSwitches::new(bytes) {
        black_box(switch);
    }
}
