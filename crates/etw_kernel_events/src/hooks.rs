//! The parts of the kernel's activity that are attached and detached as one.

use std::fmt;
use std::ops::BitOr;

/// A part of the kernel's activity that is captured as one. If a hook is missing, only its own events are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Hook {
    /// Starts and ends of processes and threads, and programs that processes run.
    Process,
    /// Processes that move to other control groups.
    ControlGroup,
    /// Switches from one thread to another.
    ContextSwitch,
    /// Threads that others make ready.
    ReadyThread,
    /// Samples of what each processor runs.
    Sample,
    /// Starts and ends of system calls.
    SystemCall,
    /// Interrupts.
    Interrupt,
    /// Work deferred by interrupts: softirqs.
    Dpc,
    /// Requests to disks, when they are sent and when they complete.
    Disk,
    /// Page faults that are served from a disk.
    HardFault,
    /// Page faults that are served from memory.
    SoftFault,
    /// TCP connections, and data sent and received by TCP and UDP.
    Network,
    /// Memory that programs allocate and free, and files that they map.
    Memory,
    /// Executable mappings of processes.
    Image,
    /// File operations by system calls.
    File,
    /// Files that are closed when a process runs another program.
    FileExec,
    /// File operations by io_uring.
    FileRing,
}

impl Hook {
    /// All hooks.
    pub const ALL: [Hook; 17] = [
        Hook::Process,
        Hook::ControlGroup,
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

    /// Returns the readable name.
    pub const fn name(self) -> &'static str {
        match self {
            Hook::Process => "processes and threads",
            Hook::ControlGroup => "control groups",
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

    /// Returns the set of these hooks.
    pub const fn from_list(hooks: &[Hook]) -> Hooks {
        let mut bits = 0;
        let mut at = 0;
        while at < hooks.len() {
            bits |= 1 << hooks[at] as u32;
            at += 1;
        }
        Hooks(bits)
    }

    /// Returns whether the set has this hook.
    pub const fn has(self, hook: Hook) -> bool {
        self.0 & (1 << hook as u32) != 0
    }

    /// Returns the set without a hook.
    #[must_use]
    pub const fn without(self, hook: Hook) -> Hooks {
        Hooks(self.0 & !(1 << hook as u32))
    }

    /// Returns the hooks of the set in the order of [`Hook::ALL`].
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
            assert_eq!(Hooks::from_list(&[hook]).iter().collect::<Vec<_>>(), [hook]);
        }
        assert_eq!(Hooks::from_list(&Hook::ALL).iter().collect::<Vec<_>>(), Hook::ALL);
        assert_eq!(Hooks::NONE.iter().count(), 0);
        let both = Hooks::from_list(&[Hook::Disk]) | Hooks::from_list(&[Hook::Dpc]);
        assert!(both.has(Hook::Disk) && both.has(Hook::Dpc) && !both.has(Hook::Process));
        assert_eq!(both.without(Hook::Disk).without(Hook::Process), Hooks::from_list(&[Hook::Dpc]));
    }
}
