//! The first packet of a connection.

use serde::{Deserialize, Serialize};

use crate::{Message, ProtocolError};

/// Version of the messages. A host refuses those who speak another one.
pub const VERSION: u16 = 1;

/// What a program says first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version that the program speaks; always the first field, whatever the version.
    pub version: u16,
    /// What the connection is for.
    pub role: Role,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// A process that has providers.
    Provider,
    /// One that starts, stops and changes sessions.
    Controller,
    /// One that reads the events of one session.
    Consumer,
}

impl Hello {
    /// The greeting of this version.
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
