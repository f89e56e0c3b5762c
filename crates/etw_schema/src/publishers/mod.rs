//! The publishers that the registry of Windows lists: which file describes the events of a provider.
//!
//! The list is in the hive `SOFTWARE` (`System32\config\SOFTWARE`), in the key
//! `Microsoft\Windows\CurrentVersion\WINEVT\Publishers`, with one subkey for each provider. The key's name is the GUID,
//! its default value the name; `ResourceFileName` is the file with the compiled manifest, and `MessageFileName` the file
//! with its messages. Paths are as the registry has them, with variables such as `%SystemRoot%`.
//!
//! Only this path of the hive is read, so damage elsewhere does not matter. Changes that Windows had written only to the
//! logs of the hive are missing.
//!
//! ```no_run
//! use etw_schema::publishers;
//!
//! let hive = std::fs::read("Windows/System32/config/SOFTWARE")?;
//! for publisher in publishers::read(&hive)?.publishers {
//!     println!("{} {}: {:?}", publisher.guid, publisher.name, publisher.resource_file);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod hive;

use etw_event::Guid;

use hive::Hive;

/// The key with the list, from the root of the hive.
const PATH: [&str; 5] = ["Microsoft", "Windows", "CurrentVersion", "WINEVT", "Publishers"];
/// Limit of the problems reported.
const MAX_PROBLEMS: usize = 1000;

/// A provider in the registry's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publisher {
    /// The provider's GUID.
    pub guid: Guid,
    /// Its name; empty if the list has none.
    pub name: String,
    /// The file with the compiled manifest.
    pub resource_file: Option<String>,
    /// The file with the messages.
    pub message_file: Option<String>,
}

/// The registry's list of publishers, and the problems found while reading it.
#[derive(Debug, Default)]
pub struct Publishers {
    /// The publishers, in the order of the list.
    pub publishers: Vec<Publisher>,
    /// The problems; at most about a thousand.
    pub problems: Vec<PublishersProblem>,
}

/// A part of a hive that could not be read. Everything around it was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset:#x}: {what}")]
pub struct PublishersProblem {
    /// Offset in the file.
    pub offset: usize,
    /// The problem.
    pub what: &'static str,
}

/// The reason why a hive has no list of publishers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishersError {
    /// The file is not a registry hive.
    #[error("not a registry hive: the signature 'regf' is missing")]
    NotAHive,
    /// A key on the way to the list is damaged.
    #[error("damaged registry hive: offset {offset:#x}: {what}")]
    Damaged {
        /// Offset in the file.
        offset: usize,
        /// What was expected there.
        what: &'static str,
    },
    /// The hive has no such list, or damage hides it.
    #[error("the registry hive has no key '{0}'")]
    NoList(String),
}

/// Reads the list of publishers in the bytes of a `SOFTWARE` hive.
///
/// # Errors
///
/// Fails if the file is not a hive, or the path to the list cannot be read.
pub fn read(hive: &[u8]) -> Result<Publishers, PublishersError> {
    let mut all = Publishers::default();
    let mut key = Hive::new(hive)?.root()?;
    for (index, name) in PATH.iter().enumerate() {
        let Some(below) = key.subkey(name, &mut all.problems) else {
            return Err(PublishersError::NoList(PATH.get(..=index).unwrap_or_default().join("\\")));
        };
        key = below;
    }
    // Keys of a valid hive do not share their texts.
    let mut budget = hive.len();
    for key in key.subkeys(&mut all.problems) {
        let Ok(guid) = key.name().parse() else {
            let what = "the name of a publisher's key is not a GUID";
            all.problems.push(PublishersProblem { offset: key.position, what });
            continue;
        };
        let [name, resource_file, message_file] = ["", "ResourceFileName", "MessageFileName"]
            .map(|value| key.text(value).filter(|text| !text.is_empty()));
        let texts = [&name, &resource_file, &message_file];
        let Some(left) = budget.checked_sub(texts.into_iter().flatten().map(String::len).sum()) else {
            let what = "more text than the hive has room for";
            all.problems.push(PublishersProblem { offset: key.position, what });
            break;
        };
        budget = left;
        all.publishers.push(Publisher { guid, name: name.unwrap_or_default(), resource_file, message_file });
    }
    all.problems.truncate(MAX_PROBLEMS);
    Ok(all)
}
