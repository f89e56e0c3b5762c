//! WPP: the formats of trace messages, from TMF files and from the annotations in PDB files.
//!
//! A trace message carries the GUID of the source directory it was compiled in and a message number. A TMF text says
//! what the number means: a printf-like format and the types of its arguments, which lie packed in the record.
//!
//! How a message becomes an [`EventSchema`]:
//!
//! | schema | TMF |
//! |---|---|
//! | provider's GUID and name | message GUID, and the directory's name behind it |
//! | `descriptor.id` | message number |
//! | `name` | the tag of file and line, `DmfCore_c1793` |
//! | `task_name` | source file (`SRC=`) |
//! | `opcode_name` | function (`FUNC=`) |
//! | `level_name`, `descriptor.level` | `LEVEL=` |
//! | `channel_name` | `COMPNAME=`: messages have no channel |
//! | `keyword_names` | what else chose the message: `FLAGS=`, `EVENT=`, … |
//! | `properties` | the arguments in the order of their numbers; the first is insert 10 |
//! | `message` | the format without its `%0`; `%!FUNC!` and its kin already replaced |

mod items;
mod pdb;
mod tmf;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use etw_event::Guid;

use crate::{Decoding, EventSchema, Provider, ProviderInfo};

pub use pdb::PdbError;

/// How many problems are reported of all texts together.
pub const MAX_PROBLEMS: usize = 100;

/// A line of a TMF text that was left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}, line {line}: {what}")]
pub struct TmfProblem {
    /// The file; for a PDB the line counts within one annotation.
    pub origin: Arc<str>,
    /// The line, from 1.
    pub line: usize,
    /// What was expected.
    pub what: &'static str,
}

/// Collects the formats of any number of files, then makes one provider of each message GUID.
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
    /// Adds a TMF file. `origin` is its name.
    pub fn add_tmf(&mut self, bytes: &[u8], origin: &str) {
        tmf::read(&crate::source_text::source_text(bytes), &origin.into(), self);
    }

    /// Adds the TMF annotations of a PDB file and tells how many there were.
    ///
    /// Fails if the bytes are no PDB or its directory is broken; what was found before stays added.
    pub fn add_pdb(&mut self, bytes: &[u8], origin: &str) -> Result<usize, PdbError> {
        let origin: Arc<str> = origin.into();
        let mut annotations = 0;
        pdb::for_each_annotation(bytes, |strings| {
            let [kind, lines @ ..] = strings else { return };
            if *kind == "TMF:" || *kind == "PUBLIC_TMF:" {
                annotations += 1;
                tmf::read(&lines.join("\n"), &origin, self);
            }
        })?;
        Ok(annotations)
    }

    /// What could not be read so far; at most [`MAX_PROBLEMS`].
    pub fn problems(&self) -> &[TmfProblem] {
        &self.problems
    }

    /// One provider for each message GUID, in the order in which they were met.
    pub fn finish(self) -> Vec<Provider> {
        self.providers.into_iter().map(|draft| Provider { info: draft.info, events: draft.events }).collect()
    }

    /// The provider of a message GUID; a GUID met before keeps its first name.
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

    /// Adds a message. The same number comes again where a header's function is compiled into several objects; the
    /// first counts.
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
