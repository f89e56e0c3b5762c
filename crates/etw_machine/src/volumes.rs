//! Volumes: the paths of the kernel's devices as users know them.

use etw_consumer::Event;

use crate::maps::HashMap;

/// Maximum number of volumes of a machine.
const MAX_VOLUMES: usize = 1 << 12;
/// Maximum number of directories in a path that a volume can be mounted at.
const MAX_DIRECTORIES: usize = 16;

/// The volumes of a trace, from the VolumeMapping events that the merge step adds.
#[derive(Debug, Default)]
pub struct Volumes {
    /// By machine: `\Device\HarddiskVolume2\`, which paths in events start with, and `C:\`.
    prefixes: HashMap<u32, HashMap<Box<str>, Box<str>>>,
}

impl Volumes {
    /// Adds an event of class SysConfigEx, type VolumeMapping.
    pub fn event(&mut self, event: &Event<'_>, machine: u32) {
        let Ok(properties) = &event.properties else { return };
        let [from, to] = ["NtPath", "DosPath"].map(|name| properties.try_get::<String>(name));
        if let (Some(from), Some(to)) = (from, to)
            && from.ends_with('\\')
        {
            let prefixes = self.prefixes.entry(machine).or_default();
            if prefixes.len() < MAX_VOLUMES {
                prefixes.insert(from.into(), to.into());
            }
        }
    }

    /// Returns a path as users know it; unchanged if it is on no known volume.
    pub(crate) fn dos_path(&self, machine: u32, path: &str) -> String {
        let prefixes = self.prefixes.get(&machine);
        let ends = path.match_indices('\\').map(|(at, _)| at + 1).take(MAX_DIRECTORIES);
        let parts = ends.filter_map(|end| path.split_at_checked(end));
        let known = parts.filter_map(|(from, rest)| Some((prefixes?.get(from)?, rest)));
        // The longest prefix is the most exact one.
        known.last().map_or_else(|| path.to_owned(), |(to, rest)| format!("{to}{rest}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_known_prefix_is_replaced() {
        let mut volumes = Volumes::default();
        for (from, to) in [
            (r"\Device\HarddiskVolume2\", r"C:\"),
            (r"\Device\HarddiskVolume2\mnt\", r"M:\"),
            (r"\Device\Mup\", r"\\"),
            (r"\SystemRoot\", r"C:\Windows\"),
            (r"\??\", ""),
        ] {
            volumes.prefixes.entry(0).or_default().insert(from.into(), to.into());
        }
        let check = |path, expected| assert_eq!(volumes.dos_path(0, path), expected);
        check(r"\Device\HarddiskVolume2\Users\a.txt", r"C:\Users\a.txt");
        check(r"\Device\HarddiskVolume2\mnt\b", r"M:\b");
        check(r"\Device\HarddiskVolume21\Users", r"\Device\HarddiskVolume21\Users");
        check(r"\Device\Mup\server\share", r"\\server\share");
        check(r"\SystemRoot\system32\ntdll.dll", r"C:\Windows\system32\ntdll.dll");
        check(r"\??\D:\x", r"D:\x");
        check("/usr/lib", "/usr/lib");
        assert_eq!(volumes.dos_path(1, r"\??\D:\x"), r"\??\D:\x", "of another machine");
    }
}
