//! Values of fields that readers and writers compare.

/// States of threads (`KTHREAD_STATE`).
pub mod state {
    /// Can run and waits for a processor.
    pub const READY: i8 = 1;
    /// Runs.
    pub const RUNNING: i8 = 2;
    /// Has ended.
    pub const TERMINATED: i8 = 4;
    /// Waits.
    pub const WAITING: i8 = 5;
}

/// The reasons to wait (`KWAIT_REASON`) that occur here.
pub mod wait {
    /// For something in the kernel.
    pub const EXECUTIVE: i8 = 0;
    /// For a page.
    pub const PAGE_IN: i8 = 2;
    /// For a time.
    pub const DELAY_EXECUTION: i8 = 4;
    /// To be continued.
    pub const SUSPENDED: i8 = 5;
    /// For a request of the program.
    pub const USER_REQUEST: i8 = 6;
    /// For work, in a queue.
    pub const QUEUE: i8 = 15;
    /// Forever: it has ended.
    pub const TERMINATED: i8 = 22;
    /// Not at all: its time slice was over.
    pub const QUANTUM_END: i8 = 30;
    /// Not at all: it was preempted.
    pub const PREEMPTED: i8 = 32;
    /// Not at all: it yielded.
    pub const YIELD_EXECUTION: i8 = 33;
    /// For another thread of the program.
    pub const ALERT_BY_THREAD_ID: i8 = 37;
}

/// The classes of file information (`FILE_INFORMATION_CLASS`) that occur here.
pub mod info {
    /// Entries of a directory.
    pub const DIRECTORY: u32 = 1;
    /// Times and attributes.
    pub const BASIC: u32 = 4;
    /// A new name.
    pub const RENAME: u32 = 10;
    /// One more name.
    pub const LINK: u32 = 11;
    /// Deletion.
    pub const DISPOSITION: u32 = 13;
    /// Allocated space.
    pub const ALLOCATION: u32 = 19;
    /// The size.
    pub const END_OF_FILE: u32 = 20;
}
