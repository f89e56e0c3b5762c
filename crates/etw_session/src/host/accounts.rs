//! What users and processes take of the host, so that whoever takes more than a share is refused alone.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use etw_sys::credentials::Peer;

use super::access::is_privileged;
use super::options::HostLimits;

/// Time of the host's thread that the clients of one user other than root and the host's own have in each [`WINDOW`]; what
/// they still want, they get in the next one.
const A_USER: Duration = Duration::from_millis(2);
/// How often users get time again.
const WINDOW: Duration = Duration::from_millis(10);

/// Threads that read of a user's processes at a time. A process can hold up whoever reads of it.
const READERS: usize = 16;

/// Memory of a registration beside its name, in bytes.
const REGISTRATION_BYTES: usize = 256;

/// What a user or a process takes.
#[derive(Debug, Default, Clone, Copy)]
struct Taken {
    connections: usize,
    registrations: usize,
    registration_bytes: usize,
    queued_bytes: usize,
    /// Threads that read of its processes.
    readers: usize,
    /// Time in this window.
    time: Duration,
}

/// What all take.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    users: HashMap<u32, Taken>,
    /// By user and process, since processes of other PID namespaces have no id here: those of a user count as one.
    processes: HashMap<(u32, u32), Taken>,
    all: Taken,
    /// Users who had time in this window, and when it ends.
    served: BTreeSet<u32>,
    window_end: Option<Instant>,
}

impl Taken {
    fn is_nothing(&self) -> bool {
        self.connections + self.registrations + self.queued_bytes + self.readers == 0
    }
}

impl Accounts {
    /// Whether one more connection is within the limits.
    pub(super) fn admits(&self, peer: &Peer, limits: &HostLimits) -> bool {
        // Root and the host's own user can always connect once more, for maintenance.
        let is_bound = !is_privileged(peer.uid);
        let most = limits.connections.saturating_sub(if is_bound { 8 } else { 0 });
        self.all.connections < most
            && (!is_bound || self.of_user(peer).connections < limits.connections_per_user)
            && (peer.pid == 0 || self.of_process(peer).connections < limits.connections_per_process)
    }

    /// Whether one more registration, with a name of this length, is within the limits.
    pub(super) fn may_register(&self, peer: &Peer, name_bytes: usize, limits: &HostLimits) -> bool {
        let of_user = self.of_user(peer);
        let is_bound = !is_privileged(peer.uid);
        // Half of all is kept for root and the host's own user.
        let most = limits.registrations / if is_bound { 2 } else { 1 };
        self.all.registrations < most
            && self.of_process(peer).registrations < limits.registrations_per_process
            && (!is_bound
                || of_user.registrations < limits.registrations_per_user
                    && of_user.registration_bytes + name_bytes + REGISTRATION_BYTES
                        <= limits.registration_bytes_per_user)
    }

    pub(super) fn connect(&mut self, peer: &Peer) {
        self.change(peer, |taken| taken.connections += 1);
    }

    pub(super) fn disconnect(&mut self, peer: &Peer) {
        self.change(peer, |taken| taken.connections = taken.connections.saturating_sub(1));
    }

    pub(super) fn register(&mut self, peer: &Peer, name_bytes: usize) {
        self.change(peer, |taken| {
            taken.registrations += 1;
            taken.registration_bytes += name_bytes + REGISTRATION_BYTES;
        });
    }

    pub(super) fn unregister(&mut self, peer: &Peer, name_bytes: usize) {
        self.change(peer, |taken| {
            taken.registrations = taken.registrations.saturating_sub(1);
            let bytes = name_bytes + REGISTRATION_BYTES;
            taken.registration_bytes = taken.registration_bytes.saturating_sub(bytes);
        });
    }

    /// Counts the change of what waits in a connection, and returns whether that is still within the user's limit.
    pub(super) fn queue(&mut self, peer: &Peer, before: usize, now: usize, limits: &HostLimits) -> bool {
        self.change(peer, |taken| taken.queued_bytes = (taken.queued_bytes + now).saturating_sub(before));
        is_privileged(peer.uid) || self.of_user(peer).queued_bytes <= limits.queued_bytes_per_user
    }

    /// Takes a thread that reads of a process, if the user has not too many that are held up.
    pub(super) fn begin_reading(&mut self, peer: &Peer) -> bool {
        let may_read = self.of_user(peer).readers < READERS;
        if may_read {
            self.change(peer, |taken| taken.readers += 1);
        }
        may_read
    }

    pub(super) fn end_reading(&mut self, peer: &Peer) {
        self.change(peer, |taken| taken.readers = taken.readers.saturating_sub(1));
    }

    /// Whether a user still has time in this window.
    pub(super) fn has_time(&mut self, peer: &Peer) -> bool {
        let now = Instant::now();
        if self.window_end.is_none_or(|end| end <= now) {
            self.window_end = Some(now + WINDOW);
            for uid in std::mem::take(&mut self.served) {
                if let Some(taken) = self.users.get_mut(&uid) {
                    taken.time = Duration::ZERO;
                    if taken.is_nothing() {
                        self.users.remove(&uid);
                    }
                }
            }
        }
        is_privileged(peer.uid) || self.of_user(peer).time < A_USER
    }

    /// Counts the time since `begun` for a user.
    pub(super) fn spend(&mut self, peer: &Peer, begun: Instant) {
        if let Some(taken) = self.users.get_mut(&peer.uid) {
            taken.time += begun.elapsed();
            self.served.insert(peer.uid);
        }
    }

    fn of_user(&self, peer: &Peer) -> Taken {
        self.users.get(&peer.uid).copied().unwrap_or_default()
    }

    fn of_process(&self, peer: &Peer) -> Taken {
        self.processes.get(&(peer.uid, peer.pid)).copied().unwrap_or_default()
    }

    fn change(&mut self, peer: &Peer, change: impl Fn(&mut Taken)) {
        change(&mut self.all);
        let user = self.users.entry(peer.uid).or_default();
        change(user);
        // The time of a user who connects anew again and again is counted to the end of the window.
        if user.is_nothing() && user.time.is_zero() {
            self.users.remove(&peer.uid);
        }
        let process = self.processes.entry((peer.uid, peer.pid)).or_default();
        change(process);
        if process.is_nothing() {
            self.processes.remove(&(peer.uid, peer.pid));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(pid: u32, uid: u32) -> Peer {
        Peer { pid, uid, gid: 1 }
    }

    #[test]
    fn who_takes_too_much_is_refused_alone() {
        let limits = HostLimits {
            registrations: 100,
            registrations_per_process: 10,
            registrations_per_user: 30,
            registration_bytes_per_user: 10_000,
            connections_per_user: 5,
            connections_per_process: 3,
            queued_bytes_per_user: 1000,
            ..HostLimits::default()
        };
        let mut accounts = Accounts::default();
        let fill = |accounts: &mut Accounts, peer: Peer, name_bytes: usize| {
            let mut count = 0;
            accounts.connect(&peer);
            while accounts.may_register(&peer, name_bytes, &limits) {
                accounts.register(&peer, name_bytes);
                count += 1;
            }
            count
        };
        // A process, whatever its connections; a user, whatever its processes; all users together.
        let counts = [(1, 4001), (1, 4001), (2, 4001), (3, 4001), (4, 4001), (5, 4002), (6, 4002), (7, 4003)]
            .map(|(pid, uid)| fill(&mut accounts, peer(pid, uid), 0));
        assert_eq!(counts, [10, 0, 10, 10, 0, 10, 10, 0]);
        assert_eq!(fill(&mut accounts, peer(8, 0), 2000), 10, "root has the rest, and names of any length");
        let mut accounts = Accounts::default();
        assert_eq!(fill(&mut accounts, peer(1, 4001), 4000), 2, "names take memory");
        assert!(accounts.queue(&peer(1, 4001), 0, 1000, &limits));
        assert!(!accounts.queue(&peer(2, 4001), 0, 1, &limits));
        assert!(
            accounts.queue(&peer(3, 4002), 0, 1000, &limits) && accounts.queue(&peer(4, 0), 0, 9999, &limits)
        );
        assert!(accounts.admits(&peer(1, 4001), &limits));
        for pid in [1, 1, 2, 3] {
            accounts.connect(&peer(pid, 4001));
        }
        assert!(!accounts.admits(&peer(1, 4001), &limits) && !accounts.admits(&peer(9, 4001), &limits));
        assert!(accounts.admits(&peer(9, 4002), &limits));
    }

    #[test]
    fn what_is_given_back_is_forgotten() {
        let mut accounts = Accounts::default();
        let one = peer(1, 4001);
        accounts.connect(&one);
        accounts.register(&one, 5);
        accounts.unregister(&one, 5);
        accounts.queue(&one, 0, 10, &HostLimits::default());
        accounts.queue(&one, 10, 0, &HostLimits::default());
        accounts.disconnect(&one);
        assert!(accounts.users.is_empty() && accounts.processes.is_empty());
    }

    #[test]
    fn time_is_counted_over_connections_that_come_and_go() {
        let mut accounts = Accounts::default();
        let one = peer(1, 4001);
        accounts.connect(&one);
        accounts.has_time(&one);
        accounts.spend(&one, Instant::now() - A_USER);
        accounts.disconnect(&one);
        accounts.connect(&one);
        assert!(accounts.of_user(&one).time >= A_USER);
        accounts.disconnect(&one);
        std::thread::sleep(WINDOW);
        assert!(accounts.has_time(&one) && accounts.users.is_empty());
    }

    #[test]
    fn time_is_shared_between_users() {
        let mut accounts = Accounts::default();
        let (one, other) = (peer(1, 4001), peer(2, 4002));
        accounts.connect(&one);
        accounts.connect(&other);
        assert!(accounts.has_time(&one));
        accounts.spend(&one, Instant::now() - A_USER);
        let is_same_window = accounts.window_end.is_some_and(|end| end > Instant::now());
        assert!(!is_same_window || !accounts.has_time(&one) && accounts.has_time(&other));
        let root = peer(3, 0);
        accounts.connect(&root);
        accounts.spend(&root, Instant::now() - A_USER);
        assert!(accounts.has_time(&root));
        std::thread::sleep(WINDOW);
        assert!(accounts.has_time(&one));
    }
}
