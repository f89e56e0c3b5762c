//! The speed of a replay, set by a display and kept by the reading thread.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use openetw::FileTime;

/// Limits of the speeds that keys set; above the maximum, a file is read as fast as possible.
const SLOWEST: f64 = 1.0 / 64.0;
const FASTEST: f64 = 1024.0;
/// Maximum time of one wait.
const LONG: Duration = Duration::from_secs(3600);

/// The speed of a replay.
#[derive(Debug)]
pub struct Pace {
    state: Mutex<State>,
    changed: Condvar,
    start: FileTime,
    /// End of the trace; zero if unknown.
    end: FileTime,
}

#[derive(Debug)]
struct State {
    /// Multiple of the recorded speed; infinite for as fast as possible.
    speed: f64,
    is_paused: bool,
    is_stopped: bool,
    /// A moment, and the time of the trace that is due then; `None` before the first event.
    due: Option<(Instant, FileTime)>,
    /// Time of the last event.
    latest: FileTime,
}

impl Pace {
    /// Creates the pace of a trace with these times; without a speed it is read as fast as possible.
    pub(crate) fn new(speed: Option<f64>, start: FileTime, end: FileTime) -> Pace {
        let speed = speed.unwrap_or(f64::INFINITY);
        let state = State { speed, is_paused: false, is_stopped: false, due: None, latest: start };
        Pace { state: Mutex::new(state), changed: Condvar::new(), start, end }
    }

    /// Waits until an event is due.
    pub(crate) fn wait(&self, time: FileTime) {
        let mut state = self.lock();
        state.due.get_or_insert_with(|| (Instant::now(), time));
        loop {
            let left = state.left(time);
            if left.is_zero() {
                break;
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.latest = state.latest.max(time);
    }

    /// Pauses or resumes.
    pub fn pause(&self, is_paused: bool) {
        self.change(|state| state.is_paused = is_paused);
    }

    /// Doubles the speed, or halves it; above 1024 it is as fast as possible.
    pub fn step(&self, is_faster: bool) {
        self.change(|state| {
            state.speed = match is_faster {
                true if state.speed >= FASTEST => f64::INFINITY,
                true => state.speed * 2.0,
                false if state.speed.is_infinite() => FASTEST,
                false => (state.speed / 2.0).max(SLOWEST),
            }
        });
    }

    /// Ends all waits.
    pub(crate) fn stop(&self) {
        self.change(|state| state.is_stopped = true);
    }

    /// Describes the speed and the position for the status line.
    pub fn text(&self) -> String {
        let state = self.lock();
        let speed = match state.speed {
            speed if speed.is_infinite() => "full speed".to_owned(),
            speed => format!("{speed}x"),
        };
        let whole = self.end.0.saturating_sub(self.start.0);
        let done = state.latest.0.saturating_sub(self.start.0);
        if whole <= 0 {
            return speed;
        }
        let percent = (done as f64 / whole as f64 * 100.0).clamp(0.0, 100.0);
        format!("{speed}, {percent:.0} %")
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        // The time until now has passed at the old speed.
        let now = Instant::now();
        state.due = state.due.map(|_| (now, state.position(now)));
        change(&mut state);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the time of the trace that is due.
    fn position(&self, now: Instant) -> FileTime {
        let Some((moment, time)) = self.due.filter(|_| self.speed.is_finite()) else { return self.latest };
        let passed = if self.is_paused { 0.0 } else { now.duration_since(moment).as_secs_f64() * self.speed };
        FileTime(time.0.saturating_add((passed * FileTime::PER_SECOND as f64) as i64))
    }

    /// Returns how long an event has to wait.
    fn left(&self, time: FileTime) -> Duration {
        match self.due {
            _ if self.is_stopped => Duration::ZERO,
            _ if self.is_paused => LONG,
            Some(_) if self.speed.is_finite() => {
                let ahead = time.0.saturating_sub(self.position(Instant::now()).0).max(0);
                let seconds = ahead as f64 / FileTime::PER_SECOND as f64 / self.speed;
                Duration::try_from_secs_f64(seconds).map_or(LONG, |left| left.min(LONG))
            }
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> FileTime {
        FileTime(seconds * FileTime::PER_SECOND)
    }

    fn left(pace: &Pace, seconds: i64) -> f64 {
        pace.lock().left(at(seconds)).as_secs_f64()
    }

    #[test]
    fn events_wait_as_long_as_recorded() {
        let pace = Pace::new(Some(2.0), at(100), at(300));
        pace.wait(at(100));
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 0.9, "{found}, {expected}");
        near(left(&pace, 140), 20.0);
        pace.step(true);
        near(left(&pace, 140), 10.0);
        assert_eq!((left(&pace, 100), left(&pace, 50)), (0.0, 0.0));
        pace.pause(true);
        assert_eq!(left(&pace, 140), LONG.as_secs_f64());
        pace.pause(false);
        near(left(&pace, 140), 10.0);
        (0..3).for_each(|_| pace.step(false));
        near(left(&pace, 140), 80.0);
        assert_eq!(pace.text(), "0.5x, 0 %");
        (0..20).for_each(|_| pace.step(false));
        assert_eq!(left(&pace, 100_000), LONG.as_secs_f64());
        pace.stop();
        assert_eq!(left(&pace, 140), 0.0);
    }

    #[test]
    fn full_speed_waits_only_while_paused() {
        let pace = Pace::new(None, at(100), at(300));
        pace.wait(at(150));
        pace.wait(at(200));
        assert_eq!((left(&pace, 290), pace.text().as_str()), (0.0, "full speed, 50 %"));
        pace.pause(true);
        assert_eq!(left(&pace, 290), LONG.as_secs_f64());
        pace.pause(false);
        pace.step(false);
        assert!(pace.text().starts_with("1024x") && left(&pace, 1224) > 0.5);
        pace.step(true);
        assert_eq!((left(&pace, 1224), Pace::new(None, at(0), at(0)).text().as_str()), (0.0, "full speed"));
    }
}
