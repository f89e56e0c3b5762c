//! Garbage collections: what was collected, and how long threads were suspended for it.
//!
//! A pause is the time from GCSuspendEEBegin, for a collection or its preparation, to GCRestartEEEnd of the same thread.
//! It belongs to the collection that starts in it. If none starts, it is a further pause of the background collection.

pub(crate) mod heap;

use etw_event::FileTime;

use crate::managed::{ClrEvent, ClrProvider};
use crate::maps::HashMap;
use crate::model::facts::Collected;
use crate::processes::{ProcessIndex, ThreadIndex};
use crate::{Duration, Window};
use heap::Heap;

/// Maximum number of collections; further ones are only counted.
const MAX_COLLECTIONS: usize = 1 << 18;
/// Number of the last collections that can still be running: young ones run while a background one does.
const MAX_RUNNING: usize = 1 << 10;
/// Reasons to suspend all threads (`GCSuspendEEReasonMap`): for a collection, and for its preparation.
const FOR_GC: [u32; 2] = [1, 6];
/// Type of a background collection (`GCTypeMap`).
const BACKGROUND: u32 = 1;

/// A garbage collection.
#[derive(Debug)]
pub struct Collection {
    /// The process whose heap was collected.
    pub process: ProcessIndex,
    /// Number of the collection in its process, from 1.
    pub number: u32,
    /// The oldest generation that was collected.
    pub generation: Option<u32>,
    /// Whether the program ran while it went on.
    pub is_background: bool,
    /// The type by its name (`GCTypeMap`).
    pub kind: Option<String>,
    /// The reason by its name (`GCReasonMap`).
    pub reason: Option<String>,
    /// When it began.
    pub start: FileTime,
    /// When it ended, if the trace has that.
    pub end: Option<FileTime>,
    end_thread: Option<ThreadIndex>,
    /// Time for which all threads were suspended; unknown if the trace does not contain its begin and end.
    pub pause: Option<Duration>,
    /// The part of it that the suspension took.
    pub suspension: Option<Duration>,
    /// The sizes of the heap before and after it.
    pub heap: Heap,
    pub(crate) is_in_window: bool,
}

/// The suspension of all threads.
#[derive(Debug)]
struct Suspension {
    thread: ThreadIndex,
    begin: FileTime,
    /// Time at which all were suspended.
    complete: Option<FileTime>,
    /// Number of the runtime's collections at the start.
    collections: usize,
}

/// A runtime in a process; a process can have several.
#[derive(Debug, Default)]
struct Runtime {
    collections: Vec<Collection>,
    suspension: Option<Suspension>,
}

/// The garbage collections of all processes.
#[derive(Debug, Default)]
pub struct Collections {
    runtimes: HashMap<(ProcessIndex, u16), Runtime>,
    count: usize,
    /// Collections beyond the maximum.
    pub skipped: u64,
}

impl Collections {
    /// Adds an event.
    pub(crate) fn event(&mut self, event: &ClrEvent<'_>, window: &Window) {
        let is_of_heap = (event.provider, event.id) == (ClrProvider::Private, 4);
        if !is_of_heap && (event.provider != ClrProvider::Runtime || !matches!(event.id, 1..=4 | 8 | 9 | 204))
        {
            return;
        }
        let runtime = self.runtimes.entry((event.process, event.runtime())).or_default();
        match event.id {
            204 => runtime.add_details(event),
            4 if is_of_heap => runtime.add_details(event),
            9 => runtime.suspend(event),
            8 => runtime.suspended(event),
            1 if self.count >= MAX_COLLECTIONS => self.skipped += 1,
            1 => self.count += usize::from(runtime.start(event, window)),
            2 => runtime.end(event),
            4 => runtime.set_stats(event),
            _ => runtime.restart(event),
        }
    }

    /// Returns what is known of the collections, in the order of their starts.
    pub fn collected(&self) -> Vec<Collected<'_>> {
        let mut all: Vec<_> = self.all().map(Collection::fact).collect();
        all.sort_by_key(|collected| (collected.start, collected.process, collected.number));
        all
    }

    /// Returns the collections that started in the window.
    pub fn all(&self) -> impl Iterator<Item = &Collection> {
        let all = self.runtimes.values().flat_map(|runtime| &runtime.collections);
        all.filter(|collection| collection.is_in_window)
    }
}

impl Collection {
    /// Returns the cells of the collection's row.
    pub(crate) fn fact(&self) -> Collected<'_> {
        let details = self.heap.details.iter();
        Collected {
            process: self.process,
            number: self.number,
            generation: self.generation,
            kind: self.kind.as_deref(),
            reason: self.reason.as_deref(),
            start: self.start,
            end: self.end,
            pause: self.pause,
            suspension: self.suspension,
            before: Heap::sum(details.map(|part| part.map(|part| part.before))),
            after: Heap::sum(self.heap.after),
            promoted: Heap::sum(self.heap.promoted),
        }
    }
}

impl Runtime {
    /// Adds GCSuspendEEBegin.
    fn suspend(&mut self, event: &ClrEvent<'_>) {
        if event.get::<u32>("Reason").is_some_and(|reason| FOR_GC.contains(&reason)) {
            self.suspension = Some(Suspension {
                thread: event.thread,
                begin: event.time,
                complete: None,
                collections: self.collections.len(),
            });
        }
    }

    /// Adds GCSuspendEEEnd.
    fn suspended(&mut self, event: &ClrEvent<'_>) {
        let suspension = self.suspension.as_mut().filter(|suspension| suspension.thread == event.thread);
        if let Some(suspension) = suspension {
            suspension.complete = suspension.complete.or(Some(event.time));
        }
    }

    /// Adds GCStart; returns whether it is a new collection. Runtimes may log it in two versions.
    fn start(&mut self, event: &ClrEvent<'_>, window: &Window) -> bool {
        let Some(number) = event.get::<u32>("Count") else { return false };
        if self.collections.last().is_some_and(|last| last.number == number) {
            return false;
        }
        self.collections.push(Collection {
            process: event.process,
            number,
            generation: event.get("Depth"),
            is_background: event.get("Type") == Some(BACKGROUND),
            kind: event.text("Type"),
            reason: event.text("Reason"),
            start: event.time,
            end: None,
            end_thread: None,
            pause: None,
            suspension: None,
            heap: Heap::default(),
            is_in_window: window.has(event.time),
        });
        true
    }

    /// Adds GCEnd.
    fn end(&mut self, event: &ClrEvent<'_>) {
        let Some(number) = event.get::<u32>("Count") else { return };
        let open = self.recent().find(|collection| collection.number == number && collection.end.is_none());
        if let Some(collection) = open {
            collection.end = Some(event.time);
            collection.end_thread = Some(event.thread);
            collection.generation = event.get("Depth").or(collection.generation);
        }
    }

    /// Adds GCHeapStats, which follows GCEnd.
    fn set_stats(&mut self, event: &ClrEvent<'_>) {
        let ended = self.recent().find(|collection| collection.end_thread == Some(event.thread));
        if let Some(collection) = ended.filter(|collection| !collection.heap.has_stats()) {
            collection.heap.set_stats(event);
        }
    }

    /// Adds GCPerHeapHistory. It comes before GCEnd, but for background collections after it.
    fn add_details(&mut self, event: &ClrEvent<'_>) {
        let background = self.recent().find(|collection| collection.is_background);
        if let Some(ended) = background.filter(|background| background.end_thread == Some(event.thread)) {
            ended.heap.add_details(event);
        } else if let Some(open) = self.recent().find(|collection| collection.end.is_none()) {
            open.heap.add_details(event);
        }
    }

    /// Adds GCRestartEEEnd, the end of a pause.
    fn restart(&mut self, event: &ClrEvent<'_>) {
        let Some(suspension) = self.suspension.take_if(|suspension| suspension.thread == event.thread) else {
            return;
        };
        let mut to = event.time;
        let begun = self.collections.get_mut(suspension.collections..).unwrap_or_default();
        let complete = suspension.complete.or(begun.first().map(|first| first.start)).unwrap_or(to);
        let took = Window::ALL.part(suspension.begin, complete);
        if begun.is_empty() {
            let open = self.recent().find(|collection| collection.is_background && collection.end.is_none());
            if let Some(background) = open {
                background.add_pause(Window::ALL.part(suspension.begin, to), took);
            }
            return;
        }
        // A collection of the young generations can be part of the pause in which a background one starts.
        for (index, collection) in begun.iter_mut().enumerate().rev() {
            let (from, took) =
                if index == 0 { (suspension.begin, took) } else { (collection.start, Duration(0)) };
            collection.add_pause(Window::ALL.part(from, to), took);
            to = from;
        }
    }

    /// Returns the latest collections, the last one first. Only these can still be running.
    fn recent(&mut self) -> impl Iterator<Item = &mut Collection> {
        self.collections.iter_mut().rev().take(MAX_RUNNING)
    }
}

impl Collection {
    fn add_pause(&mut self, pause: Duration, suspension: Duration) {
        *self.pause.get_or_insert_default() += pause;
        *self.suspension.get_or_insert_default() += suspension;
    }
}
