//! Work on several threads.

use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Result, anyhow};

/// Calls `work` with each item, the first ones first, on this many threads, and returns the results in any order. After an
/// error no further item is begun.
///
/// # Errors
///
/// Fails with the first error.
pub fn each<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    threads: usize,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let waiting: Mutex<Vec<T>> = Mutex::new(items.into_iter().collect());
    let waiting = || waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting().reverse();
    let lane = || -> Result<Vec<R>> {
        let mut results = Vec::new();
        loop {
            let Some(item) = waiting().pop() else { return Ok(results) };
            results.push(work(item).inspect_err(|_| waiting().clear())?);
        }
    };
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..threads).map(|_| scope.spawn(lane)).collect();
        let mut all = Vec::new();
        for lane in lanes {
            all.extend(lane.join().map_err(|_| anyhow!("a thread failed"))??);
        }
        Ok(all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_worked_on_once() {
        let mut done = each(0..100, 3, |item| Ok(item * 2)).unwrap();
        done.sort_unstable();
        assert!(done.into_iter().eq((0..100).map(|item| item * 2)));
        assert_eq!(each([1, 2, 3], 1, Ok).unwrap(), [1, 2, 3]);
    }

    #[test]
    fn an_error_ends_the_work() {
        let begun = Mutex::new(0);
        let done: Result<Vec<()>> = each(0..100, 1, |item| {
            *begun.lock().unwrap() += 1;
            if item == 4 { Err(anyhow!("no")) } else { Ok(()) }
        });
        assert_eq!((done.unwrap_err().to_string(), *begun.lock().unwrap()), ("no".into(), 5));
    }
}
