//! Where events are from: what `--source` tells is where the file has the record.

use std::collections::BTreeMap;

use etw_testkit::data::TraceFile;
use openetw::etl::{EtlFile, Records};
use openetw::{Input, InputLimits, Origin, RecordPlace, Trace};

/// Returns the records of a trace with their places, in the order of time.
fn placed(trace: &mut Trace) -> Vec<(RecordPlace, Vec<u8>)> {
    trace.find_places();
    let mut records = Vec::new();
    trace
        .for_each_record(|record| {
            let place = record.place().unwrap_or_else(|| panic!("record {} has no place", records.len()));
            records.push((place, record.as_bytes().to_vec()));
        })
        .unwrap();
    records
}

/// Checks that the file has the records at their places.
fn check(trace: &TraceFile, file: &EtlFile<'_>, records: &[(RecordPlace, Vec<u8>)]) {
    let mut of_buffers: BTreeMap<u64, Vec<&(RecordPlace, Vec<u8>)>> = BTreeMap::new();
    for record in records {
        of_buffers.entry(record.0.buffer).or_default().push(record);
    }
    let mut scratch = Vec::new();
    for (offset, records) in of_buffers {
        let buffer = file.buffer_at(offset).unwrap();
        let (data, origin) = (buffer.data(&mut scratch), Origin::default());
        let found: Vec<_> =
            Records::new(data.bytes, &origin, buffer.place()).filter_map(Result::ok).collect();
        for (place, bytes) in records {
            let name = &trace.name;
            assert_eq!(found[place.record as usize - 1].as_bytes(), bytes, "{name}: {place:?}");
            let at = place.offset as usize;
            match place.within {
                Some(within) => {
                    let at = within as usize - 0x48;
                    assert_eq!(&data.bytes[at..at + bytes.len()], bytes, "{name}: {place:?}");
                }
                // Packed context switches are made into records.
                None if place.offset == place.buffer => {
                    assert!(buffer.place().is_derived, "{name}: {place:?}")
                }
                None => assert_eq!(&file.bytes()[at..at + bytes.len()], bytes, "{name}: {place:?}"),
            }
        }
    }
}

#[test]
fn real_traces_have_each_event_where_its_place_says() {
    let Some(traces) = etw_testkit::data::traces() else { return };
    let (mut compressed, mut plain, mut packed) = (0, 0, 0);
    for real in &traces {
        let inputs = Input::open(&real.path, &InputLimits::default()).unwrap();
        let mut trace = Trace::open_file(&real.path).unwrap();
        let records = placed(&mut trace);
        let file = EtlFile::open(inputs[0].bytes()).unwrap();
        check(real, &file, &records);
        for (place, _) in &records {
            match (place.within, place.offset == place.buffer) {
                (Some(_), _) => compressed += 1,
                (None, true) => packed += 1,
                (None, false) => plain += 1,
            }
        }
        // Reading without an order finds the same places, but for those of records that are dropped in order.
        let mut places: Vec<RecordPlace> = records.into_iter().map(|(place, _)| place).collect();
        let mut unordered = vec![Vec::new()];
        let keep = |places: &mut Vec<RecordPlace>, record: &openetw::Record<'_>| {
            places.push(record.place().unwrap())
        };
        Trace::open_file(&real.path).unwrap().for_each_record_unordered(&mut unordered, keep).unwrap();
        let key = |place: &RecordPlace| (place.buffer, place.record);
        places.sort_unstable_by_key(key);
        unordered[0].sort_unstable_by_key(key);
        assert!(places.windows(2).all(|pair| key(&pair[0]) < key(&pair[1])), "{}", real.name);
        assert!(places == unordered[0], "{}", real.name);
    }
    assert!(compressed > 0 && plain > 0, "{compressed} compressed, {plain} plain, {packed} packed");
}
