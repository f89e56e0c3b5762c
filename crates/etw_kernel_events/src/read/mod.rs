//! Typed readers of the kernel's events: of all versions and sizes of pointers, borrowed and checked.
//!
//! A reader returns the fields of the layout that the event's version has, by the tables of this crate (`tables/`), in which a
//! line `reader NAME OPCODE…` makes one. A field that the version lacks, or behind the payload's end, is `None`.
//!
//! ```
//! use etw_event::{Origin, Record, Ticks};
//! use etw_kernel_events::classes::{CSwitch, RecordBuffer, Stamp};
//! use etw_kernel_events::read;
//!
//! let mut buffer = RecordBuffer::new();
//! let switch = CSwitch { new_thread_id: 7, old_thread_id: 8, ..CSwitch::default() };
//! buffer.put(&Stamp::new(Ticks(5), 0, 0), &switch);
//! let bytes: Vec<u8> = buffer.words().iter().flat_map(|word| word.to_le_bytes()).collect();
//! let origin = Origin::default();
//! let record = Record::parse(&bytes, &origin, Ticks(0))?;
//! assert_eq!(read::CSwitch::new(&record).new_thread_id(), Some(7));
//! # Ok::<(), etw_event::RecordError>(())
//! ```

mod fields;

use std::net::IpAddr;

use etw_event::{Guid, Record};

pub use fields::is_sid_behind_zeros;
use fields::{Fields, Kind, Layout, Place};

use crate::ids::{Class, EventId};

include!(concat!(env!("OUT_DIR"), "/read.rs"));

#[cfg(test)]
mod tests {
    use etw_etl::encode::RecordBuilder;
    use etw_event::{EventDescriptor, Opcode, Origin, PointerSize, Ticks};
    use etw_schema::{Located, Resolver};

    use super::*;
    use crate::ids::{self, Class};

    /// Returns a record of a class with a payload of bytes that are all different.
    fn record(id: EventId, version: u8, pointer: PointerSize, len: usize) -> Vec<u8> {
        let payload: Vec<u8> = (1..=len as u8).collect();
        let descriptor = EventDescriptor { version, opcode: Opcode(id.opcode()), ..Default::default() };
        let builder = RecordBuilder::full(pointer, id.class().guid(), &descriptor);
        builder.payload(&payload).build().unwrap()
    }

    /// Calls `check` with a record, and its decoded fields by name.
    fn with(
        id: EventId,
        version: u8,
        pointer: PointerSize,
        len: usize,
        check: impl FnOnce(&Record<'_>, &dyn Fn(&str) -> Option<u64>),
    ) {
        let bytes = record(id, version, pointer, len);
        // The library under test is another build of this crate than the one that builds records.
        let origin = Origin::default();
        let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
        let (mut resolver, mut located) = (Resolver::new(), Located::new());
        let schema = resolver.resolve(&record).unwrap().clone();
        let properties = schema.locate(&record, &mut located);
        check(&record, &|name| properties.try_get::<u64>(name));
    }

    #[test]
    fn fields_are_those_of_the_schema_in_every_version() {
        for pointer in [PointerSize::Four, PointerSize::Eight] {
            for version in 0..=4 {
                with(ids::DiskIo::READ, version, pointer, 64, |record, field| {
                    let read = DiskTransfer::new(record);
                    let context = format!("{version} {pointer:?}");
                    assert_eq!(read.transfer_size().map(u64::from), field("TransferSize"), "{context}");
                    assert_eq!(read.byte_offset(), field("ByteOffset"), "{context}");
                    assert_eq!(read.file_object(), field("FileObject"), "{context}");
                    assert_eq!(read.irp(), field("Irp"), "{context}");
                    assert_eq!(read.high_res_response_time(), field("HighResResponseTime"), "{context}");
                    assert_eq!(
                        read.issuing_thread_id().map(u64::from),
                        field("IssuingThreadId"),
                        "{context}"
                    );
                });
                with(ids::FileIo::WRITE, version.max(2), pointer, 64, |record, field| {
                    let write = FileOperation::new(record);
                    assert_eq!(write.irp_ptr(), field("IrpPtr"));
                    assert_eq!(write.io_size().map(u64::from), field("IoSize"));
                    assert_eq!(write.file_key(), field("FileKey"));
                    // A pointer in version 2, and a number of 32 bits from version 3 on.
                    assert_eq!(write.ttid(), field("TTID").map(|thread| thread as u32));
                    assert_eq!(write.open_path(), None);
                });
                with(ids::TcpIp::SEND_IPV4, version, pointer, 48, |record, field| {
                    let send = TcpTransfer::new(record);
                    assert_eq!(send.pid().map(u64::from), field("PID"));
                    assert_eq!(send.size().map(u64::from), field("size"));
                    assert_eq!(send.dport().map(u64::from), field("dport"));
                });
            }
        }
    }

    #[test]
    fn what_is_cut_is_none() {
        for len in 0..48 {
            let bytes = record(ids::Thread::C_SWITCH, 4, PointerSize::Eight, len);
            let origin = Origin::default();
            let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
            let switch = CSwitch::new(&record);
            assert_eq!(switch.new_thread_id().is_some(), len >= 4);
            assert_eq!(switch.old_thread_state().is_some(), len >= 15);
            assert_eq!(switch.new_thread_wait_time().is_some(), len >= 20);
        }
    }

    #[test]
    fn fields_behind_texts_are_found() {
        let mut payload = [0x11; 8 + 4 * 4 + 8 + 4].to_vec();
        // No SID.
        payload.extend([0; 4]);
        payload.extend(b"make\0");
        payload.extend("make -j\0".encode_utf16().flat_map(u16::to_le_bytes));
        let descriptor = EventDescriptor { version: 4, opcode: Opcode(1), ..Default::default() };
        let builder = RecordBuilder::full(PointerSize::Eight, Class::Process.guid(), &descriptor);
        let bytes = builder.clone().payload(&payload).build().unwrap();
        let origin = Origin::default();
        let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
        let process = ProcessInfo::new(&record);
        assert_eq!(process.user_sid(), Some(&[][..]));
        assert_eq!(process.image_file_name(), Some(&b"make"[..]));
        assert_eq!(process.command_line().map(<[u8]>::len), Some(14));
        assert_eq!(process.package_full_name(), None);
        // One of five numbers.
        let sid = [1, 5, 0, 0, 0, 0, 0, 5].into_iter().chain([9; 20]).collect::<Vec<u8>>();
        payload.splice(36..40, [[7; 16].to_vec(), sid.clone()].concat());
        let bytes = builder.payload(&payload).build().unwrap();
        let record = Record::parse(&bytes, &origin, Ticks(0)).unwrap();
        let process = ProcessInfo::new(&record);
        assert_eq!((process.user_sid(), process.image_file_name()), (Some(&sid[..]), Some(&b"make"[..])));
    }

    #[test]
    fn every_class_and_event_has_one_number() {
        for class in Class::ALL {
            assert_eq!(Class::from_guid(&class.guid()), Some(class));
        }
        for hook in 0..u16::MAX {
            let hook = etw_event::HookId(hook);
            let Some(id) = EventId::from_hook(hook) else { continue };
            assert_eq!(id.class().guid(), hook.class_guid(), "{hook:?}");
            // Loads are in the group of processes, so the one of images is not written.
            if id != ids::Image::LOAD {
                assert_eq!(id.hook_id(), hook);
            }
        }
    }
}
