//! Counts of what was read.

use openetw::Counts;
use pyo3::prelude::*;

/// Counts of what was read of a trace or session.
#[pyclass(frozen, get_all, module = "openetw")]
pub(crate) struct Statistics {
    /// Records read.
    records: u64,
    /// Events that met the filter.
    delivered: u64,
    /// Events without a schema.
    undecoded: u64,
    /// Events whose payload does not match their schema.
    failed: u64,
    /// Events that were lost while they were recorded or delivered.
    events_lost: u64,
    /// Buffers that were lost with their events.
    buffers_lost: u64,
    /// Damaged places in the files.
    damaged: u64,
}

impl From<Counts> for Statistics {
    fn from(counts: Counts) -> Statistics {
        Statistics {
            records: counts.records,
            delivered: counts.delivered,
            undecoded: counts.undecoded,
            failed: counts.failed,
            events_lost: counts.events_lost,
            buffers_lost: counts.buffers_lost,
            damaged: counts.damaged,
        }
    }
}

#[pymethods]
impl Statistics {
    /// Whether nothing was lost or damaged, as far as it was read.
    #[getter]
    fn is_complete(&self) -> bool {
        self.events_lost == 0 && self.buffers_lost == 0 && self.damaged == 0
    }

    fn __repr__(&self) -> String {
        let Statistics { records, delivered, undecoded, failed, events_lost, buffers_lost, damaged } = self;
        format!(
            "Statistics(records={records}, delivered={delivered}, undecoded={undecoded}, failed={failed}, \
             events_lost={events_lost}, buffers_lost={buffers_lost}, damaged={damaged})"
        )
    }
}
