//! Addresses of the kernel's functions for system calls and softirqs.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::OnceLock;

use syscalls::Sysno;

/// Addresses of the kernel's functions that events refer to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routines {
    system_calls: Vec<u64>,
    softirqs: [u64; SOFTIRQS.len()],
}

/// The kernel hides its addresses from this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the addresses in /proc/kallsyms are hidden from this process: \
     it needs CAP_SYSLOG, and /proc/sys/kernel/kptr_restrict must not be 2"
)]
pub struct AddressesHidden;

/// The functions of softirqs by number (`linux/interrupt.h`), with their names since Linux 5.10.
const SOFTIRQS: [&[&str]; 10] = [
    &["tasklet_hi_action"],
    &["run_timer_softirq"],
    &["net_tx_action"],
    &["net_rx_action"],
    &["blk_done_softirq"],
    &["irq_poll_softirq"],
    &["tasklet_action"],
    &["sched_balance_softirq", "run_rebalance_domains"],
    &["hrtimer_run_softirq"],
    &["rcu_core_si"],
];

/// Prefixes of the functions of system calls.
#[cfg(target_arch = "x86_64")]
const PREFIX: &str = "__x64_sys_";
#[cfg(not(target_arch = "x86_64"))]
const PREFIX: &str = "__arm64_sys_";

/// System calls whose functions have other names, since the functions of these names serve older programs.
const OTHER_NAMES: [(&str, &str); 6] = [
    ("stat", "newstat"),
    ("fstat", "newfstat"),
    ("lstat", "newlstat"),
    ("uname", "newuname"),
    ("sendfile", "sendfile64"),
    ("umount2", "umount"),
];

impl Routines {
    /// Returns the addresses in the running kernel. Its symbols are read once, which takes some tens of milliseconds.
    ///
    /// # Errors
    ///
    /// Returns [`AddressesHidden`] if the kernel hides its addresses from this process.
    pub fn of_this_boot() -> Result<&'static Routines, AddressesHidden> {
        static KNOWN: OnceLock<Routines> = OnceLock::new();
        if let Some(known) = KNOWN.get() {
            return Ok(known);
        }
        let routines = Routines::of_symbols(Path::new("/proc/kallsyms"))?;
        Ok(KNOWN.get_or_init(|| routines))
    }

    fn of_symbols(path: &Path) -> Result<Routines, AddressesHidden> {
        let mut symbols = BufReader::with_capacity(64 * 1024, File::open(path).map_err(|_| AddressesHidden)?);
        let mut places = Routines::places();
        let mut routines = Routines::default();
        let mut line = String::new();
        while symbols.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            let mut fields = line.split_ascii_whitespace();
            if let (Some(address), Some(_kind), Some(name)) = (fields.next(), fields.next(), fields.next())
                && let Some(place) = places.remove(name)
            {
                let address = u64::from_str_radix(address, 16).unwrap_or(0);
                if address == 0 {
                    return Err(AddressesHidden);
                }
                routines.put(place, address);
            }
            line.clear();
        }
        if routines.system_calls.is_empty() { Err(AddressesHidden) } else { Ok(routines) }
    }

    /// Returns what to look for, by names of symbols.
    fn places() -> HashMap<String, Place> {
        let system_calls = (0..).map_while(|number| (number < MOST_SYSTEM_CALLS).then_some(number));
        let system_calls = system_calls.filter_map(|number| {
            let name = Sysno::new(number)?.name();
            let other = OTHER_NAMES.iter().find(|(known, _)| *known == name);
            Some((format!("{PREFIX}{}", other.map_or(name, |(_, other)| other)), Place::SystemCall(number)))
        });
        let softirqs = SOFTIRQS.iter().enumerate().flat_map(|(number, names)| {
            names.iter().map(move |name| ((*name).to_owned(), Place::Softirq(number)))
        });
        system_calls.chain(softirqs).collect()
    }

    fn put(&mut self, place: Place, address: u64) {
        match place {
            Place::SystemCall(number) => {
                if self.system_calls.len() <= number {
                    self.system_calls.resize(number + 1, 0);
                }
                self.system_calls[number] = address;
            }
            Place::Softirq(number) => self.softirqs[number] = address,
        }
    }

    /// Returns the function of the system call with this number; `None` if it is unknown.
    pub fn of_system_call(&self, number: u32) -> Option<u64> {
        self.system_calls.get(number as usize).copied().filter(|address| *address != 0)
    }

    /// Returns the function of the softirq with this number; `None` if it is unknown.
    pub fn of_softirq(&self, number: u32) -> Option<u64> {
        self.softirqs.get(number as usize).copied().filter(|address| *address != 0)
    }
}

/// Exceeds the numbers of all architectures.
const MOST_SYSTEM_CALLS: usize = 1024;

/// What a function serves.
#[derive(Clone, Copy)]
enum Place {
    SystemCall(usize),
    Softirq(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routines(symbols: &str) -> Result<Routines, AddressesHidden> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kallsyms");
        std::fs::write(&path, symbols).unwrap();
        Routines::of_symbols(&path)
    }

    #[test]
    fn functions_are_found_by_what_they_serve() {
        let symbols = format!(
            "ffff1000 T {PREFIX}read\nffff2000 T {PREFIX}uname\nffff3000 T {PREFIX}newuname\n\
             ffff4000 t net_rx_action\nffff5000 t run_rebalance_domains\t[module]\n\n"
        );
        let found = routines(&symbols).unwrap();
        let number = |call: Sysno| call.id() as u32;
        assert_eq!(found.of_system_call(number(Sysno::read)), Some(0xffff_1000));
        assert_eq!(found.of_system_call(number(Sysno::uname)), Some(0xffff_3000));
        assert_eq!(found.of_system_call(number(Sysno::write)), None);
        assert_eq!(found.of_system_call(u32::MAX), None);
        assert_eq!((found.of_softirq(3), found.of_softirq(7)), (Some(0xffff_4000), Some(0xffff_5000)));
        assert_eq!((found.of_softirq(9), found.of_softirq(10)), (None, None));
    }

    #[test]
    fn hidden_addresses_are_none() {
        assert_eq!(routines(&format!("0000000000000000 T {PREFIX}read\n")), Err(AddressesHidden));
        assert_eq!(routines(""), Err(AddressesHidden));
        assert_eq!(Routines::of_symbols(Path::new("/nowhere")), Err(AddressesHidden));
    }
}
