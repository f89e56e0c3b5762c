//! The built-in schemas: the kernel's classic classes, the events of the merge step, and the most common manifest
//! providers.
//!
//! The tables are text files under `tables/`, here and in `etw_kernel_events`, which makes the names of the kernel's events and
//! their typed readers of the same lines. Listing names reads only the first line of each block. A block is parsed
//! once, when its provider is first requested.
//!
//! Classic events are looked up by version and opcode: the exact version, otherwise the highest one below it. Versions
//! in traces may be older or newer than the published classes (fixture net.4.5.2.x64: DiskIo 3 of a class tree that
//! had 3 and 2). A payload may be longer than the layout, because new fields are appended.
//!
//! An event with a name but no published layout (many hook ids) has one property `Data` up to the payload's end.
//!
//! ```
//! use etw_schema::builtin::{self, BuiltIn};
//!
//! let guid = builtin::find("Microsoft-Windows-Kernel-Process").ok_or("unknown provider")?;
//! let provider = BuiltIn.provider(&guid).ok_or("no schemas")?;
//! assert!(provider.events.iter().any(|event| event.descriptor.id == 1));
//! # Ok::<(), &str>(())
//! ```

mod message;
mod table;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use etw_event::Guid;

use crate::Provider;
use table::Block;

/// The texts of the tables. If two entries have equal names, the first one is found.
const TABLES: [&str; 5] = [
    include_str!("tables/names.txt"),
    include_str!("tables/kernel_providers.txt"),
    include_str!("tables/dotnet.txt"),
    etw_kernel_events::tables::KERNEL,
    etw_kernel_events::tables::MERGE,
];

/// The built-in schemas.
#[derive(Debug, Clone, Copy, Default)]
pub struct BuiltIn;

impl BuiltIn {
    /// Returns the provider, or the class of classic events, with this GUID.
    ///
    /// Providers of which only the name is known have no events.
    pub fn provider(&self, guid: &Guid) -> Option<Arc<Provider>> {
        let index = index();
        index.entries.get(*index.by_guid.get(guid)?)?.provider()
    }
}

/// One entry of the built-in tables.
#[derive(Debug)]
pub struct Entry {
    /// GUID of the provider or class.
    pub guid: Guid,
    /// Its name.
    pub name: &'static str,
    /// Whether it is a class of classic events rather than a provider.
    pub is_class: bool,
    block: Block,
    provider: OnceLock<Option<Arc<Provider>>>,
}

impl Entry {
    /// Returns the provider with its events, parsed on the first call.
    pub fn provider(&self) -> Option<Arc<Provider>> {
        // A test checks that every block parses.
        self.provider.get_or_init(|| self.block.parse().ok().map(Arc::new)).clone()
    }
}

/// Returns every provider and class of the tables.
pub fn providers() -> impl ExactSizeIterator<Item = &'static Entry> {
    index().entries.iter()
}

/// Returns the GUID of a provider by name, or of a class if no provider has it. Ignores case.
pub fn find(name: &str) -> Option<Guid> {
    providers().find(|entry| entry.name.eq_ignore_ascii_case(name)).map(|entry| entry.guid)
}

struct Index {
    entries: Vec<Entry>,
    by_guid: HashMap<Guid, usize>,
}

fn index() -> &'static Index {
    static INDEX: LazyLock<Index> = LazyLock::new(|| {
        let entries: Vec<Entry> = TABLES
            .into_iter()
            .flat_map(table::blocks)
            .map(|block| Entry {
                guid: block.guid,
                name: block.name,
                is_class: block.is_class,
                block,
                provider: OnceLock::new(),
            })
            .collect();
        let by_guid = entries.iter().enumerate().map(|(at, entry)| (entry.guid, at)).collect();
        Index { entries, by_guid }
    });
    &INDEX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Count, InType, OutType, PropertyType};
    use etw_event::classes;

    #[test]
    fn every_block_parses_and_every_guid_is_there_once() {
        let mut events = 0;
        for entry in providers() {
            let parsed = entry.block.parse().unwrap_or_else(|error| panic!("{}: {error}", entry.name));
            events += parsed.events.len();
            assert_eq!(parsed.info.guid, entry.guid);
            for event in &parsed.events {
                assert!(usize::from(event.top_level) <= event.properties.len(), "{:?}", event.name);
            }
            let keys: std::collections::HashSet<_> = parsed
                .events
                .iter()
                .map(|event| {
                    let d = event.descriptor;
                    (d.id, d.version, if entry.is_class { d.opcode.0 } else { 0 })
                })
                .collect();
            assert_eq!(keys.len(), parsed.events.len(), "{} says an event twice", entry.name);
        }
        println!("{} providers and classes, {events} events", providers().len());
        assert!(events > 1200);
        assert_eq!(index().by_guid.len(), index().entries.len());
    }

    #[test]
    fn names_are_found_in_any_case() {
        let check = |name, guid: Guid| assert_eq!(find(name), Some(guid), "{name}");
        check("windows kernel trace", classes::SYSTEM_TRACE);
        check("PROCESS", classes::PROCESS);
        check("Microsoft-Windows-Kernel-Process", Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716));
        check("SystemSchedulerProvider", Guid::from_u128(0x599a2a76_4d91_4910_9ac7_7d33f2e97a6c));
        assert_eq!(find("nobody"), None);
    }

    #[test]
    fn a_class_has_all_its_names() {
        let process = BuiltIn.provider(&classes::PROCESS).unwrap();
        let (guid, name) = process.info.class_of.clone().unwrap();
        assert_eq!((guid, &*name), (classes::SYSTEM_TRACE, "Windows Kernel Trace"));
        let start = process
            .events
            .iter()
            .find(|event| event.descriptor.version == 4 && event.descriptor.opcode.0 == 3)
            .unwrap();
        assert_eq!(start.name.as_deref(), Some("Process_V4_TypeGroup1"));
        assert_eq!(
            (start.task_name.as_deref(), start.opcode_name.as_deref()),
            (Some("Process"), Some("DCStart"))
        );
        assert_eq!(start.properties.len(), 12);
        let sid = start.properties.iter().find(|property| &*property.name == "UserSID").unwrap();
        assert!(matches!(sid.kind, PropertyType::Value { in_type: InType::WBEM_SID, .. }));
    }

    #[test]
    fn every_event_of_the_kernel_providers_has_a_message_with_inserts() {
        let text = |name: &str, id: u16, version: u8| {
            let provider = BuiltIn.provider(&find(name).unwrap()).unwrap();
            let is_it = |d: etw_event::EventDescriptor| (d.id, d.version) == (id, version);
            let event = provider.events.iter().find(|event| is_it(event.descriptor)).unwrap();
            event.message.as_deref().unwrap().to_owned()
        };
        let process = "Microsoft-Windows-Kernel-Process";
        let started = |inserts: &str| format!("Process %1 started: {inserts}");
        assert_eq!(text(process, 1, 0), started("%5, child of process %3, session %4"));
        assert_eq!(text(process, 1, 3), started("%11, child of process %4, session %6"));
        assert_eq!(text(process, 19, 0), "Job %1: I/O rate control started, rate %5, status %6");
        assert_eq!(text(process, 19, 2), "Job %1: I/O rate control of volume %16 started, status %17");
        let sent = "TCP [%4]:%6 - [%3]:%5: %2 bytes sent by process %1";
        assert_eq!(text("Microsoft-Windows-Kernel-Network", 26, 0), sent);
        for entry in table::blocks(TABLES[1]) {
            for event in entry.parse().unwrap().events {
                assert!(event.message.is_some(), "{} {:?}", entry.name, event.descriptor);
            }
        }
    }

    #[test]
    fn an_opcode_can_have_two_names() {
        let clr = BuiltIn.provider(&Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4)).unwrap();
        let name =
            |id| clr.events.iter().find(|event| event.descriptor.id == id).unwrap().opcode_name.clone();
        assert_eq!(name(141).as_deref(), Some("Load"));
        assert_eq!(name(159).as_deref(), Some("R2RGetEntryPoint"));
    }

    #[test]
    fn a_manifest_event_has_structs_maps_and_keywords() {
        let clr = BuiltIn.provider(&Guid::from_u128(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4)).unwrap();
        let bulk = clr.events.iter().find(|event| event.descriptor.id == 15).unwrap();
        assert_eq!(bulk.top_level, 3);
        assert_eq!(bulk.keyword_names.iter().map(|name| &**name).collect::<Vec<_>>(), ["TypeKeyword"]);
        assert_eq!(
            (bulk.task_name.as_deref(), bulk.opcode_name.as_deref()),
            (Some("Type"), Some("BulkType"))
        );
        assert_eq!(bulk.properties[2].count, Count::Property(0));
        assert_eq!(bulk.properties[2].kind, PropertyType::Struct { first: 3, members: 8 });
        let parameters = bulk.properties.last().unwrap();
        assert_eq!((&*parameters.name, parameters.count), ("TypeParameters", Count::Property(9)));
        let start = clr.events.iter().find(|event| event.descriptor.id == 1).unwrap();
        let PropertyType::Value { map: Some(map), out_type, .. } = &start.properties[1].kind else {
            panic!("GCStart's second property has a map")
        };
        assert_eq!((&*map.entries[1].text, *out_type), ("Induced", OutType::NULL));
    }
}
