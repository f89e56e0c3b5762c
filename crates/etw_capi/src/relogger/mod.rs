//! The relogger (`relogger.h`): rewriting traces by callbacks of C and C++, as COM has them.

mod com;
mod event;
mod object;
mod output;

pub use object::{CoCreateInstance, CoCreateInstance32};
