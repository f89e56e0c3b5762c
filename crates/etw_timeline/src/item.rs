//! What is written: things that happen, and the tracks that they happen on.

use std::io;

use etw_analysis::{Sample, Survey, Switch, ThreadIndex};
use etw_consumer::Event;
use etw_event::FileTime;

use crate::{Selection, Summary};

/// What is known before the second reading.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) survey: &'a Survey,
    pub(crate) selection: &'a Selection,
    /// When the trace begins.
    pub(crate) start: FileTime,
}

impl<'a> Context<'a> {
    /// The samples that are wanted.
    pub(crate) fn samples(self) -> impl Iterator<Item = &'a Sample> {
        let wanted = move |sample: &&Sample| self.selection.wants_thread(self.survey, Some(sample.thread));
        self.survey.samples().iter().filter(wanted)
    }

    /// Nanoseconds since the trace began.
    pub(crate) fn nanos(self, time: FileTime) -> u64 {
        u64::try_from(time.0.saturating_sub(self.start.0)).unwrap_or(0).saturating_mul(100)
    }

    /// Name of a thread: its own, or its process's.
    pub(crate) fn thread_name(self, thread: ThreadIndex) -> Option<&'a str> {
        let thread = self.survey.thread(thread)?;
        let process = thread.process.and_then(|process| self.survey.process(process));
        thread.name.or(process.and_then(|(_, name)| name))
    }
}

/// What a track is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    Thread(ThreadIndex),
    Disk(u32),
    /// What is about no thread that is known.
    Machine,
}

/// A track. Slices that overlap without lying in each other are on different lanes of their owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Track {
    pub(crate) owner: Owner,
    pub(crate) lane: u32,
}

/// Something that happens.
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
    /// A slice begins.
    Begin {
        track: Track,
        label: Label<'a>,
    },
    /// The slice of a track ends.
    End {
        track: Track,
        label: Label<'a>,
    },
    /// A slice that is known when it ends.
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

/// How something is called, and the event with its fields.
pub(crate) struct Label<'a> {
    pub(crate) name: &'a str,
    /// The provider.
    pub(crate) category: &'a str,
    pub(crate) event: &'a Event<'a>,
}

/// A writer of one format.
pub(crate) trait Sink {
    /// Writes what stands before the first item: names, samples.
    fn begin(&mut self, context: &Context<'_>, summary: &mut Summary) -> io::Result<()>;

    /// Writes an item; whether the format has a place for it.
    fn put(&mut self, context: &Context<'_>, item: &Item<'_>) -> io::Result<bool>;

    /// Writes what stands behind the last item.
    fn finish(self, context: &Context<'_>, end: FileTime) -> io::Result<()>;
}
