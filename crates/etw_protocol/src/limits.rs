//! Limits of messages. Most are ETW's own or a few times as high.

/// Bytes of a packet.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;
/// Bytes of a session's or a provider's name (ETW: 1024 characters).
pub const MAX_NAME_BYTES: usize = 1024;
/// Missing features that a session's status lists.
pub const MAX_MISSING: usize = 32;
/// Bytes of a path.
pub const MAX_PATH_BYTES: usize = 4096;
/// Bytes of a process's command line; longer ones are truncated.
pub const MAX_COMMAND_LINE_BYTES: usize = 4096;
/// Bytes of a provider's traits.
pub const MAX_TRAITS_BYTES: usize = 4096;
/// Filters of one enable.
pub const MAX_FILTERS: usize = 16;
/// Event ids of one filter (ETW: 64).
pub const MAX_FILTER_IDS: usize = 1024;
/// Process ids of one filter (ETW: 8).
pub const MAX_FILTER_PIDS: usize = 64;
/// Names of one filter.
pub const MAX_FILTER_NAMES: usize = 64;
/// Predicates of one payload filter (ETW: 8).
pub const MAX_PREDICATES: usize = 64;
/// Sets of conditions in one filter, of which one must match.
pub const MAX_ALTERNATIVES: usize = 16;
/// Event layouts of one payload filter.
pub const MAX_LAYOUTS: usize = 256;
/// Fields of one event layout.
pub const MAX_LAYOUT_FIELDS: usize = 128;
/// Bytes of data that a filter passes to the provider's own code (ETW: 1024).
pub const MAX_FILTER_DATA_BYTES: usize = 1024;
/// Sessions of one process: the slots that [`crate::ToProvider`] counts.
pub const MAX_SLOTS: u8 = 64;
/// Bytes of the header buffer that a consumer receives.
pub const MAX_HEADER_BYTES: usize = 16 * 1024;
/// Processes that one [`crate::ProviderStatus`] lists; the others are in further ones.
pub const MAX_PIDS_LISTED: usize = 1024;
/// Users that a session's status lists.
pub const MAX_USERS_LISTED: usize = 256;
/// Processes with refused records that are listed for a user.
pub const MAX_REFUSED_LISTED: usize = 8;
/// Range of a session's buffer size in KiB (ETW on Windows 8 and later: 4 to 16384).
pub const BUFFER_SIZE_KIB: std::ops::RangeInclusive<u32> = 4..=16 * 1024;
/// Hook ids in a session's stack tracing (ETW: 256).
pub const MAX_STACK_TRACING: usize = 256;
