//! Events with the fields of a classic event.

use etw_event::{EventDescriptor, Guid};

use super::{ManifestEvent, file, network};
use crate::classes::{FileIoCreate, FileIoInfo, KernelEvent, PathEvent, Payload};
use crate::ids::{Class, EventId};
use crate::provider_guids::{FILE_PROVIDER, NETWORK_PROVIDER};

/// A classic event as the event of a manifest provider with the same fields.
#[derive(Debug, Clone, Copy)]
pub struct SameFields<'e, E> {
    event: &'e E,
    provider: Guid,
    descriptor: EventDescriptor,
}

impl<'e, E: KernelEvent> SameFields<'e, E> {
    /// Returns the manifest event with the fields of this classic event, if there is one.
    pub fn from_event(event: &'e E) -> Option<SameFields<'e, E>> {
        let id = EventId::from_hook(event.hook_id())?;
        let (provider, descriptor) = match id.class() {
            Class::FileIo => (FILE_PROVIDER, file::of_class(id)?),
            Class::TcpIp => (NETWORK_PROVIDER, network::tcp(id.opcode())),
            Class::UdpIp => (NETWORK_PROVIDER, network::udp(id.opcode())),
            _ => return None,
        };
        Some(SameFields { event, provider, descriptor })
    }
}

impl<'e> SameFields<'e, FileIoCreate<'e>> {
    /// Returns the event of a new file, with the fields of the event that created it.
    pub fn new_file(event: &'e FileIoCreate<'e>) -> SameFields<'e, FileIoCreate<'e>> {
        SameFields { event, provider: FILE_PROVIDER, descriptor: file::CREATE_NEW_FILE }
    }
}

impl<'e> SameFields<'e, FileIoInfo> {
    /// Returns the event of a file that Windows writes in addition to an operation on its name.
    pub fn beside(event: &'e FileIoInfo, operation: PathEvent) -> SameFields<'e, FileIoInfo> {
        let descriptor = match operation {
            PathEvent::Delete => file::SET_DELETE,
            PathEvent::Rename => file::RENAME,
            PathEvent::SetLink => file::SET_LINK,
        };
        SameFields { event, provider: FILE_PROVIDER, descriptor }
    }
}

impl<E: KernelEvent> ManifestEvent for SameFields<'_, E> {
    fn provider(&self) -> Guid {
        self.provider
    }

    fn descriptor(&self) -> EventDescriptor {
        self.descriptor
    }

    fn put_payload(&self, to: &mut Payload<'_>) {
        self.event.put_payload(to);
        if self.provider == FILE_PROVIDER && matches!(self.descriptor, file::READ | file::WRITE) {
            // No further flags.
            to.put(0_u32);
        }
    }

    fn is_of_process(&self) -> bool {
        self.descriptor != file::NAME_CREATE
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

    use super::*;
    use crate::classes::testing::{check_manifest, fields_of};
    use crate::classes::{
        DirEnumEvent, Endpoints, FileIoDirEnum, FileIoName, FileIoOperationEnd, FileIoPathOperation,
        FileIoReadWrite, FileIoSimple, InfoEvent, NameEvent, NetworkFail, Protocol, ReadWriteEvent,
        SimpleEvent, TcpConnect, TcpConnectEvent, TcpEvent, TcpIp, TcpSend, UdpEvent, UdpIp,
    };

    /// The same fields, by the schemas of both.
    fn check<E: KernelEvent>(event: &E, id: u16) {
        let same = SameFields::from_event(event).unwrap();
        assert_eq!(same.descriptor().id, id);
        let expected = fields_of(event);
        let expected: Vec<_> = expected.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        check_manifest(&same, &expected);
    }

    /// The same values, under these names.
    fn check_file<E: KernelEvent>(same: &SameFields<'_, E>, id: u16, names: &[&str]) {
        assert_eq!(same.descriptor().id, id);
        let mut values: Vec<String> = fields_of(same.event).into_iter().map(|field| field.1).collect();
        values.extend((values.len() < names.len()).then(|| "0".to_owned()));
        assert_eq!(values.len(), names.len());
        let expected: Vec<_> = names.iter().copied().zip(values.iter().map(String::as_str)).collect();
        check_manifest(same, &expected);
    }

    #[test]
    fn files() {
        const PATH: &[u8] = "/tmp/ä".as_bytes();
        let (irp, file_object, file_key, thread_id) = (1, 2, 0xFFFF_8881_0000_0003, 4);
        let names = ["FileKey", "FileName"];
        for event in [NameEvent::Name, NameEvent::FileCreate] {
            let name = FileIoName { event, file_object: file_key, file_name: PATH };
            check_file(&SameFields::from_event(&name).unwrap(), 10, &names);
        }
        for event in [NameEvent::FileDelete, NameEvent::FileRundown] {
            let name = FileIoName { event, file_object: file_key, file_name: PATH };
            assert!(SameFields::from_event(&name).is_none());
        }
        let create = FileIoCreate {
            irp,
            file_object,
            thread_id,
            create_options: 0x0200_0040,
            file_attributes: 0x80,
            share_access: 7,
            open_path: PATH,
        };
        let names = [
            "Irp",
            "FileObject",
            "IssuingThreadId",
            "CreateOptions",
            "CreateAttributes",
            "ShareAccess",
            "FileName",
        ];
        check_file(&SameFields::from_event(&create).unwrap(), 12, &names);
        check_file(&SameFields::new_file(&create), 30, &names);
        let names = ["Irp", "FileObject", "FileKey", "IssuingThreadId"];
        for (event, id) in [(SimpleEvent::Cleanup, 13), (SimpleEvent::Close, 14), (SimpleEvent::Flush, 21)] {
            let simple = FileIoSimple { event, irp, file_object, file_key, thread_id };
            check_file(&SameFields::from_event(&simple).unwrap(), id, &names);
        }
        let names = [
            "ByteOffset",
            "Irp",
            "FileObject",
            "FileKey",
            "IssuingThreadId",
            "IOSize",
            "IOFlags",
            "ExtraFlags",
        ];
        for (event, id) in [(ReadWriteEvent::Read, 15), (ReadWriteEvent::Write, 16)] {
            let (offset, io_size, io_flags) = (1 << 40, 4096, 5);
            let transfer =
                FileIoReadWrite { event, offset, irp, file_object, file_key, thread_id, io_size, io_flags };
            check_file(&SameFields::from_event(&transfer).unwrap(), id, &names);
        }
        let info = |event| FileIoInfo {
            event,
            irp,
            file_object,
            file_key,
            extra_info: 500,
            thread_id,
            info_class: 20,
        };
        let names = ["Irp", "FileObject", "FileKey", "ExtraInformation", "IssuingThreadId", "InfoClass"];
        for (event, id) in [(InfoEvent::SetInfo, 17), (InfoEvent::QueryInfo, 22)] {
            check_file(&SameFields::from_event(&info(event)).unwrap(), id, &names);
        }
        let with_path = [&names[..], &["FilePath"]].concat();
        for (event, beside, id) in
            [(PathEvent::Delete, 18, 26), (PathEvent::Rename, 19, 27), (PathEvent::SetLink, 29, 28)]
        {
            check_file(&SameFields::beside(&info(InfoEvent::SetInfo), event), beside, &names);
            let operation = FileIoPathOperation {
                event,
                irp,
                file_object,
                file_key,
                extra_info: 6,
                thread_id,
                info_class: 10,
                file_name: PATH,
            };
            check_file(&SameFields::from_event(&operation).unwrap(), id, &with_path);
        }
        let entries = FileIoDirEnum {
            event: DirEnumEvent::DirEnum,
            irp,
            file_object,
            file_key,
            thread_id,
            len_bytes: 4096,
            info_class: 1,
            file_index: 8,
            file_name: b"*",
        };
        let names = [
            "Irp",
            "FileObject",
            "FileKey",
            "IssuingThreadId",
            "Length",
            "InfoClass",
            "FileIndex",
            "FileName",
        ];
        check_file(&SameFields::from_event(&entries).unwrap(), 20, &names);
        let end = FileIoOperationEnd { irp, extra_info: 7, status: 0xC000_0034 };
        check_file(&SameFields::from_event(&end).unwrap(), 24, &["Irp", "ExtraInformation", "Status"]);
    }

    #[test]
    fn the_network() {
        let ends: [[IpAddr; 2]; 2] = [
            [Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::LOCALHOST.into()],
            [Ipv6Addr::LOCALHOST.into(), Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 7).into()],
        ];
        for ([destination, source], v6) in ends.into_iter().zip([0, 16]) {
            let (destination, source) = (SocketAddr::new(destination, 80), SocketAddr::new(source, 40_000));
            let endpoints = Endpoints { destination, source };
            let (process_id, len_bytes, sequence_number, connection_id) = (7, 1000, 5, 0xFFFF_8881_0000_0040);
            let (start_time, end_time) = (11, 12);
            check(
                &TcpSend {
                    process_id,
                    len_bytes,
                    endpoints,
                    start_time,
                    end_time,
                    sequence_number,
                    connection_id,
                },
                10 + v6,
            );
            for (event, id) in [
                (TcpEvent::Receive, 11),
                (TcpEvent::Disconnect, 13),
                (TcpEvent::Retransmit, 14),
                (TcpEvent::Reconnect, 16),
            ] {
                check(
                    &TcpIp { event, process_id, len_bytes, endpoints, sequence_number, connection_id },
                    id + v6,
                );
            }
            for (event, id) in [(TcpConnectEvent::Connect, 12), (TcpConnectEvent::Accept, 15)] {
                let connect = TcpConnect {
                    event,
                    process_id,
                    endpoints,
                    mss: 1460,
                    has_sack: true,
                    has_timestamps: false,
                    has_window_scale: true,
                    receive_window: 65_535,
                    receive_window_scale: 7,
                    send_window_scale: 8,
                    sequence_number,
                    connection_id,
                };
                check(&connect, id + v6);
            }
            for (event, id) in [(UdpEvent::Send, 42), (UdpEvent::Receive, 43)] {
                check(
                    &UdpIp { event, process_id, len_bytes, endpoints, sequence_number, connection_id },
                    id + v6,
                );
            }
        }
        for (protocol, id) in [(Protocol::Tcp, 17), (Protocol::Udp, 49)] {
            check(&NetworkFail { protocol, family: 2, failure_code: 4 }, id);
        }
    }
}
