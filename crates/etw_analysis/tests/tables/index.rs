//! Indexes of traces in files: when they serve, and what is done with those that do not.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etw_columns::{FetchParts, IndexWriter, Value};
use etw_consumer::Trace;
use etw_event::FileTime;
use etw_symbols::Symbolizer;
use etw_tables::{EventKinds, IndexHome, IndexNote, IndexPlace, IndexProblem, TraceIndex, TraceIndexError};
use etw_testkit::traces::{self, Kind, Recipe};
use etw_testkit::{data, mutate};

use crate::sums;

/// Writes a trace into a folder.
fn trace(folder: &Path, events: u64) -> PathBuf {
    let path = folder.join("trace.etl");
    fs::write(&path, traces::bytes(&Recipe::new(Kind::Mixed, events)).unwrap().0).unwrap();
    path
}

fn place(path: &Path) -> IndexPlace {
    IndexPlace::new(&[path.to_owned()], &IndexHome::Beside, "").unwrap()
}

/// Opens the index or makes it; returns it with the notes.
fn open(path: &Path, names: &str) -> (TraceIndex, Vec<String>) {
    let mut notes = Vec::new();
    let place = IndexPlace::new(&[path.to_owned()], &IndexHome::Beside, names).unwrap();
    let trace = || Ok::<_, TraceIndexError>(Trace::open_file(path)?);
    let mut note = |note: &IndexNote| notes.push(note.to_string());
    let index = TraceIndex::open_or_build(&place, trace, &Symbolizer::new(), &mut |_| {}, &mut note).unwrap();
    (index, notes)
}

/// Returns all values of all tables.
fn contents(index: &TraceIndex) -> Vec<Value> {
    let mut values = Vec::new();
    for table in index.index().tables() {
        for column in 0..table.schema().columns.len() {
            values.extend((0..table.rows()).map(|row| table.value(row, column).unwrap()));
        }
    }
    values
}

#[test]
fn an_index_is_made_once_and_has_the_same_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path(), 5000);
    let (made, notes) = open(&path, "");
    let file = folder.path().join("trace.etl.etwindex");
    assert_eq!((made.path(), notes.len()), (Some(&*file), 0));
    let written = fs::metadata(&file).unwrap().modified().unwrap();
    let (opened, notes) = open(&path, "");
    assert_eq!((notes.len(), fs::metadata(&file).unwrap().modified().unwrap()), (0, written));
    let mut trace = Trace::open_file(&path).unwrap();
    let memory = TraceIndex::in_memory(&mut trace, &Symbolizer::new(), &mut |_| {}).unwrap();
    assert!(contents(&opened) == contents(&memory) && contents(&made) == contents(&memory));
    assert_eq!((opened.start_time(), opened.last_time()), (trace.start_time(), memory.last_time()));
    let overview = Trace::open_file(&path).unwrap().overview().unwrap();
    assert!(overview.process_names.as_ref().is_some_and(|names| names.iter().count() > 0));
    assert_eq!(**opened.overview(), overview);
    opened.index().verify().unwrap();
    // Only the index and the trace are there.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    assert_eq!(place(&path).remove().unwrap(), [file]);
    assert_eq!(place(&path).remove().unwrap(), [""; 0].map(PathBuf::from));
}

#[test]
fn an_index_that_does_not_serve_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path(), 2000);
    let file = folder.path().join("trace.etl.etwindex");
    let check = |names: &str, text: &str| {
        let (index, notes) = open(&path, names);
        assert!(notes.len() == 1 && notes[0].contains(text), "{text}: {notes:?}");
        assert_eq!(index.path(), Some(&*file));
        index.index().verify().unwrap();
        assert_eq!(open(&path, names).1, [""; 0]);
    };
    open(&path, "");
    // Other symbols; but what buffers have does not depend on them.
    assert!(
        IndexPlace::new(std::slice::from_ref(&path), &IndexHome::Beside, "here")
            .unwrap()
            .open_for_times(&mut Vec::new())
            .is_some()
    );
    check("here", "other symbols");
    check("", "other symbols");
    // A trace that grew, and one of the same size that was written again.
    trace(folder.path(), 2500);
    check("", "earlier state");
    trace(folder.path(), 2500);
    check("", "earlier state");
    // The index of another trace.
    let other = tempfile::tempdir().unwrap();
    open(&trace(other.path(), 300), "");
    fs::copy(other.path().join("trace.etl.etwindex"), &file).unwrap();
    check("", "earlier state");
    // One whose file was cut, at several places, or is of another format.
    let bytes = fs::read(&file).unwrap();
    for len in [9, 40, 48, 1000, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&file, &bytes[..len]).unwrap();
        check("", "cannot be used");
    }
    let mut newer = bytes.clone();
    newer[8] = 99;
    fs::write(&file, newer).unwrap();
    check("", "another version");
    // Tables of another program.
    IndexWriter::create(&file, b"openetw 0.0 tables 1\n\n1 2 3 trace.etl\n").unwrap().finish().unwrap();
    check("", "another version");
}

#[test]
fn flipped_bits_are_never_wrong_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path(), 300);
    let file = folder.path().join("trace.etl.etwindex");
    let good = contents(&open(&path, "").0);
    let bytes = fs::read(&file).unwrap();
    for number in 0..400 {
        let mut flipped = bytes.clone();
        let at = number * bytes.len() / 400;
        flipped[at] ^= 1 << (number % 8);
        fs::write(&file, &flipped).unwrap();
        match place(&path).open(&mut Vec::new()) {
            Some(index) if index.index().verify().is_ok() => {
                // Only bytes that nothing reads.
                assert!(contents(&index) == good, "byte {at}");
            }
            _ => {}
        }
    }
}

#[test]
fn damaged_traces_have_the_same_tables_in_files_and_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.etl");
    let recipe = Recipe { buffer_size: 4096, ..Recipe::new(Kind::Mixed, 200) };
    let (mixed, machine) = (traces::bytes(&recipe).unwrap().0, sums::random_bytes(1, 300));
    let (mut number, mut rows) = (0, 0);
    for bytes in [mixed, machine] {
        mutate::each(&bytes, 30, |damaged| {
            number += 1;
            fs::write(&path, damaged).unwrap();
            let Ok(mut trace) = Trace::open_file(&path) else { return };
            let place = place(&path);
            let index = place.build(&mut trace, &Symbolizer::new(), &mut |_| {}).unwrap();
            index.index().verify().unwrap();
            let again = place.open(&mut Vec::new()).unwrap();
            let mut trace = Trace::open_file(&path).unwrap();
            let memory = TraceIndex::in_memory(&mut trace, &Symbolizer::new(), &mut |_| {}).unwrap();
            assert!(contents(&again) == contents(&memory), "{number}");
            rows += memory.index().table("events").unwrap().rows();
        });
    }
    assert!(rows > 10_000, "{rows}");
}

#[test]
fn what_is_not_an_index_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path(), 100);
    let file = folder.path().join("trace.etl.etwindex");
    let only =
        IndexPlace::new(std::slice::from_ref(&path), &IndexHome::Directory(folder.path().to_owned()), "")
            .unwrap();
    let hashed = only.candidates()[0].clone();
    for file in [&file, &hashed] {
        fs::write(file, "notes of a user").unwrap();
    }
    let mut notes = Vec::new();
    assert!(only.open(&mut notes).is_none());
    assert!(matches!(notes[0].problem, IndexProblem::NotAnIndex), "{notes:?}");
    let mut trace = Trace::open_file(&path).unwrap();
    let error = only.build(&mut trace, &Symbolizer::new(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("not an index"), "{error}");
    assert_eq!(only.remove().unwrap().len(), 0);
    for file in [&file, &hashed] {
        assert_eq!(fs::read(file).unwrap(), b"notes of a user");
    }
}

#[test]
fn a_trace_that_changes_meanwhile_has_no_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path(), 3000);
    let place = place(&path);
    let mut opened = Trace::open_file(&path).unwrap();
    // As long as before, so that the map stays whole.
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, bytes).unwrap();
    let error = place.build(&mut opened, &Symbolizer::new(), &mut |_| {}).unwrap_err();
    assert!(matches!(error, TraceIndexError::Changed { .. }), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn several_builders_at_once_leave_one_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path(), 3000);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut trace = Trace::open_file(&path).unwrap();
                place(&path).build(&mut trace, &Symbolizer::new(), &mut |_| {}).unwrap();
            });
        }
    });
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    place(&path).open(&mut Vec::new()).unwrap().index().verify().unwrap();
}

#[test]
fn a_copy_is_told_by_its_bytes_and_not_by_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let original = trace(folder.path(), 5000);
    let good = contents(&open(&original, "").0);
    let (bytes, index) =
        (fs::read(&original).unwrap(), fs::read(original.with_extension("etl.etwindex")).unwrap());
    let copies = tempfile::tempdir().unwrap();
    // A copy with parts of the trace, and an index of which nothing is there yet.
    let copy = copies.path().join("trace.etl");
    let mut parts = vec![0; bytes.len()];
    for place in IndexPlace::sampled(bytes.len() as u64) {
        let place = place.start as usize..place.end as usize;
        parts[place.clone()].copy_from_slice(&bytes[place]);
    }
    let beside = copies.path().join("trace.etl.etwindex");
    fs::write(&beside, vec![0; index.len()]).unwrap();
    let from = Arc::new(index.clone());
    let to = beside.clone();
    let fetch = FetchParts::new(move |place: Range<u64>| {
        let mut file = fs::OpenOptions::new().write(true).open(&to)?;
        file.seek(SeekFrom::Start(place.start))?;
        file.write_all(&from[place.start as usize..place.end as usize])
    });
    let open_copy = |bytes: &[u8]| {
        fs::write(&copy, bytes).unwrap();
        let mut notes = Vec::new();
        let found = place(&copy).of_copy(&fetch).open(&mut notes);
        (found, notes.iter().map(IndexNote::to_string).collect::<Vec<_>>())
    };
    let (found, notes) = open_copy(&parts);
    assert_eq!(notes, [""; 0]);
    assert!(contents(&found.unwrap()) == good);
    // Otherwise, the time counts.
    fs::write(&beside, &index).unwrap();
    assert!(place(&copy).open(&mut Vec::new()).is_none());
    // Another byte where it is looked for, another length, and another name.
    let mut other = parts.clone();
    *other.last_mut().unwrap() ^= 1;
    assert!(open_copy(&other).1[0].contains("another one"));
    other.push(0);
    assert!(open_copy(&other).1[0].contains("another one"));
    let renamed = copies.path().join("other.etl");
    fs::write(&renamed, &parts).unwrap();
    fs::write(copies.path().join("other.etl.etwindex"), &index).unwrap();
    let nothing = FetchParts::new(|_| Ok(()));
    assert!(place(&renamed).of_copy(&nothing).open(&mut Vec::new()).is_none());
}

/// Returns what is known of kinds of events: name, key, fields and number of versions.
fn known(kinds: &EventKinds) -> Vec<String> {
    let mut known: Vec<String> = kinds
        .tables()
        .iter()
        .filter(|kind| !kind.schema().name.starts_with("StackWalk/"))
        .map(|kind| {
            let mut fields: Vec<&str> = kind.schema().columns.iter().map(|column| &*column.name).collect();
            fields.sort_unstable();
            format!("{} {:?} {fields:?} {}", kind.schema().name, kind.key(), kind.schemas().len())
        })
        .collect();
    known.sort();
    known
}

/// Checks that the periods of an index have each kind of events of a trace. Returns the number of kinds.
fn check_periods(name: &str, mut trace: Trace) -> usize {
    let index = TraceIndex::in_memory(&mut trace, &Symbolizer::new(), &mut |_| {}).unwrap();
    let (mut all, mut found) = (EventKinds::default(), EventKinds::default());
    trace.for_each_event(|event| all.add(event)).unwrap();
    for period in index.periods_of_kinds().unwrap() {
        let end = FileTime(period.end().0.saturating_add(1));
        trace.range(Some(*period.start()), Some(end)).for_each_event(|event| found.add(event)).unwrap();
    }
    let (all, found) = (known(&all), known(&found));
    assert_eq!(found, all, "{name}");
    all.len()
}

#[test]
fn the_periods_of_an_index_have_all_kinds_of_events() {
    for (name, kind) in Kind::ALL {
        let bytes = traces::bytes(&Recipe::new(*kind, 20_000)).unwrap().0;
        assert!(check_periods(name, Trace::builder().bytes(name, bytes).open().unwrap()) > 0, "{name}");
    }
    let bytes = sums::random_bytes(1, 3000);
    assert!(check_periods("random", Trace::builder().bytes("random", bytes).open().unwrap()) > 10);
    let Some(files) = data::traces() else { return };
    let mut kinds = 0;
    for file in &files {
        let Ok(trace) = Trace::open_file(&file.path) else { continue };
        // A range by time needs times that are in order.
        if trace.inputs().iter().map(|input| input.bytes().len()).sum::<usize>() < 64 << 20 {
            kinds += check_periods(&file.name, trace);
        }
    }
    assert!(kinds > 500, "{kinds}");
}
