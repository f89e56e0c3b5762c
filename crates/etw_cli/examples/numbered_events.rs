//! Test program to record: writes numbered events, and prints how many.
//!
//! `numbered_events [COUNT] [MICROSECONDS] [STATUS]` writes COUNT events (default 1000), waits MICROSECONDS after every
//! hundred (default 0), and exits with STATUS (default 0). Events are self-describing, except every hundredth, which
//! `numbers.man` describes.

#[cfg(target_os = "linux")]
mod program {
    use std::time::Duration;

    use etw_provider::{EventDescriptor, Guid, Level, Outcome, event, provider};

    provider! {
        /// Describes itself.
        static NUMBERS: "Example.Numbers";
        /// Described by a manifest.
        static HUNDREDS: "Example-Hundreds", guid: Guid::from_u128(0x7d1e9f66_3c52_4b0a_8f43_5a0c8b6f2e11);
    }

    /// Event 1 of the manifest.
    const HUNDRED: EventDescriptor =
        EventDescriptor { id: 1, version: 0, level: Level::INFORMATION, ..EventDescriptor::ZERO };

    pub(crate) fn run() -> i32 {
        let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().unwrap_or(0));
        let count = arguments.next().unwrap_or(1000);
        let pause = arguments.next().filter(|micros| *micros > 0).map(Duration::from_micros);
        let status = arguments.next().unwrap_or(0);
        NUMBERS.register();
        HUNDREDS.register();
        let (mut written, mut lost) = (0u64, 0u64);
        let mut add = |outcome| match outcome {
            Outcome::Written => written += 1,
            Outcome::NotEnabled => {}
            _ => lost += 1,
        };
        for number in 0..count {
            add(event!(NUMBERS, "Number", level: Level::INFORMATION, u64("number", number)));
            if number % 100 == 99 {
                let kind = u32::from(number % 200 == 199);
                add(HUNDREDS.write(&HUNDRED, &(number / 100, kind)));
                pause.into_iter().for_each(std::thread::sleep);
            }
        }
        println!("written {written} lost {lost}");
        status as i32
    }
}

#[cfg(target_os = "linux")]
fn main() {
    std::process::exit(program::run());
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("events are written on Linux");
}
