//! What can be captured from the kernel, in the pieces that are attached and detached as one.

use std::fmt;
use std::ops::BitOr;

/// A piece of what the kernel does that is captured as one. The most that a missing hook takes away is its own events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Hook {
    /// Starts, images and ends of processes and threads.
    Process,
    /// Switches from one thread to another.
    ContextSwitch,
    /// Threads that are made ready by others.
    ReadyThread,
    /// Samples of what each processor runs, with stacks.
    Sample,
    /// System calls, their begin and end.
    SystemCall,
    /// Interrupts.
    Interrupt,
    /// Work that interrupts put off: softirqs.
    Dpc,
    /// Requests to disks, when they are sent and when they are done.
    Disk,
    /// Page faults that a disk serves.
    HardFault,
    /// Page faults that memory serves.
    SoftFault,
    /// Connections of TCP, and what TCP and UDP send and receive.
    Network,
    /// Addresses that programs take and give back, and files that they map.
    Memory,
    /// What processes map to run code of it.
    Image,
    /// What programs do with files, by system calls.
    File,
    /// Files that are closed when a process runs another program.
    FileExec,
    /// What programs do with files, by io_uring.
    FileRing,
}

impl Hook {
    /// All hooks.
    pub const ALL: [Hook; 16] = [
        Hook::Process,
        Hook::ContextSwitch,
        Hook::ReadyThread,
        Hook::Sample,
        Hook::SystemCall,
        Hook::Interrupt,
        Hook::Dpc,
        Hook::Disk,
        Hook::HardFault,
        Hook::SoftFault,
        Hook::Network,
        Hook::Memory,
        Hook::Image,
        Hook::File,
        Hook::FileExec,
        Hook::FileRing,
    ];

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Hook::Process => "processes and threads",
            Hook::ContextSwitch => "context switches",
            Hook::ReadyThread => "ready threads",
            Hook::Sample => "sampled profile",
            Hook::SystemCall => "system calls",
            Hook::Interrupt => "interrupts",
            Hook::Dpc => "DPCs",
            Hook::Disk => "disk I/O",
            Hook::HardFault => "hard page faults",
            Hook::SoftFault => "soft page faults",
            Hook::Network => "network",
            Hook::Memory => "virtual memory",
            Hook::Image => "images",
            Hook::File => "files",
            Hook::FileExec => "files closed by exec",
            Hook::FileRing => "files by io_uring",
        }
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hooks(u32);

impl Hooks {
    /// No hook.
    pub const NONE: Hooks = Hooks(0);

    /// The set of these hooks.
    pub const fn of(hooks: &[Hook]) -> Hooks {
        let mut bits = 0;
        let mut at = 0;
        while at < hooks.len() {
            bits |= 1 << hooks[at] as u32;
            at += 1;
        }
        Hooks(bits)
    }

    /// Whether the set has this hook.
    pub const fn has(self, hook: Hook) -> bool {
        self.0 & (1 << hook as u32) != 0
    }

    /// The set without a hook.
    #[must_use]
    pub const fn without(self, hook: Hook) -> Hooks {
        Hooks(self.0 & !(1 << hook as u32))
    }

    /// The hooks of the set.
    pub fn iter(self) -> impl Iterator<Item = Hook> {
        Hook::ALL.into_iter().filter(move |hook| self.has(*hook))
    }
}

impl BitOr for Hooks {
    type Output = Hooks;

    fn bitor(self, other: Hooks) -> Hooks {
        Hooks(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_give_back_what_was_put_in() {
        for hook in Hook::ALL {
            assert_eq!(Hooks::of(&[hook]).iter().collect::<Vec<_>>(), [hook]);
        }
        assert_eq!(Hooks::of(&Hook::ALL).iter().collect::<Vec<_>>(), Hook::ALL);
        assert_eq!(Hooks::NONE.iter().count(), 0);
        let both = Hooks::of(&[Hook::Disk]) | Hooks::of(&[Hook::Dpc]);
        assert!(both.has(Hook::Disk) && both.has(Hook::Dpc) && !both.has(Hook::Process));
        assert_eq!(both.without(Hook::Disk).without(Hook::Process), Hooks::of(&[Hook::Dpc]));
    }
}
