//! Writes small .NET traces (`.nettrace`, `.netperf`) of formats 3 to 6, for features that no real file has.

use std::iter;

/// Ticks per second of written traces.
pub const FREQUENCY: u64 = 1_000_000;
/// The clock's value at the start of written traces, 2024-02-03T04:05:06.007Z.
pub const START: u64 = 5_000;

/// Kinds of blocks, by their names in formats 3 to 5 and their numbers in format 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// Events.
    Event,
    /// Definitions.
    Metadata,
    /// A sequence point.
    SequencePoint,
    /// Stacks.
    Stack,
    /// Threads (format 6).
    Thread,
    /// Removed threads (format 6).
    RemoveThread,
    /// Label lists (format 6).
    LabelList,
    /// A kind that no version defines (format 6).
    Other,
}

/// An event before it is encoded.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// Id of the definition.
    pub metadata: u32,
    /// Number of the event among those of its writing thread.
    pub sequence: u32,
    /// Thread that the event is about.
    pub thread: u64,
    /// Thread that wrote it.
    pub capture_thread: u64,
    /// Processor.
    pub processor: u32,
    /// Number of the stack.
    pub stack: u32,
    /// Time.
    pub time: u64,
    /// Activity (up to format 5).
    pub activity: [u8; 16],
    /// Related activity (up to format 5).
    pub related: [u8; 16],
    /// Number of the label list (format 6).
    pub labels: u32,
    /// Whether no later event is earlier.
    pub is_sorted: bool,
    /// Payload.
    pub payload: Vec<u8>,
}

/// A trace under construction.
#[derive(Debug, Clone)]
pub struct Writer {
    version: u32,
    bytes: Vec<u8>,
}

impl Writer {
    /// Starts a trace of process 77 on a machine with 4 processors.
    pub fn new(version: u32) -> Writer {
        let mut writer = Writer { version, bytes: Vec::new() };
        let time: Vec<u8> = [2024u16, 2, 6, 3, 4, 5, 6, 7].into_iter().flat_map(u16::to_le_bytes).collect();
        let clock = [time, START.to_le_bytes().to_vec(), FREQUENCY.to_le_bytes().to_vec()].concat();
        let pointer_size = 8u32.to_le_bytes();
        if version >= 6 {
            writer.bytes.extend(b"Nettrace\0\0\0\0");
            writer.bytes.extend([version.to_le_bytes(), [0; 4]].concat());
            let pairs = [("ProcessId", "77"), ("HardwareThreadCount", "4"), ("Machine", "m")];
            let pairs: Vec<u8> =
                pairs.iter().flat_map(|(key, value)| [text8(key), text8(value)].concat()).collect();
            writer.block_of(1, &[&clock[..], &pointer_size, &3u32.to_le_bytes(), &pairs].concat());
            return writer;
        }
        if version >= 4 {
            writer.bytes.extend(b"Nettrace");
        }
        writer.bytes.extend(b"\x14\0\0\0!FastSerialization.1");
        writer.object_header("Trace", version.min(4));
        let numbers = [77u32, 4, 0].into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
        writer.bytes.extend([&clock[..], &pointer_size, &numbers, &[6]].concat());
        writer
    }

    /// Adds a block.
    #[must_use]
    pub fn block(mut self, kind: Block, contents: &[u8]) -> Writer {
        let (name, number) = match kind {
            Block::Event => ("EventBlock", 2),
            Block::Metadata => ("MetadataBlock", 3),
            Block::SequencePoint => ("SPBlock", 4),
            Block::Stack => ("StackBlock", 5),
            Block::Thread => ("ThreadBlock", 6),
            Block::RemoveThread => ("RemoveThreadBlock", 7),
            Block::LabelList => ("LabelListBlock", 8),
            Block::Other => ("Other", 99),
        };
        if self.version >= 6 {
            self.block_of(number, contents);
            return self;
        }
        self.object_header(name, 2);
        self.bytes.extend((contents.len() as u32).to_le_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.bytes.extend_from_slice(contents);
        self.bytes.push(6);
        self
    }

    /// Adds a block of events. Only format 3 has no compressed ones.
    #[must_use]
    pub fn events(self, is_compressed: bool, rows: &[Row]) -> Writer {
        let contents = match self.version {
            3 => rows.iter().flat_map(with_stack).collect(),
            version => rows_block(version, is_compressed, rows),
        };
        self.block(Block::Event, &contents)
    }

    /// Adds definitions, each with its id. Up to format 5 they are events, in format 6 rows.
    #[must_use]
    pub fn definitions(self, definitions: &[(u32, Vec<u8>)]) -> Writer {
        if self.version >= 6 {
            let rows = definitions.iter().flat_map(|(id, contents)| {
                let row = [var(u64::from(*id)), contents.clone()].concat();
                [&(row.len() as u16).to_le_bytes()[..], &row].concat()
            });
            let contents: Vec<u8> = [0, 0].into_iter().chain(rows).collect();
            return self.block(Block::Metadata, &contents);
        }
        let rows: Vec<Row> = definitions
            .iter()
            .map(|(id, contents)| Row {
                payload: [&id.to_le_bytes()[..], contents].concat(),
                ..Row::default()
            })
            .collect();
        match self.version {
            3 => self.events(false, &rows),
            version => self.block(Block::Metadata, &rows_block(version, true, &rows)),
        }
    }

    /// Adds stacks, numbered from `first`.
    #[must_use]
    pub fn stacks(self, first: u32, stacks: &[&[u64]]) -> Writer {
        self.block(
            Block::Stack,
            &numbered(
                first,
                stacks.iter().map(|stack| {
                    let addresses: Vec<u8> = stack.iter().copied().flat_map(u64::to_le_bytes).collect();
                    [&(addresses.len() as u32).to_le_bytes()[..], &addresses].concat()
                }),
            ),
        )
    }

    /// Adds label lists, numbered from `first`. The last label of each must have its high bit set.
    #[must_use]
    pub fn label_lists(self, first: u32, lists: &[Vec<u8>]) -> Writer {
        self.block(Block::LabelList, &numbered(first, lists.iter().cloned()))
    }

    /// Adds a sequence point with the last numbers of threads. `flags` are those of format 6.
    #[must_use]
    pub fn sequence_point(self, time: u64, flags: u32, threads: &[(u64, u32)]) -> Writer {
        let is_six = self.version >= 6;
        let rows = threads.iter().flat_map(|(thread, number)| match is_six {
            true => [var(*thread), var(u64::from(*number))].concat(),
            false => [&thread.to_le_bytes()[..], &number.to_le_bytes()].concat(),
        });
        let flags = flags.to_le_bytes();
        let flags: &[u8] = if is_six { &flags } else { &[] };
        let count = (threads.len() as u32).to_le_bytes();
        let rows: Vec<u8> = rows.collect();
        self.block(Block::SequencePoint, &[&time.to_le_bytes()[..], flags, &count, &rows].concat())
    }

    /// Adds threads with their process and thread ids (format 6).
    #[must_use]
    pub fn threads(self, threads: &[(u64, u64, u64)]) -> Writer {
        let rows = threads.iter().flat_map(|(index, process, thread)| {
            let name = [vec![1], text8("worker")].concat();
            let row = [var(*index), name, vec![2], var(*process), vec![3], var(*thread)].concat();
            [&(row.len() as u16).to_le_bytes()[..], &row].concat()
        });
        let contents: Vec<u8> = rows.collect();
        self.block(Block::Thread, &contents)
    }

    /// Ends the trace, and returns its bytes.
    pub fn finish(mut self) -> Vec<u8> {
        match self.version {
            6.. => self.bytes.extend([0; 4]),
            _ => self.bytes.push(1),
        }
        self.bytes
    }

    fn object_header(&mut self, name: &str, version: u32) {
        let begin = if self.version >= 4 { 5 } else { 4 };
        self.bytes.extend([begin, begin, 1]);
        for number in [version, version, name.len() as u32] {
            self.bytes.extend(number.to_le_bytes());
        }
        self.bytes.extend(name.as_bytes());
        self.bytes.push(6);
    }

    fn block_of(&mut self, kind: u32, contents: &[u8]) {
        self.bytes.extend((contents.len() as u32 | kind << 24).to_le_bytes());
        self.bytes.extend_from_slice(contents);
    }
}

/// Returns a definition of formats 3 to 5: names, id and the rest, which starts with the fields.
pub fn definition(provider: &str, id: u32, name: &str, rest: &[u8]) -> Vec<u8> {
    let numbers = [&id.to_le_bytes()[..], &wide(name), &0x10u64.to_le_bytes(), &2u32.to_le_bytes()].concat();
    [&wide(provider)[..], &numbers, &4u32.to_le_bytes(), rest].concat()
}

/// Returns a tag after the fields of a definition of format 5.
pub fn tag(kind: u8, contents: &[u8]) -> Vec<u8> {
    [&(contents.len() as u32).to_le_bytes()[..], &[kind], contents].concat()
}

/// Returns fields of formats 3 to 5: codes of types, with what belongs to them, and names.
pub fn fields(fields: &[(&[u32], &str)]) -> Vec<u8> {
    let rows = fields.iter().flat_map(|(code, name)| {
        code.iter().copied().flat_map(u32::to_le_bytes).chain(wide(name)).collect::<Vec<u8>>()
    });
    (fields.len() as u32).to_le_bytes().into_iter().chain(rows).collect()
}

/// Returns fields of the tag `V2Params`: each with its size, then its name, then its type.
pub fn sized_fields(fields: &[(&str, &[u32])]) -> Vec<u8> {
    let rows = fields.iter().flat_map(|(name, code)| {
        let field: Vec<u8> =
            wide(name).into_iter().chain(code.iter().copied().flat_map(u32::to_le_bytes)).collect();
        [&(field.len() as u32 + 4).to_le_bytes()[..], &field].concat()
    });
    (fields.len() as u32).to_le_bytes().into_iter().chain(rows).collect()
}

/// Returns a definition of format 6: names, id, fields and optional properties.
pub fn row_definition(provider: &str, id: u32, name: &str, fields: &[u8], optional: &[u8]) -> Vec<u8> {
    let names = [text8(provider), var(u64::from(id)), text8(name)].concat();
    [&names[..], fields, &(optional.len() as u16).to_le_bytes(), optional].concat()
}

/// Returns fields of format 6, each with the bytes of its type.
pub fn row_fields(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let rows = fields.iter().flat_map(|(name, code)| {
        let field = [&text8(name)[..], code].concat();
        [&(field.len() as u16).to_le_bytes()[..], &field].concat()
    });
    (fields.len() as u16).to_le_bytes().into_iter().chain(rows).collect()
}

/// Encodes a number with seven bits per byte.
pub fn var(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7F {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Returns UTF-16 with a zero at its end.
pub fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

/// Returns UTF-8 with its length before it.
pub fn text8(text: &str) -> Vec<u8> {
    [var(text.len() as u64), text.as_bytes().to_vec()].concat()
}

fn numbered(first: u32, rows: impl ExactSizeIterator<Item = Vec<u8>>) -> Vec<u8> {
    let count = rows.len() as u32;
    [first, count].into_iter().flat_map(u32::to_le_bytes).chain(rows.flatten()).collect()
}

/// Returns an event of format 3, whose stack number is its only address.
fn with_stack(row: &Row) -> Vec<u8> {
    let stack = if row.stack == 0 { Vec::new() } else { u64::from(row.stack).to_le_bytes().to_vec() };
    let ids = [row.metadata.to_le_bytes(), (row.thread as u32).to_le_bytes()].concat();
    let mut event = [&ids[..], &row.time.to_le_bytes(), &row.activity, &row.related].concat();
    event.extend((row.payload.len() as u32).to_le_bytes());
    event.extend(&row.payload);
    event.extend((stack.len() as u32).to_le_bytes());
    event.extend(stack);
    event.resize(event.len().next_multiple_of(4), 0);
    [&(event.len() as u32).to_le_bytes()[..], &event].concat()
}

fn rows_block(version: u32, is_compressed: bool, rows: &[Row]) -> Vec<u8> {
    let times = || rows.iter().map(|row| row.time);
    let mut block = [20u16.to_le_bytes(), u16::from(is_compressed).to_le_bytes()].concat();
    block.extend(times().min().unwrap_or(0).to_le_bytes());
    block.extend(times().max().unwrap_or(0).to_le_bytes());
    let first = Row::default();
    for (row, before) in rows.iter().zip(iter::once(&first).chain(rows)) {
        match is_compressed {
            true => block.extend(compressed(version, row, before)),
            false => {
                block.extend(plain(version, row));
                if version < 6 {
                    block.resize(block.len().next_multiple_of(4), 0);
                }
            }
        }
    }
    block
}

fn compressed(version: u32, row: &Row, before: &Row) -> Vec<u8> {
    let mut flags = u8::from(row.is_sorted) << 6;
    let mut fields = Vec::new();
    let mut put = |flag: u8, is_new: bool, bytes: Vec<u8>| {
        if is_new {
            flags |= flag;
            fields.extend(bytes);
        }
    };
    put(1, row.metadata != before.metadata, var(row.metadata.into()));
    let counted = u32::from(row.metadata != 0);
    let step = row.sequence.wrapping_sub(before.sequence).wrapping_sub(counted);
    let writer = [var(step.into()), var(row.capture_thread), var(row.processor.into())].concat();
    let is_same = (row.capture_thread, row.processor) == (before.capture_thread, before.processor);
    put(2, step != 0 || !is_same, writer);
    put(4, row.thread != before.thread, var(row.thread));
    put(8, row.stack != before.stack, var(row.stack.into()));
    put(0, true, var(row.time.wrapping_sub(before.time)));
    if version >= 6 {
        put(16, row.labels != before.labels, var(row.labels.into()));
    } else {
        put(16, row.activity != before.activity, row.activity.to_vec());
        put(32, row.related != before.related, row.related.to_vec());
    }
    put(128, row.payload.len() != before.payload.len(), var(row.payload.len() as u64));
    [&[flags][..], &fields, &row.payload].concat()
}

fn plain(version: u32, row: &Row) -> Vec<u8> {
    let mut event = [row.metadata.to_le_bytes(), row.sequence.to_le_bytes()].concat();
    event.extend([row.thread.to_le_bytes(), row.capture_thread.to_le_bytes()].concat());
    event.extend([row.processor.to_le_bytes(), row.stack.to_le_bytes()].concat());
    event.extend(row.time.to_le_bytes());
    match version {
        6.. => event.extend(row.labels.to_le_bytes()),
        _ => event.extend([row.activity, row.related].concat()),
    }
    event.extend((row.payload.len() as u32).to_le_bytes());
    event.extend(&row.payload);
    [&(event.len() as u32).to_le_bytes()[..], &event].concat()
}

/// Returns a small trace of each format, with most of what the format has.
pub fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let row = |metadata: u32, sequence: u32, payload: &[u8]| Row {
        metadata,
        sequence,
        thread: 8,
        capture_thread: 9,
        processor: 1,
        stack: 1,
        time: START + u64::from(sequence),
        activity: [1; 16],
        related: [2; 16],
        labels: 1,
        is_sorted: sequence == 1,
        payload: payload.to_vec(),
    };
    // The members come between the type and the name of an object.
    let nested =
        [&1u32.to_le_bytes()[..], &[1, 0, 0, 0], &fields(&[(&[9], "inner")]), &wide("outer")].concat();
    let first = Writer::new(3)
        .definitions(&[(1, definition("Sample", 1, "Nested", &nested)), (2, definition("Bare", 2, "", &[]))])
        .events(false, &[row(1, 1, &[7, 0, 0, 0]), row(2, 2, b"raw")])
        .finish();
    let arrays = sized_fields(&[("bytes", &[19, 6]), ("chars", &[19, 4]), ("text", &[18])]);
    let rest = [&0u32.to_le_bytes()[..], &tag(1, &[24]), &tag(2, &arrays)].concat();
    let payload = [&[2, 0, 5, 6][..], &[1, 0, b'x', 0], &wide("end")].concat();
    let fifth = |is_compressed| {
        Writer::new(5)
            .definitions(&[(1, definition("Sample", 1, "Arrays", &rest))])
            .stacks(1, &[&[0x1000, 0x2000], &[]])
            .events(is_compressed, &[row(1, 1, &payload), row(1, 4, &payload)])
            .sequence_point(START + 10, 0, &[(9, 6)])
            .finish()
    };
    vec![
        ("format3", first),
        ("format5", fifth(true)),
        ("format5-plain", fifth(false)),
        ("format6", sixth(true)),
        ("format6-plain", sixth(false)),
    ]
}

/// Returns a trace of format 6 with each type of field, threads of two processes, labels, and lost events.
fn sixth(is_compressed: bool) -> Vec<u8> {
    let types: [(&str, &[u8]); 9] = [
        ("number", &[20]),
        ("count", &[21]),
        ("text", &[19, 23]),
        ("pair", &[22, 7, 2, 0]),
        ("flag", &[26]),
        // The member's size includes a byte after its type.
        ("object", &[1, 1, 0, 4, 0, 1, b'm', 9, 0]),
        ("lists", &[19, 19, 6]),
        ("near", &[24, 6]),
        ("far", &[25, 7]),
    ];
    let optional =
        [&[8, 3, 9, 1, 1, 32, 3][..], &0x40u64.to_le_bytes(), &[7], &[0xAB; 16], &[4], &text8("m")];
    let optional = optional.concat();
    let payload = [
        // -3, 300, "ab", [1, 2], true, { 7 }, [[1], []], then two places: 4 bytes on, and 33 bytes from the start.
        &[5][..],
        &var(300),
        b"\x02\0ab",
        &[1, 0, 2, 0, 1, 7, 0, 0, 0],
        &[2, 0, 1, 0, 1, 0, 0],
    ]
    .concat();
    let at = payload.len() as u16;
    let near = [4u16.to_le_bytes(), 1u16.to_le_bytes()].concat();
    let far = [(at + 9).to_le_bytes(), 4u16.to_le_bytes()].concat();
    let payload = [&payload[..], &near, &far, &[9], &[3, 0, 4, 0]].concat();
    let labels = [
        &[1][..],
        &[0x11; 16],
        &[2],
        &[0x22; 16],
        &[3],
        &[0x33; 16],
        &[4],
        &0x44u64.to_le_bytes(),
        &[5],
        &text8("key"),
        &text8("value"),
        &[6],
        &text8("n"),
        &var(9),
        &[7, 40, 8],
        &0x80u64.to_le_bytes(),
        &[9, 2, 0x80 | 10, 5],
    ];
    let row = |metadata, sequence, thread, labels, payload: &[u8]| Row {
        metadata,
        sequence,
        thread,
        capture_thread: 1,
        processor: 6,
        stack: 2,
        time: START + u64::from(sequence),
        labels,
        payload: payload.to_vec(),
        ..Row::default()
    };
    Writer::new(6)
        .threads(&[(1, 100, 1000), (2, 200, 2000)])
        .definitions(&[
            (1, row_definition("Sample.Six", 1, "All", &row_fields(&types), &optional)),
            (2, row_definition("Universal.Events", 0, "cpu", &row_fields(&[("Value", &[21])]), &[])),
        ])
        .stacks(2, &[&[0xAAAA]])
        .label_lists(1, &[labels.concat()])
        .block(Block::Other, b"later versions")
        .events(is_compressed, &[row(1, 1, 1, 1, &payload), row(2, 4, 2, 0, &[0x81, 1])])
        .sequence_point(START + 10, 3, &[(1, 5)])
        .threads(&[(1, 300, 3000)])
        .definitions(&[(
            1,
            row_definition("Universal.Events", 0, "cswitch", &row_fields(&[("Value", &[21])]), &[]),
        )])
        .events(is_compressed, &[Row { stack: 0, time: START + 20, ..row(1, 50, 1, 0, &[3]) }])
        .block(Block::RemoveThread, &[1, 52])
        .finish()
}
