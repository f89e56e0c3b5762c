//! Fuzz bodies of what people type: filters and provider strings; and of decoding as a whole.

use std::fmt::Display;
use std::hint::black_box;
use std::str::FromStr;

use etw_consumer::{Predicate, ProviderSpec, TimePoint};
use etw_etl::{EtlFile, Records};
use etw_export::{Event, JsonWriter, Options};
use etw_schema::{Located, Resolver};

/// A filter expression.
pub fn filter(bytes: &[u8]) {
    parse::<Predicate>(bytes);
}

/// A provider string, also as a point in time.
pub fn provider_string(bytes: &[u8]) {
    parse::<ProviderSpec>(bytes);
    parse::<TimePoint>(bytes);
}

fn parse<T: FromStr<Err: Display>>(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<T>() {
        Ok(value) => drop(black_box(value)),
        Err(error) => drop(black_box(error.to_string())),
    }
}

/// A whole file, every event resolved, located and written as JSON.
pub fn decoded_file(bytes: &[u8]) {
    let Ok(file) = EtlFile::open(bytes) else { return };
    let mut resolver = Resolver::new();
    let mut writer = JsonWriter::new(&Options::default());
    let mut located = Located::new();
    let (mut scratch, mut out) = (Vec::new(), Vec::new());
    for buffer in file.buffers().flatten() {
        let data = buffer.data(&mut scratch);
        let origin = buffer.origin(file.clock(), 0);
        for record in Records::new(data.bytes, &origin, buffer.place()).flatten() {
            out.clear();
            let properties = match resolver.resolve(&record) {
                Ok(compiled) => Ok(compiled.locate(&record, &mut located)),
                Err(undecoded) => Err(undecoded as &dyn Display),
            };
            writer.put(&mut out, &Event { record: &record, properties, provider: None, process: None });
            assert!(std::str::from_utf8(&out).is_ok(), "JSON that is not UTF-8");
        }
    }
}
