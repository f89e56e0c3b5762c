//! Test program to record: writes events from two chains of functions.
//!
//! `known_chains` writes 30 events in `outer_chain`, `middle_of_chain`, `inner_of_chain`, and 20 in `other_chain`,
//! `inner_of_chain`.

#[cfg(target_os = "linux")]
mod program {
    use std::hint::black_box;

    use etw_provider::{Level, event, provider};

    provider! {
        /// Describes itself.
        static CHAINS: "Example.Chains";
    }

    #[inline(never)]
    fn inner_of_chain(number: u64) -> u64 {
        black_box(event!(CHAINS, "Called", level: Level::INFORMATION, u64("number", number)));
        black_box(number)
    }

    #[inline(never)]
    fn middle_of_chain(number: u64) -> u64 {
        black_box(inner_of_chain(black_box(number))) + 1
    }

    #[inline(never)]
    fn outer_chain(count: u64) -> u64 {
        black_box((0..count).map(|number| middle_of_chain(black_box(number))).sum())
    }

    #[inline(never)]
    fn other_chain(count: u64) -> u64 {
        black_box((0..count).map(|number| black_box(inner_of_chain(black_box(number)))).sum())
    }

    pub(crate) fn run() {
        CHAINS.register();
        let sum = outer_chain(30) + other_chain(20);
        println!("{sum}");
    }
}

#[cfg(target_os = "linux")]
fn main() {
    program::run();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("events are written on Linux");
}
