//! .NET traces (`.nettrace`, `.netperf`), converted to `.etl` in an unnamed temporary file.
//!
//! Every event becomes a record with an `EVENT_HEADER`, so everything that reads `.etl` reads it. `docs/nettrace.md` has
//! the mapping.

mod kinds;
mod order;
mod payload;
mod records;

use std::fs::File;

use etw_etl::{LogFileHeader, WriteError, WriterOptions};
use etw_event::{Clock, ClockType, FileTime, Ticks};
use etw_nettrace::{Event, Item, Items, TraceFile, TraceHeader};
use etw_sys::FileMap;

use super::conversion::{self, BUFFER_BYTES, Converted, MAX_PROCESSORS, Output};
use super::error::InputError;
use super::limited::Limited;
use super::temporary::Room;
use kinds::Kinds;
use order::Order;
use records::Encoder;

pub(super) use etw_nettrace::is_nettrace;

/// Converts a trace into a temporary file, if there is room.
pub(super) fn convert(name: &str, bytes: &[u8], room: &mut Room) -> Result<(FileMap, Converted), InputError> {
    let (file, converted) = convert_on(name, bytes, room, None)?;
    let temporary = |source| InputError::Temporary { name: name.to_owned(), source };
    Ok((room.limits.map(&file).map_err(temporary)?, converted))
}

/// Converts a trace into a temporary file, if there is room. With a clock, its times are readings of that clock,
/// and those of the file are the system time; the file is complete even if the trace is not.
pub(super) fn convert_on(
    name: &str,
    bytes: &[u8],
    room: &mut Room,
    clock: Option<Clock>,
) -> Result<(File, Converted), InputError> {
    let file = TraceFile::open(bytes)
        .map_err(|error| InputError::Convert { name: name.to_owned(), reason: error.to_string() })?;
    conversion::into_temporary(name, room, |out| Conversion::run(&file, bytes.len() as u64, out, clock))
}

/// A running conversion.
struct Conversion<'a> {
    output: Output,
    order: Order<'a>,
    kinds: Kinds,
    encoder: Encoder,
    /// Number of events that no record can hold.
    left_out: u64,
    /// Whether the trace becomes a part of another one, which is complete without it.
    is_part: bool,
}

impl<'a> Conversion<'a> {
    fn run(
        file: &TraceFile<'a>,
        len_bytes: u64,
        out: Limited,
        clock: Option<Clock>,
    ) -> Result<(Limited, Converted), WriteError> {
        let header = file.header();
        let processors = processors(file);
        let format = format!("nettrace {}", header.version);
        let mut conversion = Conversion {
            output: Output::new(out, options(header, clock, processors), format, len_bytes)?,
            order: Order::default(),
            kinds: Kinds::default(),
            encoder: Encoder::new(header.pointer_size, processors, clock),
            is_part: clock.is_some(),
            left_out: 0,
        };
        let mut items = file.items();
        while let Some(item) = items.next() {
            conversion.add(&items, item)?;
        }
        conversion.write_until(&items, Ticks(i64::MAX))?;
        conversion.finish(&items)
    }

    fn add(&mut self, items: &Items<'a>, item: Item<'a>) -> Result<(), WriteError> {
        match item {
            Item::Event(event) => {
                if event.lost_before > 0 {
                    self.output.mark_losses(self.encoder.processor(&event))?;
                }
                if let Some(time) = self.order.push(event) {
                    self.write_until(items, time)?;
                }
            }
            Item::SequencePoint(_) => self.write_until(items, Ticks(i64::MAX))?,
            Item::Damage(damage) => self.output.add_damage(damage.offset, damage.what, damage.skipped),
            _ => {}
        }
        Ok(())
    }

    /// Writes the events up to a time, in time order.
    fn write_until(&mut self, items: &Items<'a>, time: Ticks) -> Result<(), WriteError> {
        let mut order = std::mem::take(&mut self.order);
        for event in order.take_until(time) {
            self.write(items, &event)?;
        }
        self.order = order;
        Ok(())
    }

    fn write(&mut self, items: &Items<'a>, event: &Event<'a>) -> Result<(), WriteError> {
        let kind = self.kinds.of(event.definition, || items.definition(event.definition));
        let processor = self.encoder.processor(event);
        let record = match self.encoder.encode(event, kind) {
            Ok(encoded) => encoded,
            Err(what) => {
                self.output.mark_losses(processor)?;
                self.left_out += 1;
                self.output.add_damage(event.offset, what, 0);
                return Ok(());
            }
        };
        // Only damaged files have events earlier than a sequence point before them.
        self.output.write(processor, record)?;
        if let Some(what) = self.encoder.defect() {
            self.output.add_damage(event.offset, what, 0);
        }
        Ok(())
    }

    fn finish(mut self, items: &Items<'a>) -> Result<(Limited, Converted), WriteError> {
        if !items.knows_all_losses() {
            self.output.add_damage(0, "too many threads to know the losses of all", 0);
        }
        // At least the events that describe the rest are missing at the end of a part that was cut off.
        let cut_off = u64::from(self.is_part && !items.is_ended());
        let lost = items.lost().saturating_add(self.left_out).saturating_add(cut_off);
        self.output.finish(lost, items.is_ended() || self.is_part)
    }
}

/// Returns the number of processors: that of the header, or more if events name more.
fn processors(file: &TraceFile<'_>) -> u32 {
    let named = file.items().filter_map(|item| match item {
        Item::Event(event) => event.processor,
        _ => None,
    });
    let named = named.filter(|processor| *processor < MAX_PROCESSORS).max().map_or(1, |highest| highest + 1);
    file.header().processors.unwrap_or(1).max(named).min(MAX_PROCESSORS)
}

/// Returns the properties of the `.etl` file. What the trace does not state stays zero.
fn options(header: &TraceHeader, clock: Option<Clock>, processors: u32) -> WriterOptions {
    let system_time = |clock: Clock| {
        let start = clock.to_filetime(header.start_ticks);
        Clock::new(ClockType::SystemTime, Ticks(start.0), start, FileTime::PER_SECOND)
    };
    let clock = clock.map_or(header.clock(), system_time);
    let mut options = WriterOptions::new(clock, BUFFER_BYTES, processors);
    options.process_id = header.process_id.unwrap_or(0);
    options.records.partition_info = false;
    options.header = LogFileHeader {
        pointer_size: header.pointer_size.bytes() as u32,
        provider_version: 0,
        cpu_speed_in_mhz: 0,
        timer_resolution: 0,
        boot_time: FileTime(0),
        ..options.header
    };
    options
}
