//! The memory of this process.

// UNSAFETY: a function of the C library that rustix does not have.
#![cfg_attr(all(target_os = "linux", target_env = "gnu"), expect(unsafe_code))]

/// Bytes of this process in memory, as `proc_pid_statm(5)` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// All of them.
    pub resident: u64,
    /// Those that are its own, not those of files.
    pub private: u64,
}

impl Memory {
    /// Measures what this process has now. `None` on other systems than Linux.
    pub fn now() -> Option<Memory> {
        #[cfg(target_os = "linux")]
        {
            let text = std::fs::read_to_string("/proc/self/statm").ok()?;
            // Size, resident, shared, …, in pages (proc_pid_statm(5)).
            let mut words = text.split(' ').skip(1).map(|word| word.parse::<u64>().ok());
            let (resident, shared) = (words.next()??, words.next()??);
            let page = rustix::param::page_size() as u64;
            let private = resident.saturating_sub(shared).saturating_mul(page);
            Some(Memory { resident: resident.saturating_mul(page), private })
        }
        #[cfg(not(target_os = "linux"))]
        None
    }
}

/// Has the C library keep little of what is freed (glibc): it has two heaps instead of eight for each processor, and what
/// is larger than 4 MiB is the system's again at once. To be called before threads are started.
pub fn keep_little_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the parameters are those of mallopt(3), which may be called at any time.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 2);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 4 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 8 << 20);
    }
}

/// Gives memory that was freed back to the system, where the C library keeps it (glibc).
pub fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time, by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::Memory;

    #[test]
    fn memory_counts_and_is_given_back() {
        let before = Memory::now().unwrap().private;
        let bytes = vec![1_u8; 64 << 20];
        let during = Memory::now().unwrap().private;
        assert!(during > before + (48 << 20), "{before} {during}");
        drop(bytes);
        super::trim_heap();
        assert!(Memory::now().unwrap().private < during - (32 << 20));
    }
}
