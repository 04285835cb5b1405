//! Waits for a word in shared memory: spins if there are cores for it, then sleeps on a futex.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::os;

/// How long a spin continues without yielding the processor.
pub const ALONE: Duration = Duration::from_micros(50);
/// A yield that took this long gave the processor to another thread.
const ACCEPTED: Duration = Duration::from_micros(100);

/// Spins until `ready`, the limit, or another thread needs the processor. Waking a halted processor takes 50 us.
pub fn spin(limit: Duration, mut ready: impl FnMut() -> bool) -> bool {
    if ready() {
        return true;
    }
    if limit.is_zero() {
        return false;
    }
    let start = Instant::now();
    loop {
        for _ in 0..64 {
            std::hint::spin_loop();
            if ready() {
                return true;
            }
        }
        let before = start.elapsed();
        if before >= limit {
            return false;
        }
        if before >= ALONE {
            std::thread::yield_now();
            if start.elapsed() - before >= ACCEPTED {
                return ready();
            }
        }
    }
}

/// Sleeps while `word` is `seen`, at most `limit`.
pub fn sleep(word: &AtomicU32, sleepers: &AtomicU32, seen: u32, limit: Duration) {
    // Sequential consistency: either the writer of the word sees a sleeper, or the sleeper sees the change.
    sleepers.fetch_add(1, Ordering::SeqCst);
    if word.load(Ordering::SeqCst) == seen {
        // Woken, timed out or interrupted: the caller checks again in any case.
        os::futex_wait(word, seen, limit);
    }
    sleepers.fetch_sub(1, Ordering::SeqCst);
}

/// Wakes sleepers after a change of `word`.
pub fn wake(word: &AtomicU32, sleepers: &AtomicU32) {
    if sleepers.load(Ordering::SeqCst) > 0 {
        os::futex_wake(word);
    }
}
