//! The connection of the process's providers to hosts, and their handling in the child of a fork.

use std::sync::atomic::{AtomicBool, Ordering};

use etw_event::{Keyword, Level};
use etw_sys::{AtomicRef, ids};

use crate::connection::Connection;
use crate::provider::Provider;
use crate::registry::listed;
use crate::sink::Sink;

/// The connection to the hosts, created by the first registration.
static CONNECTION: AtomicRef<Connection> = AtomicRef::none();

/// Whether this is the child of a fork that has not reconnected yet.
static IS_FORKED: AtomicBool = AtomicBool::new(false);

impl Provider {
    /// Connects the child of a fork on its first event, and returns the sessions that want that event.
    #[cold]
    pub(crate) fn noticed(&self, level: Level, keyword: Keyword) -> u32 {
        if !self.enables.is_forked() {
            return 0;
        }
        start_in_child();
        if self.enables.is_open(level) { self.enables.wanted(level, keyword) } else { 0 }
    }
}

/// Registers a provider with the hosts.
pub(crate) fn register(provider: &'static Provider) {
    start_in_child();
    connection().register(&[provider]);
}

/// Removes a provider from the hosts.
pub(crate) fn unregister(provider: &'static Provider) {
    connection().unregister(provider);
}

/// Connects the process's providers to a host that runs in the process itself, until that host ends.
///
/// `Runtime::private` of the crate `openetw` calls this; `host` is the provider's end of a socket pair. The child of a
/// fork is not connected.
///
/// # Errors
///
/// Fails if the process already has such a host, or the host does not respond.
pub fn join_private_host(host: etw_sys::socket::Connection) -> std::io::Result<()> {
    start_in_child();
    let channel = etw_protocol::Channel::new(host);
    channel
        .send(&etw_protocol::Hello::new(etw_protocol::Role::Provider), &[])
        .map_err(std::io::Error::other)?;
    connection().join(channel)
}

/// Returns the connection, opened by the first registration.
fn connection() -> &'static Connection {
    static IS_PREPARED: AtomicBool = AtomicBool::new(false);
    if !IS_PREPARED.swap(true, Ordering::AcqRel) {
        // Otherwise a child would write to its parent's sessions, and the host would attribute its events to the
        // parent.
        let _ = ids::on_fork(in_child);
    }
    loop {
        if let Some(connection) = CONNECTION.load() {
            return connection;
        }
        // One of several threads wins; only the first registration opens the connection.
        let new = Box::leak(Box::new(Connection::new()));
        if CONNECTION.replace(None, Some(new)) {
            return new;
        }
    }
}

/// Leaves the parent's sessions. Runs on the only thread of the child. Other threads of the parent may have held any
/// lock, so this takes no lock and neither allocates nor frees memory.
fn in_child() {
    CONNECTION.store(None);
    Sink::close_all();
    for provider in listed() {
        provider.enables.fork(provider.place.registrations.load(Ordering::Acquire) > 0);
    }
    IS_FORKED.store(true, Ordering::Release);
}

/// Connects the child of a fork when it first uses a provider. A child that only calls `exec` never gets here.
fn start_in_child() {
    if !IS_FORKED.swap(false, Ordering::AcqRel) {
        return;
    }
    let registered = |provider: &&Provider| provider.place.registrations.load(Ordering::Acquire) > 0;
    let providers: Vec<&'static Provider> = listed().filter(registered).collect();
    for provider in &providers {
        provider.enables.clear();
    }
    connection().register(&providers);
}
