//! Bounds-checked little-endian reads; the only place that turns offsets into integers.

use crate::Guid;

/// Reads little-endian fields at byte offsets of a slice. Every method returns `None` past the end.
pub trait Fields {
    /// Returns the `N` bytes at `offset`.
    fn array_at<const N: usize>(&self, offset: usize) -> Option<[u8; N]>;

    /// Returns the byte at `offset`.
    fn u8_at(&self, offset: usize) -> Option<u8> {
        self.array_at::<1>(offset).map(|[byte]| byte)
    }
    /// Returns the 16-bit integer at `offset`.
    fn u16_at(&self, offset: usize) -> Option<u16> {
        self.array_at(offset).map(u16::from_le_bytes)
    }
    /// Returns the 32-bit integer at `offset`.
    fn u32_at(&self, offset: usize) -> Option<u32> {
        self.array_at(offset).map(u32::from_le_bytes)
    }
    /// Returns the 64-bit integer at `offset`.
    fn u64_at(&self, offset: usize) -> Option<u64> {
        self.array_at(offset).map(u64::from_le_bytes)
    }
    /// Returns the signed 64-bit integer at `offset`.
    fn i64_at(&self, offset: usize) -> Option<i64> {
        self.array_at(offset).map(i64::from_le_bytes)
    }
    /// Returns the GUID at `offset`, in Windows memory order.
    fn guid_at(&self, offset: usize) -> Option<Guid> {
        self.array_at(offset).map(Guid::from_bytes)
    }
}

impl Fields for [u8] {
    #[inline]
    fn array_at<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.get(offset..)?.first_chunk::<N>().copied()
    }
}
