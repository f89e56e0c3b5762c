//! Activity ids of threads, as the words that records have.

// UNSAFETY: calls a function of Windows.
#![expect(unsafe_code)]

use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_ACTIVITY_CTRL_CREATE_ID, EVENT_ACTIVITY_CTRL_GET_ID, EVENT_ACTIVITY_CTRL_GET_SET_ID,
    EventActivityIdControl,
};

use super::{guid_of_words, words_of_guid};

/// Returns the activity of this thread's events; zeros if none was set.
#[inline]
pub fn activity() -> [u64; 2] {
    control(EVENT_ACTIVITY_CTRL_GET_ID, [0; 2])
}

/// Sets the thread's activity and returns the previous one.
pub fn replace_activity(activity: [u64; 2]) -> [u64; 2] {
    control(EVENT_ACTIVITY_CTRL_GET_SET_ID, activity)
}

/// Returns a new activity id, unique on this machine.
pub fn create_activity() -> [u64; 2] {
    control(EVENT_ACTIVITY_CTRL_CREATE_ID, [0; 2])
}

fn control(code: u32, words: [u64; 2]) -> [u64; 2] {
    let mut guid = guid_of_words(words);
    // SAFETY: the GUID lives until the call returns. With these codes the function cannot fail.
    unsafe { EventActivityIdControl(code, &raw mut guid) };
    words_of_guid(&guid)
}
