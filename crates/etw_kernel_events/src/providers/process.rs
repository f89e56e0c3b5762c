//! Microsoft-Windows-Kernel-Process.

use crate::provider_guids::PROCESS_PROVIDER;
use etw_event::{EventDescriptor, FileTime};

use super::{analytic, manifest_event};
use crate::classes::field::{MandatoryLabel, Narrow, Wide};

const KEYWORD_PROCESS: u64 = 0x10;
const KEYWORD_THREAD: u64 = 0x20;
const KEYWORD_IMAGE: u64 = 0x40;

pub(super) const START: EventDescriptor = analytic(1, 3, 1, 1, KEYWORD_PROCESS);
pub(super) const STOP: EventDescriptor = analytic(2, 2, 2, 2, KEYWORD_PROCESS);
pub(super) const THREAD_START: EventDescriptor = analytic(3, 1, 3, 1, KEYWORD_THREAD);
pub(super) const THREAD_STOP: EventDescriptor = analytic(4, 1, 4, 2, KEYWORD_THREAD);
pub(super) const IMAGE_LOAD: EventDescriptor = analytic(5, 0, 5, 0, KEYWORD_IMAGE);
pub(super) const IMAGE_UNLOAD: EventDescriptor = analytic(6, 0, 6, 0, KEYWORD_IMAGE);
pub(super) const RUNDOWN: EventDescriptor = analytic(15, 1, 15, 0, KEYWORD_PROCESS);

/// `TokenElevationTypeDefault`: a user has no second set of rights.
const ELEVATION_TYPE_DEFAULT: u32 = 1;

/// The kind of event about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProcessEvent {
    /// It starts.
    Start,
    /// It exists.
    Rundown,
}

/// A process starts or exists (`ProcessStart_V3`, `ProcessRundown_V1`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process<'a> {
    /// The kind of event.
    pub event: ProcessEvent,
    /// Id.
    pub process_id: u32,
    /// A number that is unique among the processes of this boot.
    pub sequence_number: u64,
    /// Creation time.
    pub create_time: FileTime,
    /// Id of the process that created it.
    pub parent_id: u32,
    /// The unique number of that process; 0 if unknown.
    pub parent_sequence_number: u64,
    /// Session that it belongs to.
    pub session_id: u32,
    /// The user whose rights it has; 0 counts as elevated.
    pub uid: u32,
    /// Path of its program.
    pub image_name: &'a [u8],
}

// Flags, checksum and time stamp of the image, package and application have no counterpart.
manifest_event! {
    Process<'_>, PROCESS_PROVIDER, |e| match e.event {
        ProcessEvent::Start => START,
        ProcessEvent::Rundown => RUNDOWN,
    };
    e.process_id, e.sequence_number, e.create_time.0, e.parent_id, e.parent_sequence_number, e.session_id, 0_u32,
    ELEVATION_TYPE_DEFAULT, u32::from(e.uid == 0), MandatoryLabel { is_high: e.uid == 0 }, Wide(e.image_name), 0_u32,
    0_u32, Wide(b""), Wide(b""),
}

/// A process has ended (`ProcessStop_V2`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStop<'a> {
    /// Id.
    pub process_id: u32,
    /// The unique number, as at its start.
    pub sequence_number: u64,
    /// Creation time.
    pub create_time: FileTime,
    /// End time.
    pub exit_time: FileTime,
    /// Exit status.
    pub exit_code: i32,
    /// Name of its program's file, without its directory.
    pub image_name: &'a [u8],
}

// Handles, memory, cycles, operations and faults are not reported.
manifest_event! {
    ProcessStop<'_>, PROCESS_PROVIDER, |e| STOP;
    e.process_id, e.sequence_number, e.create_time.0, e.exit_time.0, e.exit_code, ELEVATION_TYPE_DEFAULT, 0_u32, 0_u64,
    0_u64, 0_u64, 0_u32, 0_u32, 0_u32, 0_u32, 0_u32, Narrow(e.image_name),
}

/// The kind of event about a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ThreadEvent {
    /// It starts.
    Start,
    /// It has ended.
    Stop,
}

/// A thread (`ThreadStart_V1`, `ThreadStop_V1`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// The kind of event.
    pub event: ThreadEvent,
    /// Its process.
    pub process_id: u32,
    /// Id.
    pub thread_id: u32,
}

/// Stacks, start addresses, environment block and service tag, which have no counterpart, and the cycles of a thread's
/// end.
struct ThreadRest(ThreadEvent);

impl crate::classes::Field for ThreadRest {
    fn put(&self, to: &mut crate::classes::Payload<'_>) {
        to.put([0_u64; 7]);
        to.put(0_u32);
        if self.0 == ThreadEvent::Stop {
            to.put(0_u64);
        }
    }
}

manifest_event! {
    Thread, PROCESS_PROVIDER, |e| match e.event {
        ThreadEvent::Start => THREAD_START,
        ThreadEvent::Stop => THREAD_STOP,
    };
    e.process_id, e.thread_id, ThreadRest(e.event),
}

/// The kind of event about an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImageMapEvent {
    /// It is mapped.
    Load,
    /// It is unmapped.
    Unload,
}

/// An image of a process (`ImageLoad`, `ImageUnload`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageMap<'a> {
    /// The kind of event.
    pub event: ImageMapEvent,
    /// Base address.
    pub base: u64,
    /// Size in bytes.
    pub size: u64,
    /// Its process.
    pub process_id: u32,
    /// Path of its file.
    pub image_name: &'a [u8],
}

// Checksum, time stamp and preferred base are those of PE images.
manifest_event! {
    ImageMap<'_>, PROCESS_PROVIDER, |e| match e.event {
        ImageMapEvent::Load => IMAGE_LOAD,
        ImageMapEvent::Unload => IMAGE_UNLOAD,
    };
    e.base, e.size, e.process_id, 0_u32, 0_u32, 0_u64, Wide(e.image_name),
}

#[cfg(test)]
mod tests {
    use super::super::super::classes::testing::check_manifest;
    use super::*;

    const CREATED: FileTime = FileTime(132_760_000_000_000_000);
    const CREATED_TEXT: &str = "2021-09-13T09:46:40.0000000Z";

    #[test]
    fn fields_are_read_back() {
        for (event, uid, elevated, label) in
            [(ProcessEvent::Start, 0, "1", "S-1-16-12288"), (ProcessEvent::Rundown, 1000, "0", "S-1-16-8192")]
        {
            let process = Process {
                event,
                process_id: 4711,
                sequence_number: 77,
                create_time: CREATED,
                parent_id: 1,
                parent_sequence_number: 5,
                session_id: 3,
                uid,
                image_name: "/usr/bin/größe".as_bytes(),
            };
            check_manifest(
                &process,
                &[
                    ("ProcessID", "4711"),
                    ("ProcessSequenceNumber", "77"),
                    ("CreateTime", CREATED_TEXT),
                    ("ParentProcessID", "1"),
                    ("ParentProcessSequenceNumber", "5"),
                    ("SessionID", "3"),
                    ("Flags", "0"),
                    ("ProcessTokenElevationType", "1"),
                    ("ProcessTokenIsElevated", elevated),
                    ("MandatoryLabel", label),
                    ("ImageName", "/usr/bin/größe"),
                    ("ImageChecksum", "0"),
                    ("TimeDateStamp", "0"),
                    ("PackageFullName", ""),
                    ("PackageRelativeAppId", ""),
                ],
            );
        }
        let stop = ProcessStop {
            process_id: 4711,
            sequence_number: 77,
            create_time: CREATED,
            exit_time: FileTime(CREATED.0 + 5),
            exit_code: 3,
            image_name: b"make",
        };
        check_manifest(
            &stop,
            &[
                ("ProcessID", "4711"),
                ("ProcessSequenceNumber", "77"),
                ("CreateTime", CREATED_TEXT),
                ("ExitTime", "2021-09-13T09:46:40.0000005Z"),
                ("ExitCode", "3"),
                ("TokenElevationType", "1"),
                ("HandleCount", "0"),
                ("CommitCharge", "0"),
                ("CommitPeak", "0"),
                ("CPUCycleCount", "0"),
                ("ReadOperationCount", "0"),
                ("WriteOperationCount", "0"),
                ("ReadTransferKiloBytes", "0"),
                ("WriteTransferKiloBytes", "0"),
                ("HardFaultCount", "0"),
                ("ImageName", "make"),
            ],
        );
    }

    #[test]
    fn threads_and_images_are_read_back() {
        let mut expected = vec![
            ("ProcessID", "4711"),
            ("ThreadID", "4712"),
            ("StackBase", "0x0"),
            ("StackLimit", "0x0"),
            ("UserStackBase", "0x0"),
            ("UserStackLimit", "0x0"),
            ("StartAddr", "0x0"),
            ("Win32StartAddr", "0x0"),
            ("TebBase", "0x0"),
            ("SubProcessTag", "0"),
        ];
        let thread = |event| Thread { event, process_id: 4711, thread_id: 4712 };
        check_manifest(&thread(ThreadEvent::Start), &expected);
        expected.push(("CycleTime", "0"));
        check_manifest(&thread(ThreadEvent::Stop), &expected);
        for event in [ImageMapEvent::Load, ImageMapEvent::Unload] {
            let (base, size, process_id) = (0x7F00_0000_0000, 0x2_1000, 4711);
            let image = ImageMap { event, base, size, process_id, image_name: b"/usr/lib/libc.so.6" };
            check_manifest(
                &image,
                &[
                    ("ImageBase", "0x7f0000000000"),
                    ("ImageSize", "0x21000"),
                    ("ProcessID", "4711"),
                    ("ImageCheckSum", "0"),
                    ("TimeDateStamp", "0"),
                    ("DefaultBase", "0x0"),
                    ("ImageName", "/usr/lib/libc.so.6"),
                ],
            );
        }
    }
}
