//! Controllers: starting, stopping and querying sessions, and enabling providers in them.

mod connection;
mod enable;
mod information;
mod properties;
mod registered;
mod sessions;

pub use enable::*;
pub use information::*;
pub use registered::*;
pub use sessions::*;
