//! What a process has registered, and what it says about itself.

use std::path::Path;

use etw_event::{Fields, Guid};
use etw_protocol::{Enable, Filter};

/// A provider that a process has registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registration {
    pub(crate) guid: Guid,
    pub(crate) name: String,
    /// Zero if it is in no group.
    pub(crate) group: Guid,
    /// A bit for each session that it was told to be enabled by.
    pub(crate) slots: u64,
}

impl Registration {
    pub(crate) fn new(guid: Guid, name: String, traits: &[u8]) -> Registration {
        let (name_of_traits, group) = parse_traits(traits).unwrap_or_default();
        let name = if name.is_empty() { name_of_traits } else { name };
        Registration { guid, name, group, slots: 0 }
    }
}

/// The name and the group of a provider's traits: the size in 16 bits, the name in UTF-8 up to a zero, then chunks of
/// a size in 16 bits, a type (1: the group's GUID) and data.
///
/// Source: `ETW_PROVIDER_TRAIT_TYPE` and the provider traits page of the Windows documentation.
fn parse_traits(traits: &[u8]) -> Option<(String, Guid)> {
    let size = usize::from(traits.u16_at(0)?);
    let rest = traits.get(2..size)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let name: String =
        String::from_utf8_lossy(rest.get(..end)?).chars().filter(|c| !c.is_control()).take(256).collect();
    let mut chunks = rest.get(end + 1..)?;
    let mut group = Guid::ZERO;
    while let Some(len) = chunks.u16_at(0).map(usize::from) {
        let Some(chunk) = chunks.get(..len).filter(|chunk| chunk.len() >= 3) else { break };
        if let (1, Some(bytes)) = (chunk.u8_at(2)?, chunk.get(3..19)) {
            group = bytes.try_into().map(Guid::from_bytes).unwrap_or_default();
        }
        chunks = chunks.get(len..).unwrap_or_default();
    }
    Some((name, group))
}

/// Whether the filters that the host decides by let a process pass.
pub(crate) fn lets_pass(enable: &Enable, pid: u32, executable: &str) -> bool {
    enable.filters.iter().all(|filter| match filter {
        Filter::Pids(pids) => pids.contains(&pid),
        Filter::ExecutableNames(names) => {
            names.iter().flat_map(|names| names.split(';')).any(|name| same_program(name.trim(), executable))
        }
        _ => true,
    })
}

/// Whether a name of a filter is that of a program, with or without `.exe` and whatever the case.
fn same_program(name: &str, executable: &str) -> bool {
    let bare = |name: &str| {
        let name = name.to_lowercase();
        name.strip_suffix(".exe").map(str::to_owned).unwrap_or(name)
    };
    bare(name) == bare(executable)
}

/// The file name of a process's program, in lower case; empty if it is not to be seen.
pub(crate) fn executable_of(pid: u32) -> String {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let name = path.file_name().map(Path::new).map(|name| name.to_string_lossy().to_lowercase());
    // What the kernel appends when the file was replaced since.
    name.map(|name| name.trim_end_matches(" (deleted)").to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traits() {
        let group = Guid::from_u128(0x9e814aad_3204_11d2_9a82_006008a86939);
        let mut blob = vec![0, 0];
        blob.extend(b"Shop\0");
        blob.extend([3, 0, 9]);
        blob.extend([19, 0, 1]);
        blob.extend(group.to_bytes());
        blob[0] = blob.len() as u8;
        assert_eq!(parse_traits(&blob), Some(("Shop".to_owned(), group)));
        for len in 0..blob.len() {
            parse_traits(&blob[..len]);
        }
        blob[7] = 0;
        assert_eq!(
            parse_traits(&blob),
            Some(("Shop".to_owned(), Guid::ZERO)),
            "a chunk of no size ends the list"
        );
        let named = Registration::new(Guid::ZERO, "Given".into(), &blob);
        assert_eq!((named.name.as_str(), named.group), ("Given", Guid::ZERO));
    }

    #[test]
    fn filters_of_processes() {
        let check = |filters: Vec<Filter>, pid: u32, executable: &str, expected: bool| {
            let enable = Enable { filters, ..Enable::default() };
            assert_eq!(lets_pass(&enable, pid, executable), expected, "{enable:?} {pid} {executable}");
        };
        let named = |names: &str| Filter::ExecutableNames(vec![names.to_owned()]);
        check(vec![], 1, "shop", true);
        check(vec![Filter::Pids(vec![2, 3])], 3, "shop", true);
        check(vec![Filter::Pids(vec![2, 3])], 1, "shop", false);
        check(vec![named("db.exe; Shop.exe")], 1, "shop", true);
        check(vec![named("db")], 1, "shop", false);
        check(vec![Filter::Pids(vec![1]), named("db")], 1, "shop", false);
        check(vec![Filter::EventIds { include: true, ids: vec![1] }], 1, "shop", true);
        assert!(!executable_of(std::process::id()).is_empty());
        assert_eq!(executable_of(0), "");
    }
}
