//! The event `ImageCode`: the code at addresses of one image.
//!
//! An image with many addresses has several events. `docs/symbols.md` describes the fields.

use etw_consumer::Event;
use etw_etl::encode::field_types::{ANSI_STRING, GUID, HEX_INT32, HEX_INT64, UINT8, UINT16, UINT32, UTF8};
use etw_etl::encode::{EventMetadata, RecordBuilder, cut_text, provider_traits, put_text};
use etw_event::{EventDescriptor, ExtendedType, Guid, Level, PointerSize};
use etw_kernel_events::providers::SYMBOL_PROVIDER;
use etw_symbols::{Frame, PdbId, Symbol, WindowsImage};

use super::identity::ModuleId;
use crate::maps::HashMap;

const EVENT: &str = "ImageCode";
/// Maximum length in bytes of the names of functions and files.
const MAX_TEXT_BYTES: usize = 8192;
/// Stands for a text that is not known.
const NO_TEXT: u16 = u16::MAX;
/// Stands for an offset in a function that is not known.
const NO_OFFSET: u32 = u32::MAX;
/// Maximum number of addresses of an event, whose counts have 16 bits.
const MAX_PLACES: usize = 1 << 14;

/// A frame: indexes of its function and its file, if they are known, and the line or 0.
#[derive(Debug, Clone, Copy)]
struct FrameForm {
    function: u16,
    file: u16,
    line: u32,
}

/// The code at an address.
#[derive(Debug, Clone)]
pub(super) struct PlaceForm {
    /// Offset from the image's base; of IL code, the method's token in the upper half and the offset in the lower one.
    pub(super) offset: u64,
    offset_in_function: u32,
    /// Its frames, of all.
    frames: std::ops::Range<usize>,
}

/// The event's fields, apart from the image.
#[derive(Debug, Default)]
pub(super) struct CodeForm {
    texts: Vec<Box<str>>,
    pub(super) places: Vec<PlaceForm>,
    frames: Vec<FrameForm>,
}

/// The code of an image, as an event contains it.
#[derive(Debug)]
pub(super) struct ImageCode {
    pub(super) id: ModuleId,
    /// Name of the file that the names are from.
    pub(super) source: String,
    pub(super) code: CodeForm,
}

impl CodeForm {
    /// Returns the code at an address, which is one of [`CodeForm::places`].
    pub(super) fn symbol(&self, place: &PlaceForm) -> Symbol {
        let text = |index: u16| self.texts.get(usize::from(index)).map(|text| text.to_string());
        let frame = |frame: &FrameForm| Frame {
            function: text(frame.function).unwrap_or_default(),
            file: text(frame.file),
            line: (frame.line != 0).then_some(frame.line),
        };
        let frames = self.frames.get(place.frames.clone()).unwrap_or_default();
        let offset = (place.offset_in_function != NO_OFFSET).then_some(place.offset_in_function.into());
        Symbol { frames: frames.iter().map(frame).collect(), offset }
    }

    /// Returns the length in bytes of the texts of [`CodeForm::symbol`].
    pub(super) fn text_bytes(&self, place: &PlaceForm) -> usize {
        let len = |index: u16| self.texts.get(usize::from(index)).map_or(0, |text| text.len());
        let frames = self.frames.get(place.frames.clone()).unwrap_or_default();
        frames.iter().map(|frame| len(frame.function) + len(frame.file)).sum()
    }
}

impl ImageCode {
    /// Returns the code that an event contains; `None` if it is another event. Addresses with frames or texts that the
    /// event does not have are left out.
    pub(super) fn from_event(event: &Event<'_>) -> Option<ImageCode> {
        let properties = event.properties.as_ref().ok()?;
        // Other events of the provider lack the field.
        let offsets: Vec<u64> = properties.try_get("CodeOffsets")?;
        let text = |name: &str| properties.try_get::<String>(name).unwrap_or_default();
        let number = |name: &str| properties.try_get::<u32>(name).unwrap_or(0);
        let list = |name: &str| properties.try_get::<Vec<u32>>(name).unwrap_or_default();
        let pdb = properties.try_get::<Guid>("PdbGuid").filter(|guid| *guid != Guid::ZERO);
        let pdb = pdb.and_then(|guid| PdbId::new(&text("PdbName"), guid, number("PdbAge")));
        let (time_stamp, len_bytes) = (number("TimeDateStamp"), number("ImageSize"));
        let is_of_windows = pdb.is_some() || time_stamp != 0 || len_bytes != 0;
        let id = ModuleId {
            path: text("ImagePath"),
            build_id: unhex(&text("BuildId"))?,
            windows: is_of_windows.then_some(WindowsImage { time_stamp, len_bytes, pdb }),
            is_managed: number("IsManaged") == 1,
        };
        let texts: Vec<String> = properties.try_get("Texts").unwrap_or_default();
        let is_text = |index: u32| {
            index == u32::from(NO_TEXT)
                || texts.get(index as usize).is_some_and(|text| text.len() <= MAX_TEXT_BYTES)
        };
        let frames = list("Functions").into_iter().zip(list("Files")).zip(list("Lines"));
        let frames: Vec<Option<FrameForm>> = frames
            .map(|((function, file), line)| {
                let is_known =
                    is_text(function) && is_text(file) && (id.is_managed || function != u32::from(NO_TEXT));
                is_known.then_some(FrameForm { function: function as u16, file: file as u16, line })
            })
            .collect();
        let counts = list("FrameCounts").into_iter().zip(list("FunctionOffsets"));
        let mut start = 0_usize;
        let mut places = Vec::new();
        for (offset, (count, offset_in_function)) in offsets.into_iter().zip(counts) {
            let own = start..start.saturating_add(count as usize);
            start = own.end;
            let is_whole = frames.get(own.clone()).is_some_and(|frames| frames.iter().all(Option::is_some));
            if is_whole {
                places.push(PlaceForm { offset, offset_in_function, frames: own });
            }
        }
        let unknown = FrameForm { function: NO_TEXT, file: NO_TEXT, line: 0 };
        let frames = frames.into_iter().map(|frame| frame.unwrap_or(unknown)).collect();
        let texts = texts.into_iter().map(String::into_boxed_str).collect();
        Some(ImageCode { id, source: text("Source"), code: CodeForm { texts, places, frames } })
    }
}

/// Builds the events of one image.
pub(super) struct Encoder<'a> {
    id: &'a ModuleId,
    source: &'a str,
    /// Maximum length in bytes of a record.
    max_bytes: usize,
    /// The length of a record without code.
    empty_bytes: usize,
    code: CodeForm,
    by_text: HashMap<Box<str>, u16>,
    len_bytes: usize,
    records: Vec<RecordBuilder>,
    /// Addresses whose names are too long for a record.
    pub(super) skipped: u64,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(id: &'a ModuleId, source: &'a str, max_bytes: usize) -> Encoder<'a> {
        let mut encoder = Encoder {
            id,
            source,
            max_bytes,
            empty_bytes: 0,
            code: CodeForm::default(),
            by_text: HashMap::default(),
            len_bytes: 0,
            records: Vec::new(),
            skipped: 0,
        };
        encoder.empty_bytes = encoder.record().build().map_or(usize::MAX, |record| record.len());
        encoder.len_bytes = encoder.empty_bytes;
        encoder
    }

    /// Adds the code at an address; one without frames has no name.
    pub(super) fn add(&mut self, offset: u64, frames: &[Frame], offset_in_function: Option<u64>) {
        let mut added = self.added_bytes(frames);
        if self.len_bytes.saturating_add(added) > self.max_bytes || self.code.places.len() >= MAX_PLACES {
            self.end_record();
            added = self.added_bytes(frames);
        }
        if self.len_bytes.saturating_add(added) > self.max_bytes {
            self.skipped += 1;
            return;
        }
        self.len_bytes += added;
        let start = self.code.frames.len();
        for Frame { function, file, line } in frames {
            let function = if self.id.is_managed { NO_TEXT } else { self.text(function) };
            let file = file.as_deref().map_or(NO_TEXT, |file| self.text(file));
            self.code.frames.push(FrameForm { function, file, line: line.unwrap_or(0) });
        }
        let offset_in_function = offset_in_function.and_then(|offset| u32::try_from(offset).ok());
        self.code.places.push(PlaceForm {
            offset,
            offset_in_function: offset_in_function.unwrap_or(NO_OFFSET),
            frames: start..self.code.frames.len(),
        });
    }

    /// Returns the events.
    pub(super) fn finish(mut self) -> Vec<RecordBuilder> {
        self.end_record();
        self.records
    }

    /// Returns an upper limit of what an address adds to the record, in bytes.
    fn added_bytes(&self, frames: &[Frame]) -> usize {
        let text_bytes = |text: &str| match self.by_text.contains_key(cut_text(text, MAX_TEXT_BYTES)) {
            true => 0,
            false => cut_text(text, MAX_TEXT_BYTES).len() + 1,
        };
        let of_frame = |frame: &Frame| {
            let function = if self.id.is_managed { 0 } else { text_bytes(&frame.function) };
            8 + function + frame.file.as_deref().map_or(0, text_bytes)
        };
        14 + frames.iter().map(of_frame).sum::<usize>()
    }

    fn text(&mut self, text: &str) -> u16 {
        let text = cut_text(text, MAX_TEXT_BYTES);
        if let Some(known) = self.by_text.get(text) {
            return *known;
        }
        // A record has less than 64 KiB, so it has fewer texts than numbers.
        let index = u16::try_from(self.code.texts.len()).unwrap_or(NO_TEXT);
        self.code.texts.push(text.into());
        self.by_text.insert(text.into(), index);
        index
    }

    fn end_record(&mut self) {
        if self.code.places.is_empty() {
            return;
        }
        let record = self.record();
        self.records.push(record);
        self.code = CodeForm::default();
        self.by_text.clear();
        self.len_bytes = self.empty_bytes;
    }

    fn record(&self) -> RecordBuilder {
        let array = |in_type: u8| in_type | EventMetadata::VARIABLE_COUNT;
        let metadata = EventMetadata::new(EVENT)
            .formatted_field("ImagePath", ANSI_STRING, UTF8)
            .field("BuildId", ANSI_STRING)
            .field("TimeDateStamp", HEX_INT32)
            .field("ImageSize", UINT32)
            .formatted_field("PdbName", ANSI_STRING, UTF8)
            .field("PdbGuid", GUID)
            .field("PdbAge", UINT32)
            .field("IsManaged", UINT8)
            .formatted_field("Source", ANSI_STRING, UTF8)
            .formatted_field("Texts", array(ANSI_STRING), UTF8)
            .field("CodeOffsets", array(HEX_INT64))
            .field("FunctionOffsets", array(UINT32))
            .field("FrameCounts", array(UINT16))
            .field("Functions", array(UINT16))
            .field("Files", array(UINT16))
            .field("Lines", array(UINT32))
            .build();
        let ModuleId { path, build_id, windows, is_managed } = self.id;
        let windows = windows.clone().unwrap_or_default();
        let pdb = windows.pdb.as_ref();
        let mut payload = Vec::new();
        put_text(path, MAX_TEXT_BYTES, &mut payload);
        put_text(&hex(build_id), MAX_TEXT_BYTES, &mut payload);
        payload.extend(windows.time_stamp.to_le_bytes());
        payload.extend(windows.len_bytes.to_le_bytes());
        put_text(pdb.map_or("", PdbId::name), MAX_TEXT_BYTES, &mut payload);
        payload.extend(pdb.map_or(Guid::ZERO, |pdb| pdb.guid).to_bytes());
        payload.extend(pdb.map_or(0, |pdb| pdb.age).to_le_bytes());
        payload.push(u8::from(*is_managed));
        put_text(self.source, MAX_TEXT_BYTES, &mut payload);
        let CodeForm { texts, places, frames } = &self.code;
        let count = |len: usize| u16::try_from(len).unwrap_or(u16::MAX).to_le_bytes();
        payload.extend(count(texts.len()));
        texts.iter().for_each(|text| put_text(text, MAX_TEXT_BYTES, &mut payload));
        payload.extend(count(places.len()));
        places.iter().for_each(|place| payload.extend(place.offset.to_le_bytes()));
        payload.extend(count(places.len()));
        places.iter().for_each(|place| payload.extend(place.offset_in_function.to_le_bytes()));
        payload.extend(count(places.len()));
        places.iter().for_each(|place| payload.extend(count(place.frames.len())));
        payload.extend(count(frames.len()));
        frames.iter().for_each(|frame| payload.extend(frame.function.to_le_bytes()));
        payload.extend(count(frames.len()));
        frames.iter().for_each(|frame| payload.extend(frame.file.to_le_bytes()));
        payload.extend(count(frames.len()));
        frames.iter().for_each(|frame| payload.extend(frame.line.to_le_bytes()));
        let descriptor = EventDescriptor { channel: 11, level: Level(4), ..EventDescriptor::default() };
        RecordBuilder::event(PointerSize::Eight, Guid::from_provider_name(SYMBOL_PROVIDER), &descriptor)
            .item(ExtendedType::EVENT_SCHEMA_TL, &metadata)
            .item(ExtendedType::PROVIDER_TRAITS, &provider_traits(SYMBOL_PROVIDER))
            .payload(&payload)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes that hexadecimal digits stand for; `None` if they are not such digits.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    bytes.collect::<Option<Vec<u8>>>().filter(|_| rest.is_empty())
}
