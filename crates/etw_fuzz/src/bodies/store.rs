//! Fuzz body for the schema store.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::{env, process, thread};

use etw_event::{Fields, Guid};
use etw_schema::store::Store;

use super::sources::check;

/// Sizes in bytes of the index's header and of an entry.
const HEADER: usize = 64;
const ENTRY: usize = 64;

/// Opens a store: `u32` length of its index, the index, then the file `1.schemas`. Checksums are corrected, so that the
/// data after them is read.
pub fn store(bytes: &[u8]) {
    let Some(len) = bytes.u32_at(0) else { return };
    let (index, records) = bytes[4..].split_at((len as usize).min(bytes.len() - 4));
    let mut index = index.to_vec();
    seal(&mut index, records);
    let directory = directory();
    let written = fs::create_dir_all(&directory)
        .and_then(|()| fs::write(directory.join("index"), &index))
        .and_then(|()| fs::write(directory.join("1.schemas"), records));
    assert!(written.is_ok(), "{}: {written:?}", directory.display());
    match Store::open(&directory) {
        Ok(store) => look_through(&store, bytes.len()),
        Err(error) => drop(black_box(error.to_string())),
    }
    let _ = fs::remove_dir_all(&directory);
}

fn look_through(store: &Store, len_bytes: usize) {
    let listed = store.list().unwrap_or_default();
    assert!(listed.len() <= len_bytes / ENTRY, "{} entries", listed.len());
    if let Some(first) = listed.first() {
        black_box(store.find_by_name(&first.name).map_err(|error| error.to_string())).ok();
    }
    let mut guids: Vec<Guid> = listed.iter().map(|listed| listed.guid).collect();
    guids.dedup();
    for guid in guids.iter().take(16) {
        match store.provider(guid) {
            Ok(provider) => check(provider.as_slice(), len_bytes),
            Err(error) => drop(black_box(error.to_string())),
        }
    }
}

/// Returns a directory for this process and thread, because tests run in parallel; in memory if possible.
fn directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { env::temp_dir() };
    parent.join(format!("openetw-fuzz-{}-{:?}", process::id(), thread::current().id()))
}

/// Corrects the checksums of the index's header and of the records.
fn seal(index: &mut [u8], records: &[u8]) {
    if let Some(head) = index.get(..24) {
        let sum = hash(head).to_le_bytes();
        if let Some(place) = index.get_mut(24..32) {
            place.copy_from_slice(&sum);
        }
    }
    let count = index.u32_at(12).unwrap_or(0) as usize;
    for entry in index.get_mut(HEADER..).unwrap_or_default().chunks_exact_mut(ENTRY).take(count) {
        let (Some(offset), Some(len)) = (entry.u64_at(32), entry.u32_at(40)) else { continue };
        let record = usize::try_from(offset).ok().and_then(|offset| records.get(offset..));
        let Some(record) = record.and_then(|rest| rest.get(..len as usize)) else { continue };
        let [a, b, c, d, e, f, g, h] = hash(record).to_le_bytes();
        entry[44..48].copy_from_slice(&[a ^ e, b ^ f, c ^ g, d ^ h]);
    }
}

/// Returns the FNV-1a hash.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
