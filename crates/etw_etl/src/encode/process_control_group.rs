//! The control group of a process on Linux, and the container that it is, as an event of the provider for Linux.

use etw_event::{EventDescriptor, ExtendedType, Guid, Level, PointerSize};
use etw_kernel_events::providers::LINUX_PROVIDER;

use super::RecordBuilder;
use super::field_types::{ANSI_STRING, UINT32, UTF8};
use super::tracelogging::{EventMetadata, provider_traits, put_text};

const EVENT: &str = "ProcessControlGroup";
/// Maximum length in bytes of a text.
const MAX_TEXT_BYTES: usize = 4096;

/// The control group of a process. Texts are empty for what is unknown or absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessControlGroup<'t> {
    /// The process.
    pub process_id: u32,
    /// Path of the group in its hierarchy.
    pub control_group: &'t str,
    /// What manages the container: `docker`, `podman`, `containerd`, `cri-o`, `lxc` or `systemd-nspawn`.
    pub container_runtime: &'t str,
    /// The id of the container.
    pub container_id: &'t str,
    /// The name of the container.
    pub container_name: &'t str,
    /// The name of its image.
    pub container_image: &'t str,
    /// The name of its Kubernetes pod.
    pub pod_name: &'t str,
    /// The namespace of the pod.
    pub pod_namespace: &'t str,
    /// The id of the pod.
    pub pod_id: &'t str,
}

impl<'t> ProcessControlGroup<'t> {
    /// The names of the texts in the event, in its order.
    pub const TEXT_FIELDS: [&'static str; 8] = [
        "ControlGroup",
        "ContainerRuntime",
        "ContainerID",
        "ContainerName",
        "ContainerImage",
        "PodName",
        "PodNamespace",
        "PodID",
    ];

    /// Returns the texts in the order of [`ProcessControlGroup::TEXT_FIELDS`].
    fn texts(&self) -> [&'t str; 8] {
        [
            self.control_group,
            self.container_runtime,
            self.container_id,
            self.container_name,
            self.container_image,
            self.pod_name,
            self.pod_namespace,
            self.pod_id,
        ]
    }

    /// Returns the event, which lacks a time.
    pub fn record(&self) -> RecordBuilder {
        let metadata = EventMetadata::new(EVENT).field("ProcessID", UINT32);
        let metadata = ProcessControlGroup::TEXT_FIELDS
            .iter()
            .fold(metadata, |metadata, name| metadata.formatted_field(name, ANSI_STRING, UTF8));
        let mut payload = self.process_id.to_le_bytes().to_vec();
        self.texts().iter().for_each(|text| put_text(text, MAX_TEXT_BYTES, &mut payload));
        let descriptor = EventDescriptor { channel: 11, level: Level(4), ..EventDescriptor::default() };
        RecordBuilder::event(PointerSize::Eight, Guid::from_provider_name(LINUX_PROVIDER), &descriptor)
            .process(self.process_id, 0)
            .item(ExtendedType::EVENT_SCHEMA_TL, &metadata.build())
            .item(ExtendedType::PROVIDER_TRAITS, &provider_traits(LINUX_PROVIDER))
            .payload(&payload)
    }
}
