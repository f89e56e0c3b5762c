//! What the headers of buffers say: how much was logged when, and where events were lost.
//!
//! That is known long before the tables of a large trace are built, so it is the first picture.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use openetw::etl::{BufferFlags, EtlFile};
use openetw::{FileTime, Overview, Trace};
use serde::Serialize;

use super::loss::{Loss, Losses};

/// Number of parts of the picture's time.
const BUCKETS: usize = 512;
/// Maximum number of processors of the picture.
const MAX_LANES: usize = 64;
/// Number of buffers after which the time is looked at.
const STEP: usize = 1024;
/// Time between two pictures.
const PERIOD: Duration = Duration::from_millis(150);

/// A buffer, as far as its header and its first event say.
#[derive(Debug, Clone, Copy)]
pub(super) struct BufferOutline {
    pub(super) file: usize,
    pub(super) processor: u16,
    /// Time of the first event.
    pub(super) time: FileTime,
    pub(super) flags: BufferFlags,
    /// Size in the file.
    len_bytes: u32,
}

/// How many bytes of events each processor logged over time.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Preview {
    /// Length of the trace in units of 100 ns, as far as it is known.
    length: i64,
    lanes: Vec<PreviewLane>,
    /// Losses, in units of 100 ns since the start.
    losses: Vec<(i64, i64)>,
    /// Whether all buffers were looked at.
    is_complete: bool,
}

#[derive(Debug, Serialize)]
struct PreviewLane {
    label: String,
    /// Bytes in each of 512 equal parts of the time.
    bytes: Vec<f32>,
}

/// The picture that is there so far.
#[derive(Debug, Default)]
pub(crate) struct Previews(Mutex<Arc<Preview>>);

impl Previews {
    pub(crate) fn get(&self) -> Arc<Preview> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, preview: Preview) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(preview);
    }
}

/// Looks at the headers of all buffers, shows pictures of them meanwhile, and returns the losses.
///
/// With an index, nothing of the trace is read.
pub(super) fn survey(trace: &Trace, overview: Option<&Overview>, previews: Option<&Previews>) -> Vec<Loss> {
    let mut survey = Survey::new(trace, previews);
    for (number, input) in trace.inputs().iter().enumerate() {
        let Ok(file) = EtlFile::open(input.bytes()) else { continue };
        let clock = file.clock();
        let known = overview.and_then(|overview| overview.files.get(number)).and_then(Option::as_ref);
        if let Some(buffers) = known {
            for buffer in buffers {
                let Some(first) = buffer.first else { continue };
                survey.add(BufferOutline {
                    file: number,
                    processor: buffer.processor,
                    time: clock.to_filetime(first),
                    flags: buffer.flags,
                    len_bytes: buffer.len_bytes,
                });
            }
            continue;
        }
        let mut scratch = Vec::new();
        for buffer in file.buffers().flatten() {
            let Some(time) = buffer.first_time(&mut scratch) else { continue };
            survey.add(BufferOutline {
                file: number,
                processor: buffer.header.processor(),
                time: clock.to_filetime(time),
                flags: buffer.header.buffer_flag,
                len_bytes: u32::try_from(buffer.file_bytes().len()).unwrap_or(u32::MAX),
            });
        }
    }
    survey.finish()
}

/// What was seen so far.
struct Survey<'p> {
    start: FileTime,
    /// End of the trace by its header; 0 if it was not closed.
    end: FileTime,
    losses: Losses,
    previews: Option<&'p Previews>,
    /// Time, processor and size of buffers that are not in the picture yet.
    seen: Vec<BufferOutline>,
    last: Instant,
}

impl<'p> Survey<'p> {
    fn new(trace: &Trace, previews: Option<&'p Previews>) -> Survey<'p> {
        let end = trace.headers().iter().map(|header| header.end_time).max().unwrap_or_default();
        let (start, losses) = (trace.start_time(), Losses::new(trace.start_time()));
        Survey { start, end, losses, previews, seen: Vec::new(), last: Instant::now() }
    }

    fn add(&mut self, seen: BufferOutline) {
        self.losses.add(seen);
        if self.previews.is_none() {
            return;
        }
        self.seen.push(seen);
        if self.seen.len().is_multiple_of(STEP) && self.last.elapsed() > PERIOD {
            self.show(false);
            self.last = Instant::now();
        }
    }

    fn finish(self) -> Vec<Loss> {
        self.show(true);
        self.losses.finish()
    }

    /// Shows the picture of what was seen.
    fn show(&self, is_complete: bool) {
        let Some(previews) = self.previews else { return };
        let last = self.seen.iter().map(|seen| seen.time).max().unwrap_or(self.start);
        let end = if self.end > self.start { self.end } else { last };
        let length = end.0.saturating_sub(self.start.0).max(1);
        let since = |time: FileTime| time.0.saturating_sub(self.start.0);
        let losses = self.losses.found().iter().map(|loss| (since(loss.from), since(loss.to)));
        previews.set(Preview {
            length,
            lanes: lanes(&self.seen, self.start, length),
            losses: losses.collect(),
            is_complete,
        });
    }
}

/// Returns the bytes of each processor over time. Those of a buffer are spread from its first event to that of the next
/// buffer.
fn lanes(seen: &[BufferOutline], start: FileTime, length: i64) -> Vec<PreviewLane> {
    let mut lanes: Vec<(u16, Vec<f32>)> = Vec::new();
    let mut before: Vec<((usize, u16), BufferOutline)> = Vec::new();
    let place = |time: FileTime| {
        let offset = i128::from(time.0.saturating_sub(start.0).clamp(0, length));
        (offset as f64 / length as f64 * BUCKETS as f64).min(BUCKETS as f64 - 1e-6)
    };
    let mut put = |seen: BufferOutline, until: f64| {
        let lane = match lanes.iter().position(|(processor, _)| *processor == seen.processor) {
            Some(lane) => lane,
            None if lanes.len() < MAX_LANES => {
                lanes.push((seen.processor, vec![0.0; BUCKETS]));
                lanes.len() - 1
            }
            None => return,
        };
        let Some((_, bytes)) = lanes.get_mut(lane) else { return };
        let from = place(seen.time);
        let until = until.max(from + 1e-6);
        let each = f64::from(seen.len_bytes) / (until - from);
        for bucket in from as usize..=(until as usize).min(BUCKETS - 1) {
            let part = until.min(bucket as f64 + 1.0) - from.max(bucket as f64);
            if let Some(sum) = bytes.get_mut(bucket) {
                *sum += (part.max(0.0) * each) as f32;
            }
        }
    };
    for one in seen {
        let key = (one.file, one.processor);
        match before.iter_mut().find(|(known, _)| *known == key) {
            Some((_, earlier)) => {
                put(*earlier, place(one.time));
                *earlier = *one;
            }
            None => before.push((key, *one)),
        }
    }
    for (_, last) in before {
        let at = place(last.time);
        put(last, at);
    }
    lanes.sort_by_key(|(processor, _)| *processor);
    lanes
        .into_iter()
        .map(|(processor, bytes)| PreviewLane { label: format!("CPU {processor}"), bytes })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(processor: u16, time: i64, len_bytes: u32) -> BufferOutline {
        BufferOutline { file: 0, processor, time: FileTime(time), flags: BufferFlags::empty(), len_bytes }
    }

    #[test]
    fn bytes_of_a_buffer_are_spread_until_the_next_one() {
        let all = [seen(1, 0, 100), seen(0, 0, 7), seen(1, 512, 60), seen(1, 768, 40)];
        let lanes = lanes(&all, FileTime(0), 1024);
        assert_eq!(lanes.len(), 2);
        assert_eq!((lanes[0].label.as_str(), lanes[1].label.as_str()), ("CPU 0", "CPU 1"));
        let sum = |from: usize, to: usize| lanes[1].bytes[from..to].iter().sum::<f32>().round();
        assert_eq!((sum(0, 256), sum(256, 384), sum(384, 512)), (100.0, 60.0, 40.0));
        assert_eq!(lanes[0].bytes.iter().sum::<f32>().round(), 7.0);
    }

    #[test]
    fn times_outside_the_trace_are_at_its_ends() {
        let all = [seen(0, -50, 10), seen(0, i64::MAX, 20), seen(0, i64::MIN, 5)];
        let lanes = lanes(&all, FileTime(0), 100);
        assert_eq!(lanes[0].bytes.iter().sum::<f32>().round(), 35.0);
    }
}
