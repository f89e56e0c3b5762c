//! Hints to the processor's caches.

// UNSAFETY: the intrinsic takes a raw pointer.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code))]

/// Asks the processor to fetch the cache line at `offset` of `bytes`, which will be read soon. Past the end nothing is
/// asked for. Only a hint; nothing on processors other than x86-64.
#[inline(always)]
pub fn prefetch(bytes: &[u8], offset: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(byte) = bytes.get(offset) {
        // SAFETY: the pointer comes from a reference, and a prefetch neither reads nor faults.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                std::ptr::from_ref(byte).cast(),
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, offset);
}
