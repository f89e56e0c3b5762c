//! Where events come from.

/// The properties of a file or session that events come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// Path of the file, `archive.zip!member.etl` for one in an archive, or name of the session.
    pub name: String,
    /// Name of the computer.
    pub computer: Option<String>,
    /// Unit of the records' CPU times, in 100 ns (`TimerResolution` of the log file header).
    pub timer_resolution: u32,
}
