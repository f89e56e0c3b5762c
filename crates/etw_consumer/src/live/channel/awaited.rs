//! What the loop that waits knows of a session.

/// A session with a connection `C` that a `Waiter` can wait for.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux waits for each session apart"))]
pub(in super::super) trait Awaited<C> {
    /// Returns the connection to the session.
    fn channel(&mut self) -> &mut C;
    /// Returns the number of the session's source.
    fn source(&self) -> u32;
    /// Whether the session has ended and everything it sent has been read.
    fn is_at_end(&self) -> bool;
}
