//! Where events come from.

/// The properties of a file or session that events come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// Name of the computer.
    pub computer: Option<String>,
    /// Unit of the records' CPU times, in 100 ns (`TimerResolution` of the log file header).
    pub timer_resolution: u32,
}
