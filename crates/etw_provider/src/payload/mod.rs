//! Payloads: the data of an event, written directly into its record.
//!
//! ```
//! use etw_provider::payload::{Counted16, Nul8, Payload};
//!
//! // A number, text with a terminator, text with a length.
//! let payload = (7u32, Nul8("abc"), Counted16("de"));
//! assert_eq!(payload.len_bytes(), 4 + 4 + 6);
//! ```

mod text;
mod writer;

use std::mem::size_of;

use etw_event::Guid;

pub use text::{Counted8, Counted16, CountedBytes, Nul8, Nul16, Units16};
pub use writer::PayloadWriter;

/// A value that can be an event's payload or a part of it.
///
/// Parts follow each other without gaps, in the layout given by the event's schema. Implemented for
///
/// | type | bytes |
/// |---|---|
/// | integers, `f32`, `f64`, [`Guid`] | little-endian |
/// | `&str` | UTF-16 and a zero (`win:UnicodeString`) |
/// | [`Nul8`], [`Nul16`], [`Counted8`], [`Counted16`], [`CountedBytes`] | the other forms of text and binary data |
/// | `&[T]`, `[T; N]` | the elements, without a count |
/// | tuples of up to twelve, [`Chain`] | the parts in order |
///
/// ```
/// use etw_provider::payload::{Nul8, Payload};
/// assert_eq!((7u32, "abc", Nul8("abc")).len_bytes(), 4 + 8 + 4);
/// ```
pub trait Payload {
    /// Returns the exact number of bytes that [`Payload::put`] writes.
    fn len_bytes(&self) -> usize;

    /// Writes the bytes.
    fn put(&self, out: &mut PayloadWriter<'_>);

    /// Returns the number of bytes of a slice.
    #[doc(hidden)]
    #[inline]
    fn slice_len_bytes(slice: &[Self]) -> usize
    where
        Self: Sized,
    {
        slice.iter().map(Payload::len_bytes).sum()
    }

    /// Writes a slice.
    #[doc(hidden)]
    #[inline]
    fn put_slice(slice: &[Self], out: &mut PayloadWriter<'_>)
    where
        Self: Sized,
    {
        for element in slice {
            element.put(out);
        }
    }
}

macro_rules! numbers {
    ($($type:ident $bits:ident $(, $to_bits:ident)?;)*) => {
        $(impl Payload for $type {
            #[inline(always)]
            fn len_bytes(&self) -> usize {
                size_of::<$type>()
            }

            #[inline(always)]
            fn put(&self, out: &mut PayloadWriter<'_>) {
                out.put(u64::from(numbers!(@ self $bits $($to_bits)?)), size_of::<$type>() as u32);
            }

            #[inline]
            fn slice_len_bytes(slice: &[$type]) -> usize {
                size_of_val(slice)
            }
        })*
    };
    (@ $self:ident $bits:ident) => { *$self as $bits };
    (@ $self:ident $bits:ident $to_bits:ident) => { $self.$to_bits() };
}

numbers! {
    i8 u8; u16 u16; i16 u16; u32 u32; i32 u32; u64 u64; i64 u64;
    f32 u32, to_bits; f64 u64, to_bits;
}

impl Payload for u8 {
    #[inline(always)]
    fn len_bytes(&self) -> usize {
        1
    }

    #[inline(always)]
    fn put(&self, out: &mut PayloadWriter<'_>) {
        out.put(u64::from(*self), 1);
    }

    #[inline]
    fn slice_len_bytes(slice: &[u8]) -> usize {
        slice.len()
    }

    #[inline]
    fn put_slice(slice: &[u8], out: &mut PayloadWriter<'_>) {
        out.put_bytes(slice);
    }
}

impl Payload for Guid {
    #[inline(always)]
    fn len_bytes(&self) -> usize {
        16
    }

    #[inline(always)]
    fn put(&self, out: &mut PayloadWriter<'_>) {
        for word in guid_words(self) {
            out.put(word, 8);
        }
    }
}

impl Payload for str {
    #[inline]
    fn len_bytes(&self) -> usize {
        Nul16(self).len_bytes()
    }

    #[inline]
    fn put(&self, out: &mut PayloadWriter<'_>) {
        Nul16(self).put(out);
    }
}

impl<T: Payload> Payload for [T] {
    #[inline]
    fn len_bytes(&self) -> usize {
        T::slice_len_bytes(self)
    }

    #[inline]
    fn put(&self, out: &mut PayloadWriter<'_>) {
        T::put_slice(self, out);
    }
}

impl<T: Payload, const N: usize> Payload for [T; N] {
    #[inline]
    fn len_bytes(&self) -> usize {
        T::slice_len_bytes(self)
    }

    #[inline]
    fn put(&self, out: &mut PayloadWriter<'_>) {
        T::put_slice(self, out);
    }
}

impl<T: Payload + ?Sized> Payload for &T {
    #[inline(always)]
    fn len_bytes(&self) -> usize {
        (**self).len_bytes()
    }

    #[inline(always)]
    fn put(&self, out: &mut PayloadWriter<'_>) {
        (**self).put(out);
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {
        $(impl<$($name: Payload),*> Payload for ($($name,)*) {
            #[inline(always)]
            fn len_bytes(&self) -> usize {
                #[allow(non_snake_case, reason = "the names are those of the types")]
                let ($($name,)*) = self;
                0 $(+ $name.len_bytes())*
            }

            #[inline(always)]
            fn put(&self, _out: &mut PayloadWriter<'_>) {
                #[allow(non_snake_case, reason = "the names are those of the types")]
                let ($($name,)*) = self;
                $($name.put(_out);)*
            }
        })*
    };
}

tuples! {
    () (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H)
    (A B C D E F G H I) (A B C D E F G H I J) (A B C D E F G H I J K) (A B C D E F G H I J K L)
}

/// Two payloads in sequence; [`Chain::and`] appends any number.
#[derive(Debug, Clone, Copy)]
pub struct Chain<A, B>(A, B);

impl Chain<(), ()> {
    /// The empty chain.
    pub const EMPTY: Chain<(), ()> = Chain((), ());
}

impl<A, B> Chain<A, B> {
    /// Appends `next`.
    #[inline(always)]
    pub fn and<C: Payload>(self, next: C) -> Chain<Chain<A, B>, C> {
        Chain(self, next)
    }
}

impl<A: Payload, B: Payload> Payload for Chain<A, B> {
    #[inline(always)]
    fn len_bytes(&self) -> usize {
        self.0.len_bytes() + self.1.len_bytes()
    }

    #[inline(always)]
    fn put(&self, out: &mut PayloadWriter<'_>) {
        self.0.put(out);
        self.1.put(out);
    }
}

/// Returns a GUID's sixteen bytes as two words.
#[inline(always)]
pub(crate) const fn guid_words(guid: &Guid) -> [u64; 2] {
    let b = guid.to_bytes();
    [
        u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
        u64::from_le_bytes([b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]]),
    ]
}
