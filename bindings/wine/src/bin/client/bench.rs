//! Measures the check of a provider that no session has enabled.

use std::hint::black_box;
use std::ptr::null;
use std::time::Instant;

use windows_sys::Win32::System::Diagnostics::Etw::*;
use windows_sys::core::GUID;

use super::support::{data, descriptor, succeed};

/// Calls in a batch, and batches: some are short enough that no other program interrupts them.
const CALLS: u32 = 10_000;
const BATCHES: u32 = 3000;

pub fn run() {
    let (id, mut handle) = (GUID::from_u128(0x9c0e3a5c_0c0d_4a3e_9b8a_1b2c3d4e5f60), 0);
    // SAFETY: the pointers are valid.
    unsafe {
        succeed("EventRegister", EventRegister(&id, None, null(), &mut handle));
        let (event, number) = (descriptor(1), 7u64);
        let value = data(&number);
        measure("EventProviderEnabled", || u32::from(EventProviderEnabled(black_box(handle), 4, 1)));
        measure("EventEnabled", || u32::from(EventEnabled(black_box(handle), &event)));
        measure("EventWrite", || EventWrite(black_box(handle), &event, 1, &value));
    }
}

/// Prints the time of a call in the fastest batch.
fn measure(name: &str, function: impl Fn() -> u32) {
    let once = || {
        let start = Instant::now();
        for _ in 0..CALLS {
            black_box(function());
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    let best = (0..BATCHES).map(|_| once()).fold(f64::INFINITY, f64::min);
    println!("{name} {best:.2} ns");
}
