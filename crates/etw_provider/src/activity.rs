//! Activity ids, which relate events to each other.
//!
//! ```
//! use etw_provider::activity;
//!
//! let request = activity::create();
//! let previous = activity::set_current(request);
//! // The events that this thread writes here have the activity `request`.
//! assert_eq!(activity::current(), request);
//! activity::set_current(previous);
//! ```

use etw_event::Guid;

use crate::payload::guid_words;

/// Returns the activity of this thread's events; zero if none was set (`EVENT_ACTIVITY_CTRL_GET_ID`).
pub fn current() -> Guid {
    guid(current_words())
}

/// Sets the thread's activity and returns the previous one (`EVENT_ACTIVITY_CTRL_GET_SET_ID`).
pub fn set_current(activity: Guid) -> Guid {
    guid(etw_sys::ids::replace_activity(guid_words(&activity)))
}

/// Returns a new activity id, unique on this machine (`EVENT_ACTIVITY_CTRL_CREATE_ID`).
///
/// Takes a few nanoseconds.
pub fn create() -> Guid {
    guid(etw_sys::ids::create_activity())
}

/// Sets an activity for this thread until the scope ends, then restores the previous one.
///
/// ```
/// use etw_provider::activity;
/// let before = activity::current();
/// {
///     let scope = activity::Scope::new();
///     assert_eq!(activity::current(), scope.activity());
///     assert_eq!(scope.parent(), before);
/// }
/// assert_eq!(activity::current(), before);
/// ```
#[derive(Debug)]
#[must_use = "the activity ends with its scope"]
pub struct Scope {
    activity: Guid,
    parent: Guid,
    /// Keeps the scope on its thread, since the activity is set there.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Scope {
    /// Starts a scope with a new activity.
    pub fn new() -> Scope {
        Scope::from_activity(create())
    }

    /// Starts a scope with a given activity.
    pub fn from_activity(activity: Guid) -> Scope {
        Scope { activity, parent: set_current(activity), _not_send: std::marker::PhantomData }
    }

    /// Returns the activity of the scope.
    pub fn activity(&self) -> Guid {
        self.activity
    }

    /// Returns the thread's previous activity, to which the scope's activity is related.
    pub fn parent(&self) -> Guid {
        self.parent
    }
}

impl Default for Scope {
    fn default() -> Scope {
        Scope::new()
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        set_current(self.parent);
    }
}

/// Returns the thread's activity as words of a record.
#[inline(always)]
pub(crate) fn current_words() -> [u64; 2] {
    etw_sys::ids::activity()
}

fn guid(words: [u64; 2]) -> Guid {
    let ([a, b, c, d, e, f, g, h], [i, j, k, l, m, n, o, p]) =
        (words[0].to_le_bytes(), words[1].to_le_bytes());
    Guid::from_bytes([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activities_are_the_threads() {
        let one = create();
        assert_ne!(one, create());
        assert_eq!(set_current(one), Guid::ZERO);
        assert_eq!(current(), one);
        assert_eq!(std::thread::spawn(current).join().unwrap(), Guid::ZERO);
        {
            let outer = Scope::new();
            let inner = Scope::from_activity(one);
            assert_eq!((inner.parent(), current()), (outer.activity(), one));
            drop(inner);
            assert_eq!(current(), outer.activity());
        }
        assert_eq!(set_current(Guid::ZERO), one);
    }
}
