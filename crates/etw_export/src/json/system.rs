//! The JSON of an event's header. The parts shared by all events with one schema are prepared once.

use etw_event::Record;
use etw_schema::Event;

use super::string;
use crate::header::SourcePart;
use crate::put::{self, TimeWriter};
use crate::source::Source;

/// The JSON shared by all events with one schema and descriptor.
pub(super) struct System {
    /// From `"Channel"` to the comma before `"Correlation"`.
    head: Vec<u8>,
    /// From `,"Keywords"` to `"SystemTime":"`.
    tail: Vec<u8>,
}

impl System {
    /// Creates the parts shared by events with the header and the schema of `event`.
    pub(super) fn new(event: &Event<'_>) -> System {
        let descriptor = event.record.descriptor();
        let names = event.names();
        let mut head = Vec::new();
        string_member(&mut head, "Channel", names.channel());
        number_member(&mut head, "EventID", descriptor.id.into());
        number_member(&mut head, "Version", descriptor.version.into());
        string_member(&mut head, "EventType", names.event_type().as_deref());
        if let Some(guid) = names.event_guid() {
            head.extend_from_slice(b"\"EventGuid\":\"");
            put::guid(&mut head, guid);
            head.extend_from_slice(b"\",");
        }
        let mut tail = Vec::new();
        tail.extend_from_slice(b",\"Keywords\":{\"Mask\":\"");
        put::hex(&mut tail, descriptor.keyword.0);
        tail.push(b'"');
        for (index, name) in names.keywords().enumerate() {
            tail.extend_from_slice(if index == 0 { b",\"Name\":[" } else { b"," });
            string(&mut tail, name);
        }
        if names.keywords().next().is_some() {
            tail.push(b']');
        }
        tail.push(b'}');
        value_and_name(&mut tail, "Level", descriptor.level.0.into(), names.level());
        value_and_name(&mut tail, "Opcode", descriptor.opcode.0.into(), names.opcode());
        value_and_name(&mut tail, "Task", descriptor.task, names.task());
        tail.extend_from_slice(b",\"Provider\":{\"Guid\":\"");
        put::guid(&mut tail, names.provider_guid());
        tail.push(b'"');
        if let Some(name) = names.provider() {
            tail.extend_from_slice(b",\"Name\":");
            string(&mut tail, name);
        }
        tail.extend_from_slice(b"},\"TimeCreated\":{\"SystemTime\":\"");
        System { head, tail }
    }

    /// Writes the `System` object, without its end. `computer` is written before it, with its comma.
    #[inline]
    pub(super) fn put(
        &self,
        out: &mut Vec<u8>,
        record: &Record<'_>,
        computer: &[u8],
        time: &mut TimeWriter,
        raw_time: bool,
    ) {
        out.extend_from_slice(b"\"System\":{");
        out.extend_from_slice(computer);
        out.extend_from_slice(&self.head);
        correlation(out, record);
        execution(out, record);
        out.extend_from_slice(&self.tail);
        time.put(out, record.time());
        if raw_time {
            out.extend_from_slice(b"\",\"RawTime\":");
            put::signed(out, record.raw_time().0);
            out.push(b'}');
        } else {
            out.extend_from_slice(b"\"}");
        }
    }
}

/// Returns the start of `Source`, up to the name of the file.
pub(super) fn source(source: &Source) -> Vec<u8> {
    let mut start = b",\"Source\":{\"File\":".to_vec();
    string(&mut start, &source.name);
    start
}

/// Writes `,"Source":{…}`, where an event is from.
#[cold]
pub(super) fn put_source(out: &mut Vec<u8>, record: &Record<'_>, files: &[Vec<u8>]) {
    let Some(start) = files.get(record.origin().source as usize) else { return };
    out.extend_from_slice(start);
    let place = record.place();
    for part in SourcePart::ALL {
        if let Some(number) = part.number(place) {
            out.push(b',');
            string(out, part.name());
            out.push(b':');
            put::unsigned(out, number);
        }
    }
    out.push(b'}');
}

/// Writes `"Correlation":{…},` if the event has an activity.
#[inline]
fn correlation(out: &mut Vec<u8>, record: &Record<'_>) {
    let (activity, related) = (record.activity_id(), record.related_activity_id());
    if activity.is_none() && related.is_none() {
        return;
    }
    out.extend_from_slice(b"\"Correlation\":{");
    if let Some(activity) = activity {
        out.extend_from_slice(b"\"ActivityID\":\"");
        put::guid(out, activity);
        out.extend_from_slice(if related.is_some() { b"\"," } else { b"\"" });
    }
    if let Some(related) = related {
        out.extend_from_slice(b"\"RelatedActivityID\":\"");
        put::guid(out, related);
        out.push(b'"');
    }
    out.extend_from_slice(b"},");
}

/// Writes `"Execution":{…}`.
#[inline]
fn execution(out: &mut Vec<u8>, record: &Record<'_>) {
    out.extend_from_slice(b"\"Execution\":{");
    if let Some(process) = record.process_id() {
        out.extend_from_slice(b"\"ProcessID\":");
        put::unsigned32(out, process);
        out.push(b',');
    }
    if let Some(thread) = record.thread_id() {
        out.extend_from_slice(b"\"ThreadID\":");
        put::unsigned32(out, thread);
        out.push(b',');
    }
    out.extend_from_slice(b"\"ProcessorID\":");
    put::unsigned32(out, record.processor().into());
    if let Some((kernel, user)) = record.cpu_times() {
        out.extend_from_slice(b",\"KernelTime\":");
        put::unsigned32(out, kernel);
        out.extend_from_slice(b",\"UserTime\":");
        put::unsigned32(out, user);
    }
    if let Some(time) = record.processor_time() {
        out.extend_from_slice(b",\"ProcessorTime\":");
        put::unsigned(out, time);
    }
    out.push(b'}');
}

pub(super) fn string_member(out: &mut Vec<u8>, name: &str, text: Option<&str>) {
    if let Some(text) = text {
        string(out, name);
        out.push(b':');
        string(out, text);
        out.push(b',');
    }
}

fn number_member(out: &mut Vec<u8>, name: &str, number: u32) {
    string(out, name);
    out.push(b':');
    put::unsigned32(out, number);
    out.push(b',');
}

fn value_and_name(out: &mut Vec<u8>, member: &str, value: u16, name: Option<&str>) {
    out.push(b',');
    string(out, member);
    out.extend_from_slice(b":{\"Value\":");
    put::unsigned32(out, value.into());
    if let Some(name) = name {
        out.extend_from_slice(b",\"Name\":");
        string(out, name);
    }
    out.push(b'}');
}
