//! Which places of its files a trace reads, by what is known of their buffers.

use std::ops::Range;

use etw_etl::{BufferHeader, EtlFile};

use super::pass::Plans;
use super::{Trace, TraceError};
use crate::merge::Merge;
use crate::overview::{self, BufferSummary};

impl Trace {
    /// Returns the places of each file that the next pass over the trace reads: buffers that can have records within its
    /// time limits, and those of the metadata scan if it is still to come. They are in ascending order.
    ///
    /// They are the whole files without an [`Overview`](crate::Overview), or if one of them is not in the order of time
    /// ([`Overview::is_in_order`](crate::Overview::is_in_order)). With them, a file can be read of which only parts are
    /// there: what is missing must be zeros, which are damage of the buffer at that place.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use etw_event::FileTime;
    /// use etw_consumer::Trace;
    ///
    /// let mut trace = Trace::open_file("trace.etl")?;
    /// let overview = trace.overview()?;
    /// trace.use_overview(&overview);
    /// let second = FileTime(trace.start_time().0 + FileTime::PER_SECOND);
    /// let read: u64 =
    ///     trace.range(None, Some(second)).extents()?.iter().flatten().map(|place| place.end - place.start).sum();
    /// println!("the first second takes {read} bytes");
    /// # Ok::<(), etw_consumer::TraceError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if a file has changed since it was opened.
    pub fn extents(&self) -> Result<Vec<Vec<Range<u64>>>, TraceError> {
        let Plans { files, planned, .. } = Plans::new(&self.inputs, &self.decoder.overview)?;
        let Some(known) = self.decoder.overview.as_ref().filter(|overview| overview.is_in_order()) else {
            let whole = |file: &EtlFile<'_>| std::iter::once(0..file.bytes().len() as u64).collect();
            return Ok(files.iter().map(whole).collect());
        };
        let read = Merge::new(planned, self.from, self.to).known_offsets();
        let is_scanned = self.decoder.scanned_buffers(self.needs_process_names());
        let of_file = |((file, buffers), read): ((&EtlFile<'_>, &Option<Vec<_>>), &Vec<u64>)| {
            places(file, buffers.as_deref(), |buffer| {
                is_scanned(buffer) || read.binary_search(&buffer.offset).is_ok()
            })
        };
        Ok(files.iter().zip(&known.files).zip(&read).map(of_file).collect())
    }

    /// Returns the places of each file that the metadata scan reads ([`Trace::processes`]), as [`Trace::extents`] does.
    ///
    /// # Errors
    ///
    /// Fails if a file has changed since it was opened.
    pub fn metadata_extents(&self) -> Result<Vec<Vec<Range<u64>>>, TraceError> {
        let files = self.files()?;
        let known = |number| overview::of_file(&self.decoder.overview, number);
        let is_scanned = self.decoder.scanned_buffers(true);
        Ok(files.iter().enumerate().map(|(number, file)| places(file, known(number), is_scanned)).collect())
    }
}

/// Returns the places of some buffers of a file, each with the header after it, by which the size of a compressed buffer is
/// checked; the whole file if its buffers are not known.
fn places(
    file: &EtlFile<'_>,
    known: Option<&[BufferSummary]>,
    is_read: impl Fn(&BufferSummary) -> bool,
) -> Vec<Range<u64>> {
    let len = file.bytes().len() as u64;
    let Some(known) = known else { return std::iter::once(0..len).collect() };
    let place = |buffer: &BufferSummary| {
        let end = buffer.offset + u64::from(buffer.len_bytes) + BufferHeader::LEN_BYTES as u64;
        buffer.offset..end.min(len)
    };
    known.iter().filter(|buffer| buffer.offset == 0 || is_read(buffer)).map(place).collect()
}
