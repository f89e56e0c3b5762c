//! A program with a provider for the other examples to record: it writes an event `FileCreate` (id 12) and an event
//! `FileRead` (id 15) every ten milliseconds. `cargo run --example demo_provider [SECONDS]`; the default is 10.

#[cfg(any(target_os = "linux", windows))]
use openetw::{Keyword, Level, event, provider};

#[cfg(any(target_os = "linux", windows))]
provider! {
    /// The provider, with a GUID derived from its name.
    static DEMO: "MyCompany.Demo";
}

/// Keyword of events about new files.
#[cfg(any(target_os = "linux", windows))]
const CREATE: Keyword = Keyword(0x10);
/// Keyword of events about file contents.
#[cfg(any(target_os = "linux", windows))]
const CONTENT: Keyword = Keyword(0x20);

#[cfg(any(target_os = "linux", windows))]
fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10u64);
    DEMO.register();
    for number in 0..seconds * 100 {
        let path = format!("/tmp/file{number}");
        event!(DEMO, "FileCreate", id: 12, level: Level::INFORMATION, keyword: CREATE, str8("FileName", &path));
        event!(DEMO, "FileRead", id: 15, level: Level::VERBOSE, keyword: CONTENT, str8("FileName", &path), u32("Size", 512));
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    DEMO.unregister();
}

#[cfg(not(any(target_os = "linux", windows)))]
fn main() {
    println!("providers run on Linux");
}
