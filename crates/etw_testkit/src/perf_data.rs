//! Writes small files of Linux's perf (`perf.data`) in both byte orders, for features that no file made here has.

/// Time of the first record in nanoseconds.
pub const START: u64 = 5_000_000;

/// Fields of samples (`PERF_SAMPLE_*`): all that are read, and those before them.
const SAMPLE_FORMAT: u64 = 0x1_3FFF & !(1 << 6);
/// `PERF_FORMAT_GROUP` with times and ids.
const READ_FORMAT: u64 = 1 | 2 | 4 | 8;
/// Frequency, and fields of samples in all records.
const FLAGS: u64 = 1 << 10 | 1 << 18;
/// Numbers of the registers that samples have: frame pointer, stack pointer, instruction.
const REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;
/// Size of the header of a file in bytes.
const HEADER_BYTES: usize = 104;
/// Number of the tracepoint `sched:sched_switch`.
const SWITCH: u64 = 316;
/// Ids of the two events.
const IDS: [u64; 2] = [71, 72];

/// The format of `sched:sched_switch`, and of a tracepoint with values elsewhere.
const FORMATS: [(&str, &str); 2] = [
    (
        "sched",
        "name: sched_switch\nID: 316\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
         \tfield:pid_t prev_pid;\toffset:8;\tsize:4;\tsigned:1;\n\
         \tfield:int prev_prio;\toffset:12;\tsize:4;\tsigned:1;\n\
         \tfield:long prev_state;\toffset:16;\tsize:8;\tsigned:1;\n\
         \tfield:pid_t next_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
         \tfield:int next_prio;\toffset:28;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n",
    ),
    (
        "sched",
        "name: sched_process_exec\nID: 310\nformat:\n\
         \tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n\
         \tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\
         \tfield:u16 list[4];\toffset:16;\tsize:8;\tsigned:0;\n\nprint fmt: \"\"\n",
    ),
];

/// Numbers and texts in the byte order of a file.
#[derive(Debug, Clone, Copy)]
struct Order {
    is_big: bool,
}

impl Order {
    fn number(self, number: u64, len: usize) -> Vec<u8> {
        match self.is_big {
            true => number.to_be_bytes()[8 - len..].to_vec(),
            false => number.to_le_bytes()[..len].to_vec(),
        }
    }

    /// Numbers of 32 bits.
    fn halves(self, numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| self.number(*number, 4)).collect()
    }

    /// Numbers of 64 bits.
    fn words(self, numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| self.number(*number, 8)).collect()
    }

    /// A text with zeros up to a multiple of 8 bytes.
    fn padded(text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize((bytes.len() + 1).next_multiple_of(8), 0);
        bytes
    }

    fn counted(self, text: &str) -> Vec<u8> {
        let text = Order::padded(text);
        [self.halves(&[text.len() as u64]), text].concat()
    }

    fn record(self, kind: u64, misc: u64, body: &[u8]) -> Vec<u8> {
        let len = 8 + body.len() as u64;
        [&self.number(kind, 4)[..], &self.number(misc, 2), &self.number(len, 2), body].concat()
    }

    /// Process and thread, time, processor and id, which end records that are no samples.
    fn sample_id(self, time: u64, thread: u64) -> Vec<u8> {
        [
            self.halves(&[7, thread]),
            self.words(&[time]),
            self.words(&[0]),
            self.halves(&[1, 0]),
            self.words(&[IDS[0]]),
        ]
        .concat()
    }

    fn event(self, kind: u64, misc: u64, body: &[u8], time: u64) -> Vec<u8> {
        self.record(kind, misc, &[body, &self.sample_id(time, 7)].concat())
    }

    fn attribute(self, event_type: u64, config: u64) -> Vec<u8> {
        let mut bytes = [
            self.halves(&[event_type, 128]),
            self.words(&[config, 1000, SAMPLE_FORMAT, READ_FORMAT, FLAGS, 0, 0, 0, 1 << 17, REGISTERS]),
            self.halves(&[16, 0]),
        ]
        .concat();
        bytes.resize(128, 0);
        bytes
    }

    fn sample(self, id: u64, time: u64, raw: &[u8]) -> Vec<u8> {
        let chain = [-128_i64 as u64, 0xFFFF_FFFF_8100_0010, -512_i64 as u64, 0x40_1010, 0x40_1020, 0];
        let body = [
            self.words(&[id, 0x40_1010]),
            self.halves(&[7, 8]),
            self.words(&[time, 0xABC0, 0]),
            self.halves(&[1, 0]),
            self.words(&[1000]),
            // Two counters: their number, two times, value and id of each.
            self.words(&[2, 1, 1, 10, IDS[0], 20, IDS[1]]),
            self.words(&[chain.len() as u64]),
            self.words(&chain),
            self.halves(&[raw.len() as u64]),
            raw.to_vec(),
            // One branch with an index before it.
            self.words(&[1, 0, 1, 2, 3]),
            // Registers of 64 bits, and 16 bytes of the stack.
            self.words(&[2, 0x7000, 0x6FF0, 0x40_1010]),
            self.words(&[16, 0x40_1020, 0x40_1030, 16]),
        ];
        self.record(9, 2, &body.concat())
    }

    fn records(self) -> Vec<u8> {
        let mapping = |path: &str| {
            let place = self.words(&[0x40_0000, 0x2000, 0]);
            let identity = [&[4, 0, 0, 0, 1, 2, 3, 4][..], &[0; 16]].concat();
            [self.halves(&[7, 7]), place, identity, self.halves(&[5, 2]), Order::padded(path)].concat()
        };
        let kernel = [
            self.halves(&[u64::from(u32::MAX), 0]),
            self.words(&[0xFFFF_FFFF_8100_0000, 0x100_0000, 0xFFFF_FFFF_8100_0000]),
            Order::padded("[kernel.kallsyms]_text"),
        ];
        let comm = |thread: u64, name: &str| [self.halves(&[7, thread]), Order::padded(name)].concat();
        let task = |time: u64| [self.halves(&[7, 1, 8, 1]), self.words(&[time])].concat();
        let switch =
            [&self.number(0, 8)[..], &self.halves(&[8, 120]), &self.words(&[1]), &self.halves(&[0, 120])]
                .concat();
        [
            self.event(1, 1, &kernel.concat(), 0),
            self.event(3, 0, &comm(7, "sh"), 0),
            self.event(3, 1 << 13, &comm(7, "program"), START),
            self.event(10, 1 << 14 | 2, &mapping("/usr/bin/program"), START + 1),
            self.event(7, 0, &task(START + 2), START + 2),
            // Out of order.
            self.sample(IDS[1], START + 9, &switch),
            self.sample(IDS[0], START + 5, &[]),
            self.record(68, 0, &[]),
            self.event(3, 0, &comm(8, "worker"), START + 10),
            self.event(15, 1 << 13, &self.halves(&[7, 8]), START + 11),
            self.event(2, 0, &self.words(&[IDS[0], 3]), START + 12),
            self.event(13, 0, &self.words(&[4]), START + 13),
            self.event(5, 0, &self.words(&[START + 14, IDS[0], 1]), START + 14),
            self.event(4, 0, &task(START + 15), START + 15),
            // Data of a processor's own tracer, after its record.
            self.record(71, 0, &self.words(&[8, 0, 0, 0, 0])),
            self.words(&[0x1234]),
            self.record(68, 0, &[]),
        ]
        .concat()
    }

    fn tracing_data(self) -> Vec<u8> {
        let mut bytes = b"\x17\x08\x44tracing0.6\0".to_vec();
        bytes.extend([u8::from(self.is_big), 8]);
        bytes.extend(self.halves(&[4096]));
        for name in ["header_page\0", "header_event\0"] {
            bytes.extend(name.as_bytes());
            bytes.extend(self.words(&[0]));
        }
        bytes.extend(self.halves(&[0, 1]));
        bytes.extend(b"sched\0");
        bytes.extend(self.halves(&[FORMATS.len() as u64]));
        for (_, format) in FORMATS {
            bytes.extend(self.words(&[format.len() as u64]));
            bytes.extend(format.as_bytes());
        }
        bytes
    }

    /// Features by their numbers: tracing data, build ids, names, processors, memory, command line, clock.
    fn features(self) -> Vec<(u32, Vec<u8>)> {
        let id = [&[9; 20][..], &[20, 0, 0, 0]].concat();
        // Records are multiples of 8 bytes.
        let build_id = [self.halves(&[7]), id, Order::padded("/usr/bin/program"), vec![0; 4]].concat();
        vec![
            (1, self.tracing_data()),
            (2, self.record(67, 1 << 15 | 2, &build_id)),
            (3, self.counted("host")),
            (4, self.counted("6.1.0")),
            (6, self.counted("x86_64")),
            (7, self.halves(&[4, 2])),
            (8, self.counted("Processor")),
            (9, self.counted("Vendor,6,1,2")),
            (10, self.words(&[1 << 20])),
            (11, [self.halves(&[2]), self.counted("perf"), self.counted("record")].concat()),
            (12, self.event_descriptions()),
            (29, [self.halves(&[1, 1]), self.words(&[1_700_000_000_000_000_000, START])].concat()),
        ]
    }

    fn event_descriptions(self) -> Vec<u8> {
        let describe = |attribute: Vec<u8>, name: &str, id: u64| {
            [attribute, self.halves(&[1]), self.counted(name), self.words(&[id])].concat()
        };
        let [clock, switch] = self.attributes();
        let descriptions =
            [describe(clock, "cpu-clock", IDS[0]), describe(switch, "sched:sched_switch", IDS[1])];
        [self.halves(&[2, 128]), descriptions.concat()].concat()
    }

    fn attributes(self) -> [Vec<u8>; 2] {
        [self.attribute(1, 0), self.attribute(2, SWITCH)]
    }

    fn magic(self) -> &'static [u8] {
        if self.is_big { b"2ELIFREP" } else { b"PERFILE2" }
    }

    fn file(self) -> Vec<u8> {
        let (records, features) = (self.records(), self.features());
        let ids = self.words(&IDS);
        let attributes_at = (HEADER_BYTES + ids.len()) as u64;
        let entries: Vec<u8> = (0..)
            .zip(self.attributes())
            .flat_map(|(index, attribute)| {
                [attribute, self.words(&[HEADER_BYTES as u64 + 8 * index, 8])].concat()
            })
            .collect();
        let data_at = attributes_at + entries.len() as u64;
        let bits = features.iter().fold(0, |bits, (number, _)| bits | 1_u64 << number);
        let header = [
            HEADER_BYTES as u64,
            144,
            attributes_at,
            entries.len() as u64,
            data_at,
            records.len() as u64,
            0,
            0,
            bits,
            0,
            0,
            0,
        ];
        let mut bytes = [self.magic(), &self.words(&header), &ids, &entries, &records].concat();
        let mut at = bytes.len() as u64 + 16 * features.len() as u64;
        for (_, feature) in &features {
            bytes.extend(self.words(&[at, feature.len() as u64]));
            at += feature.len() as u64;
        }
        bytes.extend(features.into_iter().flat_map(|(_, feature)| feature));
        bytes
    }

    fn stream(self) -> Vec<u8> {
        let attributes = self.attributes();
        let attributes = attributes
            .iter()
            .zip(IDS)
            .map(|(attribute, id)| self.record(64, 0, &[attribute.clone(), self.words(&[id])].concat()));
        let attributes: Vec<u8> = attributes.flatten().collect();
        let mut bytes = [self.magic(), &self.words(&[16]), &attributes].concat();
        for (number, feature) in self.features() {
            let mut feature = feature;
            feature.resize(feature.len().next_multiple_of(8), 0);
            match number {
                // The data follows its record.
                1 => {
                    bytes.extend(self.record(66, 0, &self.halves(&[feature.len() as u64])));
                    bytes.extend(feature);
                }
                2 => bytes.extend(feature),
                number => {
                    let body = [self.words(&[number.into()]), feature].concat();
                    bytes.extend(self.record(80, 0, &body));
                }
            }
        }
        bytes.extend(self.records());
        bytes
    }
}

/// Returns a file and a stream of each byte order with the same contents, by names.
pub fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let (little, big) = (Order { is_big: false }, Order { is_big: true });
    vec![
        ("file", little.file()),
        ("file_big_endian", big.file()),
        ("stream", little.stream()),
        ("stream_big_endian", big.stream()),
    ]
}
