//! What clients, scheduler and executors tell each other besides plans and rows.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::database::Unreadable;

/// Action of an executor that joins the scheduler; its body is a [`Joining`].
pub(super) const JOIN: &str = "join";
/// Action of an executor that has found damage; its body is a [`Damage`].
pub(super) const DAMAGE: &str = "damage";
/// Action of an executor that needs the traces of a query, for functions on stacks; its body is the query's number.
pub(super) const TRACES: &str = "traces";
/// Header with the number of the query that a task belongs to.
pub(super) const QUERY: &str = "x-openetw-query";
/// What processes of one cluster must have in common.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A statement, as a client asks it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Question {
    pub(super) version: String,
    /// Files, directories and patterns, with the names of their schemas.
    pub(super) traces: Vec<(String, Option<String>)>,
    /// Texts with `CREATE VIEW` statements, each with its name.
    pub(super) views: Vec<(String, String)>,
    /// A text with statements.
    pub(super) sql: String,
    /// Which of the statements is asked.
    pub(super) statement: usize,
    /// Whether one trace that cannot be read makes it fail.
    pub(super) strict: bool,
}

/// What follows the last row of an answer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct End {
    /// Damaged places by trace.
    pub(super) damage: Vec<(String, u64)>,
    pub(super) unreadable: Vec<Unreadable>,
    /// What is wrong with the client's views.
    pub(super) notes: Vec<String>,
}

/// An executor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Joining {
    pub(super) version: String,
    /// Where the others find it.
    pub(super) url: String,
}

/// Damaged places in a trace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Damage {
    pub(super) path: PathBuf,
    pub(super) count: u64,
}

/// Writes a message.
///
/// # Errors
///
/// Fails if a path is not text.
pub(super) fn encode(message: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(message).context("a message cannot be written")
}

/// Reads a message.
///
/// # Errors
///
/// Fails if it is from another version.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes).context("a message cannot be read; are all processes of one version?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_testkit::mutate;

    /// Passes damaged versions of a message to its reader.
    fn damage<T: Serialize + DeserializeOwned>(message: &T) {
        mutate::each(&encode(message).unwrap(), 2000, |bytes| {
            if let Ok(read) = decode::<T>(bytes) {
                // No more than was sent.
                assert!(encode(&read).unwrap().len() <= bytes.len() + 16);
            }
        });
    }

    #[test]
    fn damaged_messages_are_refused_or_read() {
        let text = |text: &str| text.to_owned();
        damage(&Question {
            version: text(VERSION),
            traces: vec![(text("/traces/*.etl"), None), (text("/b.etl"), Some(text("b")))],
            views: vec![(text("views.sql"), text("create view a as select 1"))],
            sql: text("select count(*) from events"),
            statement: 1,
            strict: true,
        });
        damage(&End {
            damage: vec![(text("a.etl"), 7), (text("b.etl"), u64::MAX)],
            unreadable: vec![Unreadable { name: text("c.etl"), error: text("not a trace") }],
            notes: vec![text("views.sql: a view is left out")],
        });
        damage(&Joining { version: text(VERSION), url: text("https://machine:7412") });
        damage(&Damage { path: PathBuf::from("/traces/a.etl"), count: 3 });
        damage(&u64::MAX);
    }
}
