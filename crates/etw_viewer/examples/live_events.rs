//! Test program to watch: writes numbered events until its standard input ends.
//!
//! `live_events [PER_MILLISECOND]` writes this many events each millisecond (default 1).

#[cfg(target_os = "linux")]
mod program {
    use std::io::Read;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use openetw::provider::{Level, event, provider};

    provider! {
        static LIVE: "Example.Live";
    }

    pub(crate) fn run() {
        let count: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
        LIVE.register();
        let is_over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&is_over);
        std::thread::spawn(move || {
            // The end of the input, or an error, is the end of the test.
            let _ended = std::io::stdin().read_to_end(&mut Vec::new());
            ended.store(true, Ordering::Relaxed);
        });
        let mut number = 0_u64;
        while !is_over.load(Ordering::Relaxed) {
            for _ in 0..count {
                let parity = if number.is_multiple_of(2) { "even" } else { "odd" };
                event!(LIVE, "Number", level: Level::INFORMATION, u64("number", number), str8("parity", parity));
                number += 1;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
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
