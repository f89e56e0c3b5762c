//! What live sessions need of Linux.

pub mod clock;
pub mod cpu;
pub mod ids;
mod shared;

pub use shared::SharedWords;
