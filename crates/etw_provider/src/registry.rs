//! The providers of this process, and what becomes of them in the child of a fork.

use std::sync::atomic::{AtomicBool, Ordering};

use etw_event::{Guid, Keyword, Level};
use etw_sys::{AtomicRef, ids};

use crate::connection::Connection;
use crate::control::{Callback, Control};
use crate::provider::Provider;
use crate::sink::Sink;

/// Longest name of a provider.
const MAX_NAME_BYTES: usize = 1000;

/// The provider that was listed last; the others follow by their `next`. None is ever taken out, and there is no lock
/// that a fork could leave locked.
static LISTED: AtomicRef<Provider> = AtomicRef::none();

/// The connection to the hosts, from the first registration on.
static CONNECTION: AtomicRef<Connection> = AtomicRef::none();

/// Whether this is the child of a fork that has not started anew yet.
static IS_FORKED: AtomicBool = AtomicBool::new(false);

/// What a provider does through the list: it is found by its name, registered, and followed into the child of a fork.
impl Provider {
    /// A provider that is known only at run time. Its GUID is that of its name unless `guid` tells another one.
    ///
    /// A provider of the same name, GUID and group is made once: asking again gives the same one. Each takes about a
    /// kilobyte for as long as the program runs. Names are cut behind 1000 bytes, and in front of a zero.
    pub fn create(name: &str, guid: Option<Guid>, group: Option<Guid>) -> &'static Provider {
        intern(name, guid.unwrap_or_else(|| Guid::from_provider_name(name)), group)
    }

    /// Registers the provider (`EventRegister`): from now on sessions can enable it, those that have asked for it
    /// before and those that will.
    ///
    /// When it returns, the sessions of the hosts that are there have it enabled, so that no event is missed. That takes
    /// some hundreds of microseconds, and at most a second if a host does not answer. With no host it costs a thread
    /// (`etw-provider`, one a process), which sleeps until one appears. There is no error: a program works the same
    /// with nobody to trace it. Registering twice counts; it takes as many calls of [`Provider::unregister`].
    pub fn register(&'static self) {
        register(self);
    }

    /// Registers the provider with a callback for what sessions want of it.
    ///
    /// The callback is called on this thread for sessions that have asked for the provider already, and later on the
    /// thread `etw-provider`. It stays for as long as the program runs; a later one takes its place.
    ///
    /// ```
    /// use etw_provider::{ControlCode, event, provider};
    ///
    /// provider!(static APP: "MyCompany.MyApp");
    /// APP.register_with(|control| match control.code {
    ///     ControlCode::CaptureState => {
    ///         event!(APP, "State", u32("connections", 3));
    ///     }
    ///     _ => println!("enabled: {}", control.is_enabled),
    /// });
    /// APP.unregister();
    /// ```
    pub fn register_with(&'static self, callback: impl Fn(&Control) + Send + Sync + 'static) {
        self.place.callback.store(Some(Box::leak(Box::new(Callback(Box::new(callback))))));
        register(self);
    }

    /// Takes a registration back (`EventUnregister`); with the last one nothing is enabled any more.
    pub fn unregister(&'static self) {
        unregister(self);
    }

    /// What lets an event through the gate that no session wants: keywords; or this is the child of a fork.
    #[cold]
    pub(crate) fn noticed(&self, level: Level, keyword: Keyword) -> u32 {
        if !self.enables.is_forked() {
            return 0;
        }
        start_in_child();
        if self.enables.is_open(level) { self.enables.wanted(level, keyword) } else { 0 }
    }
}

/// The provider of a name, GUID and group, made if there is none. If two threads ask at once, each may get its own.
fn intern(name: &str, guid: Guid, group: Option<Guid>) -> &'static Provider {
    let name = name.split('\0').next().unwrap_or_default();
    let end = (0..=MAX_NAME_BYTES).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    let name = if name.len() > MAX_NAME_BYTES { name.get(..end).unwrap_or_default() } else { name };
    let same = |other: &&Provider| other.name() == name && other.guid() == guid && other.group() == group;
    if let Some(known) = listed().find(same) {
        return known;
    }
    let provider = Provider::leak(name, guid, group);
    list(provider);
    provider
}

/// Puts a provider into the list, where the child of a fork finds it.
fn list(provider: &'static Provider) {
    if provider.place.is_listed.swap(true, Ordering::AcqRel) {
        return;
    }
    loop {
        let first = LISTED.load();
        provider.place.next.store(first);
        if LISTED.replace(first, Some(provider)) {
            return;
        }
    }
}

/// All providers that were made at run time or registered.
fn listed() -> impl Iterator<Item = &'static Provider> {
    std::iter::successors(LISTED.load(), |provider| provider.place.next.load())
}

/// Registers a provider, unless it is registered already.
fn register(provider: &'static Provider) {
    list(provider);
    if provider.place.registrations.fetch_add(1, Ordering::AcqRel) == 0 {
        start_in_child();
        connection().register(&[provider]);
    }
}

/// Takes one registration back; with the last one the provider is gone.
fn unregister(provider: &'static Provider) {
    let count = &provider.place.registrations;
    let taken = count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1));
    if taken == Ok(1) {
        connection().unregister(provider);
    }
}

/// Has the process's providers take part in sessions of a host that runs in the process itself, until that ends.
///
/// What `Runtime::private` of the crate `openetw` calls: `host` is the end of a pair whose other end the host has. A
/// child of a fork does not take part.
///
/// # Errors
/// There is such a host already, or it does not answer.
pub fn join_private_host(host: etw_sys::socket::Connection) -> std::io::Result<()> {
    start_in_child();
    let channel = etw_protocol::Channel::new(host);
    channel
        .send(&etw_protocol::Hello::new(etw_protocol::Role::Provider), &[])
        .map_err(std::io::Error::other)?;
    connection().join(channel)
}

/// The connection, which is opened by the first registration.
fn connection() -> &'static Connection {
    static IS_PREPARED: AtomicBool = AtomicBool::new(false);
    if !IS_PREPARED.swap(true, Ordering::AcqRel) {
        // Without it a child would write to its parent's sessions, where the host counts it as the parent.
        let _ = ids::on_fork(in_child);
    }
    loop {
        if let Some(connection) = CONNECTION.load() {
            return connection;
        }
        // One of several threads wins; opening begins with the first registration only.
        let new = Box::leak(Box::new(Connection::new()));
        if CONNECTION.replace(None, Some(new)) {
            return new;
        }
    }
}

/// Leaves the parent's sessions. Called on the only thread of the child; other threads of the parent may have held any
/// lock, and so none is taken, nothing is freed, and no memory is asked for.
fn in_child() {
    CONNECTION.store(None);
    Sink::close_all();
    for provider in listed() {
        provider.enables.fork(provider.place.registrations.load(Ordering::Acquire) > 0);
    }
    IS_FORKED.store(true, Ordering::Release);
}

/// Connects the child of a fork, when it first does something with a provider. A child that only calls `exec` never
/// comes here.
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
