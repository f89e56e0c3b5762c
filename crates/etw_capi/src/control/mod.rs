//! Controllers: starting, stopping and querying sessions, and enabling providers in them.

mod access;
mod connection;
mod enable;
mod information;
mod properties;
mod registered;
mod sessions;

pub use access::*;
pub use enable::*;
pub use information::*;
pub use registered::*;
pub use sessions::*;
