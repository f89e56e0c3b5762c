//! Systems without the files of Linux programs.

use std::convert::Infallible;

use etw_kernel_events::classes::BuildId;
use etw_perf_data::{Features, Mapping, PerfData, Sample, Task};

/// A file of an image; there is none.
#[derive(Debug)]
pub(in super::super) struct ImageFile(Infallible);

impl ImageFile {
    pub(in super::super) fn build_id(&self) -> Option<BuildId> {
        match self.0 {}
    }

    pub(in super::super) fn base_of(&self, _mapping: &Mapping<'_>) -> Option<u64> {
        match self.0 {}
    }
}

#[derive(Debug)]
pub(in super::super) struct ImageFiles;

impl ImageFiles {
    pub(in super::super) fn new(_features: &Features<'_>) -> ImageFiles {
        ImageFiles
    }

    pub(in super::super) fn find(
        &mut self,
        _mapping: &Mapping<'_>,
        _build_id: Option<BuildId>,
    ) -> Option<ImageFile> {
        None
    }
}

#[derive(Debug)]
pub(in super::super) struct Unwinders;

impl Unwinders {
    pub(in super::super) fn new(_file: &PerfData<'_>) -> Unwinders {
        Unwinders
    }

    pub(in super::super) fn add(
        &mut self,
        _process_id: u32,
        _mapping: &Mapping<'_>,
        _base: u64,
        _file: Option<ImageFile>,
    ) {
    }

    pub(in super::super) fn fork(&mut self, _task: &Task) {}

    pub(in super::super) fn remove(&mut self, _process_id: u32) {}

    pub(in super::super) fn unwind(&mut self, _sample: &Sample<'_>, _frames: &mut Vec<u64>) -> bool {
        false
    }
}
