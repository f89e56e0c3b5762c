//! The registrations of a process, and its properties.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use etw_event::{Fields, Guid};
use etw_protocol::limits::{MAX_COMMAND_LINE_BYTES, MAX_PATH_BYTES};
use etw_protocol::{Enable, ProcessStatus};
use etw_sys::credentials::process_link;
use etw_sys::is_of_wine;

/// A registration of a connection: the connection's token, and the number that the process assigned.
pub(crate) type RegistrationKey = (u64, u32);

/// The registrations of all processes by provider, by name and by group, so that what concerns one provider costs what it has.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    providers: BTreeMap<Guid, BTreeSet<RegistrationKey>>,
    /// By the GUID that a provider's name stands for, if it is another one.
    names: BTreeMap<Guid, BTreeSet<RegistrationKey>>,
    groups: BTreeMap<Guid, BTreeSet<RegistrationKey>>,
}

impl Registry {
    pub(crate) fn add(&mut self, key: RegistrationKey, registration: &Registration) {
        self.providers.entry(registration.guid).or_default().insert(key);
        for (map, guid) in [(&mut self.names, registration.named), (&mut self.groups, registration.group)] {
            if !guid.is_zero() {
                map.entry(guid).or_default().insert(key);
            }
        }
    }

    pub(crate) fn remove(&mut self, key: RegistrationKey, registration: &Registration) {
        for (map, guid) in [
            (&mut self.providers, registration.guid),
            (&mut self.names, registration.named),
            (&mut self.groups, registration.group),
        ] {
            if let Some(keys) = map.get_mut(&guid) {
                keys.remove(&key);
                if keys.is_empty() {
                    map.remove(&guid);
                }
            }
        }
    }

    /// Iterates over the registrations of a provider, of providers with the name that the GUID stands for, or of the providers
    /// of a group.
    pub(crate) fn of(&self, guid: Guid) -> impl Iterator<Item = RegistrationKey> + '_ {
        [&self.providers, &self.names, &self.groups]
            .into_iter()
            .filter_map(move |map| map.get(&guid))
            .flatten()
            .copied()
    }

    /// Iterates over the providers from `guid` on, with their registrations.
    pub(crate) fn providers_from(
        &self,
        guid: Guid,
    ) -> impl Iterator<Item = (Guid, &BTreeSet<RegistrationKey>)> {
        self.providers.range(guid..).map(|(guid, keys)| (*guid, keys))
    }
}

/// A provider that a process has registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registration {
    pub(crate) guid: Guid,
    pub(crate) name: String,
    /// The GUID that the name stands for ([`Guid::from_provider_name`]), if the provider has another one; zero otherwise.
    /// Whoever enables a provider by its name, and does not know its GUID, enables this.
    pub(crate) named: Guid,
    /// The group; zero if none.
    pub(crate) group: Guid,
    /// A bit for each session whose enable was sent to the process.
    pub(crate) slots: u64,
}

impl Registration {
    pub(crate) fn new(guid: Guid, name: String, traits: &[u8]) -> Registration {
        let (name_of_traits, group) = parse_traits(traits).unwrap_or_default();
        let name = if name.is_empty() { name_of_traits } else { name };
        let named = match name.is_empty() {
            true => Guid::ZERO,
            false => Some(Guid::from_provider_name(&name)).filter(|named| *named != guid).unwrap_or_default(),
        };
        Registration { guid, name, named, group, slots: 0 }
    }
}

/// Parses a provider's traits into name and group: the size in 16 bits, the name in UTF-8 up to a zero, then chunks of
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

/// Returns whether the filters that the host evaluates let a process pass.
pub(crate) fn lets_pass(enable: &Enable, process: &ProcessStatus) -> bool {
    let executable = Path::new(&process.image).file_name().unwrap_or_default().to_string_lossy();
    enable.filters.iter().all(|filter| filter.lets_process_pass(process.pid, &executable))
}

/// Properties of a process according to the system, but for its [`command_line`]; empty if not accessible.
pub(crate) fn describe(pid: u32) -> ProcessStatus {
    let image = process_link(pid, "exe").unwrap_or_default();
    let image = printable(&image.to_string_lossy(), MAX_PATH_BYTES);
    // The name is in parentheses and may contain any character; the state and the parent follow it.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let (before, behind) = stat.rsplit_once(')').unwrap_or_default();
    let parent = behind.split_whitespace().nth(1).and_then(|parent| parent.parse().ok());
    // The kernel appends this if the file has been replaced.
    let mut image = image.trim_end_matches(" (deleted)").to_owned();
    // Wine names the process after its program; the program's path is in the process's memory only.
    if let Some((_, name)) = before.split_once('(')
        && is_of_wine(pid, image.as_bytes())
    {
        image = printable(name, MAX_PATH_BYTES);
    }
    ProcessStatus { pid, parent_pid: parent.unwrap_or(0), image, command_line: String::new() }
}

/// Returns the command line of a process; empty if not accessible.
///
/// It lies in the memory of the process, which may have put a file there that a program serves: reading may take for ever.
pub(crate) fn command_line(pid: u32) -> String {
    let arguments = std::fs::File::open(format!("/proc/{pid}/cmdline")).and_then(|file| {
        let mut arguments = Vec::new();
        file.take(MAX_COMMAND_LINE_BYTES as u64).read_to_end(&mut arguments).map(|_| arguments)
    });
    let arguments = arguments.unwrap_or_default();
    let words: Vec<_> = arguments.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    printable(words.join(" ").trim_end(), MAX_COMMAND_LINE_BYTES)
}

/// Returns a text without control characters, cut to `limit` bytes.
fn printable(text: &str, limit: usize) -> String {
    let mut printable: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    while printable.len() > limit {
        printable.pop();
    }
    printable
}

#[cfg(test)]
mod tests {
    use etw_protocol::Filter;

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
    fn registrations_are_found_by_provider_and_group() {
        let (one, other, group) = (Guid::from_u128(1), Guid::from_u128(2), Guid::from_u128(3));
        let registration =
            |guid, group| Registration { guid, name: String::new(), named: Guid::ZERO, group, slots: 0 };
        let mut registry = Registry::default();
        registry.add((7, 1), &registration(one, Guid::ZERO));
        registry.add((7, 2), &registration(other, group));
        registry.add((8, 1), &registration(one, group));
        let of = |registry: &Registry, guid| registry.of(guid).collect::<Vec<_>>();
        assert_eq!(of(&registry, one), [(7, 1), (8, 1)]);
        assert_eq!(of(&registry, group), [(7, 2), (8, 1)]);
        assert_eq!(registry.providers_from(other).count(), 1);
        registry.remove((8, 1), &registration(one, group));
        assert_eq!((of(&registry, one), of(&registry, group)), (vec![(7, 1)], vec![(7, 2)]));
        registry.remove((7, 2), &registration(other, group));
        assert!(registry.groups.is_empty() && registry.providers.len() == 1);
    }

    #[test]
    fn providers_are_found_by_the_guid_of_their_name() {
        let by_name = Guid::from_provider_name("MyCompany.MyProvider");
        let own = Registration::new(Guid::from_u128(1), "mycompany.myprovider".into(), &[]);
        assert_eq!(own.named, by_name);
        assert_eq!(Registration::new(by_name, "MyCompany.MyProvider".into(), &[]).named, Guid::ZERO);
        assert_eq!(Registration::new(by_name, String::new(), &[]).named, Guid::ZERO);
        let mut registry = Registry::default();
        registry.add((7, 1), &own);
        assert_eq!(registry.of(by_name).collect::<Vec<_>>(), [(7, 1)]);
        registry.remove((7, 1), &own);
        assert!(registry.names.is_empty() && registry.providers.is_empty());
    }

    #[test]
    fn filters_of_processes() {
        let check = |filters: Vec<Filter>, pid: u32, executable: &str, expected: bool| {
            let enable = Enable { filters, ..Enable::default() };
            let image = format!("/usr/bin/{executable}");
            let process = ProcessStatus { pid, parent_pid: 1, image, command_line: String::new() };
            assert_eq!(lets_pass(&enable, &process), expected, "{enable:?} {process:?}");
        };
        let named = |names: &str| Filter::ExecutableNames(vec![names.to_owned()]);
        check(vec![], 1, "shop", true);
        check(vec![Filter::Pids(vec![2, 3])], 3, "shop", true);
        check(vec![Filter::Pids(vec![2, 3])], 1, "shop", false);
        check(vec![named("db.exe; Shop.exe")], 1, "shop", true);
        check(vec![named("db")], 1, "shop", false);
        check(vec![Filter::Pids(vec![1]), named("db")], 1, "shop", false);
        check(vec![Filter::EventIds { include: true, ids: vec![1] }], 1, "shop", true);
    }

    #[test]
    fn processes_are_described() {
        let this = describe(std::process::id());
        assert_eq!(this.image, std::env::current_exe().unwrap().to_str().unwrap());
        assert_eq!(this.parent_pid, std::os::unix::process::parent_id());
        assert!(command_line(std::process::id()).contains("etw_session"));
        let nobody = describe(0);
        assert_eq!((nobody.parent_pid, nobody.image, command_line(0)), (0, String::new(), String::new()));
        assert_eq!(printable("a\tb\u{7}ä", 5), "a b ");
        assert_eq!(printable("a\tb\u{7}ä", 6), "a b ä");
    }
}
