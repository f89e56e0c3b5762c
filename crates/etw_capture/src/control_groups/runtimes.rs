//! Names of containers, from the files of their runtimes. No daemon is asked.
//!
//! Only files of root are read: the reader has its rights, and whoever could write them could also keep it waiting.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use etw_sys::open_regular;

use super::Container;

/// What the runtime of a container and its Kubernetes node call it. What they do not say is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerNames {
    /// Its name.
    pub container: Box<str>,
    /// The name of its image.
    pub image: Box<str>,
    /// The name of its pod.
    pub pod: Box<str>,
    /// The namespace of its pod.
    pub namespace: Box<str>,
    /// The id of its pod.
    pub pod_id: Box<str>,
}

/// Maximum size in bytes of a file of a runtime.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Keys of labels and annotations for the name of a container, its image, its pod, and the pod's namespace and id.
const CONTAINER_KEYS: &[&str] =
    &["io.kubernetes.cri.container-name", "io.kubernetes.container.name", "nerdctl/name"];
const IMAGE_KEYS: &[&str] =
    &["io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName", "nerdctl/image-ref"];
const POD_KEYS: &[&str] = &["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"];
const NAMESPACE_KEYS: &[&str] = &["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"];
const POD_ID_KEYS: &[&str] = &["io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"];

type Labels = BTreeMap<String, String>;

/// The runtimes of a machine.
#[derive(Debug, Default)]
pub(super) struct Runtimes {
    root: PathBuf,
}

/// `config.v2.json` of a container of Docker.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerContainer {
    name: String,
    #[serde(default)]
    config: DockerConfig,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct DockerConfig {
    image: String,
    labels: Option<Labels>,
}

/// `daemon.json` of Docker.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct DockerDaemon {
    data_root: Option<PathBuf>,
}

/// A container of the storage that Podman and CRI-O share.
#[derive(Deserialize)]
struct StoredContainer {
    id: String,
    #[serde(default)]
    names: Vec<String>,
    /// JSON in a text.
    #[serde(default)]
    metadata: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct StoredMetadata {
    image_name: String,
    name: String,
}

/// `config.json` of an OCI bundle.
#[derive(Deserialize)]
struct Bundle {
    #[serde(default)]
    annotations: Labels,
}

impl Runtimes {
    /// Creates the runtimes whose files are below a directory.
    pub(super) fn new(root: PathBuf) -> Runtimes {
        Runtimes { root }
    }

    /// Returns the runtime and the names of a container.
    pub(super) fn names(&self, container: &Container<'_>) -> (&'static str, ContainerNames) {
        let id = container.id;
        let of_docker = || Some(("docker", self.docker(id)?));
        let of_podman = || Some(("podman", self.stored(id)?));
        let of_containerd = || Some(("containerd", self.containerd(id)?));
        let of_crio = || Some(("cri-o", self.crio(id)?));
        let found = match container.runtime {
            "docker" => of_docker(),
            "podman" => of_podman(),
            "containerd" => of_containerd(),
            "cri-o" => of_crio(),
            "" => of_containerd().or_else(of_crio).or_else(of_docker).or_else(of_podman),
            named => Some((named, ContainerNames { container: id.into(), ..ContainerNames::default() })),
        };
        let (runtime, mut names) = found.unwrap_or((container.runtime, ContainerNames::default()));
        if names.pod_id.is_empty() {
            names.pod_id = container.pod_id().into();
        }
        if names.pod.is_empty() && !names.pod_id.is_empty() {
            self.name_pod(&mut names);
        }
        (runtime, names)
    }

    fn docker(&self, id: &str) -> Option<ContainerNames> {
        let daemon: Option<DockerDaemon> = read_json(&self.root.join("etc/docker/daemon.json"));
        let data = daemon.and_then(|daemon| daemon.data_root);
        let data = data.map_or_else(|| self.root.join("var/lib/docker"), |data| self.at(&data));
        let file = data.join("containers").join(id).join("config.v2.json");
        let container: DockerContainer = read_json(&file)?;
        let mut names = from_labels(&container.config.labels.unwrap_or_default());
        if names.container.is_empty() {
            names.container = container.name.trim_start_matches('/').into();
        }
        if names.image.is_empty() {
            names.image = container.config.image.into();
        }
        Some(names)
    }

    fn containerd(&self, id: &str) -> Option<ContainerNames> {
        let tasks = ["run/containerd", "run/k3s/containerd"]
            .map(|directory| self.root.join(directory).join("io.containerd.runtime.v2.task"));
        let namespaces = tasks.iter().filter_map(|tasks| fs::read_dir(tasks).ok()).flatten().flatten();
        let mut bundles = namespaces.map(|namespace| namespace.path().join(id).join("config.json"));
        bundles.find_map(|file| read_json(&file)).map(|bundle: Bundle| from_labels(&bundle.annotations))
    }

    fn crio(&self, id: &str) -> Option<ContainerNames> {
        let containers = self.root.join("run/containers/storage/overlay-containers");
        let bundle: Bundle = read_json(&containers.join(id).join("userdata/config.json"))?;
        let names = from_labels(&bundle.annotations);
        (!names.container.is_empty()).then_some(names)
    }

    /// Finds a container in the storage of the system.
    fn stored(&self, id: &str) -> Option<ContainerNames> {
        let list = self.root.join("var/lib/containers/storage/overlay-containers/containers.json");
        let containers: Vec<StoredContainer> = read_json(&list)?;
        let container = containers.into_iter().find(|container| container.id == id)?;
        let metadata: StoredMetadata = serde_json::from_str(&container.metadata).unwrap_or_default();
        let name = container.names.into_iter().next().unwrap_or(metadata.name);
        let (container, image) = (name.into(), metadata.image_name.into());
        Some(ContainerNames { container, image, ..ContainerNames::default() })
    }

    /// Names the pod as the node's directory of logs does, `NAMESPACE_POD_ID`.
    fn name_pod(&self, names: &mut ContainerNames) {
        let Ok(logs) = fs::read_dir(self.root.join("var/log/pods")) else { return };
        for log in logs.flatten() {
            let name = log.file_name();
            let pod = name.to_str().and_then(|name| name.strip_suffix(&*names.pod_id)?.strip_suffix('_'));
            if let Some((namespace, pod)) = pod.and_then(|pod| pod.split_once('_')) {
                (names.namespace, names.pod) = (namespace.into(), pod.into());
                return;
            }
        }
    }

    /// Returns where an absolute path of the machine is.
    fn at(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

fn from_labels(labels: &Labels) -> ContainerNames {
    let first = |keys: &[&str]| {
        keys.iter().find_map(|key| labels.get(*key)).map(|name| name.as_str().into()).unwrap_or_default()
    };
    ContainerNames {
        container: first(CONTAINER_KEYS),
        image: first(IMAGE_KEYS),
        pod: first(POD_KEYS),
        namespace: first(NAMESPACE_KEYS),
        pod_id: first(POD_ID_KEYS),
    }
}

/// Reads a file of a runtime; `None` if it is missing, too large or of another form.
fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let mut text = Vec::new();
    open_regular(path).ok()?.take(MAX_FILE_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::super::ControlGroups;
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const POD: &str = "0f5c5a0e-6c5f-4ac6-8fa3-0d6b2b6f3a11";

    /// Returns runtime, container, image, pod and namespace of a group on a machine with one file.
    fn names(file: &str, text: &str, group: &str) -> [String; 5] {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let group = ControlGroups::new(root.path()).at(group);
        let names = &group.names;
        [&group.runtime, &names.container, &names.image, &names.pod, &names.namespace]
            .map(|name| name.to_string())
    }

    #[test]
    fn files_of_runtimes_name_containers() {
        let group = format!("/system.slice/docker-{ID}.scope");
        let config = r#"{"ID": "x", "Name": "/web", "Config": {"Image": "nginx:1", "Labels": {"a": "b"}}}"#;
        let file = format!("var/lib/docker/containers/{ID}/config.v2.json");
        assert_eq!(names(&file, config, &group), ["docker", "web", "nginx:1", "", ""]);
        let config = r#"{"Name": "/k8s_x", "Config": {"Image": "i", "Labels": {"io.kubernetes.container.name": "x",
            "io.kubernetes.pod.name": "x-1", "io.kubernetes.pod.namespace": "shop"}}}"#;
        assert_eq!(
            names(&file, config, &format!("/kubepods/pod{POD}/{ID}")),
            ["docker", "x", "i", "x-1", "shop"]
        );

        let list = format!(
            r#"[{{"id": "1"}}, {{"id": "{ID}", "names": ["db"], "metadata": "{{\"image-name\":\"postgres\"}}"}}]"#
        );
        let system = "var/lib/containers/storage/overlay-containers/containers.json";
        let group = format!("/machine.slice/libpod-{ID}.scope");
        assert_eq!(names(system, &list, &group), ["podman", "db", "postgres", "", ""]);

        let bundle = r#"{"ociVersion": "1", "annotations": {"io.kubernetes.cri.container-name": "cart",
            "io.kubernetes.cri.image-name": "cart:2", "io.kubernetes.cri.sandbox-name": "cart-5f",
            "io.kubernetes.cri.sandbox-namespace": "shop"}}"#;
        let file = format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}/config.json");
        let expected = ["containerd", "cart", "cart:2", "cart-5f", "shop"];
        assert_eq!(names(&file, bundle, &format!("/kubepods/burstable/pod{POD}/{ID}")), expected);
        let bundle = r#"{"annotations": {"io.kubernetes.container.name": "cart", "io.kubernetes.pod.name": "cart-5f",
            "io.kubernetes.cri-o.ImageName": "cart:2", "io.kubernetes.pod.namespace": "shop"}}"#;
        let file = format!("run/containers/storage/overlay-containers/{ID}/userdata/config.json");
        let group = format!("/kubepods.slice/crio-{ID}.scope");
        assert_eq!(names(&file, bundle, &group), ["cri-o", "cart", "cart:2", "cart-5f", "shop"]);
    }

    #[test]
    fn a_node_names_pods_by_their_logs() {
        let group = format!("/kubepods/pod{POD}/{ID}");
        let log = format!("var/log/pods/shop_cart-5f_{POD}/cart/0.log");
        assert_eq!(names(&log, "", &group), ["", "", "", "cart-5f", "shop"]);
    }

    #[test]
    fn what_cannot_be_read_names_nothing() {
        let group = format!("/docker/{ID}");
        let file = format!("var/lib/docker/containers/{ID}/config.v2.json");
        for text in ["", "{", "[]", r#"{"Name": 3}"#] {
            assert_eq!(names(&file, text, &group), ["docker", "", "", "", ""], "{text}");
        }
        assert_eq!(names("x", "", "/lxc/web"), ["lxc", "web", "", "", ""]);
    }
}
