//! Damaged manifests and compiled manifests: reading any bytes ends, and what is read can be written.

use etw_event::Guid;
use etw_schema::event_source::EventSourceManifests;
use etw_schema::{manifest, wevt};
use etw_testkit::mutate;

use crate::files;

/// A size that keeps the tests short. Damage in larger files is of the same kinds.
const MAX_LEN: usize = 100_000;

#[test]
fn damaged_manifests() {
    let Some(folder) = files::folder("manifests") else { return };
    for path in files::list(&folder, &[".man", ".xml"]).into_iter().step_by(5) {
        let bytes = std::fs::read(&path).unwrap();
        let bytes = &bytes[..bytes.len().min(MAX_LEN)];
        mutate::each(bytes, 30, |bytes| {
            for provider in manifest::read(bytes, "x").providers {
                let text = etw_mc::write(&provider).unwrap();
                assert_eq!(manifest::read(text.as_bytes(), "x").providers.len(), 1);
            }
        });
    }
}

#[test]
fn damaged_compiled_manifests() {
    let Some(folder) = files::folder("wevt") else { return };
    for path in files::list(&folder, &[".res", ".BIN", ".dll", ".bin"]) {
        let bytes = std::fs::read(&path).unwrap();
        let bytes = &bytes[..bytes.len().min(MAX_LEN)];
        mutate::each(bytes, 300, |bytes| drop(wevt::read(bytes, Some(bytes), "x")));
    }
}

#[test]
fn damaged_manifests_in_traces() {
    let guid = Guid::from_u128(0x67883bbc_d592_4d02_8e29_66907fcb07d6);
    let text = format!(
        "<instrumentation><provider name='p' guid='{guid}'><events><event value='1' template='t'/></events>\
         <templates><template tid='t'><data name='n' inType='win:UInt32'/><data name='d' inType='win:Binary' \
         length='n'/></template></templates></provider></instrumentation>"
    );
    let (mut payload, mut complete) = (vec![1, 1, 0, 0x5B, 2, 0, 0, 0], 0);
    payload.extend(text.as_bytes());
    mutate::each(&payload, 2000, |bytes| {
        let mut manifests = EventSourceManifests::new();
        manifests.add_chunk(guid, 1, bytes);
        complete += usize::from(manifests.add_chunk(guid, 1, &[1, 1, 0, 0x5B, 2, 0, 1, 0]).is_some());
        manifests.finish();
    });
    assert!(complete > 1000, "{complete}");
}

#[test]
fn short_texts_make_no_large_schemas() {
    let items = "<data name='a' inType='win:UInt8'/>".repeat(900);
    let events: String = (0..5000).map(|id| format!("<event value='{id}' template='t'/>")).collect();
    let text = format!(
        "<instrumentation><events><provider name='p' guid='{{67883bbc-d592-4d02-8e29-66907fcb07d6}}'>\
         <templates><template tid='t'>{items}</template></templates><events>{events}</events></provider>"
    );
    let manifest = manifest::read(text.as_bytes(), "x");
    let properties: usize = manifest.providers[0].events.iter().map(|event| event.properties.len()).sum();
    assert!(properties <= 65_536 + text.len(), "{properties}");
    assert_eq!(manifest.providers[0].events.len(), 5000);
    assert!(!manifest.problems.is_empty());
}
