//! Stacks of events, with the names of their functions, after what each writer writes of an event.

use etw_event::StackFrame;
use etw_schema::Event;

use crate::escape::{self, Csv, Line};
use crate::put;
use crate::{CsvWriter, JsonWriter, TextWriter, json};

/// The name of the column of stacks in CSV.
const COLUMN: &[u8] = b"Stack";
/// The end of a line in CSV.
const END: &[u8] = b"\r\n";

impl JsonWriter {
    /// Appends an event as [`JsonWriter::put`] does, with its stack as `Stack` if it has one.
    pub fn put_with_stack(&mut self, out: &mut Vec<u8>, event: &Event<'_>, stack: &[StackFrame<'_>]) {
        let before = out.len();
        self.put(out, event);
        if stack.is_empty() || out.len() == before {
            return;
        }
        // The end of the event's object.
        out.pop();
        out.extend_from_slice(b",\"Stack\":[");
        for (index, frame) in stack.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            json_frame(out, frame);
        }
        out.extend_from_slice(b"]}");
    }
}

fn json_frame(out: &mut Vec<u8>, frame: &StackFrame<'_>) {
    out.extend_from_slice(b"{\"Address\":\"");
    put::hex(out, frame.address);
    out.push(b'"');
    member(out, b",\"Module\":", frame.module);
    member(out, b",\"Function\":", frame.function);
    if let Some(offset) = frame.offset {
        out.extend_from_slice(b",\"Offset\":");
        put::unsigned(out, offset);
    }
    member(out, b",\"File\":", frame.file);
    if let Some(line) = frame.line {
        out.extend_from_slice(b",\"Line\":");
        put::unsigned32(out, line);
    }
    if frame.is_inlined {
        out.extend_from_slice(b",\"Inlined\":true");
    }
    out.push(b'}');
}

fn member(out: &mut Vec<u8>, key: &[u8], value: Option<&str>) {
    if let Some(value) = value {
        out.extend_from_slice(key);
        json::string(out, value);
    }
}

impl TextWriter {
    /// Appends an event as [`TextWriter::put`] does, and a line for each frame of its stack.
    pub fn put_with_stack(&mut self, out: &mut Vec<u8>, event: &Event<'_>, stack: &[StackFrame<'_>]) {
        self.put(out, event);
        for frame in stack {
            out.extend_from_slice(b"    ");
            escape::display::<Line>(out, frame);
            out.extend_from_slice(if frame.is_inlined { b" [inlined]\n" } else { b"\n" });
        }
    }
}

impl CsvWriter {
    /// Appends the line of column names as [`CsvWriter::put_header`] does, with a last column for stacks.
    pub fn put_header_with_stack(&self, out: &mut Vec<u8>) {
        self.put_header(out);
        out.truncate(out.len() - END.len());
        out.push(self.separator);
        out.extend_from_slice(COLUMN);
        out.extend_from_slice(END);
    }

    /// Appends an event as [`CsvWriter::put`] does, with its stack in the last column: frames innermost first, separated
    /// by `;`. In names, `:` stands for `;`.
    pub fn put_with_stack(&mut self, out: &mut Vec<u8>, event: &Event<'_>, stack: &[StackFrame<'_>]) {
        let before = out.len();
        self.put(out, event);
        if out.len() == before {
            return;
        }
        out.truncate(out.len() - END.len());
        out.push(self.separator);
        for (index, frame) in stack.iter().enumerate() {
            out.push(if index == 0 { b'"' } else { b';' });
            let start = out.len();
            escape::display::<Csv>(out, frame);
            out.iter_mut().skip(start).filter(|byte| **byte == b';').for_each(|byte| *byte = b':');
        }
        if !stack.is_empty() {
            out.push(b'"');
        }
        out.extend_from_slice(END);
    }
}
