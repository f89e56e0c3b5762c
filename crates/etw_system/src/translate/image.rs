//! Images that processes load and unload.

use etw_capture::images::ImageStep;
use etw_kernel_events::classes::{ImageEvent, RecordBuffer, Stamp};

/// Writes images as loaded, each with its build id, or as unloaded.
pub(crate) fn put_steps(steps: &[ImageStep], is_load: bool, stamp: &Stamp, records: &mut RecordBuffer) {
    for ImageStep { process_id, image, .. } in steps.iter().filter(|step| step.is_load == is_load) {
        let event = if is_load { ImageEvent::Load } else { ImageEvent::Unload };
        records.put(stamp, &image.event(event, *process_id));
        if let Some(debug_id) = image.debug_id(*process_id).filter(|_| is_load) {
            records.put(stamp, &debug_id);
        }
    }
}
