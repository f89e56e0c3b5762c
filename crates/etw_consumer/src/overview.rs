//! What is known of the buffers of files without reading them: for time ranges, counts and a first picture of a trace.

use std::collections::HashMap;
use std::sync::Arc;

use etw_etl::{BufferFlags, BufferRef, BufferType, Damage, EtlFile};
use etw_event::{Record, Ticks};

use crate::ProcessNames;

/// The buffers of the files of a trace; [`Trace::overview`](crate::Trace::overview) makes it, and
/// [`TraceBuilder::overview`](crate::TraceBuilder::overview) uses it.
///
/// ```no_run
/// use std::sync::Arc;
/// use etw_consumer::{TimePoint, Trace};
///
/// let overview = Arc::new(Trace::open_file("trace.etl")?.overview()?);
/// // Reads only the buffers that can have events of that second.
/// let range = Trace::builder().file("trace.etl").from("7.0".parse()?).to("8.0".parse()?);
/// range.overview(&overview).open()?.for_each_record(|record| println!("{}", record.time()))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overview {
    /// The buffers of each file, in the order of the file; `None` for files with damaged buffers.
    pub files: Vec<Option<Vec<BufferSummary>>>,
    /// The names of processes in the files, if they are known.
    pub process_names: Option<ProcessNames>,
}

/// One buffer of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSummary {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Bytes in the file.
    pub len_bytes: u32,
    /// Processor of the records.
    pub processor: u16,
    /// Type of the contents.
    pub buffer_type: BufferType,
    /// Flags of the header.
    pub flags: BufferFlags,
    /// Time of the first record; `None` if the buffer has no records, or starts with damage or with records without a time.
    pub first: Option<Ticks>,
    /// Number of intact records.
    pub records: u32,
    /// Bytes of these records.
    pub record_bytes: u64,
    /// Least time of the records, if there are any.
    pub min: Ticks,
    /// Greatest time of the records, if there are any.
    pub max: Ticks,
    /// Whether a record says what events are.
    pub has_schemas: bool,
    /// Whether a record names a process.
    pub has_processes: bool,
    /// Whether some records cannot be read.
    pub has_damage: bool,
    /// Whether no record has an earlier time than one before it.
    pub is_in_order: bool,
}

impl Overview {
    /// Whether all buffers are intact and in the order of time, each after the one before it of the same processor and
    /// type.
    ///
    /// Then the records of a file are delivered in the order of time, without exception, and reading ranges of time one
    /// after the other delivers each record once.
    pub fn is_in_order(&self) -> bool {
        self.files.iter().all(|file| file.as_ref().is_some_and(|buffers| is_in_order(buffers)))
    }
}

fn is_in_order(buffers: &[BufferSummary]) -> bool {
    let mut ends: HashMap<(u16, u16), Ticks> = HashMap::new();
    buffers.iter().all(|buffer| {
        if buffer.records == 0 {
            return !buffer.has_damage;
        }
        let end = ends.insert((buffer.processor, buffer.buffer_type.0), buffer.max);
        let follows = end.is_none_or(|end| end <= buffer.min);
        buffer.is_in_order && !buffer.has_damage && buffer.first == Some(buffer.min) && follows
    })
}

impl BufferSummary {
    /// Starts the summary of a buffer, before its records.
    pub(crate) fn new(buffer: &BufferRef<'_>, scratch: &mut Vec<u8>) -> BufferSummary {
        BufferSummary {
            offset: buffer.offset,
            len_bytes: u32::try_from(buffer.file_bytes().len()).unwrap_or(u32::MAX),
            processor: buffer.header.processor(),
            buffer_type: buffer.header.buffer_type,
            flags: buffer.header.buffer_flag,
            first: buffer.first_time(scratch),
            records: 0,
            record_bytes: 0,
            min: Ticks(i64::MAX),
            max: Ticks(i64::MIN),
            has_schemas: false,
            has_processes: false,
            has_damage: false,
            is_in_order: true,
        }
    }

    /// Adds a record.
    #[inline]
    pub(crate) fn add(&mut self, record: &Record<'_>, about: About) {
        let time = record.raw_time();
        self.records = self.records.saturating_add(1);
        self.record_bytes = self.record_bytes.saturating_add(record.as_bytes().len() as u64);
        self.is_in_order &= time >= self.max;
        self.min = self.min.min(time);
        self.max = self.max.max(time);
        self.has_schemas |= about == About::Schemas;
        self.has_processes |= about == About::Processes;
    }
}

/// What a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// What events are.
    Schemas,
    /// The name of a process.
    Processes,
    /// Anything else.
    Other,
}

/// The summaries that one thread collects.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// With the file and the number of the buffer in it.
    buffers: Vec<(u32, u32, BufferSummary)>,
    /// Files with damaged buffers.
    damaged: Vec<u32>,
    scratch: Vec<u8>,
}

impl Collected {
    /// Starts a buffer of a file.
    pub(crate) fn buffer(&mut self, file: u32, buffer: &BufferRef<'_>) {
        let summary = BufferSummary::new(buffer, &mut self.scratch);
        self.buffers.push((file, buffer.index, summary));
    }

    /// Adds a record of the last buffer.
    #[inline]
    pub(crate) fn record(&mut self, record: &Record<'_>, about: About) {
        if let Some((.., summary)) = self.buffers.last_mut() {
            summary.add(record, about);
        }
    }

    /// Adds damage of the last buffer or, if it is not of a place within a buffer, of the file.
    pub(crate) fn damage(&mut self, file: u32, damage: &Damage) {
        match (damage.within, self.buffers.last_mut()) {
            (Some(_), Some((.., summary))) => summary.has_damage = true,
            _ => self.damaged.push(file),
        }
    }

    /// Joins what threads have collected.
    pub(crate) fn join(parts: impl IntoIterator<Item = Collected>, files: usize) -> Overview {
        let mut overview = Overview { files: vec![Some(Vec::new()); files], process_names: None };
        let (mut all, mut damaged) = (Vec::new(), Vec::new());
        for part in parts {
            all.extend(part.buffers);
            damaged.extend(part.damaged);
        }
        all.sort_unstable_by_key(|(file, number, _)| (*file, *number));
        for (file, _, summary) in all {
            if let Some(Some(buffers)) = overview.files.get_mut(file as usize) {
                buffers.push(summary);
            }
        }
        for file in damaged {
            if let Some(buffers) = overview.files.get_mut(file as usize) {
                *buffers = None;
            }
        }
        overview
    }
}

/// The overview that a trace uses; cheap to clone.
pub(crate) type Known = Option<Arc<Overview>>;

/// Returns an overview for these files; files whose buffers cannot be those of the overview have none.
pub(crate) fn checked(overview: &Overview, lengths: &[usize]) -> Known {
    if overview.files.len() != lengths.len() {
        return None;
    }
    let is_of = |buffers: &[BufferSummary], len: usize| {
        buffers.is_sorted_by(|one, next| one.offset < next.offset)
            && buffers.first().is_some_and(|first| first.offset == 0)
            && buffers.last().is_some_and(|last| last.offset < len as u64)
    };
    let of = |(buffers, len): (&Option<Vec<BufferSummary>>, &usize)| {
        buffers.clone().filter(|buffers| is_of(buffers, *len))
    };
    let files: Vec<_> = overview.files.iter().zip(lengths).map(of).collect();
    let process_names = overview.process_names.clone().filter(|_| files.iter().all(Option::is_some));
    Some(Arc::new(Overview { files, process_names }))
}

/// Returns the known buffers of a file.
pub(crate) fn of_file(known: &Known, file: usize) -> Option<&[BufferSummary]> {
    known.as_deref()?.files.get(file)?.as_deref()
}

/// Returns the buffers of a file that are wanted; all, if nothing is known of them.
pub(crate) fn buffers<'f, 'a: 'f>(
    file: &'f EtlFile<'a>,
    known: Option<&'f [BufferSummary]>,
    is_wanted: impl Fn(&BufferSummary) -> bool + Send + 'f,
) -> Box<dyn Iterator<Item = Result<BufferRef<'a>, Damage>> + Send + 'f> {
    let Some(known) = known else { return Box::new(file.buffers()) };
    let wanted = known.iter().zip(0..).filter(move |(buffer, _)| is_wanted(buffer));
    Box::new(wanted.filter_map(|(summary, index)| {
        let mut buffer = file.buffer_at(summary.offset)?;
        buffer.index = index;
        Some(Ok(buffer))
    }))
}
