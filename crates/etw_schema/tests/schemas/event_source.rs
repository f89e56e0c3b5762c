//! EventSource manifests of real traces.

use std::collections::BTreeMap;

use etw_etl::{EtlFile, Records};
use etw_event::Guid;
use etw_schema::event_source::{EventSourceManifests, is_manifest_chunk};
use etw_schema::{Decoding, Provider};
use etw_testkit::data::trace;

/// Event ids by provider.
type Ids = BTreeMap<Guid, Vec<u16>>;

/// Returns the providers in a trace's manifests, the number of chunks, and the ids of all events.
fn providers(name: &str) -> Option<(Vec<Provider>, usize, Ids)> {
    let bytes = trace(name)?.read().unwrap();
    let file = EtlFile::open(&bytes).unwrap();
    let mut manifests = EventSourceManifests::new();
    let (mut providers, mut chunks, mut ids, mut scratch) = (Vec::new(), 0, Ids::new(), Vec::new());
    for buffer in file.buffers() {
        let buffer = buffer.unwrap();
        let data = buffer.data(&mut scratch);
        let origin = buffer.origin(file.clock(), 0);
        for record in Records::new(data.bytes, &origin, buffer.place()) {
            let record = record.unwrap();
            if is_manifest_chunk(&record) {
                chunks += 1;
                if let Some(text) = manifests.add(&record).and_then(|manifest| manifest.text) {
                    assert!(text.problems.is_empty(), "{name}: {:?}", text.problems);
                    providers.push(text.provider.unwrap());
                }
            } else if !record.is_kernel_classic() {
                ids.entry(record.provider_id()).or_insert_with(Vec::new).push(record.descriptor().id);
            }
        }
    }
    assert!(manifests.finish().is_empty(), "{name}");
    Some((providers, chunks, ids))
}

#[test]
fn real_manifests_describe_the_events_beside_them() {
    // Names with the number of events described and of events recorded.
    type Counts = &'static [(&'static str, usize, usize)];
    let expected: [(&str, usize, Counts); 4] = [
        ("microsoft-Tx/BondEtwSample.etl", 1, &[("MSOpenTech-Tx-BinaryEventSource", 5, 11)]),
        ("dotnet-performance/DynamicEvents.etl", 4, &[("PerfView", 25, 39)]),
        (
            "microsoft-perfview/net.4.5.2.x64.etl",
            4,
            &[
                ("System.Threading.Tasks.TplEventSource", 12, 7),
                ("System.Diagnostics.Eventing.FrameworkEventSource", 128, 5),
                ("PerfView", 23, 106),
            ],
        ),
        (
            "microsoft-perfview/diaghub/diaghub.user_paged.1.etl",
            2,
            &[("System.Threading.Tasks.TplEventSource", 20, 18)],
        ),
    ];
    for (name, chunks, expected) in expected {
        let Some((providers, found, ids)) = providers(name) else { return };
        assert_eq!(found, chunks, "{name}");
        let mut counts = Vec::new();
        for provider in &providers {
            assert_eq!(provider.info.decoding, Decoding::EventSource);
            let described: Vec<_> = provider.events.iter().map(|event| event.descriptor.id).collect();
            let ids = ids.get(&provider.info.guid).map_or(&[][..], |ids| ids);
            assert!(ids.iter().all(|id| described.contains(id)), "{name}");
            counts.push((&*provider.info.name, described.len(), ids.len()));
        }
        assert_eq!(counts, expected, "{name}");
    }
}
