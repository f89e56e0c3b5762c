//! Hints for the processor's caches.

// UNSAFETY: the intrinsic takes a raw pointer, and the instruction for writing has none.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code))]

/// Prefetches the cache line at `offset` of `bytes`, which will be read soon. Does nothing past the end, and on
/// processors other than x86-64.
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

/// Prefetches the cache lines of `words` words, starting `offset` words after `first`, which will be written soon. The
/// memory need not exist. Does nothing on processors other than x86-64.
#[inline(always)]
pub fn prefetch_for_writing<T>(first: &T, offset: usize, words: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..words.div_ceil(8) {
        let address = std::ptr::from_ref(first).cast::<u64>().wrapping_add(offset + line * 8);
        // SAFETY: a prefetch neither reads nor writes nor faults, wherever the pointer leads.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (first, offset, words);
}
