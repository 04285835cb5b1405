//! Waiting for a word in shared memory: a spin where there are cores for it, then a futex.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::futex;

use crate::socket::timespec;

/// How long a spin goes on without offering the processor to others.
pub const ALONE: Duration = Duration::from_micros(50);
/// An offer that took this long was accepted: somebody else needs the processor.
const ACCEPTED: Duration = Duration::from_micros(100);

/// Spin until `ready`, the time is over, or somebody else wants the processor. It pays: to wake a processor that is halted
/// takes 50 us.
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

/// Sleep while `word` is `seen`, at most `limit`.
pub fn sleep(word: &AtomicU32, sleepers: &AtomicU32, seen: u32, limit: Duration) {
    // Either the one who changes the word sees a sleeper, or the sleeper sees the change: both go through one order.
    sleepers.fetch_add(1, Ordering::SeqCst);
    if word.load(Ordering::SeqCst) == seen {
        // Woken, timed out or interrupted: the caller looks again in any case.
        let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&timespec(limit)));
    }
    sleepers.fetch_sub(1, Ordering::SeqCst);
}

/// After a change of `word`.
pub fn wake(word: &AtomicU32, sleepers: &AtomicU32) {
    if sleepers.load(Ordering::SeqCst) > 0 {
        let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    }
}
