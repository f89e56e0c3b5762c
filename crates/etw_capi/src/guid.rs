//! GUIDs of C, which have the bytes of ours.

// UNSAFETY: reads and writes through pointers of callers.
#![expect(unsafe_code)]

use etw_event::Guid;
use windows_sys::core::GUID;

/// Returns the GUID at a pointer; `None` if it is null.
///
/// # Safety
///
/// The pointer is null or points to 16 readable bytes.
pub(crate) unsafe fn read(guid: *const GUID) -> Option<Guid> {
    if guid.is_null() {
        return None;
    }
    // SAFETY: the caller's promise; the type of the copy has no alignment.
    Some(Guid::from_bytes(unsafe { guid.cast::<[u8; 16]>().read() }))
}

/// Returns a GUID as C has it.
pub(crate) fn windows_guid(guid: Guid) -> GUID {
    let [a, b, c, d, e, f, g, h, data4 @ ..] = guid.to_bytes();
    GUID {
        data1: u32::from_le_bytes([a, b, c, d]),
        data2: u16::from_le_bytes([e, f]),
        data3: u16::from_le_bytes([g, h]),
        data4,
    }
}

/// Returns one of our GUIDs.
pub(crate) fn from(guid: &GUID) -> Guid {
    let [a, b, c, d] = guid.data1.to_le_bytes();
    let ([e, f], [g, h]) = (guid.data2.to_le_bytes(), guid.data3.to_le_bytes());
    let [i, j, k, l, m, n, o, p] = guid.data4;
    Guid::from_bytes([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let guid = Guid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
        let c = windows_guid(guid);
        assert_eq!((c.data1, c.data2, c.data3, c.data4[7]), (0x0102_0304, 0x0506, 0x0708, 0x10));
        assert_eq!(from(&c), guid);
        // SAFETY: the pointer is to a GUID, or null.
        assert_eq!(unsafe { (read(&c), read(std::ptr::null())) }, (Some(guid), None));
    }
}
