//! Events of the .NET runtimes.

use etw_consumer::Event;
use etw_event::{FileTime, Guid, Record};
use etw_schema::FromValue;

use crate::processes::{ProcessIndex, Processes, ThreadIndex};

const RUNTIME: Guid = Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4);
const RUNDOWN: Guid = Guid::from_u128(0xa669021c_c450_4609_a035_5af59af4df18);
const PRIVATE: Guid = Guid::from_u128(0x763fd754_7086_4dfe_95eb_c01a46faf4ca);

/// The providers of the runtimes of .NET Framework since version 4, and of .NET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClrProvider {
    /// Microsoft-Windows-DotNETRuntime.
    Runtime,
    /// Microsoft-Windows-DotNETRuntimeRundown: what exists when a session starts or ends.
    Rundown,
    /// Microsoft-Windows-DotNETRuntimePrivate.
    Private,
}

impl ClrProvider {
    /// Returns the provider of a record, or `None` if it is not one of a runtime.
    #[inline]
    pub fn from_record(record: &Record<'_>) -> Option<ClrProvider> {
        if !record.kind().is_event_header() {
            return None;
        }
        match record.provider_id() {
            RUNTIME => Some(ClrProvider::Runtime),
            RUNDOWN => Some(ClrProvider::Rundown),
            PRIVATE => Some(ClrProvider::Private),
            _ => None,
        }
    }
}

/// An event of a runtime.
#[derive(Clone, Copy)]
pub struct ClrEvent<'e> {
    /// The provider, of which there are two.
    pub provider: ClrProvider,
    /// Id of the event in the manifest of its provider.
    pub id: u16,
    /// Time of the event.
    pub time: FileTime,
    /// The process that has written it.
    pub process: ProcessIndex,
    /// The thread that has written it.
    pub thread: ThreadIndex,
    event: Event<'e>,
}

impl<'e> ClrEvent<'e> {
    /// Returns the event with its process and thread, or `None` if its header names none.
    pub fn new(provider: ClrProvider, event: &Event<'e>, processes: &mut Processes) -> Option<ClrEvent<'e>> {
        let record = event.record;
        let (process_id, thread_id) = (record.process_id()?, record.thread_id()?);
        Some(ClrEvent {
            provider,
            id: record.descriptor().id,
            time: record.time(),
            process: processes.at(process_id),
            thread: processes.thread_of(thread_id, process_id),
            event: *event,
        })
    }

    /// Returns the event's record.
    pub fn record(&self) -> &'e Record<'e> {
        self.event.record
    }

    /// Returns a property, or `None` if the event lacks it.
    pub fn get<T: FromValue<'e>>(&self, name: &str) -> Option<T> {
        self.event.properties.as_ref().ok()?.try_get(name)
    }

    /// Returns a property as text, numbers by the names of their map.
    pub fn text(&self, name: &str) -> Option<String> {
        Some(self.event.properties.as_ref().ok()?.find(name)?.text().to_string())
    }

    /// Returns the number of the runtime in its process; 0 in events of the first versions, which lack it.
    pub(crate) fn runtime(&self) -> u16 {
        self.get("ClrInstanceID").unwrap_or(0)
    }
}
