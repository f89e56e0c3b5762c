//! WPP: the formats of trace messages, from TMF files and from the annotations in PDB files.
//!
//! A trace message carries a message number and the GUID of the source directory it was compiled in. A TMF text
//! describes the number: a printf-like format and the types of its arguments, which are packed in the record.
//!
//! Conversion of a message to an [`EventSchema`]:
//!
//! | schema | TMF |
//! |---|---|
//! | provider's GUID and name | message GUID, and the directory's name after it |
//! | `descriptor.id` | message number |
//! | `name` | the tag of file and line, `DmfCore_c1793` |
//! | `task_name` | source file (`SRC=`) |
//! | `opcode_name` | function (`FUNC=`) |
//! | `level_name`, `descriptor.level` | `LEVEL=` |
//! | `channel_name` | `COMPNAME=`, since messages have no channel |
//! | `keyword_names` | the other conditions of the message: `FLAGS=`, `EVENT=`, … |
//! | `properties` | the arguments in order of their numbers; the first is insert 10 |
//! | `message` | the format without its `%0`; `%!FUNC!` and the like are replaced |
//!
//! ```no_run
//! use etw_schema::wpp::WppReader;
//!
//! let mut reader = WppReader::default();
//! reader.add_tmf(&std::fs::read("11223344-5566-7788-99aa-bbccddeeff00.tmf")?, "driver.tmf");
//! for provider in reader.finish() {
//!     println!("{}: {} messages", provider.info.name, provider.events.len());
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

mod extract;
mod items;
mod pdb;
mod tmf;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use etw_event::Guid;

use crate::{Decoding, EventSchema, Provider, ProviderInfo};

pub use extract::{TmfText, tmf_texts};
pub use pdb::PdbError;

/// Limit of the problems reported for all texts together.
pub const MAX_PROBLEMS: usize = 100;

/// A line of a TMF text that was skipped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}, line {line}: {what}")]
pub struct TmfProblem {
    /// The file. For a PDB, lines count within one annotation.
    pub origin: Arc<str>,
    /// Line number, starting at 1.
    pub line: usize,
    /// The problem.
    pub what: &'static str,
}

/// Collects the formats of any number of files, then creates one provider per message GUID.
#[derive(Debug, Default)]
pub struct WppReader {
    providers: Vec<Draft>,
    by_guid: HashMap<Guid, usize>,
    problems: Vec<TmfProblem>,
}

#[derive(Debug)]
struct Draft {
    info: Arc<ProviderInfo>,
    events: Vec<Arc<EventSchema>>,
    numbers: HashSet<u16>,
}

impl WppReader {
    /// Adds a TMF file. `origin` is the file name.
    pub fn add_tmf(&mut self, bytes: &[u8], origin: &str) {
        tmf::read(&crate::source_text::source_text(bytes), &origin.into(), self);
    }

    /// Adds the TMF annotations of a PDB file. Returns their number.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not a valid PDB. Annotations read before the error are kept.
    pub fn add_pdb(&mut self, bytes: &[u8], origin: &str) -> Result<usize, PdbError> {
        let origin: Arc<str> = origin.into();
        let mut annotations = 0;
        pdb::for_each_annotation(bytes, |strings| {
            let [kind, lines @ ..] = strings else { return };
            if is_format(kind) {
                annotations += 1;
                tmf::read(&lines.join("\n"), &origin, self);
            }
        })?;
        Ok(annotations)
    }

    /// Returns the problems found so far; at most [`MAX_PROBLEMS`].
    pub fn problems(&self) -> &[TmfProblem] {
        &self.problems
    }

    /// Returns one provider per message GUID, in the order first found.
    pub fn finish(self) -> Vec<Provider> {
        self.providers.into_iter().map(|draft| Provider { info: draft.info, events: draft.events }).collect()
    }

    /// Returns the index of the provider of a message GUID. A known GUID keeps its first name.
    fn provider(&mut self, guid: Guid, name: &str, origin: &str) -> usize {
        *self.by_guid.entry(guid).or_insert_with(|| {
            let info = Arc::new(ProviderInfo::new(guid, name, Decoding::Wpp, origin));
            self.providers.push(Draft { info, events: Vec::new(), numbers: HashSet::new() });
            self.providers.len() - 1
        })
    }

    fn info(&self, provider: usize) -> Option<Arc<ProviderInfo>> {
        self.providers.get(provider).map(|draft| draft.info.clone())
    }

    /// Adds a message. A number repeats if a function in a header is compiled into several objects; the first is kept.
    fn add(&mut self, provider: usize, event: EventSchema) {
        if let Some(draft) = self.providers.get_mut(provider)
            && draft.numbers.insert(event.descriptor.id)
        {
            draft.events.push(Arc::new(event));
        }
    }

    fn report(&mut self, origin: &Arc<str>, line: usize, what: &'static str) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(TmfProblem { origin: origin.clone(), line, what });
        }
    }
}

/// Returns whether the first string of an annotation marks a message format.
fn is_format(kind: &str) -> bool {
    matches!(kind, "TMF:" | "PUBLIC_TMF:")
}
