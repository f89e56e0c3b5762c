//! The files of images, if the machine that reads a recording has them: where they begin in memory, their build ids, and
//! how frames of their functions are unwound.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod unwinder;
#[cfg(target_os = "linux")]
pub(super) use {linux::ImageFiles, unwinder::Unwinders};

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub(super) use other::{ImageFiles, Unwinders};
