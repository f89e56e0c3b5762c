//! The published manifests: each is read completely, and exporting and reading it again gives the same.

use std::collections::BTreeMap;

use etw_schema::manifest::{self, Manifest};

use crate::files;

fn manifests() -> Option<BTreeMap<String, Manifest>> {
    let folder = files::folder("manifests")?;
    let read = |path: std::path::PathBuf| {
        let name = path.strip_prefix(&folder).unwrap().to_string_lossy().into_owned();
        let manifest = manifest::read(&std::fs::read(&path).unwrap(), &name);
        (name, manifest)
    };
    Some(files::list(&folder, &[".man", ".xml"]).into_iter().map(read).collect())
}

#[test]
fn every_manifest_is_read() {
    let Some(manifests) = manifests() else { return };
    let mut problems = Vec::new();
    let (mut providers, mut events, mut properties, mut messages) = (0, 0, 0, 0);
    let (mut maps, mut entries) = (0, 0);
    for (name, manifest) in &manifests {
        problems.extend(manifest.problems.iter().map(|problem| format!("{name}: {problem}")));
        for provider in &manifest.providers {
            providers += 1;
            events += provider.events.len();
            properties += provider.events.iter().map(|event| event.properties.len()).sum::<usize>();
            messages += provider.events.iter().filter(|event| event.message.is_some()).count();
            maps += provider.info.maps.len();
            entries += provider.info.maps.iter().map(|map| map.entries.len()).sum::<usize>();
        }
    }
    println!("{}", problems.join("\n"));
    // Counted with another XML reader.
    assert_eq!((manifests.len(), providers, events), (136, 168, 11_777));
    assert_eq!((maps, entries), (577, 5_267));
    // That reader counts 1 861 messages; 12 of them refer to strings that are not in the file.
    assert_eq!((properties, messages), (47_748, 1_849));
    // Those, 5 more strings of keywords and maps, and 12 items of types without a name: `win:28`.
    assert_eq!(problems.len(), 29);
}

#[test]
fn what_is_written_is_read_as_the_same() {
    let Some(manifests) = manifests() else { return };
    for (name, manifest) in &manifests {
        for provider in &manifest.providers {
            let text = etw_mc::write(provider).unwrap();
            let again = manifest::read(text.as_bytes(), name);
            assert_eq!(again.providers.len(), 1);
            let other = &again.providers[0];
            assert_eq!(provider.info, other.info, "{name}");
            for (event, other) in provider.events.iter().zip(&other.events) {
                let mut other = (**other).clone();
                // What is written are symbols of C that no two events share; exported manifests have others.
                if let (Some(name), Some(symbol)) = (&event.name, &other.name)
                    && name != symbol
                {
                    let is_symbol = |c: char| c.is_ascii_alphanumeric() || c == '_';
                    assert!(symbol.chars().all(is_symbol), "{symbol}");
                    assert!(symbol.starts_with(&name.replace(|c| !is_symbol(c), "_")), "{name} {symbol}");
                    other.name = event.name.clone();
                }
                assert_eq!(**event, other, "{name} {}", provider.info.name);
            }
            assert_eq!(provider.events.len(), other.events.len());
        }
    }
}
