//! What the kernel of this machine tells of programs.

#![cfg(target_os = "linux")]
use std::io;

use etw_sys::MappingRing;
use perf_event_open_sys::bindings::PERF_RECORD_MMAP2;

#[test]
fn the_vdso_is_an_elf_file() {
    match etw_sys::vdso::own() {
        Ok(bytes) => assert!(bytes.starts_with(b"\x7FELF")),
        Err(error) => etw_testkit::skip!("no vDSO: {error}"),
    }
}

#[test]
fn mappings_of_programs_are_told() {
    let mut rings = Vec::new();
    for processor in 0..etw_sys::cpu::possible() {
        match MappingRing::open(processor, 64 << 10) {
            Ok(ring) => rings.push(ring),
            // A processor that is offline.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                etw_testkit::skip!("{error}");
                return;
            }
            Err(error) => panic!("{error}"),
        }
    }
    let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
    child.wait().unwrap();
    let (mut paths, mut records) = (Vec::new(), 0);
    for ring in &mut rings {
        ring.read(|record| {
            records += 1;
            let word = |at: usize| u32::from_ne_bytes(record[at..at + 4].try_into().unwrap());
            if word(0) == PERF_RECORD_MMAP2 && word(8) == child.id() {
                let name = record[72..].split(|byte| *byte == 0).next().unwrap();
                paths.push(String::from_utf8_lossy(name).into_owned());
            }
        });
    }
    assert!(paths.iter().any(|path| path.ends_with("/true")), "{paths:?} of {records}");
    assert!(paths.iter().any(|path| path == "[vdso]"), "{paths:?}");
}
