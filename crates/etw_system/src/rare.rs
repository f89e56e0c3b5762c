//! Events that are held back until those of all processors have arrived.

use etw_capture::records::{Body, Event, Exec, Fork, ImageChange, Mapping, Move, ThreadName};

/// The start, end, control group or name of a process or thread, the start of a program, an image, or a stack; owns its memory.
#[derive(Debug)]
pub(crate) struct Rare {
    pub(crate) time: u64,
    processor: u32,
    process_id: u32,
    thread_id: u32,
    body: Body<'static>,
    /// Name or path, and arguments; for a stack, frames and memory.
    parts: [Box<[u8]>; 2],
}

impl Rare {
    /// Returns a copy of the event if it is one of those.
    pub(crate) fn from_event(event: &Event<'_>) -> Option<Rare> {
        let (body, parts) = match event.body {
            Body::Fork(fork) => (Body::Fork(Fork { name: b"", ..fork }), [fork.name, b""]),
            Body::Exec(exec) => {
                (Body::Exec(Exec { path: b"", arguments: b"", ..exec }), [exec.path, exec.arguments])
            }
            Body::ThreadName(named) => {
                (Body::ThreadName(ThreadName { name: b"", ..named }), [named.name, b""])
            }
            Body::Move(moved) => (Body::Move(Move { path: b"", ..moved }), [moved.path, b""]),
            Body::Exit { code, process_code, kernel_nanos, user_nanos } => {
                (Body::Exit { code, process_code, kernel_nanos, user_nanos }, [&b""[..]; 2])
            }
            Body::Image(ImageChange::Mapped(mapping)) => {
                let body = Body::Image(ImageChange::Mapped(Mapping { path: b"", ..mapping }));
                (body, [mapping.path, b""])
            }
            Body::Image(ImageChange::Replaced) => (Body::Image(ImageChange::Replaced), [&b""[..]; 2]),
            Body::Image(ImageChange::Unmapped { address, bytes }) => {
                (Body::Image(ImageChange::Unmapped { address, bytes }), [&b""[..]; 2])
            }
            Body::Stack(stack) => (Body::Stack(stack.with_rest(b"")), [stack.rest(), b""]),
            _ => return None,
        };
        let Event { time, processor, process_id, thread_id, .. } = *event;
        Some(Rare { time, processor, process_id, thread_id, body, parts: parts.map(Box::from) })
    }

    /// Returns the event.
    pub(crate) fn event(&self) -> Event<'_> {
        let [first, second] = &self.parts;
        let body = match self.body {
            Body::Fork(fork) => Body::Fork(Fork { name: first, ..fork }),
            Body::Exec(exec) => Body::Exec(Exec { path: first, arguments: second, ..exec }),
            Body::ThreadName(named) => Body::ThreadName(ThreadName { name: first, ..named }),
            Body::Move(moved) => Body::Move(Move { path: first, ..moved }),
            Body::Image(ImageChange::Mapped(mapping)) => {
                Body::Image(ImageChange::Mapped(Mapping { path: first, ..mapping }))
            }
            Body::Stack(stack) => Body::Stack(stack.with_rest(first)),
            other => other,
        };
        let Rare { time, processor, process_id, thread_id, .. } = *self;
        Event { time, processor, process_id, thread_id, body }
    }
}
