//! Events written to a region in memory, read back and decoded.

use etw_buffer::{Geometry, Region, RegionReader};
use etw_sys::{Doorbell, SharedWords};

use crate::enables::{Enable, SessionKey};
use crate::sink::Sink;
use crate::*;

/// A session of one process: the region's other side.
struct Session {
    sink: &'static Sink,
    reader: RegionReader<SharedWords>,
}

impl Session {
    fn new() -> Session {
        static DOORBELL: Doorbell = Doorbell::new();
        let geometry = Geometry { processors: 64, buffers: 8, buffer_bytes: 65536 };
        let (words, file) = SharedWords::create("test", geometry.len_words()).unwrap();
        let mut reader = RegionReader::format(words, geometry, 1, 1, std::process::id(), 0, u64::MAX / 2).unwrap();
        reader.grant(8);
        let region = Region::attach(SharedWords::map(&file).unwrap()).unwrap();
        Session { sink: Sink::open(region, &DOORBELL).unwrap(), reader }
    }
}
