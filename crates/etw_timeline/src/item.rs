//! The items that are written, and their tracks.

use std::io;

use etw_analysis::{Sample, Survey, Switch};
use etw_consumer::Event;
use etw_event::FileTime;
use etw_machine::ThreadIndex;

use crate::{Selection, Summary};

/// The data known before the second reading.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) survey: &'a Survey,
    pub(crate) selection: &'a Selection,
    /// Start of the trace.
    pub(crate) start: FileTime,
}

impl<'a> Context<'a> {
    /// Returns the selected samples.
    pub(crate) fn samples(self) -> impl Iterator<Item = &'a Sample> {
        let wanted = move |sample: &&Sample| self.selection.wants_thread(self.survey, Some(sample.thread));
        self.survey.samples().iter().filter(wanted)
    }

    /// Returns the nanoseconds since the start of the trace.
    pub(crate) fn nanos(self, time: FileTime) -> u64 {
        u64::try_from(time.0.saturating_sub(self.start.0)).unwrap_or(0).saturating_mul(100)
    }

    /// Returns the name of a disk's track.
    pub(crate) fn disk_name(self, machine: u32, disk: u32) -> String {
        self.survey.labelled(&format!("Disk {disk}"), machine)
    }

    /// Returns the name of a thread, or else that of its process.
    pub(crate) fn thread_name(self, thread: ThreadIndex) -> Option<&'a str> {
        let thread = self.survey.thread(thread)?;
        let process = thread.process.and_then(|process| self.survey.process(process));
        thread.name.or(process.and_then(|(_, name)| name))
    }
}

/// The owner of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    Thread(ThreadIndex),
    /// A machine and the number of a disk.
    Disk(u32, u32),
    /// Events without a known thread.
    Machine,
}

/// A track. Slices that overlap without being nested are on different lanes of their owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Track {
    pub(crate) owner: Owner,
    pub(crate) lane: u32,
}

/// An item to write.
pub(crate) struct Item<'a> {
    pub(crate) time: FileTime,
    pub(crate) processor: u16,
    pub(crate) kind: ItemKind<'a>,
}

pub(crate) enum ItemKind<'a> {
    Switch(Switch),
    Ready {
        thread: ThreadIndex,
        by: Option<ThreadIndex>,
    },
    /// The start of a slice.
    Begin {
        track: Track,
        label: Label<'a>,
    },
    /// The end of a track's current slice.
    End {
        track: Track,
        label: Label<'a>,
    },
    /// A complete slice, known when it ends.
    Slice {
        track: Track,
        begin: FileTime,
        label: Label<'a>,
    },
    Instant {
        track: Track,
        label: Label<'a>,
    },
}

/// The name of an item, and the event with its fields.
pub(crate) struct Label<'a> {
    pub(crate) name: &'a str,
    /// The provider.
    pub(crate) category: &'a str,
    pub(crate) event: &'a Event<'a>,
}

/// A writer of one format.
pub(crate) trait Sink {
    /// Writes the data before the first item: names and samples.
    fn begin(&mut self, context: &Context<'_>, summary: &mut Summary) -> io::Result<()>;

    /// Writes an item; returns whether the format supports it.
    fn put(&mut self, context: &Context<'_>, item: &Item<'_>) -> io::Result<bool>;

    /// Writes the data after the last item.
    fn finish(self, context: &Context<'_>, end: FileTime) -> io::Result<()>;
}
