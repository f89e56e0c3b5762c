//! A reference that threads change and read without locks.

// UNSAFETY: turns the pointer that is stored back into the reference that it was.
#![expect(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// An optional `'static` reference that all threads may change and read.
///
/// What is stored is never freed, so reading takes one load and is allowed in signal handlers.
pub struct AtomicRef<T: 'static> {
    pointer: AtomicPtr<T>,
    /// Makes this as shareable as the reference itself is.
    reference: PhantomData<&'static T>,
}

impl<T> AtomicRef<T> {
    /// Creates an empty place.
    pub const fn none() -> AtomicRef<T> {
        AtomicRef { pointer: AtomicPtr::new(ptr::null_mut()), reference: PhantomData }
    }

    /// Returns the reference. Everything written before it was stored is visible.
    #[inline(always)]
    pub fn load(&self) -> Option<&'static T> {
        // SAFETY: the pointer is null or was made of a `&'static T` in `store` or `replace`.
        unsafe { self.pointer.load(Ordering::Acquire).as_ref() }
    }

    /// Stores a reference, or clears the place.
    pub fn store(&self, reference: Option<&'static T>) {
        self.pointer.store(pointer_of(reference), Ordering::Release);
    }

    /// Stores `new` if the current reference is `old`, compared by address. Returns whether it was.
    pub fn replace(&self, old: Option<&'static T>, new: Option<&'static T>) -> bool {
        let (old, new) = (pointer_of(old), pointer_of(new));
        self.pointer.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

fn pointer_of<T>(reference: Option<&'static T>) -> *mut T {
    reference.map_or(ptr::null_mut(), |reference| ptr::from_ref(reference).cast_mut())
}

impl<T> Default for AtomicRef<T> {
    fn default() -> AtomicRef<T> {
        AtomicRef::none()
    }
}

impl<T: fmt::Debug> fmt::Debug for AtomicRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AtomicRef").field(&self.load()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_come_back() {
        static PLACE: AtomicRef<String> = AtomicRef::none();
        assert_eq!(PLACE.load(), None);
        let one: &'static String = Box::leak(Box::new("one".to_owned()));
        assert!(PLACE.replace(None, Some(one)));
        assert!(!PLACE.replace(None, Some(one)));
        assert_eq!(PLACE.load().map(String::as_str), Some("one"));
        PLACE.store(None);
        assert_eq!(PLACE.load(), None);
    }
}
