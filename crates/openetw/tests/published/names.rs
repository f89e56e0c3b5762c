//! Event names in order, as printed by another reader for several files read together.

use std::collections::BTreeMap;

use super::events::Event;

/// The agreement of events and names.
#[derive(Debug, Default)]
pub(crate) struct Alignment {
    /// Number of names that match their event.
    pub(crate) matched: usize,
    /// Number of names without an event in their place.
    pub(crate) unmatched_names: usize,
    /// The first of them.
    pub(crate) first: Vec<String>,
    /// Number of events that the other reader drops, by kind.
    pub(crate) dropped: BTreeMap<String, usize>,
}

/// Compares events and names in order. Events with the same time are a set, since no clock determines their order.
/// Kinds of events that the list never names are dropped by the other reader.
pub(crate) fn align(events: &[Event], names: &[&str]) -> Alignment {
    let mut result = Alignment::default();
    let listed: std::collections::BTreeSet<&str> = names.iter().copied().collect();
    let mut rest = names;
    for group in events.chunk_by(|left, right| left.time == right.time) {
        let mut ours: Vec<String> = Vec::new();
        for event in group {
            let name = name_of(event);
            if listed.contains(name.as_str()) {
                ours.push(name);
            } else {
                *result.dropped.entry(name).or_default() += 1;
            }
        }
        let (theirs, behind) = rest.split_at(ours.len().min(rest.len()));
        rest = behind;
        let mut theirs = theirs.to_vec();
        ours.sort();
        theirs.sort();
        if ours == theirs {
            result.matched += ours.len();
        } else {
            result.unmatched_names += ours.len();
            if result.first.len() < 20 {
                result.first.push(format!("{ours:?} here, {theirs:?} there"));
            }
        }
    }
    result.unmatched_names += rest.len();
    result
}

/// Returns the other reader's name of an event: task and opcode, with its own words for some.
fn name_of(event: &Event) -> String {
    let system = &event.json["System"];
    let name = match system["EventType"].as_str() {
        Some(event_type) => event_type.to_owned(),
        None => {
            let task = system["Task"]["Name"].as_str().unwrap_or_default();
            let opcode = system["Opcode"]["Name"].as_str().unwrap_or_default();
            format!("{task}/{opcode}#{}", system["EventID"])
        }
    };
    match OWN_WORDS.iter().find(|(ours, _)| *ours == name) {
        Some((_, theirs)) => (*theirs).to_owned(),
        None => name,
    }
}

/// Our names, and the other reader's names for the same.
const OWN_WORDS: &[(&str, &str)] = &[
    ("EventTrace/Header", "EventTrace"),
    ("EventTrace/RDComplete", "EventTrace/RundownComplete"),
    ("EventMetadata/EventInfo", "MetaData/EventInfo"),
    ("EventMetadata/EventMapInfo", "MetaData/EventMapInfo"),
    ("Image/DCEnd", "Image/DCStop"),
    ("Image/ImageHypercallPage", "Image/HypercallPage"),
    ("Image/ImageKernelBase", "Image/KernelBase"),
    ("ImageID/DbgID_Deterministic", "ImageID/DbgDeterm"),
    ("ImageID/DbgID_PPDB", "ImageID/DbgPPDB"),
    ("ImageID/Info", "ImageID"),
    ("Process/DCEnd", "Process/DCStop"),
    ("Process/End", "Process/Stop"),
    ("SysConfigEx/BuildInfo", "SysConfig/BuildInfo"),
    ("SysConfigEx/OsVersion", "SysConfig/Opcode(37)"),
    ("SysConfigEx/SystemPaths", "SysConfig/SystemPaths"),
    ("SysConfigEx/UnknownVolume", "SysConfig/UnknownVolume"),
    ("SysConfigEx/VolumeMapping", "SysConfig/VolumeMapping"),
    ("SystemConfig/Boot", "SystemConfig/BootConfigInfo"),
    ("SystemConfig/ConfigCodeintegrity", "SystemConfig/CodeIntegrity"),
    ("SystemConfig/ConfigDpi", "SystemConfig/DPI"),
    ("SystemConfig/ConfigMachineid", "SystemConfig/TelemetryConfiguration"),
    ("SystemConfig/ConfigPlatform", "SystemConfig/Platform"),
    ("SystemConfig/Virtualization", "SystemConfig/VirtualizationConfigInfo"),
    ("/Info#1", "EventID(1)"),
    ("/Info#2", "EventID(2)"),
    ("/Info#5", "EventID(5)"),
    ("Activity1Start", "Activity1Start/Start"),
    ("Activity1Stop", "Activity1Stop/Stop"),
    ("Activity2Start", "Activity2Start/Start"),
    ("Activity2Stop", "Activity2Stop/Stop"),
    ("AppDomainLoad_V1", "Loader/AppDomainLoad"),
    ("AppDomainUnload_V1", "Loader/AppDomainUnload"),
    ("AssemblyLoad_V1", "Loader/AssemblyLoad"),
    ("AssemblyUnload_V1", "Loader/AssemblyUnload"),
    ("DomainModuleLoad_V1", "Loader/DomainModuleLoad"),
    ("ModuleLoad_V2", "Loader/ModuleLoad"),
    ("ModuleUnload_V2", "Loader/ModuleUnload"),
    ("MethodJittingStarted_V1", "Method/JittingStarted"),
    ("MethodLoadVerbose_V1", "Method/LoadVerbose"),
    ("MethodLoadVerbose_V2", "Method/LoadVerbose"),
    ("MethodUnloadVerbose_V1", "Method/UnloadVerbose"),
    ("MethodUnloadVerbose_V2", "Method/UnloadVerbose"),
    ("RuntimeInformationStart", "Runtime/Start"),
    ("TaskScheduled", "TaskScheduled/Send"),
    ("TaskStarted", "TaskExecute/Start"),
    ("TaskCompleted", "TaskExecute/Stop"),
];
