//! Seeds for the C interface.

use super::Seed;

/// Bytes of an `EVENT_HEADER`.
const HEADER: usize = 80;

/// Records of a manifest, a class and TraceLogging.
pub fn tdh() -> Vec<Seed> {
    let mut start = vec![0u8; HEADER];
    // Microsoft-Windows-Kernel-Process, process start.
    put(
        &mut start,
        24,
        &[0xd6, 0x2c, 0xfb, 0x22, 0x7b, 0x0e, 0x2b, 0x42, 0xa0, 0xc7, 0x2f, 0xad, 0x1f, 0xd0, 0xe7, 0x16, 1],
    );
    start.extend([1, 4, 9, 9, 9, 9, 0, 0, 0, 0]);
    start.extend(std::iter::repeat_n(0x41, 90));
    let mut class = vec![0u8; HEADER];
    // The flag of classic events, and the kernel's class of processes, version 4, type 1.
    put(&mut class, 4, &[0, 1]);
    put(
        &mut class,
        24,
        &[
            0xd0, 0xa8, 0x6f, 0x3d, 0x05, 0xfe, 0xd0, 0x11, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c,
            0, 0, 4, 0, 0, 1,
        ],
    );
    class.extend([0; 120]);
    let mut logging = vec![0u8; HEADER];
    let metadata = b"\x18\0\0Event\0number\0\x08list\0\x48";
    logging.extend([11, metadata.len() as u8]);
    logging.extend(metadata);
    logging.extend([0, 0, 7, 0, 0, 0, 2, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
    vec![("manifest", start), ("class", class), ("trace_logging", logging)]
}

fn put(record: &mut [u8], at: usize, bytes: &[u8]) {
    record.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
}
