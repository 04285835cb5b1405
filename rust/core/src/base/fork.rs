//! Forks of a process whose other threads compute.
//!
//! A child has the forking thread only: a lock that another thread held stays locked in it for ever. Therefore a fork waits
//! until no thread computes without the GIL (regions of [`compute`]; long ones let a fork pass at [`pause`]), and holds
//! every lock that is a [`ForkMutex`]. The wait is bounded: a thread in one long kernel does not stop a fork.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, Once};
use std::time::{Duration, Instant};

/// Threads in regions of [`compute`].
static BUSY: AtomicUsize = AtomicUsize::new(0);
/// Forks in progress.
static FORKS: AtomicUsize = AtomicUsize::new(0);
/// The longest that a fork waits for other threads.
const LIMIT: Duration = Duration::from_secs(5);

thread_local! {
    /// Nested regions of this thread.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

fn arrive() {
    loop {
        BUSY.fetch_add(1, SeqCst);
        if FORKS.load(SeqCst) == 0 {
            return;
        }
        BUSY.fetch_sub(1, SeqCst);
        while FORKS.load(SeqCst) != 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

fn leave() {
    BUSY.fetch_sub(1, SeqCst);
}

/// A region of [`compute`].
pub struct Computing(());

impl Drop for Computing {
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        if depth == 0 {
            leave();
        }
    }
}

/// Begins a region in which this thread runs without the GIL and may hold locks: forks of other threads wait for its end.
/// While a fork is in progress the call waits for it, so the caller must not hold the GIL.
pub fn compute() -> Computing {
    let depth = DEPTH.get();
    if depth == 0 {
        arrive();
    }
    DEPTH.set(depth + 1);
    Computing(())
}

/// Lets a fork pass in the middle of a region; the caller holds no lock.
#[inline]
pub fn pause() {
    if FORKS.load(SeqCst) != 0 && DEPTH.get() > 0 {
        leave();
        arrive();
    }
}

/// Runs a call that waits for the GIL, outside of this thread's region: the forking thread holds the GIL.
pub fn outside<T>(call: impl FnOnce() -> T) -> T {
    struct Back(u32);
    impl Drop for Back {
        fn drop(&mut self) {
            if self.0 > 0 {
                arrive();
            }
            DEPTH.set(self.0);
        }
    }
    let depth = DEPTH.replace(0);
    if depth > 0 {
        leave();
    }
    let _back = Back(depth);
    call()
}

/// A lock of the whole process, held across forks, so that the child finds it free and its content whole. In a `static`.
pub struct ForkMutex<T: 'static> {
    // std's lock is one word without a table of waiting threads, and can be unlocked in a child.
    inner: Mutex<T>,
    registered: AtomicBool,
    /// The guard while a fork is in progress; used by the forking thread only.
    held: UnsafeCell<Option<MutexGuard<'static, T>>>,
}

// SAFETY: `held` is accessed by the fork handlers alone, and written only by the thread that has locked `inner`.
unsafe impl<T: Send> Sync for ForkMutex<T> {}
// SAFETY: as above; a static is never moved to another thread while a guard is in `held`.
unsafe impl<T: Send> Send for ForkMutex<T> {}

impl<T: Send + 'static> ForkMutex<T> {
    pub const fn new(value: T) -> ForkMutex<T> {
        ForkMutex { inner: Mutex::new(value), registered: AtomicBool::new(false), held: UnsafeCell::new(None) }
    }

    /// Locks; a panic of another holder is ignored, as with parking_lot's locks.
    #[inline]
    pub fn lock(&'static self) -> MutexGuard<'static, T> {
        if !self.registered.load(SeqCst) && !self.registered.swap(true, SeqCst) {
            register(self);
        }
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

trait Held: Sync {
    /// Locks for a fork without waiting; false if another thread holds the lock.
    fn try_hold(&self) -> bool;
    /// Unlocks what `try_hold` has locked in this thread's fork.
    fn release(&self);
}

impl<T: Send + 'static> Held for ForkMutex<T> {
    fn try_hold(&self) -> bool {
        let guard = match self.inner.try_lock() {
            Ok(guard) => guard,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return false,
        };
        // SAFETY: the lock is held, so no other handler is here; locks are statics, which live for ever.
        unsafe { *self.held.get() = Some(std::mem::transmute::<MutexGuard<'_, T>, MutexGuard<'static, T>>(guard)) };
        true
    }
    fn release(&self) {
        // SAFETY: this thread has locked it in `try_hold`.
        drop(unsafe { (*self.held.get()).take() });
    }
}

/// A registered lock, boxed once so that a thin pointer leads to it.
struct Entry(&'static dyn Held);

const MOST: usize = 64;
static LOCKS: [AtomicPtr<Entry>; MOST] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn register(lock: &'static dyn Held) {
    install();
    let at = COUNT.fetch_add(1, SeqCst);
    assert!(at < MOST, "more than {MOST} locks are held across forks");
    LOCKS[at].store(Box::into_raw(Box::new(Entry(lock))), SeqCst);
}

fn locks() -> impl Iterator<Item = &'static dyn Held> {
    LOCKS[..COUNT.load(SeqCst).min(MOST)].iter().filter_map(|entry| {
        // SAFETY: entries are never freed.
        unsafe { entry.load(SeqCst).as_ref() }.map(|entry| entry.0)
    })
}

thread_local! {
    /// Which of [`LOCKS`] this thread's fork holds.
    static HOLDS: Cell<u64> = const { Cell::new(0) };
}

/// Makes forks of this process wait for the regions and hold the locks.
pub fn install() {
    static ONCE: Once = Once::new();
    #[cfg(unix)]
    ONCE.call_once(|| {
        // SAFETY: the handlers are `extern "C"` functions that neither allocate nor panic.
        unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
    });
}

extern "C" fn before() {
    FORKS.fetch_add(1, SeqCst);
    let own = usize::from(DEPTH.get() > 0);
    let end = Instant::now() + LIMIT;
    while BUSY.load(SeqCst) > own && Instant::now() < end {
        std::thread::sleep(Duration::from_micros(20));
    }
    let mut holds = 0u64;
    // A lock is held for a few instructions, except by this thread itself: all or again, so that orders do not matter.
    let end = Instant::now() + LIMIT / 50;
    loop {
        let mut all = true;
        for (i, lock) in locks().enumerate() {
            if holds >> i & 1 == 0 {
                match lock.try_hold() {
                    true => holds |= 1 << i,
                    false => all = false,
                }
            }
        }
        if all || Instant::now() >= end {
            break;
        }
        release(holds);
        holds = 0;
        std::thread::sleep(Duration::from_micros(20));
    }
    HOLDS.set(holds);
}

fn release(holds: u64) {
    locks().enumerate().filter(|(i, _)| holds >> i & 1 == 1).for_each(|(_, lock)| lock.release());
}

extern "C" fn after_in_parent() {
    release(HOLDS.replace(0));
    FORKS.fetch_sub(1, SeqCst);
}

extern "C" fn after_in_child() {
    // The other threads do not exist here, nor do their regions and forks.
    BUSY.store(usize::from(DEPTH.get() > 0), SeqCst);
    release(HOLDS.replace(0));
    FORKS.store(0, SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    static LOCK: ForkMutex<Vec<u32>> = ForkMutex::new(Vec::new());

    #[test]
    #[cfg_attr(miri, ignore = "forks")]
    fn the_child_of_a_fork_finds_locks_free_and_their_content_whole() {
        let stop = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    while !stop.load(SeqCst) {
                        let _region = compute();
                        let mut held = LOCK.lock();
                        held.push(1);
                        std::thread::yield_now();
                        held.push(2);
                    }
                });
            }
            for _ in 0..200 {
                // SAFETY: the child uses the lock, which the handlers have freed, and leaves by _exit.
                let pid = unsafe { libc::fork() };
                if pid == 0 {
                    let whole = LOCK.lock().len().is_multiple_of(2) && BUSY.load(SeqCst) == 0;
                    // SAFETY: _exit runs no destructors.
                    unsafe { libc::_exit(i32::from(!whole)) };
                }
                let mut status = 0;
                // SAFETY: `status` is this call's to write.
                unsafe { libc::waitpid(pid, &mut status, 0) };
                assert_eq!(status, 0);
            }
            stop.store(true, SeqCst);
        });
    }

    #[test]
    fn regions_nest_and_calls_outside_of_them_do_not_count() {
        let a = compute();
        let b = compute();
        outside(|| assert_eq!(DEPTH.get(), 0));
        assert_eq!(DEPTH.get(), 2);
        drop(b);
        drop(a);
        assert_eq!(DEPTH.get(), 0);
    }
}
