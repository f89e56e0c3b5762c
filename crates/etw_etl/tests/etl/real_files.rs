//! Every real trace is read to its last record.

use etw_etl::{EtlFile, Records};

#[test]
fn the_counts_are_those_of_the_table() {
    let Some(files) = etw_testkit::data::traces() else { return };
    assert!(!files.is_empty());
    for trace in files {
        let bytes = trace.read().unwrap();
        let file = EtlFile::open(&bytes).unwrap();
        let (mut scratch, mut first) = (Vec::new(), Vec::new());
        let (mut buffers, mut compressed, mut records, mut buffer_end) = (0, 0, 0, 0);
        for buffer in file.buffers() {
            let buffer = buffer.unwrap_or_else(|damage| panic!("{}: {damage}", trace.name));
            let data = buffer.data(&mut scratch);
            assert_eq!(data.damage, None, "{}", trace.name);
            let origin = buffer.origin(file.clock(), 0);
            let mut times = Vec::new();
            for record in Records::new(data.bytes, &origin, buffer.place()) {
                let record = record.unwrap_or_else(|damage| panic!("{}: {damage}", trace.name));
                times.push(record.raw_time());
            }
            assert!(times.is_sorted(), "{}: buffer at {:#x}", trace.name, buffer.offset);
            assert_eq!(buffer.first_time(&mut first), times.first().copied(), "{}", trace.name);
            records += times.len() as u64;
            buffers += 1;
            compressed += u64::from(buffer.header.is_compressed());
            assert_eq!(buffer.offset, buffer_end);
            buffer_end += u64::from(buffer.header.buffer_size);
        }
        assert_eq!((buffers, compressed), (trace.buffers, trace.compressed_buffers), "{}", trace.name);
        assert_eq!(records, trace.records, "{}", trace.name);
        assert_eq!(buffer_end, trace.len_bytes, "{}", trace.name);
        let header = file.header();
        let os = format!("{}.{}.{}", header.major_version, header.minor_version, header.provider_version);
        assert_eq!(os, trace.os, "{}", trace.name);
        assert_eq!(header.pointer_size, u32::from(trace.pointer_size), "{}", trace.name);
        assert_eq!(header.number_of_processors, trace.processors, "{}", trace.name);
        assert_eq!(header.log_file_mode.0, trace.log_file_mode, "{}", trace.name);
        assert_eq!(header.buffer_size, trace.buffer_size, "{}", trace.name);
        assert_eq!(u64::from(header.buffers_written), trace.buffers, "{}", trace.name);
        assert_eq!(u64::from(header.events_lost), trace.events_lost, "{}", trace.name);
        assert!(header.is_closed() && header.start_time <= header.end_time, "{}", trace.name);
    }
}
