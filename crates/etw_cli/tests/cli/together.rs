//! Real traces read alone and beside others: what an event shows does not depend on which other files are read.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;

use etw_app::schemas::{SchemaOptions, Schemas};
use openetw::export::{JsonWriter, Options};

/// Distances in the list of traces between those that are read together.
const DISTANCES: [usize; 2] = [1, 11];

/// Returns hashes of the events of each file as JSON, sorted, and whether all are of different machines.
fn shown(files: &[&PathBuf], schemas: &Schemas) -> (Vec<Vec<u64>>, bool) {
    let files: Vec<PathBuf> = files.iter().map(|file| (*file).clone()).collect();
    let builder = etw_app::input::builder(&files).unwrap().schemas(&schemas.sources());
    let mut trace = builder.open().unwrap();
    let machines: Vec<u32> = (0..files.len()).map(|source| trace.machine_of(source as u32)).collect();
    let mut events = vec![Vec::new(); files.len()];
    let (mut writer, mut line) = (JsonWriter::new(&Options::default()), Vec::new());
    trace
        .for_each_event(|event| {
            line.clear();
            writer.put(&mut line, event);
            let mut hasher = DefaultHasher::new();
            line.hash(&mut hasher);
            events[event.record.origin().source as usize].push(hasher.finish());
        })
        .unwrap();
    events.iter_mut().for_each(|events| events.sort_unstable());
    (events, machines.iter().all(|one| machines.iter().filter(|other| one == *other).count() == 1))
}

#[test]
fn events_show_the_same_alone_and_beside_other_files() {
    let Some(traces) = etw_testkit::data::traces() else { return };
    let schemas = Schemas::load(&SchemaOptions::default()).unwrap();
    let alone: Vec<Vec<u64>> =
        traces.iter().map(|trace| shown(&[&trace.path], &schemas).0.remove(0)).collect();
    let mut pairs = 0;
    for (number, one) in traces.iter().enumerate() {
        for distance in DISTANCES {
            let beside = (number + distance) % traces.len();
            let other = &traces[beside];
            let (events, are_apart) = shown(&[&one.path, &other.path], &schemas);
            // What a trace says of events holds for all files of its machine since it was started.
            if !are_apart {
                continue;
            }
            pairs += 1;
            let names = (&one.name, &other.name);
            assert!(events[0] == alone[number] && events[1] == alone[beside], "{names:?}");
        }
    }
    assert!(pairs > traces.len(), "only {pairs} pairs of {} traces", traces.len());
}
