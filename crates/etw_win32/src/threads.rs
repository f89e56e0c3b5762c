//! Callbacks for providers, on a thread that may run code of Windows.
//!
//! Hosts tell providers by a socket, which a thread of the runtime reads. That thread is unknown to Wine and must not run
//! code of the program, so one thread of Wine runs the callbacks while the other waits.

// UNSAFETY: passes a reference to another thread, and waits until that is done with it.
#![expect(unsafe_code)]

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};

use crate::system::{is_own_thread, start_thread};

static QUEUE: Mutex<Queue> = Mutex::new(Queue { is_served: false, jobs: VecDeque::new(), taken: 0, done: 0 });
/// Raised when there is a job, and when one is done.
static CHANGED: Condvar = Condvar::new();

struct Queue {
    /// Whether the thread has been started.
    is_served: bool,
    jobs: VecDeque<Job>,
    /// Number of jobs ever queued, and of those that are done.
    taken: u64,
    done: u64,
}

/// What a waiting thread wants to be called.
struct Job(*mut (dyn FnMut() + Send));

// SAFETY: the closure may be sent, and the thread that has it waits until it has been called.
unsafe impl Send for Job {}

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait(queue: MutexGuard<'static, Queue>) -> MutexGuard<'static, Queue> {
    CHANGED.wait(queue).unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread, once. Only for threads of Wine.
pub(crate) fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| queue().is_served = start_thread(serve));
}

/// Calls `work` on this thread, or on the one that [`start`] has started, and returns when it is done.
pub(crate) fn run(work: &mut (dyn FnMut() + Send)) {
    if is_own_thread() {
        return work();
    }
    let mut queue = queue();
    // Without the thread nothing can be called.
    if !queue.is_served {
        return;
    }
    // SAFETY: the lifetime is extended up to the end of this function, which waits until the other thread is done.
    let job = unsafe {
        std::mem::transmute::<*mut (dyn FnMut() + Send + '_), *mut (dyn FnMut() + Send + 'static)>(work)
    };
    queue.jobs.push_back(Job(job));
    queue.taken += 1;
    let number = queue.taken;
    CHANGED.notify_all();
    while queue.done < number {
        queue = wait(queue);
    }
}

unsafe extern "win64" fn serve(_: *mut c_void) -> u32 {
    loop {
        let mut queue = queue();
        let job = loop {
            match queue.jobs.pop_front() {
                Some(job) => break job,
                None => queue = wait(queue),
            }
        };
        drop(queue);
        // SAFETY: the thread that queued the job waits for it.
        unsafe { (*job.0)() };
        self::queue().done += 1;
        CHANGED.notify_all();
    }
}
