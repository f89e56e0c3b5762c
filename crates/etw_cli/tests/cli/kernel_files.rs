//! Files in recordings of the system: what known programs did with known files.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::Etw;
use crate::kernel::{events, field, kind, record};

/// A directory on the disk that the tests are built on; temporary ones may be in memory.
fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn of_kind<'e>(events: &'e [Value], wanted: &'static str) -> impl Iterator<Item = &'e Value> {
    events.iter().filter(move |event| kind(event) == wanted)
}

#[test]
fn requests_of_disks_name_the_file_that_they_are_for() {
    let (etw, dir) = (Etw::new(), on_disk());
    let path = dir.path().join("known file");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("known file", &link).unwrap();
    // On the disk, and out of memory.
    let of = format!("of={}", path.display());
    let args = [&of[..], "oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"];
    assert!(Command::new("dd").args(args).status().unwrap().success());
    let held = fs::File::open("/etc/passwd").unwrap();
    let program = ["cat", link.to_str().unwrap()];
    if record(&etw, "DISK_IO+DISK_FILE_IO", &program).is_none() {
        return;
    }
    drop(held);
    let events = events(&etw);
    let named = |wanted, path: &PathBuf| {
        let path = path.to_str().unwrap();
        of_kind(&events, wanted).filter(|event| field(event, "FileName") == path).collect::<Vec<_>>()
    };
    let [name] = named("FileIo/FileCreate", &path)[..] else { panic!("one name") };
    let key = field(name, "FileObject");
    let reads: Vec<&Value> =
        of_kind(&events, "DiskIo/Read").filter(|event| field(event, "FileObject") == key).collect();
    let bytes: u64 = reads.iter().map(|event| event["EventData"]["TransferSize"].as_u64().unwrap()).sum();
    assert_eq!(bytes, 1 << 20, "{} requests", reads.len());
    let rundown = named("FileIo/FileRundown", &path);
    assert_eq!(rundown.iter().map(|event| field(event, "FileObject")).collect::<Vec<_>>(), [key]);
    // What processes had open when the session began is named too.
    let held = PathBuf::from("/etc/passwd");
    assert_eq!(named("FileIo/FileCreate", &held).len(), 1);
    assert_eq!(named("FileIo/FileRundown", &held).len(), 1);
}
