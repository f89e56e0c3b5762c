//! The parts of WPP messages, by the names that TDH has for them.

// UNSAFETY: reads a member of a union of the record.
#![expect(unsafe_code)]

use etw_event::Guid;
use etw_schema::Event;
use windows_sys::Win32::System::Diagnostics::Etw::{EVENT_HEADER_FLAG_TRACE_MESSAGE, EVENT_RECORD};

use crate::guid;
use crate::time::system_time;
use crate::wide::Width;

/// Returns whether a record is a WPP message.
pub(super) fn is_message(record: &EVENT_RECORD) -> bool {
    u32::from(record.EventHeader.Flags) & EVENT_HEADER_FLAG_TRACE_MESSAGE != 0
}

/// Returns a part that the record itself has.
pub(super) fn part_of_record(record: &EVENT_RECORD, name: &str) -> Option<Vec<u8>> {
    let header = &record.EventHeader;
    Some(match name {
        "TraceGuid" | "ProviderGuid" => Guid::to_bytes(guid::from(&header.ProviderId)).to_vec(),
        "ProcessId" => header.ProcessId.to_le_bytes().to_vec(),
        "ThreadId" => header.ThreadId.to_le_bytes().to_vec(),
        "RawSystemTime" => header.TimeStamp.to_le_bytes().to_vec(),
        "CpuNumber" => {
            // SAFETY: every value of the union is one of its members.
            let processor = unsafe { record.BufferContext.Anonymous.ProcessorIndex };
            u32::from(processor).to_le_bytes().to_vec()
        }
        "SystemTime" => {
            let time = system_time(header.TimeStamp)?;
            let (date, day) = ([time.wYear, time.wMonth], [time.wDayOfWeek, time.wDay]);
            let clock = [time.wHour, time.wMinute, time.wSecond, time.wMilliseconds];
            [&date[..], &day, &clock].concat().into_iter().flat_map(u16::to_le_bytes).collect()
        }
        _ => return None,
    })
}

/// Returns a part that the format of the message states, or its sequence number.
pub(super) fn part_of_event(event: &Event<'_>, name: &str, width: Width) -> Option<Vec<u8>> {
    if name == "SequenceNum" {
        return event.record.message_sequence().map(|number| number.to_le_bytes().to_vec());
    }
    let schema = event.properties.as_ref().ok()?.schema();
    let text = match name {
        "FormattedString" => return message(event).map(|text| width.encode(&text)),
        "FlagsName" if schema.keyword_names.is_empty() => None,
        "FlagsName" => return Some(width.encode(&schema.keyword_names.join(", "))),
        "GuidName" => Some(&*schema.provider.name),
        "GuidTypeName" => schema.name.as_deref(),
        "FunctionName" => schema.opcode_name.as_deref(),
        "LevelName" => schema.level_name.as_deref(),
        "ComponentName" => schema.channel_name.as_deref(),
        _ => None,
    };
    text.map(|text| width.encode(text))
}

/// Returns the text of a message.
pub(super) fn message(event: &Event<'_>) -> Option<String> {
    let mut text = String::new();
    event.properties.as_ref().ok()?.write_message(&mut text).then_some(text)
}
