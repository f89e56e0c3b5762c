//! What addresses mean: the kernel, or code that a process has at a time.

use crate::addresses::{KERNEL_32, KERNEL_64};
use crate::managed::CodeVersions;
use crate::names::Space;
use crate::processes::ProcessIndex;

/// What addresses mean now.
#[derive(Debug, Default)]
pub struct Addresses {
    /// Whether the system's pointers have 4 bytes.
    pub is_32_bit: bool,
    /// Changes of code, by which stacks are counted.
    pub versions: CodeVersions,
}

impl Addresses {
    /// Whether an address is in the kernel.
    #[inline]
    pub fn is_kernel(&self, address: u64) -> bool {
        address >= if self.is_32_bit { KERNEL_32 } else { KERNEL_64 }
    }

    /// Returns the memory that an instruction of a process is in now, or that of its machine's kernel.
    pub fn space(&self, machine: u32, process: Option<ProcessIndex>, address: u64) -> Space {
        match self.is_kernel(address) {
            true => Space::Kernel(machine),
            false => self.user_space(process, address),
        }
    }

    /// Returns the memory that an instruction of a program is in now.
    pub fn user_space(&self, process: Option<ProcessIndex>, address: u64) -> Space {
        match process {
            Some(process) => {
                let now = self.versions.now(Some(process));
                Space::Process(process, self.versions.at(Some(process), address, now))
            }
            None => Space::Unknown,
        }
    }
}
