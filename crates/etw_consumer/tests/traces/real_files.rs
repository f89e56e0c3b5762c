//! Real traces: every record, in the order of time.

use etw_consumer::Trace;
use etw_testkit::data;

#[test]
fn every_record_in_time_order() {
    let Some(files) = data::traces() else { return };
    assert!(!files.is_empty());
    for file in files {
        let mut trace = Trace::open_file(&file.path).unwrap();
        let (mut records, mut last) = (0u64, i64::MIN);
        trace
            .for_each_record(|record| {
                records += 1;
                assert!(record.raw_time().0 >= last, "{}: record {records}", file.name);
                last = record.raw_time().0;
            })
            .unwrap();
        let statistics = trace.statistics();
        assert_eq!(records, file.records, "{}", file.name);
        assert_eq!((statistics.damage_count, statistics.inversions), (0, 0), "{}", file.name);
        assert_eq!(statistics.buffers, file.buffers, "{}", file.name);
        assert_eq!(statistics.events_lost(), file.events_lost, "{}", file.name);
    }
}

#[test]
fn files_of_one_recording_are_read_together() {
    let Some(files) = data::traces() else { return };
    let paths: Vec<_> =
        files.iter().filter(|file| file.name.contains("diaghub/")).map(|file| &file.path).collect();
    assert_eq!(paths.len(), 4);
    let mut trace = Trace::open_files(&paths).unwrap();
    let (mut records, mut last) = ([0u64; 4], i64::MIN);
    trace
        .for_each_record(|record| {
            records[record.origin().source as usize] += 1;
            assert!(record.time().0 >= last);
            last = record.time().0;
        })
        .unwrap();
    let expected: Vec<u64> =
        files.iter().filter(|file| file.name.contains("diaghub/")).map(|file| file.records).collect();
    assert_eq!(records.to_vec(), expected);
}
