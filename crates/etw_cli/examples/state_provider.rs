//! Test program to record: its provider writes its state to each session that requests it, and an event for every line
//! of standard input. The program exits at the end of standard input.

#[cfg(target_os = "linux")]
mod program {
    use etw_provider::{ControlCode, Level, event, provider};

    provider! {
        /// Writes its state on request.
        static STATE: "Example.State";
    }

    pub(crate) fn run() {
        STATE.register_with(|control| {
            if control.code == ControlCode::CaptureState {
                event!(STATE, "State", level: Level::INFORMATION, u64("keywords", control.any.0));
            }
        });
        println!("registered");
        for line in std::io::stdin().lines().map_while(Result::ok) {
            event!(STATE, "Line", level: Level::INFORMATION, str8("line", &line));
            println!("written");
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
