//! The tables of the kernel's classes, from which the schemas that decode them for people come too (`etw_schema::builtin`).
//!
//! ```
//! assert!(etw_kernel_events::tables::KERNEL.contains("class DiskIo"));
//! ```

/// The classes of the kernel, each with all its versions.
pub const KERNEL: &str = include_str!("../tables/kernel.txt");

/// The classes that the merge step adds.
pub const MERGE: &str = include_str!("../tables/merge.txt");
