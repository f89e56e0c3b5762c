//! The only instance on Windows: the system's own ETW.

/// Where sessions run: on Windows always the system itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance(());

impl Instance {
    /// Returns the system's own ETW.
    pub fn system() -> Instance {
        Instance(())
    }

    /// Returns the default instance for controllers and consumers: the system's own ETW.
    pub fn default_of_user() -> Instance {
        Instance::system()
    }
}
