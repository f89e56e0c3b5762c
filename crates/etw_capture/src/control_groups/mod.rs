//! Control groups of processes, and the containers that these are.
//!
//! Of version 2 a process has one group. Of version 1 it has one in each hierarchy; where version 2 says nothing, as on systems
//! that use it for nothing, the group is that of systemd's hierarchy, or else the one with the longest path.
//!
//! ```
//! use etw_capture::control_groups::{Container, Membership};
//!
//! let id = "4f1b".repeat(16);
//! let membership = Membership::parse(format!("0::/system.slice/docker-{id}.scope\n").as_bytes());
//! let container = Container::from_path(membership.path()).unwrap();
//! assert_eq!((container.runtime, container.id), ("docker", id.as_str()));
//! ```

mod runtimes;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use runtimes::ContainerNames;
use runtimes::Runtimes;

use crate::proc::directory_of_processes;

/// The groups of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Membership {
    /// Path in the hierarchy of version 2; empty if the system has none.
    unified: Box<str>,
    /// Path in the hierarchy of version 1 that stands for the others.
    legacy: Box<str>,
}

impl Membership {
    /// Reads `/proc/PID/cgroup`.
    pub fn parse(text: &[u8]) -> Membership {
        let mut groups = Membership::default();
        let mut is_of_systemd = false;
        for line in String::from_utf8_lossy(text).lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(hierarchy), Some(controllers), Some(path)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let path = from_root(path);
            if hierarchy == "0" {
                groups.unified = path.into();
            } else if path.len() > 1 && (controllers == "name=systemd" || !is_of_systemd) {
                is_of_systemd |= controllers == "name=systemd";
                if is_of_systemd || path.len() > groups.legacy.len() {
                    groups.legacy = path.into();
                }
            }
        }
        groups
    }

    /// Moves the process to another group; hierarchy 0 is that of version 2.
    pub fn move_to(&mut self, hierarchy: u32, path: &str) {
        let moved = if hierarchy == 0 { &mut self.unified } else { &mut self.legacy };
        *moved = path.into();
    }

    /// Returns the path of the group; empty if none is known.
    pub fn path(&self) -> &str {
        match &*self.unified {
            "" | "/" if !self.legacy.is_empty() => &self.legacy,
            path => path,
        }
    }
}

/// A container, as the path of its control group names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Container<'p> {
    /// What manages it: `docker`, `podman`, `containerd`, `cri-o`, `lxc` or `systemd-nspawn`; empty if the path does not say.
    pub runtime: &'static str,
    /// Its id; of LXC and systemd-nspawn its name.
    pub id: &'p str,
    /// The id of its Kubernetes pod, with `_` for `-` if systemd manages the groups; empty if it has none.
    pod_id: &'p str,
}

/// How names of groups begin and end that are containers of a runtime.
const FORMS: [(&str, &str, &str); 8] = [
    ("docker-", ".scope", "docker"),
    ("libpod-", ".scope", "podman"),
    ("libpod-", "", "podman"),
    ("cri-containerd-", ".scope", "containerd"),
    ("nerdctl-", ".scope", "containerd"),
    ("crio-", ".scope", "cri-o"),
    ("lxc.payload.", "", "lxc"),
    ("systemd-nspawn@", ".service", "systemd-nspawn"),
];

impl<'p> Container<'p> {
    /// Returns the innermost container that a path leads through.
    pub fn from_path(path: &'p str) -> Option<Container<'p>> {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let pod_id = names.iter().rev().find_map(|name| pod_id(name)).unwrap_or_default();
        (0..names.len()).rev().find_map(|place| {
            let parent = place.checked_sub(1).and_then(|parent| names.get(parent)).copied();
            let (runtime, id) = container(names[place], parent)?;
            Some(Container { runtime, id, pod_id })
        })
    }

    /// Returns the id of its Kubernetes pod; empty if it has none.
    pub fn pod_id(&self) -> String {
        self.pod_id.replace('_', "-")
    }
}

/// Returns the runtime and the id of the container that a group is.
fn container<'p>(name: &'p str, parent: Option<&str>) -> Option<(&'static str, &'p str)> {
    if is_id(name) {
        return Some((if parent == Some("docker") { "docker" } else { "" }, name));
    }
    if parent == Some("lxc") {
        return Some(("lxc", name));
    }
    FORMS.iter().find_map(|(start, end, runtime)| {
        let id = name.strip_prefix(start)?.strip_suffix(end)?;
        let is_name = matches!(*runtime, "lxc" | "systemd-nspawn") && !id.is_empty();
        (is_name || is_id(id)).then_some((*runtime, id))
    })
}

/// Returns a path from the root of its hierarchy, which `/proc` gives from the root of the reader's own namespace.
fn from_root(path: &str) -> &str {
    let mut rest = path;
    while let Some(above) =
        rest.strip_prefix("/..").filter(|above| above.starts_with('/') || above.is_empty())
    {
        rest = above;
    }
    if rest.is_empty() { "/" } else { rest }
}

/// Whether a name is an id of 32 bytes, as all runtimes for images have.
fn is_id(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the id of the Kubernetes pod that a group is.
fn pod_id(name: &str) -> Option<&str> {
    let of_systemd = || Some(name.strip_prefix("kubepods")?.strip_suffix(".slice")?.rsplit_once("-pod")?.1);
    let id = name.strip_prefix("pod").or_else(of_systemd)?;
    let is_of_id = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_');
    (id.len() >= 32 && id.bytes().all(is_of_id)).then_some(id)
}

/// A control group, and the names of the container that it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ControlGroup {
    /// Path in its hierarchy.
    pub path: Box<str>,
    /// The runtime of the container; empty if it is unknown, or the group belongs to none.
    pub runtime: Box<str>,
    /// The id of the container; empty outside of containers.
    pub container_id: Box<str>,
    /// What the container's runtime calls it.
    pub names: ContainerNames,
}

/// The known control groups; by default, those of a machine without any.
#[derive(Debug, Default)]
pub struct ControlGroups {
    processes: PathBuf,
    runtimes: Runtimes,
    looks: Looks,
    /// By path.
    known: BTreeMap<Box<str>, Known>,
}

#[derive(Debug)]
struct Known {
    group: Arc<ControlGroup>,
    /// When its names were last looked for, if they were not found.
    unnamed: Option<Instant>,
}

/// How often names were looked for lately. Any user can make groups with the names of containers, which must not keep the
/// reader busy with files.
#[derive(Debug, Default)]
struct Looks {
    count: u32,
    /// Since when they are counted.
    since: Option<Instant>,
}

impl Looks {
    /// Maximum number in [`LOOK_AGAIN`].
    const MAX: u32 = 20;

    /// Returns whether names may be looked for now, and counts it.
    fn may_look(&mut self) -> bool {
        if self.since.is_none_or(|since| since.elapsed() >= LOOK_AGAIN) {
            *self = Looks { count: 0, since: Some(Instant::now()) };
        }
        self.count += 1;
        self.count <= Looks::MAX
    }
}

/// Groups that are kept; those without processes are dropped beyond that.
const MAX_GROUPS: usize = 4096;
/// Time after which names are looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl ControlGroups {
    /// Creates the groups of a machine whose files are in the directory `root`.
    pub fn new(root: &Path) -> ControlGroups {
        ControlGroups {
            processes: root.join("proc"),
            runtimes: Runtimes::new(root.to_owned()),
            looks: Looks::default(),
            known: BTreeMap::new(),
        }
    }

    /// Creates the groups of this machine.
    pub fn of_this_machine() -> ControlGroups {
        let processes = directory_of_processes().to_owned();
        ControlGroups { processes, ..ControlGroups::new(Path::new("/")) }
    }

    /// Returns the groups of a process; `None` if it has ended.
    pub fn of_process(&self, process_id: u32) -> Option<Membership> {
        let text = fs::read(self.processes.join(process_id.to_string()).join("cgroup")).ok()?;
        Some(Membership::parse(&text))
    }

    /// Returns the group with a path, whose container may be named by files of its runtime.
    pub fn at(&mut self, path: &str) -> Arc<ControlGroup> {
        if let Some(known) = self.known.get(path)
            && known.unnamed.is_none_or(|looked| looked.elapsed() < LOOK_AGAIN)
        {
            return Arc::clone(&known.group);
        }
        if self.known.len() >= MAX_GROUPS {
            self.known.retain(|_, known| Arc::strong_count(&known.group) > 1);
        }
        let group = Arc::new(self.look_up(path));
        let is_unnamed = !group.container_id.is_empty() && group.names.container.is_empty();
        let known = Known { group: Arc::clone(&group), unnamed: is_unnamed.then(Instant::now) };
        self.known.insert(path.into(), known);
        group
    }

    fn look_up(&mut self, path: &str) -> ControlGroup {
        let Some(container) = Container::from_path(path) else {
            return ControlGroup { path: path.into(), ..ControlGroup::default() };
        };
        let (runtime, names) = match self.looks.may_look() {
            true => self.runtimes.names(&container),
            false => (container.runtime, ContainerNames::default()),
        };
        ControlGroup { path: path.into(), runtime: runtime.into(), container_id: container.id.into(), names }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn the_group_is_that_of_version_2_or_of_systemd_or_the_longest() {
        let path = |text: &str| Membership::parse(text.as_bytes()).path().to_owned();
        assert_eq!(path("0::/user.slice/user-1000.slice\n"), "/user.slice/user-1000.slice");
        assert_eq!(path("4:memory:/a/b/c\n1:name=systemd:/s\n2:cpu:/a/b/c/d\n0::/\n"), "/s");
        assert_eq!(path("4:memory:/a/b\n1:name=systemd:/\n0::/\n"), "/a/b");
        assert_eq!(path("4:memory:/a:b\n0::/\n"), "/a:b");
        assert_eq!(path("0::/\n"), "/");
        // Seen from a namespace of control groups.
        assert_eq!(path("0::/../../user.slice\n"), "/user.slice");
        assert_eq!([path("0::/..\n"), path("0::/..a\n")], ["/", "/..a"]);
        assert_eq!(path("no group"), "");
        let mut moved = Membership::parse(b"4:memory:/a/b\n0::/\n");
        moved.move_to(4, "/docker/x");
        assert_eq!(moved.path(), "/docker/x");
        moved.move_to(0, "/s");
        assert_eq!(moved.path(), "/s");
    }

    #[test]
    fn many_groups_of_unknown_containers_cost_little() {
        let root = tempfile::tempdir().unwrap();
        let mut groups = ControlGroups::new(root.path());
        for number in 0..2 * Looks::MAX {
            assert!(groups.at(&format!("/docker/{number:064x}")).names.container.is_empty());
        }
        assert_eq!(groups.looks.count, 2 * Looks::MAX);
        assert!(!groups.looks.may_look());
    }

    #[test]
    fn paths_name_containers_and_pods() {
        let check = |path: String, expected: Option<(&str, &str, &str)>| {
            let container = Container::from_path(&path);
            let pod_id = container.map(|container| container.pod_id()).unwrap_or_default();
            let found = container.map(|container| (container.runtime, container.id, &*pod_id));
            assert_eq!(found, expected, "{path}");
        };
        check("/user.slice/user-1000.slice/session-1.scope".to_owned(), None);
        check("/".to_owned(), None);
        check(format!("/docker/{ID}"), Some(("docker", ID, "")));
        check(format!("/docker/{ID}/init"), Some(("docker", ID, "")));
        check(format!("/system.slice/docker-{ID}.scope"), Some(("docker", ID, "")));
        check(format!("/machine.slice/libpod-{ID}.scope/container"), Some(("podman", ID, "")));
        check(format!("/machine.slice/libpod-conmon-{ID}.scope"), None);
        check(format!("/libpod_parent/libpod-{ID}"), Some(("podman", ID, "")));
        check("/lxc.payload.web".to_owned(), Some(("lxc", "web", "")));
        check("/lxc/web/system.slice".to_owned(), Some(("lxc", "web", "")));
        check("/machine.slice/systemd-nspawn@web.service".to_owned(), Some(("systemd-nspawn", "web", "")));
        let pod = "0f5c5a0e-6c5f-4ac6-8fa3-0d6b2b6f3a11";
        check(format!("/kubepods/burstable/pod{pod}/{ID}"), Some(("", ID, pod)));
        let slice = format!("kubepods-besteffort-pod{}.slice", pod.replace('-', "_"));
        check(
            format!("/kubepods.slice/kubepods-besteffort.slice/{slice}/cri-containerd-{ID}.scope"),
            Some(("containerd", ID, pod)),
        );
        check(format!("/kubepods.slice/{slice}/crio-{ID}.scope"), Some(("cri-o", ID, pod)));
        // A node that is a container itself.
        let outer = ID.replace('0', "f");
        check(
            format!("/docker/{outer}/kubelet/{slice}/cri-containerd-{ID}.scope"),
            Some(("containerd", ID, pod)),
        );
    }
}
