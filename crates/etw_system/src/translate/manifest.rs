//! The events of the kernel's manifest providers: the same captured events in another format.

use etw_capture::images::ImageStep;
use etw_capture::linux;
use etw_capture::records::{Body, Event, File};
use etw_event::Ticks;
use etw_kernel_events::classes::{FileIoName, RecordBuffer, Stamp};
use etw_kernel_events::providers::{
    Disk, DiskEvent, DiskFlush, FILE_PROVIDER, ImageMap, ImageMapEvent, ManifestEvent, MemInfo, Process,
    ProcessEvent, ProcessStop, Thread, ThreadEvent,
};

use super::audience::Audience;
use super::counted::Counted;
use super::file::Files;
use super::processes::Processes;
use super::{Translator, network};
use crate::clock::{SessionClock, filetime_of};
use crate::wants::{Enabled, FILE_OPERATIONS};

/// Writes the records of an event for a session that has enabled these providers, and returns their number.
pub(crate) fn translate(
    translator: &mut Translator,
    event: &Event<'_>,
    enabled: &[Enabled],
    clock: &SessionClock,
    records: &mut RecordBuffer,
) -> usize {
    if enabled.is_empty() {
        return 0;
    }
    let Translator { processes, files, .. } = translator;
    // Other events are translated before those of all processors are in order.
    let is_in_order = matches!(event.body, Body::Fork(_) | Body::Exec(_) | Body::Exit { .. });
    let mut put = Put { audience: Audience { processes, enabled, is_in_order }, records, count: 0 };
    let stamp = Stamp::new(Ticks(clock.of(event.time) as i64), event.process_id, event.thread_id);
    match event.body {
        Body::Fork(fork) => {
            let (process_id, thread_id) = (fork.process_id, fork.thread_id);
            put.put(&stamp, &Thread { event: ThreadEvent::Start, process_id, thread_id });
        }
        Body::Exec(_) => put.put_process(&stamp, stamp.process_id, ProcessEvent::Start),
        Body::Exit { process_code, kernel_nanos, user_nanos, .. } => {
            let stamp = stamp.with_cpu_nanos(kernel_nanos, user_nanos);
            let (process_id, thread_id) = (event.process_id, event.thread_id);
            if process_code.is_some() {
                put.put_untold_start(&stamp);
            }
            put.put(&stamp, &Thread { event: ThreadEvent::Stop, process_id, thread_id });
            if let Some(code) = process_code {
                put.put_stop(&stamp, event.time, linux::exit_status(code));
            }
        }
        Body::DiskComplete { disk, issued, .. } => {
            let begun = issued.unwrap_or(event.time);
            let response_time = clock.of(event.time).saturating_sub(clock.of(begun));
            // A disk request completes on whichever thread its interrupt hits.
            let stamp = Stamp::new(stamp.time, disk.issuer_process_id, disk.issuer_thread_id);
            let disk_number = linux::disk_number(disk.device >> 20, disk.device);
            let transfer = |event| Disk {
                event,
                disk_number,
                transfer_size: disk.bytes,
                byte_offset: disk.sector.saturating_mul(512),
                file_object: disk.file,
                irp: disk.request,
                response_time,
            };
            match disk.operation & 0xFF {
                0 => put.put(&stamp, &transfer(DiskEvent::Read)),
                1 => put.put(&stamp, &transfer(DiskEvent::Write)),
                2 => put.put(&stamp, &DiskFlush { disk_number, response_time, irp: disk.request }),
                _ => {}
            }
        }
        Body::Network(happened) => {
            let stamp = Stamp::new(stamp.time, happened.process_id, happened.thread_id);
            let mut same = put.same();
            network::put(&happened, event.time, &stamp, &mut same);
            let count = same.count;
            put.count += count;
        }
        Body::File(file) => put.put_file(&file, files, &stamp),
        _ => {}
    }
    put.count
}

/// Writes the start of a process that runs no program of its own.
pub(crate) fn put_start(
    translator: &Translator,
    process_id: u32,
    time: Ticks,
    enabled: &[Enabled],
    records: &mut RecordBuffer,
) {
    let mut put = Put { audience: Audience::new(&translator.processes, enabled), records, count: 0 };
    put.put_process(&Stamp::new(time, process_id, process_id), process_id, ProcessEvent::Start);
}

/// Writes the running processes.
pub(crate) fn put_processes(
    translator: &Translator,
    time: Ticks,
    enabled: &[Enabled],
    records: &mut RecordBuffer,
) {
    let mut put = Put { audience: Audience::new(&translator.processes, enabled), records, count: 0 };
    for process_id in translator.processes.ids() {
        put.put_process(&Stamp::new(time, std::process::id(), 0), process_id, ProcessEvent::Rundown);
    }
}

/// Writes loaded or unloaded images.
pub(crate) fn put_images(
    translator: &Translator,
    steps: &[ImageStep],
    is_load: bool,
    stamp: &Stamp,
    enabled: &[Enabled],
    records: &mut RecordBuffer,
) {
    let audience = Audience::new(&translator.processes, enabled);
    let event = if is_load { ImageMapEvent::Load } else { ImageMapEvent::Unload };
    for ImageStep { process_id, image, .. } in steps.iter().filter(|step| step.is_load == is_load) {
        let (base, size) = (image.base, image.len_bytes);
        let image = ImageMap { event, base, size, process_id: *process_id, image_name: &image.path };
        // Processes map their images themselves.
        audience.put(&Stamp { process_id: *process_id, ..*stamp }, *process_id, &image, records);
    }
}

/// Writes memory usage.
pub(crate) fn put_memory(info: &MemInfo, time: Ticks, enabled: &[Enabled], records: &mut RecordBuffer) {
    let audience = Audience { processes: &Processes::default(), enabled, is_in_order: true };
    audience.put(&Stamp::new(time, 0, 0), 0, info, records);
}

/// Writes the name of a file.
pub(crate) fn put_name(
    name: &FileIoName<'_>,
    stamp: &Stamp,
    enabled: &[Enabled],
    records: &mut RecordBuffer,
) {
    Audience { processes: &Processes::default(), enabled, is_in_order: true }.put_same(stamp, name, records);
}

/// The destination of a session's records.
struct Put<'a> {
    audience: Audience<'a>,
    records: &'a mut RecordBuffer,
    count: usize,
}

impl Put<'_> {
    /// Writes an event caused by the process in its stamp, if it is wanted.
    fn put(&mut self, stamp: &Stamp, event: &impl ManifestEvent) {
        self.put_of(stamp, stamp.process_id, event);
    }

    /// Writes a process's event, if it is wanted.
    fn put_of(&mut self, stamp: &Stamp, process_id: u32, event: &impl ManifestEvent) {
        self.count += usize::from(self.audience.put(stamp, process_id, event, self.records));
    }

    /// Returns the destination of classic events whose fields equal those of manifest events.
    fn same(&mut self) -> Counted<'_> {
        Counted::of_manifest(self.records, self.audience)
    }

    /// Writes file operations.
    fn put_file(&mut self, file: &File<'_>, files: &mut Files, stamp: &Stamp) {
        if self.audience.enabled.iter().any(|enabled| enabled.guid() == FILE_PROVIDER) {
            let mut same = self.same();
            files.put(file, FILE_OPERATIONS, stamp, &mut same);
            let count = same.count;
            self.count += count;
        }
    }

    /// Writes the start of the event's process, unless it has been written.
    fn put_untold_start(&mut self, stamp: &Stamp) {
        if self.audience.processes.get(stamp.process_id).is_some_and(|known| !known.is_told) {
            self.put_process(stamp, stamp.process_id, ProcessEvent::Start);
        }
    }

    fn put_process(&mut self, stamp: &Stamp, process_id: u32, event: ProcessEvent) {
        let processes = self.audience.processes;
        let Some(known) = processes.get(process_id) else { return };
        let process = Process {
            event,
            process_id,
            sequence_number: known.key,
            create_time: known.created,
            parent_id: known.parent_id,
            parent_sequence_number: processes.get(known.parent_id).map_or(0, |parent| parent.key),
            session_id: known.session_id,
            uid: known.uid,
            image_name: known.path(),
        };
        self.put_of(stamp, process_id, &process);
    }

    fn put_stop(&mut self, stamp: &Stamp, monotonic: u64, exit_code: i32) {
        let Some(known) = self.audience.processes.get(stamp.process_id) else { return };
        let stop = ProcessStop {
            process_id: stamp.process_id,
            sequence_number: known.key,
            create_time: known.created,
            exit_time: filetime_of(monotonic),
            exit_code,
            image_name: &known.image,
        };
        self.put(stamp, &stop);
    }
}
