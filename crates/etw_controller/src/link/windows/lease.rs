//! Sessions that belong to a process, and those that it left behind.
//!
//! Windows sessions do not end with their starter. The GUID of a leased session therefore contains the starter's process id
//! and start time, so that everybody can tell whether it still runs.

use etw_event::Guid;
use etw_sys::process;

/// The first bytes of such a GUID.
const MARK: [u8; 8] = *b"OETWls\x01\xA5";

/// Returns the GUID of a session of this process.
pub(super) fn guid_of_this_process() -> Guid {
    guid(std::process::id(), process::own_start())
}

/// Returns the process that a session belongs to.
pub(super) fn owner(session: &Guid) -> Option<u32> {
    parts(session).map(|(pid, _)| pid)
}

/// Whether the process that a session belongs to has ended.
pub(crate) fn is_orphan(session: &Guid) -> bool {
    parts(session).is_some_and(|(pid, start)| match process::start(pid) {
        Ok(running) => running.is_none_or(|running| short(running) != start),
        // It may run, as a process of another user.
        Err(_) => false,
    })
}

fn guid(pid: u32, start: u64) -> Guid {
    let mut bytes = [0; 16];
    let (mark, rest) = bytes.split_at_mut(8);
    let (of_pid, of_start) = rest.split_at_mut(4);
    mark.copy_from_slice(&MARK);
    of_pid.copy_from_slice(&pid.to_le_bytes());
    of_start.copy_from_slice(&short(start).to_le_bytes());
    Guid::from_bytes(bytes)
}

fn parts(session: &Guid) -> Option<(u32, u32)> {
    let rest = session.to_bytes();
    let rest = rest.strip_prefix(&MARK)?;
    let (pid, start) = rest.split_at(4);
    Some((u32::from_le_bytes(pid.try_into().ok()?), u32::from_le_bytes(start.try_into().ok()?)))
}

/// Returns a start time in units of about 6.5 ms, in 32 bits: it repeats after 325 days.
fn short(start: u64) -> u32 {
    (start >> 16) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_names_its_process() {
        let own = guid_of_this_process();
        assert_eq!(owner(&own), Some(std::process::id()));
        assert!(!is_orphan(&own));
        let other_start = guid(std::process::id(), process::own_start() + (1 << 20));
        assert!(is_orphan(&other_start));
        assert!(!is_orphan(&Guid::from_bytes([3; 16])));
        assert_eq!(owner(&Guid::ZERO), None);
    }
}
