//! The first packet of a connection.

use serde::{Deserialize, Serialize};

use crate::{Message, ProtocolError};

/// Protocol version. A host refuses clients with another one.
pub const VERSION: u16 = 2;

/// The greeting: a program's first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The program's protocol version; the first field in every version.
    pub version: u16,
    /// Purpose of the connection.
    pub role: Role,
}

/// Purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// A process with providers.
    Provider,
    /// A program that starts, stops and changes sessions.
    Controller,
    /// A program that reads the events of one session.
    Consumer,
}

impl Hello {
    /// Creates the greeting of this version.
    pub const fn new(role: Role) -> Hello {
        Hello { version: VERSION, role }
    }
}

impl Message for Hello {
    const KIND: &'static str = "greeting";

    fn check(&self) -> Result<(), ProtocolError> {
        Ok(())
    }
}
