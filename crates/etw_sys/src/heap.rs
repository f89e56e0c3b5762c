//! The memory of this process.

// UNSAFETY: a function of the C library that rustix does not have.
#![cfg_attr(all(target_os = "linux", target_env = "gnu"), expect(unsafe_code))]

/// Returns the number of bytes in memory that are this process's own, not those of files. `None` on other systems than
/// Linux.
pub fn private_memory() -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        let text = std::fs::read_to_string("/proc/self/statm").ok()?;
        // Size, resident, shared, …, in pages (proc_pid_statm(5)).
        let mut words = text.split(' ').skip(1).map(|word| word.parse::<u64>().ok());
        let (resident, shared) = (words.next()??, words.next()??);
        Some(resident.saturating_sub(shared).saturating_mul(rustix::param::page_size() as u64))
    }
    #[cfg(not(target_os = "linux"))]
    None
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
    #[test]
    fn memory_counts_and_is_given_back() {
        let before = super::private_memory().unwrap();
        let bytes = vec![1_u8; 64 << 20];
        let during = super::private_memory().unwrap();
        assert!(during > before + (48 << 20), "{before} {during}");
        drop(bytes);
        super::trim_heap();
        assert!(super::private_memory().unwrap() < during - (32 << 20));
    }
}
