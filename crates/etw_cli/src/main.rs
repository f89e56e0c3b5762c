//! The `etw` command.

fn main() {}
