//! Control groups of processes on Linux, and the containers that these are.

use std::borrow::Cow;
use std::sync::Arc;

use etw_consumer::Event;
use etw_etl::encode::ProcessControlGroup;
use etw_event::{Guid, Record};
use etw_kernel_events::providers::LINUX_PROVIDER;

use crate::maps::HashMap;

/// Digits of a container's id that are shown if it has no name, as its runtimes do.
const SHOWN_DIGITS: usize = 12;
/// Maximum number of groups kept; processes of further ones have none.
const MAX_GROUPS: usize = 1 << 16;

/// The control group of a process, and the container that it is. Texts are empty for what the trace does not say.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ControlGroup {
    /// The texts of the event, in its order.
    texts: [Box<str>; 8],
}

impl ControlGroup {
    /// Returns the path of the group in its hierarchy.
    pub fn path(&self) -> &str {
        &self.texts[0]
    }

    /// Returns what manages the container, such as `docker`.
    pub fn runtime(&self) -> &str {
        &self.texts[1]
    }

    /// Returns the id of the container.
    pub fn container_id(&self) -> &str {
        &self.texts[2]
    }

    /// Returns the name of the container.
    pub fn container_name(&self) -> &str {
        &self.texts[3]
    }

    /// Returns the name of the container's image.
    pub fn image(&self) -> &str {
        &self.texts[4]
    }

    /// Returns the name of the Kubernetes pod.
    pub fn pod(&self) -> &str {
        &self.texts[5]
    }

    /// Returns the namespace of the pod.
    pub fn namespace(&self) -> &str {
        &self.texts[6]
    }

    /// Returns the id of the pod.
    pub fn pod_id(&self) -> &str {
        &self.texts[7]
    }

    /// Returns the name of the container, or the first digits of its id; `None` outside of containers.
    pub fn container(&self) -> Option<&str> {
        let id = self.container_id();
        let short = id.get(..SHOWN_DIGITS).unwrap_or(id);
        [self.container_name(), short].into_iter().find(|name| !name.is_empty())
    }

    /// Returns the pod as `NAMESPACE/NAME`, or its id if it has no name; `None` outside of pods.
    pub fn shown_pod(&self) -> Option<String> {
        match (self.namespace(), self.pod(), self.pod_id()) {
            ("", "", "") => None,
            ("", "", id) => Some(id.to_owned()),
            ("", name, _) => Some(name.to_owned()),
            (namespace, name, _) => Some(format!("{namespace}/{name}")),
        }
    }

    /// Returns what selects the group.
    pub fn names(&self) -> ControlGroupNames<'_> {
        ControlGroupNames {
            path: self.path(),
            container_id: self.container_id(),
            container: self.container().unwrap_or_default(),
            pod: self.shown_pod().unwrap_or_default().into(),
        }
    }
}

/// What selects a control group, as the table of processes has it. Texts are empty for what is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ControlGroupNames<'g> {
    /// The path of the group in its hierarchy.
    pub path: &'g str,
    /// The id of the container.
    pub container_id: &'g str,
    /// The name of the container, or the first digits of its id.
    pub container: &'g str,
    /// The pod: `NAMESPACE/NAME`, or its id.
    pub pod: Cow<'g, str>,
}

impl ControlGroupNames<'_> {
    /// Whether this is the container with a name or an id, of which the first digits suffice, or in the pod with that name.
    pub fn is_container(&self, wanted: &str) -> bool {
        let is_pod = || {
            let name = self.pod.rsplit_once('/').map(|(_, name)| name);
            self.pod == wanted || name == Some(wanted)
        };
        !wanted.is_empty()
            && !self.container_id.is_empty()
            && (self.container == wanted || self.container_id.starts_with(wanted) || is_pod())
    }

    /// Whether the group is the one with a path or below it. Without a slash at its start, the path may be at any place.
    pub fn is_below(&self, wanted: &str) -> bool {
        let names = |path| str::split(path, '/').filter(|name| !name.is_empty());
        let (own, of_wanted): (Vec<&str>, Vec<&str>) = (names(self.path).collect(), names(wanted).collect());
        match wanted.starts_with('/') {
            true => !own.is_empty() && own.starts_with(&of_wanted),
            false => !of_wanted.is_empty() && own.windows(of_wanted.len()).any(|part| part == of_wanted),
        }
    }
}

/// The control groups that a trace names, each once.
#[derive(Debug)]
pub(crate) struct ControlGroups {
    provider: Guid,
    known: HashMap<ControlGroup, Arc<ControlGroup>>,
}

impl Default for ControlGroups {
    fn default() -> ControlGroups {
        ControlGroups { provider: Guid::from_provider_name(LINUX_PROVIDER), known: HashMap::default() }
    }
}

impl ControlGroups {
    /// Whether an event may tell the group of a process.
    #[inline]
    pub(crate) fn is_about(&self, record: &Record<'_>) -> bool {
        record.kind().is_event_header() && record.provider_id() == self.provider
    }

    /// Returns the id of the process and its group, if an event of the provider tells them.
    pub(crate) fn read(&mut self, event: &Event<'_>) -> Option<(u32, Arc<ControlGroup>)> {
        let properties = event.properties.as_ref().ok()?;
        let process_id = properties.try_get::<u32>("ProcessID")?;
        let [path, ..] = ProcessControlGroup::TEXT_FIELDS;
        properties.try_get::<String>(path)?;
        let text = |name| properties.try_get::<String>(name).unwrap_or_default().into_boxed_str();
        let group = ControlGroup { texts: ProcessControlGroup::TEXT_FIELDS.map(text) };
        if let Some(known) = self.known.get(&group) {
            return Some((process_id, Arc::clone(known)));
        }
        if self.known.len() >= MAX_GROUPS {
            return None;
        }
        let known = Arc::new(group.clone());
        self.known.insert(group, Arc::clone(&known));
        Some((process_id, known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(path: &str, id: &str, name: &str, pod: &str, namespace: &str) -> ControlGroup {
        ControlGroup { texts: [path, "", id, name, "", pod, namespace, ""].map(Box::from) }
    }

    #[test]
    fn containers_are_selected_by_name_id_or_pod() {
        let id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let cart = group("/kubepods/pod1/x", id, "cart", "cart-5f", "shop");
        for wanted in ["cart", "0123", id, "cart-5f", "shop/cart-5f"] {
            assert!(cart.names().is_container(wanted), "{wanted}");
        }
        for wanted in ["", "1234", "car", "shop", "other/cart-5f"] {
            assert!(!cart.names().is_container(wanted), "{wanted}");
        }
        assert_eq!((cart.container(), cart.shown_pod().as_deref()), (Some("cart"), Some("shop/cart-5f")));
        let unnamed = group("/docker/x", id, "", "", "");
        assert_eq!((unnamed.container(), unnamed.shown_pod()), (Some("0123456789ab"), None));
        assert_eq!(group("/a", "", "", "", "").container(), None);
    }

    #[test]
    fn groups_are_selected_by_their_paths() {
        let nginx = group("/system.slice/nginx.service/worker", "", "", "", "");
        for wanted in
            ["/", "/system.slice", "/system.slice/nginx.service/", "nginx.service", "nginx.service/worker"]
        {
            assert!(nginx.names().is_below(wanted), "{wanted}");
        }
        for wanted in ["", "/system", "nginx", "/nginx.service", "system.slice/worker"] {
            assert!(!nginx.names().is_below(wanted), "{wanted}");
        }
    }
}
