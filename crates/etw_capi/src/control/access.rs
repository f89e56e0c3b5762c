//! `EventAccessControl` and its like.
//!
//! Rights here are those of the [access list](etw_protocol), a file of the administrator that the host reads when it starts.
//! Without a rule, a user has all rights to the sessions and providers that are the user's own, root to all, and everyone may
//! register providers. These functions tell that, and agree to what it grants already; no request changes it.

// UNSAFETY: exports symbols with the names of Windows' functions, and reads and writes what callers point to.
#![expect(unsafe_code)]

use std::ffi::c_void;

use etw_sys::credentials::effective_uid;
use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENTSECURITYOPERATION, EventSecurityAddDACL, EventSecurityMax,
};
use windows_sys::core::GUID;

use crate::error::{
    ERROR_ACCESS_DENIED, ERROR_INVALID_PARAMETER, ERROR_MORE_DATA, ERROR_NOT_SUPPORTED, ERROR_SUCCESS,
};
use crate::guest::guest;

/// `TRACELOG_REGISTER_GUIDS`, and all rights (`TRACELOG_ALL`).
const REGISTER: u32 = 0x800;
const ALL: u32 = 0x12_0FFF;

/// A SID: its authority and the numbers after it.
type Sid = (u8, Vec<u32>);

/// Everyone, the system, and administrators.
fn everyone() -> Sid {
    (1, vec![0])
}
fn system() -> Sid {
    (5, vec![18])
}
fn administrators() -> Sid {
    (5, vec![32, 544])
}

/// Returns the SIDs of the user of this process: that of Samba for a Unix user and, for a Windows program, that of Wine.
fn own() -> Vec<Sid> {
    let of_wine = || (5, vec![21, 0, 0, 0, 1000]);
    let mut own = vec![(22, vec![1, effective_uid()])];
    own.extend(guest().map(|_| of_wine()));
    own
}

/// Agrees to add rights for somebody who has them anyway: the user of this process, the system and administrators, and everyone
/// where it is the right to register. Others get rights only from the access list (`ERROR_ACCESS_DENIED`), which cannot be
/// replaced from here; and nobody is audited (`ERROR_NOT_SUPPORTED`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventAccessControl(
    guid: *const GUID,
    operation: EVENTSECURITYOPERATION,
    sid: *const c_void,
    rights: u32,
    allow: u8,
) -> u32 {
    if guid.is_null() || !(0..EventSecurityMax).contains(&operation) {
        return ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the caller promises a SID.
    let Some(sid) = (unsafe { read(sid.cast()) }) else { return ERROR_INVALID_PARAMETER };
    if operation != EventSecurityAddDACL {
        return ERROR_NOT_SUPPORTED;
    }
    let has_all = sid == system() || sid == administrators() || own().contains(&sid);
    let has_them = has_all || (sid == everyone() && rights == REGISTER);
    if allow != 0 && has_them { ERROR_SUCCESS } else { ERROR_ACCESS_DENIED }
}

/// Writes who has which rights to a provider or session without a rule of the access list, as a security descriptor. With too
/// small a buffer, writes the size that is needed and returns `ERROR_MORE_DATA`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventAccessQuery(guid: *const GUID, descriptor: *mut c_void, size: *mut u32) -> u32 {
    if guid.is_null() || size.is_null() {
        return ERROR_INVALID_PARAMETER;
    }
    let found = security_descriptor();
    // SAFETY: the caller promises a number, and a buffer of as many bytes.
    unsafe {
        let room = size.read_unaligned() as usize;
        size.write_unaligned(found.len() as u32);
        if descriptor.is_null() || room < found.len() {
            return ERROR_MORE_DATA;
        }
        descriptor.cast::<u8>().copy_from_nonoverlapping(found.as_ptr(), found.len());
    }
    ERROR_SUCCESS
}

/// Would remove rights that [`EventAccessControl`] has set, of which there are none.
#[unsafe(no_mangle)]
pub extern "C" fn EventAccessRemove(guid: *const GUID) -> u32 {
    if guid.is_null() { ERROR_INVALID_PARAMETER } else { ERROR_SUCCESS }
}

/// Reads a SID; `None` if the pointer is null or the SID is not of revision 1.
///
/// # Safety
///
/// The pointer is null or to a SID.
unsafe fn read(sid: *const u8) -> Option<Sid> {
    if sid.is_null() {
        return None;
    }
    // SAFETY: the caller's promise; a SID has at most 15 numbers.
    unsafe {
        let (revision, count) = (sid.read(), sid.add(1).read());
        if revision != 1 || count > 15 {
            return None;
        }
        let numbers =
            (0..usize::from(count)).map(|index| sid.add(8 + 4 * index).cast::<u32>().read_unaligned());
        Some((sid.add(7).read(), numbers.collect()))
    }
}

/// Returns a descriptor relative to itself (`SECURITY_DESCRIPTOR_RELATIVE`): the administrators own everything.
fn security_descriptor() -> Vec<u8> {
    let bytes_of = |(authority, numbers): &Sid| {
        let mut bytes = vec![1, numbers.len() as u8, 0, 0, 0, 0, 0, *authority];
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes
    };
    let mut rules = vec![(everyone(), REGISTER), (system(), ALL), (administrators(), ALL)];
    rules.extend(own().into_iter().map(|sid| (sid, ALL)));
    let mut aces = Vec::new();
    for (sid, rights) in &rules {
        let sid = bytes_of(sid);
        // ACCESS_ALLOWED_ACE: type, flags, size, mask, SID.
        aces.extend([0, 0]);
        aces.extend((8 + sid.len() as u16).to_le_bytes());
        aces.extend(rights.to_le_bytes());
        aces.extend(sid);
    }
    let owner = bytes_of(&administrators());
    let header = 20u32;
    let [owner_at, group_at] = [header, header + owner.len() as u32];
    let dacl_at = group_at + owner.len() as u32;
    // SE_DACL_PRESENT and SE_SELF_RELATIVE.
    let mut descriptor = vec![1, 0, 0x04, 0x80];
    for offset in [owner_at, group_at, 0, dacl_at] {
        descriptor.extend(offset.to_le_bytes());
    }
    descriptor.extend_from_slice(&owner);
    descriptor.extend_from_slice(&owner);
    // ACL_REVISION, size, number of entries.
    descriptor.extend([2, 0]);
    descriptor.extend((8 + aces.len() as u16).to_le_bytes());
    descriptor.extend((rules.len() as u16).to_le_bytes());
    descriptor.extend([0, 0]);
    descriptor.extend(aces);
    descriptor
}
