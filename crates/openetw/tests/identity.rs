//! An event is called the same whatever files are read with its own, and each of its names finds it.

#![cfg(not(windows))]

use std::collections::{BTreeSet, HashMap, HashSet};

use etw_testkit::data;
use openetw::schema::Names;
use openetw::schema::kinds::KindName;
use openetw::{Event, Predicate, Trace};

/// What tells an event's kind in its header: provider, classic or not, and descriptor.
type Header = (String, bool, String);

/// What the events of a file are called, with their numbers, and the headers of those that have no schema.
#[derive(Default)]
struct Called {
    names: HashMap<(Header, String), u64>,
    undecoded: HashSet<Header>,
}

impl Called {
    fn add(&mut self, event: &Event<'_>) {
        let record = event.record;
        let header = (
            record.provider_id().to_string(),
            record.kind().is_classic(),
            format!("{:?}", record.descriptor()),
        );
        if event.schema().is_none() {
            self.undecoded.insert(header);
            return;
        }
        let names = event.names();
        let all: Vec<String> = names_of(&names).into_iter().collect();
        let shown = format!("{} {} {}", names.provider_text(), names.event(), all.join("|"));
        *self.names.entry((header, shown)).or_default() += 1;
    }
}

/// Returns all that a filter knows an event by.
fn names_of(names: &Names<'_>) -> BTreeSet<String> {
    let mut all = BTreeSet::from([names.event().into_owned()]);
    all.extend(names.event_type().map(|name| name.into_owned()));
    all.extend(names.task().map(str::to_owned));
    for other in names.descriptions() {
        all.extend([&other.event, &other.task].into_iter().flatten().map(|name| name.to_string()));
    }
    all
}

#[test]
fn events_are_called_the_same_beside_other_files() {
    let Some(files) = data::traces() else { return };
    let mut builder = Trace::builder().skip_unreadable(true);
    for file in &files {
        builder = builder.file(&file.path);
    }
    let mut together = builder.open().unwrap();
    let mut beside: HashMap<String, Called> = HashMap::new();
    let sources: Vec<String> = together.source_names().map(str::to_owned).collect();
    together
        .for_each_event(|event| {
            let source = &sources[event.record.origin().source as usize];
            beside.entry(source.clone()).or_default().add(event);
        })
        .unwrap();
    let mut compared = 0;
    for file in &files {
        let Ok(mut trace) = Trace::open_file(&file.path) else { continue };
        let name = trace.source_names().next().unwrap().to_owned();
        let mut alone = Called::default();
        trace.for_each_event(|event| alone.add(event)).unwrap();
        let Some(beside) = beside.get(&name) else { continue };
        // What a file says of the events of its machine is all that is known of some events in others.
        for (key, count) in &alone.names {
            let found = beside.names.get(key).copied().unwrap_or(0);
            let is_same = if alone.undecoded.contains(&key.0) { found >= *count } else { found == *count };
            assert!(is_same, "{name}: {count} events {key:?}, and {found} beside other files");
            compared += 1;
        }
        let is_new =
            |key: &&(Header, String)| !alone.names.contains_key(*key) && !alone.undecoded.contains(&key.0);
        assert_eq!(beside.names.keys().find(is_new), None, "{name}");
    }
    assert!(compared > 500, "{compared}");
}

#[test]
fn every_name_finds_the_event() {
    let Some(files) = data::traces() else { return };
    let mut several = 0;
    for file in &files {
        let Ok(mut trace) = Trace::open_file(&file.path) else { continue };
        let mut seen = HashSet::new();
        trace
            .for_each_event(|event| {
                let Some(schema) = event.schema() else { return };
                if !seen.insert(std::sync::Arc::as_ptr(schema)) {
                    return;
                }
                let names = event.names();
                let kind = KindName::new(event);
                assert!(kind.is(&kind.to_string()), "{kind}");
                let id = event.record.descriptor().id;
                if id != 0 && !names.is_classic() {
                    assert!(kind.is(&format!("{}/{id}", names.provider_text())), "{kind}");
                    assert!(kind.is(&format!("{}/{id}", names.provider_guid())), "{kind}");
                    assert!(!kind.is(&format!("{}/{}", names.provider_text(), id ^ 1)), "{kind}");
                }
                for other in names.descriptions().iter().filter(|_| !names.is_classic()) {
                    let (Some(provider), Some(event)) = (&other.provider, &other.event) else { continue };
                    assert!(kind.is(&format!("{provider}/{event}")), "{kind}: {provider}/{event}");
                    several += 1;
                }
                for name in names_of(&names) {
                    let text = format!("event == \"{}\"", name.replace('"', "\"\""));
                    let predicate: Predicate = text.parse().unwrap();
                    assert!(predicate.matches(event), "{}: {text} does not find {kind}", file.name);
                }
                for provider in names.descriptions().iter().filter_map(|names| names.provider.as_deref()) {
                    let predicate: Predicate = format!("provider == \"{provider}\"").parse().unwrap();
                    assert!(predicate.matches(event), "{}: {provider} does not find {kind}", file.name);
                }
            })
            .unwrap();
    }
    assert!(several > 0);
}
