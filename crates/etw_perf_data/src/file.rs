//! The file: its header, its sections, and the records one after the other.

use std::collections::HashMap;

use crate::attribute::{Attribute, SampleFormat};
use crate::cursor::{ByteOrder, Cursor};
use crate::error::{Damage, OpenError};
use crate::features::{BuildIdEntry, Features};
use crate::kind;
use crate::record::{Record, SampleId};

/// The first bytes, by the file's byte order.
const MAGIC: [(&[u8; 8], ByteOrder); 2] = [(b"PERFILE2", ByteOrder::Little), (b"2ELIFREP", ByteOrder::Big)];
/// Size of the header of a stream in bytes, and of a file.
const STREAM_HEADER_BYTES: u64 = 16;
const FILE_HEADER_BYTES: u64 = 104;
/// Bytes of a section in the header: offset and size.
const SECTION_BYTES: u64 = 16;
/// Bytes of a record's header: kind, `misc` and size.
const RECORD_HEADER_BYTES: usize = 8;
/// Maximum number of attributes.
const MAX_ATTRIBUTES: usize = 1 << 16;
/// `PERF_EVENT_UPDATE__NAME`.
const UPDATE_NAME: u64 = 2;

/// Returns whether these are the first bytes of a file of perf.
pub fn is_perf_data(bytes: &[u8]) -> bool {
    MAGIC.iter().any(|(magic, _)| bytes.starts_with(*magic))
}

/// A file of perf.
#[derive(Debug, Clone)]
pub struct PerfData<'a> {
    order: ByteOrder,
    is_stream: bool,
    attributes: Vec<Attribute>,
    /// Indexes of attributes by ids.
    by_id: HashMap<u64, usize>,
    features: Features<'a>,
    data: &'a [u8],
    data_offset: u64,
    damage: Vec<Damage>,
}

/// A record as it is in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Offset of its header in the file in bytes.
    pub offset: u64,
    /// Its kind ([`kind`]).
    pub kind: u32,
    /// Flags that depend on the kind.
    pub misc: u16,
    /// The bytes after its header. With data that follows the record, these too.
    pub body: &'a [u8],
    /// The whole record with its header, and data that follows it.
    pub bytes: &'a [u8],
}

impl<'a> PerfData<'a> {
    /// Reads the header, attributes and features.
    ///
    /// A file whose recording was not completed, or that was cut short, is read as far as it goes; [`PerfData::damage`]
    /// says so.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are no file of perf, or have no attribute.
    pub fn open(bytes: &'a [u8]) -> Result<PerfData<'a>, OpenError> {
        let order = MAGIC.iter().find(|(magic, _)| bytes.starts_with(*magic));
        let (_, order) = *order.ok_or(OpenError::NotPerfData)?;
        let mut file = PerfData {
            order,
            is_stream: false,
            attributes: Vec::new(),
            by_id: HashMap::new(),
            features: Features::default(),
            data: &[],
            data_offset: 0,
            damage: Vec::new(),
        };
        let mut header = Cursor::new(bytes.get(8..).unwrap_or_default(), order);
        match header.u64() {
            Some(STREAM_HEADER_BYTES) => file.read_stream(bytes),
            Some(FILE_HEADER_BYTES..) => {
                file.read_header(bytes, header).ok_or(OpenError::Header { what: "it is cut short" })?;
            }
            _ => return Err(OpenError::Header { what: "its size is wrong" }),
        }
        if file.attributes.is_empty() {
            return Err(OpenError::NoAttribute);
        }
        let ids = file.attributes.iter().enumerate();
        file.by_id =
            ids.flat_map(|(index, attribute)| attribute.ids.iter().map(move |id| (*id, index))).collect();
        Ok(file)
    }

    /// Returns the byte order.
    pub fn byte_order(&self) -> ByteOrder {
        self.order
    }

    /// Returns whether the file is a stream, which has no header but records of what a header has.
    pub fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// Returns the recorded events; there is at least one.
    pub fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// Returns what the header says of the recording.
    pub fn features(&self) -> &Features<'a> {
        &self.features
    }

    /// Returns the damaged places of the header.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Returns the bytes of the records, and their offset in the file.
    pub fn data(&self) -> (&'a [u8], u64) {
        (self.data, self.data_offset)
    }

    /// Iterates over the records in the file's order, up to the first damaged place.
    pub fn records(&self) -> Records<'a> {
        self.records_of(self.data, self.data_offset)
    }

    /// Iterates over records that were in compressed ones. `offset` is added to their offsets.
    pub fn records_of<'d>(&self, data: &'d [u8], offset: u64) -> Records<'d> {
        Records { rest: data, offset, order: self.order }
    }

    /// Returns the index of the attribute that a record of the kernel belongs to; 0 if it does not say.
    pub fn attribute_of(&self, record: &RawRecord<'_>) -> usize {
        let [first, further @ ..] = &self.attributes[..] else { return 0 };
        if further.is_empty() {
            return 0;
        }
        let id = match record.kind {
            kind::SAMPLE => self.id_of_sample(first, record.body),
            _ => SampleId::read(record.body, first, self.order).id,
        };
        id.and_then(|id| self.by_id.get(&id)).copied().unwrap_or(0)
    }

    /// Returns the id in a sample of any attribute: all have it at the same place.
    fn id_of_sample(&self, first: &Attribute, body: &[u8]) -> Option<u64> {
        let format = first.sample_format;
        let before = SampleFormat::IP | SampleFormat::TID | SampleFormat::TIME | SampleFormat::ADDR;
        let words = match () {
            () if format.has(SampleFormat::IDENTIFIER) => 0,
            () if format.has(SampleFormat::ID) => format.count(before),
            () => return None,
        };
        let mut cursor = Cursor::new(body, self.order);
        cursor.words(words.into())?;
        cursor.u64()
    }

    /// Returns process, thread, time, id and processor of a record of the kernel.
    pub fn sample_id(&self, record: &RawRecord<'_>) -> SampleId {
        let Some(attribute) = self.attributes.get(self.attribute_of(record)) else {
            return SampleId::default();
        };
        match record.kind {
            kind if !kind::is_of_kernel(kind) => SampleId::default(),
            kind::SAMPLE => self.id_of_start(record.body, attribute).unwrap_or_default(),
            _ => SampleId::read(record.body, attribute, self.order),
        }
    }

    /// Reads the first fields of a sample.
    fn id_of_start(&self, body: &[u8], attribute: &Attribute) -> Option<SampleId> {
        let format = attribute.sample_format;
        let mut cursor = Cursor::new(body, self.order);
        cursor.words(format.count(SampleFormat::IDENTIFIER | SampleFormat::IP).into())?;
        let mut id = SampleId::default();
        if format.has(SampleFormat::TID) {
            id.thread = Some((cursor.u32()?, cursor.u32()?));
        }
        if format.has(SampleFormat::TIME) {
            id.time = Some(cursor.u64()?);
        }
        cursor.words(format.count(SampleFormat::ADDR | SampleFormat::ID | SampleFormat::STREAM_ID).into())?;
        if format.has(SampleFormat::CPU) {
            id.processor = Some(cursor.u32()?);
        }
        Some(id)
    }

    /// Reads a record of the kernel; `None` if it is shorter than its fields.
    pub fn parse<'d>(&self, record: &RawRecord<'d>) -> Option<Record<'d>> {
        if !kind::is_of_kernel(record.kind) {
            return Some(Record::Other);
        }
        let attribute = self.attributes.get(self.attribute_of(record))?;
        Record::read(record.kind, record.misc, record.body, attribute, self.order)
    }

    fn read_header(&mut self, bytes: &'a [u8], mut header: Cursor<'a>) -> Option<()> {
        let attribute_bytes = header.u64()?;
        let attributes = (header.u64()?, header.u64()?);
        let (offset, len) = (header.u64()?, header.u64()?);
        // The names of event types, which old versions wrote.
        header.words(2)?;
        let features = header.words(4)?;
        self.data_offset = offset;
        let rest = bytes.get(usize::try_from(offset).ok()?..).unwrap_or_default();
        let is_complete = len > 0;
        self.data = match usize::try_from(len).ok().and_then(|len| rest.get(..len)) {
            Some(data) if is_complete => data,
            _ => {
                let what = match is_complete {
                    true => "the file is cut short, before its table of features",
                    false => "perf did not complete the file, so its table of features is missing",
                };
                self.damage.push(Damage { offset: bytes.len() as u64, what, skipped: 0 });
                rest
            }
        };
        let bits = (0_u32..256).zip(features.iter().flat_map(|word| (0..64).map(move |bit| word >> bit & 1)));
        let numbers = bits.filter(|(_, bit)| *bit == 1).map(|(number, _)| number);
        if let Some(sections) = offset.checked_add(len).filter(|_| is_complete) {
            self.read_features(bytes, sections, numbers);
        }
        self.attributes = std::mem::take(&mut self.features.attributes);
        if self.attributes.is_empty() {
            self.read_attributes(bytes, attributes, attribute_bytes);
        }
        Some(())
    }

    fn read_features(&mut self, bytes: &'a [u8], mut at: u64, numbers: impl Iterator<Item = u32>) {
        for number in numbers {
            let section = section(bytes, (at, SECTION_BYTES)).and_then(|section| {
                let mut cursor = Cursor::new(section, self.order);
                Some((cursor.u64()?, cursor.u64()?))
            });
            match section.and_then(|place| self::section(bytes, place)) {
                Some(feature) => self.features.add(number, feature, self.order),
                None if self.damage.is_empty() => {
                    let what = "a feature of the header lies outside of the file";
                    self.damage.push(Damage { offset: at, what, skipped: 0 });
                }
                None => {}
            }
            at = at.saturating_add(SECTION_BYTES);
        }
    }

    /// Reads the attributes from the header: each is followed by the place of its ids.
    fn read_attributes(&mut self, bytes: &'a [u8], place: (u64, u64), attribute_bytes: u64) {
        let mut cursor = Cursor::new(section(bytes, place).unwrap_or_default(), self.order);
        while self.attributes.len() < MAX_ATTRIBUTES
            && let Some(entry) = cursor.take_u64(attribute_bytes).filter(|entry| !entry.is_empty())
        {
            let Some((mut attribute, _)) = Attribute::read(entry, self.order) else { break };
            let mut ids =
                Cursor::new(entry.get(entry.len().saturating_sub(16)..).unwrap_or_default(), self.order);
            let ids = ids.u64().zip(ids.u64()).and_then(|place| section(bytes, place)).unwrap_or_default();
            attribute.ids = ids.chunks_exact(8).map(|id| self.order.number(id)).collect();
            self.attributes.push(attribute);
        }
    }

    /// Reads what a header has from the records of a stream.
    fn read_stream(&mut self, bytes: &'a [u8]) {
        self.is_stream = true;
        self.data_offset = STREAM_HEADER_BYTES;
        self.data = bytes.get(16..).unwrap_or_default();
        let mut names = HashMap::new();
        for record in self.records().map_while(Result::ok) {
            let mut cursor = Cursor::new(record.body, self.order);
            match record.kind {
                kind::HEADER_ATTR if self.attributes.len() < MAX_ATTRIBUTES => {
                    self.attributes.extend(attribute_of_stream(record.body, self.order));
                }
                kind::HEADER_FEATURE => {
                    let number = cursor.u64().and_then(|number| u32::try_from(number).ok());
                    self.features.add(number.unwrap_or(0), cursor.rest(), self.order);
                }
                kind::HEADER_TRACING_DATA => {
                    self.features.tracing_data = record.body.get(4..).unwrap_or_default()
                }
                kind::HEADER_BUILD_ID => {
                    self.features.build_ids.extend(BuildIdEntry::read(record.misc, record.body));
                }
                kind::EVENT_UPDATE => {
                    let (update, id) = (cursor.u64(), cursor.u64());
                    if let (Some(UPDATE_NAME), Some(id)) = (update, id) {
                        names.insert(id, String::from_utf8_lossy(cursor.text().unwrap_or_default()));
                    }
                }
                _ => {}
            }
        }
        let described = std::mem::take(&mut self.features.attributes);
        for attribute in &mut self.attributes {
            let named = |id: &u64| names.get(id).map(|name| name.clone().into_owned());
            let same = described.iter().find(|other| other.ids == attribute.ids);
            attribute.name =
                attribute.ids.iter().find_map(named).or_else(|| Some(same?.name.clone())).unwrap_or_default();
        }
    }
}

/// Reads an attribute of a stream, which its ids follow.
fn attribute_of_stream(body: &[u8], order: ByteOrder) -> Option<Attribute> {
    let (mut attribute, len) = Attribute::read(body, order)?;
    let ids = body.get(usize::try_from(len).ok()?..)?;
    attribute.ids = ids.chunks_exact(8).map(|id| order.number(id)).collect();
    Some(attribute)
}

fn section(bytes: &[u8], (offset, len): (u64, u64)) -> Option<&[u8]> {
    bytes.get(usize::try_from(offset).ok()?..)?.get(..usize::try_from(len).ok()?)
}

/// The records of a file, in its order.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
    offset: u64,
    order: ByteOrder,
}

impl<'a> Records<'a> {
    fn read(&mut self) -> Result<RawRecord<'a>, &'static str> {
        let cut = "the file ends inside of a record";
        let mut cursor = Cursor::new(self.rest, self.order);
        let (kind, misc, len) =
            (cursor.u32().ok_or(cut)?, cursor.u16().ok_or(cut)?, cursor.u16().ok_or(cut)?);
        let len = usize::from(len);
        if len < RECORD_HEADER_BYTES || kind == 0 || kind >= kind::END {
            return Err("no record begins here");
        }
        let mut body = Cursor::new(self.rest.get(RECORD_HEADER_BYTES..len).ok_or(cut)?, self.order);
        let further = match kind {
            kind::AUXTRACE => body.u64(),
            kind::HEADER_TRACING_DATA => body.u32().map(|len| u64::from(len).next_multiple_of(8)),
            _ => None,
        };
        let end = further.map_or(Some(len), |further| len.checked_add(usize::try_from(further).ok()?));
        let bytes =
            end.and_then(|end| self.rest.get(..end)).ok_or("the file ends inside of a record's data")?;
        let body = bytes.get(RECORD_HEADER_BYTES..).unwrap_or_default();
        Ok(RawRecord { offset: self.offset, kind, misc, body, bytes })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RawRecord<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let read = self.read();
        let len = read.map_or(self.rest.len(), |record| record.bytes.len());
        let damage = |what| Damage { offset: self.offset, what, skipped: self.rest.len() as u64 };
        let item = read.map_err(damage);
        self.rest = self.rest.get(len..).unwrap_or_default();
        self.offset = self.offset.saturating_add(len as u64);
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::context;

    /// The parsed records of a file, without those that perf writes itself.
    fn records<'a>(file: &PerfData<'a>) -> Vec<Record<'a>> {
        let of_kernel = file.records().map(Result::unwrap).filter(|record| kind::is_of_kernel(record.kind));
        of_kernel.map(|record| file.parse(&record).unwrap()).collect()
    }

    #[test]
    fn files_and_streams_of_both_byte_orders_have_the_same_contents() {
        for (name, bytes) in etw_testkit::perf_data::samples() {
            let file = PerfData::open(&bytes).unwrap();
            assert!(file.damage().is_empty(), "{name}");
            assert_eq!(file.is_stream(), name.starts_with("stream"));
            let names: Vec<&str> = file.attributes().iter().map(|attribute| &*attribute.name).collect();
            assert_eq!(names, ["cpu-clock", "sched:sched_switch"], "{name}");
            let features = file.features();
            assert_eq!((features.host_name, features.os_release), (&b"host"[..], &b"6.1.0"[..]));
            assert_eq!((features.processors, features.memory_kib), (Some((4, 2)), Some(1 << 20)));
            assert_eq!(
                (features.build_ids[0].build_id, features.build_ids[0].path),
                (&[9; 20][..], &b"/usr/bin/program"[..])
            );
            assert_eq!(features.clock_data.unwrap().clock_id, 1);
            assert!(
                crate::Tracepoints::read(features.tracing_data)
                    .get(316)
                    .unwrap()
                    .field("prev_state")
                    .is_some()
            );

            let records = records(&file);
            assert_eq!(records.len(), 13, "{name}");
            let Record::Sample(sample) = &records[5] else { panic!("{name}: {:?}", records[5]) };
            assert_eq!((sample.thread, sample.processor, sample.period), (Some((7, 8)), Some(1), Some(1000)));
            let chain: Vec<u64> = sample.call_chain.unwrap().iter().collect();
            assert_eq!((chain[0], chain[2], chain[3]), (context::KERNEL, context::USER, 0x40_1010));
            let registers = sample.user_registers.unwrap();
            assert_eq!(
                [6, 7, 8, 9].map(|number| registers.get(number)),
                [Some(0x7000), Some(0x6FF0), Some(0x40_1010), None]
            );
            assert_eq!((sample.raw.unwrap().len(), sample.user_stack.unwrap().len()), (32, 16));
            let Record::Mapping(mapping) = records[3] else { panic!("{:?}", records[3]) };
            assert_eq!((mapping.build_id, mapping.path), (&[1, 2, 3, 4][..], &b"/usr/bin/program"[..]));
            assert!(matches!(records[0], Record::Mapping(Mapping { process_id: None, .. })));
            assert!(matches!(records[2], Record::Comm(Comm { is_exec: true, .. })));
            assert_eq!(
                records[8],
                Record::Switch(Switch { is_out: true, is_preempted: false, other: Some((7, 8)) })
            );
            assert_eq!((&records[9], &records[10]), (&Record::Lost(3), &Record::Lost(4)));
        }
    }

    #[test]
    fn what_is_cut_off_is_damage_and_never_more() {
        for (name, bytes) in etw_testkit::perf_data::samples() {
            let whole = PerfData::open(&bytes).unwrap().records().count();
            for len in 0..bytes.len() {
                let Ok(file) = PerfData::open(&bytes[..len]) else { continue };
                let read = file.records().filter(Result::is_ok).count();
                let damaged = file.damage().len() + file.records().filter(Result::is_err).count();
                assert!(read <= whole, "{name} cut at {len}");
                // A stream may end after any record.
                assert!(damaged > 0 || file.is_stream(), "{name} cut at {len}");
            }
        }
    }

    use crate::record::{Comm, Mapping, Switch};
}
