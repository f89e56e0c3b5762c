//! Index files of which only parts are there.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Fetches parts of an index file before they are used, for a file that is a copy of one elsewhere
/// ([`Index::open_parts`](crate::Index::open_parts)).
#[derive(Clone)]
pub struct FetchParts(Arc<dyn Fn(Range<u64>) -> io::Result<()> + Send + Sync>);

impl FetchParts {
    /// Uses a function that writes the bytes at a place to the file, which has its full length already. It may be called
    /// for a place more than once, and on several threads.
    pub fn new(fetch: impl Fn(Range<u64>) -> io::Result<()> + Send + Sync + 'static) -> FetchParts {
        FetchParts(Arc::new(fetch))
    }

    pub(crate) fn fetch(&self, place: Range<u64>) -> io::Result<()> {
        (self.0)(place)
    }
}

impl fmt::Debug for FetchParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchParts").finish_non_exhaustive()
    }
}
