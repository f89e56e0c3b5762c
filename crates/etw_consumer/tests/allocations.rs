//! Levels 1 to 3 allocate nothing for an event, filters included.
#![allow(clippy::expect_used, reason = "a test fails by it")]
#![expect(unsafe_code, reason = "a global allocator that counts is the only proof, and its trait is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use etw_consumer::{EventFilter, Trace};
use etw_testkit::data;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting touches only a thread-local cell.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's contract is this one's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above, which is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts allocations between the first and the last event of a pass. Opening streams and buffers is not part of an
/// event's cost, and every buffer of an uncompressed file is a slice of the file.
fn during(pass: impl FnOnce(&mut dyn FnMut())) -> u64 {
    let (mut first, mut last) = (None, 0);
    pass(&mut || {
        last = ALLOCATIONS.with(Cell::get);
        first.get_or_insert(last);
    });
    last - first.expect("events")
}

#[test]
fn nothing_is_allocated_for_an_event() {
    for name in [
        "microsoft-Tx/KernelNetwork.etl",
        "microsoft-ebpf-for-windows/ebpforwindows.etl",
        "airbus-cert-etl-parser/ShutdownPerfDiagLogger.etl",
    ] {
        let Some(file) = data::trace(name) else { return };
        for filter in ["not pid == 77", "not NoSuchProperty == 1", "not ImageName icontains \"x\""] {
            let filter = EventFilter::default().expression(filter).unwrap();
            let mut trace = Trace::builder().file(&file.path).filter(&filter).open().unwrap();
            // Warms the schema caches.
            trace.for_each_event(|_| ()).unwrap();
            let records = during(|count| trace.for_each_record(|_| count()).unwrap());
            let schemas = during(|count| trace.for_each_schema(|_| count()).unwrap());
            let layouts = during(|count| {
                let visit = |event: &etw_consumer::Event<'_>| {
                    let _ = event.find("PID").map(|property| property.value().as_integer());
                    count();
                };
                trace.for_each_event(visit).unwrap();
            });
            assert_eq!([records, schemas, layouts], [0; 3], "{name}");
        }
    }
}
