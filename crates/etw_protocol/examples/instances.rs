//! Prints the directories of the instances that a program's providers connect to.

#[cfg(target_os = "linux")]
fn main() {
    for instance in etw_protocol::Instance::all_for_providers() {
        println!("{}", instance.directory().display());
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {}
