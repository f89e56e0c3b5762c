//! Words of private memory as bytes.

// UNSAFETY: sees integers as the bytes that they consist of.
#![expect(unsafe_code)]

use std::sync::atomic::AtomicU64;

/// Returns the bytes of words in memory order.
#[inline]
pub fn bytes_of(words: &[u64]) -> &[u8] {
    // SAFETY: the bytes of the words are all initialised, need no alignment, and are borrowed like the words.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// Returns the bytes of atomic words in memory order. Nobody else can store to them meanwhile.
#[inline]
pub fn bytes_of_atomics(words: &mut [AtomicU64]) -> &[u8] {
    // SAFETY: an atomic word has the size and bytes of its integer, and the exclusive borrow excludes other accesses while
    // the bytes are borrowed.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// Returns the bytes of words in memory order, for writing.
#[inline]
pub fn bytes_of_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: as above; every value of the bytes is one of the words, and nobody else has them meanwhile.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_words() {
        let mut words = [1u64, u64::from_ne_bytes([9; 8])];
        assert_eq!(bytes_of(&words)[..8], 1u64.to_ne_bytes());
        bytes_of_mut(&mut words)[8] = 5;
        assert_eq!(words[1].to_ne_bytes(), [5, 9, 9, 9, 9, 9, 9, 9]);
        assert!(bytes_of(&[]).is_empty());
        let mut atomics = words.map(AtomicU64::new);
        assert_eq!(bytes_of_atomics(&mut atomics), bytes_of(&words));
    }
}
