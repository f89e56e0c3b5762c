//! Resolving, locating and reading properties do not allocate once warm.
#![expect(unsafe_code, reason = "a global allocator that counts is the only proof, and its trait is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use etw_etl::{EtlFile, Records};
use etw_schema::{Located, Resolver};
use etw_testkit::data;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is forwarded to the system's allocator unchanged; counting touches only a thread-local cell.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above, that is, from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn nothing_is_allocated_for_an_event() {
    for name in [
        "microsoft-perfview/net.4.5.2.x64.etl",
        "microsoft-ebpf-for-windows/ebpforwindows.etl",
        "airbus-cert-etl-parser/ShutdownPerfDiagLogger.etl",
        "google-sawbuck/win7/process_data_64_v3.etl",
    ] {
        let Some(trace) = data::trace(name) else { return };
        let bytes = trace.read().unwrap();
        let file = EtlFile::open(&bytes).unwrap();
        let mut resolver = Resolver::new();
        let mut located = Located::new();
        let mut scratch = Vec::new();
        let mut text = Vec::with_capacity(1 << 20);
        let mut counts = Vec::new();
        for _ in 0..2 {
            let (mut events, mut allocations) = (0, 0);
            for buffer in file.buffers().flatten() {
                let data = buffer.data(&mut scratch);
                let origin = buffer.origin(file.clock(), 0);
                for record in Records::new(data.bytes, &origin, buffer.place()).flatten() {
                    let before = ALLOCATIONS.get();
                    if let Ok(schema) = resolver.resolve(&record) {
                        let event = schema.locate(&record, &mut located);
                        events += 1;
                        for property in event.iter() {
                            text.clear();
                            property.text().write_to(&mut text);
                        }
                    }
                    allocations += ALLOCATIONS.get() - before;
                }
            }
            counts.push((events, allocations));
        }
        assert!(counts[0].0 > 0 && counts[0].1 > 0, "{name}: the first pass allocates: {counts:?}");
        assert_eq!(counts[1], (counts[0].0, 0), "{name}: (events, allocations) of the second pass");
    }
}
