//! The thread pool. Work is divided into chunks whose number depends on the size of the work alone, so that results do
//! not depend on the number of threads.
//!
//! One call runs on the pool at a time: a call from inside a chunk, or during a call of another thread, runs all its
//! chunks on the calling thread. Unparking a worker costs microseconds: work below about 30 us should be one chunk,
//! which runs inline.

use crate::simd::prefetch_at;
use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};
use std::sync::{Condvar, Mutex, Once};
use std::time::{Duration, Instant};

/// Spinning time of an idle worker, and of a caller that waits for the last chunk, before parking: unparking costs
/// about 50 us on a halted processor.
const SPIN: Duration = Duration::from_millis(2);
/// Spinning time without yielding the processor.
const SPIN_WITHOUT_YIELD: Duration = Duration::from_micros(60);
/// A yield of this duration means that another thread needs the processor: spinning ends.
const YIELDED: Duration = Duration::from_micros(100);
/// Largest number of threads.
const MOST: usize = 1024;

/// Configured number of threads (0: not decided yet).
static WANTED: AtomicUsize = AtomicUsize::new(0);
/// The pool of this process; null in the child of a fork, where the workers do not exist.
static TEAM: AtomicPtr<Team> = AtomicPtr::new(null_mut());
static AT_FORK: Once = Once::new();
/// Number of calls that ran on the team.
static CALLS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// This thread is inside a parallel call (as caller or worker).
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// This thread's last call processed its chunks from the end.
    static BACKWARD: Cell<bool> = const { Cell::new(false) };
    /// A bit for each class of addresses: the direction of this thread's last call for data there (`alternate`).
    static DIRECTIONS: Cell<u64> = const { Cell::new(0) };
    /// The number of threads of this thread's calls (0: that of the process).
    static LIMIT: Cell<usize> = const { Cell::new(0) };
}

/// Sets a thread-local cell while `f` runs.
fn with_cell<C: Copy, R>(key: &'static std::thread::LocalKey<Cell<C>>, value: C, f: impl FnOnce() -> R) -> R {
    struct Back<C: Copy + 'static>(&'static std::thread::LocalKey<Cell<C>>, C);
    impl<C: Copy> Drop for Back<C> {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    let _back = Back(key, key.replace(value));
    f()
}

/// Runs `f` with `n` threads in the parallel calls of this thread (0: as many as the process uses).
pub fn with_threads<R>(n: usize, f: impl FnOnce() -> R) -> R {
    with_cell(&LIMIT, n.min(MOST), f)
}

/// Whether this call processes its chunks from the end; every second call does. The data that the call before accessed
/// last is still in the cache, so that a tensor larger than the cache is partly read from the cache.
fn alternate_direction() -> bool {
    BACKWARD.replace(!BACKWARD.get())
}

/// Makes the next call of this thread begin at the first chunk: data much larger than the cache does not profit from
/// alternating directions.
pub fn from_front() {
    BACKWARD.set(false);
}

/// Makes the next call of this thread alternate with its last call for data at `address`, whatever other data it has
/// processed between them: the matrices of a network that are larger than the cache together are partly read from it.
pub fn alternate(address: usize) {
    let bit = 1 << ((address as u64 >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58);
    let directions = DIRECTIONS.get() ^ bit;
    DIRECTIONS.set(directions);
    BACKWARD.set(directions & bit == 0);
}

/// Number of lanes into which the chunks of a call are divided.
const LANES: usize = 16;

/// A run of adjacent chunks. Each thread begins with the lane of its index, so that in a sequence of calls it processes
/// the same part of the data, which is in its caches; then it takes chunks of other lanes.
#[repr(align(64))]
struct Lane {
    next: AtomicUsize,
    first: usize,
    end: usize,
}

/// A borrowed closure of one argument. A trait object would have a vtable with shims for FnMut and FnOnce, for each of
/// some 1,500 closures.
struct Task<'a, A> {
    data: *const (),
    call: unsafe fn(*const (), A),
    life: PhantomData<&'a ()>,
}

// SAFETY: `Task::new` takes closures that threads may share.
unsafe impl<A> Sync for Task<'_, A> {}

impl<'a, A> Task<'a, A> {
    #[inline(always)]
    fn new<F: Fn(A) + Sync>(f: &'a F) -> Self {
        /// # Safety
        /// `data` points to a live `F`.
        unsafe fn call<A, F: Fn(A)>(data: *const (), argument: A) {
            // SAFETY: by the contract.
            unsafe { (*data.cast::<F>())(argument) }
        }
        Task { data: (f as *const F).cast(), call: call::<A, F>, life: PhantomData }
    }

    #[inline(always)]
    fn run(&self, argument: A) {
        // SAFETY: `data` points to the closure that `call` was made for, which is borrowed for `'a`.
        unsafe { (self.call)(self.data, argument) }
    }
}

/// One parallel call, on the stack of its caller.
struct Job {
    f: *const Task<'static, usize>,
    lanes: [Lane; LANES],
    used: usize,
    backward: bool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Job {
    fn new(f: *const Task<'static, usize>, chunks: usize, threads: usize, backward: bool) -> Self {
        let used = threads.min(chunks).min(LANES);
        let first = |lane: usize| (lane as u128 * chunks as u128 / used as u128) as usize;
        let lanes = std::array::from_fn(|l| match l < used {
            true => Lane { next: AtomicUsize::new(first(l)), first: first(l), end: first(l + 1) },
            false => Lane { next: AtomicUsize::new(0), first: 0, end: 0 },
        });
        Job { f, lanes, used, backward, panic: Mutex::new(None) }
    }

    /// Runs chunks until none are left. The first panic is stored for the caller and ends the call.
    fn work(&self, thread: usize) {
        let outer = INSIDE.replace(true);
        // SAFETY: `f` outlives the job: the caller of `chunks` leaves only after every worker has left the job.
        let f = unsafe { &*self.f };
        let run = catch_unwind(AssertUnwindSafe(|| {
            for l in 0..self.used {
                let lane = &self.lanes[(thread + l) % self.used];
                loop {
                    let i = lane.next.fetch_add(1, Relaxed);
                    if i >= lane.end {
                        break;
                    }
                    f.run(if self.backward { lane.first + (lane.end - 1 - i) } else { i });
                }
            }
        }));
        if let Err(payload) = run {
            self.lanes.iter().for_each(|lane| lane.next.store(lane.end, Relaxed));
            self.panic.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(payload);
        }
        INSIDE.set(outer);
    }
}

/// The workers and their shared state. Leaked: workers may read it at any time.
struct Team {
    busy: AtomicBool,
    /// The running job, or null.
    job: AtomicPtr<Job>,
    /// Changes with every job, so that a worker joins each job at most once.
    epoch: AtomicU32,
    /// Number of workers that may access `job`.
    active: AtomicUsize,
    /// Workers with a lower index take part.
    limit: AtomicUsize,
    started: AtomicUsize,
    spin: AtomicBool,
    sleeping: AtomicUsize,
    wake: (Mutex<()>, Condvar),
    waiting: AtomicBool,
    done: (Mutex<()>, Condvar),
}

impl Team {
    fn new() -> &'static Team {
        Box::leak(Box::new(Team {
            busy: AtomicBool::new(false),
            job: AtomicPtr::new(null_mut()),
            epoch: AtomicU32::new(0),
            active: AtomicUsize::new(0),
            limit: AtomicUsize::new(0),
            started: AtomicUsize::new(0),
            spin: AtomicBool::new(false),
            sleeping: AtomicUsize::new(0),
            wake: Default::default(),
            waiting: AtomicBool::new(false),
            done: Default::default(),
        }))
    }

    /// Brings the team to `threads` members, the caller included. Called with `busy` held.
    fn resize(&'static self, threads: usize) {
        let mut started = self.started.load(Relaxed);
        while started + 1 < threads {
            let worker = move || self.worker(started);
            if std::thread::Builder::new().name(format!("oar-{}", started + 1)).spawn(worker).is_err() {
                break; // no more threads to be had: fewer do the same work
            }
            started += 1;
        }
        self.started.store(started, Relaxed);
        self.spin.store(threads <= cores(), Relaxed);
        self.limit.store(threads - 1, SeqCst);
    }

    fn worker(&'static self, index: usize) {
        let mut seen = 0;
        loop {
            seen = self.next_epoch(seen);
            if index >= self.limit.load(SeqCst) {
                continue;
            }
            // Raise `active`, then read `job`; the caller clears `job`, then reads `active`. Either this worker sees no
            // job, or the caller sees this worker and waits.
            self.active.fetch_add(1, SeqCst);
            let job = self.job.load(SeqCst);
            if !job.is_null() {
                // SAFETY: the job was visible after `active` was raised, so its caller waits for this worker.
                unsafe { (*job).work(index + 1) };
            }
            if self.active.fetch_sub(1, SeqCst) == 1 && self.waiting.load(SeqCst) {
                drop(self.done.0.lock());
                self.done.1.notify_one();
            }
        }
    }

    /// Waits until the epoch is not `seen`.
    fn next_epoch(&self, seen: u32) -> u32 {
        if self.spin.load(Relaxed) && spin(|| self.epoch.load(SeqCst) != seen) {
            return self.epoch.load(SeqCst);
        }
        let mut guard = self.wake.0.lock().unwrap_or_else(|e| e.into_inner());
        self.sleeping.fetch_add(1, SeqCst);
        let now = loop {
            let now = self.epoch.load(SeqCst);
            if now != seen {
                break now;
            }
            guard = self.wake.1.wait(guard).unwrap_or_else(|e| e.into_inner());
        };
        self.sleeping.fetch_sub(1, SeqCst);
        now
    }

    fn run(&self, job: &Job) {
        CALLS.fetch_add(1, Relaxed);
        self.job.store(job as *const Job as *mut Job, SeqCst);
        self.epoch.fetch_add(1, SeqCst);
        if self.sleeping.load(SeqCst) > 0 {
            drop(self.wake.0.lock());
            self.wake.1.notify_all();
        }
        job.work(0);
        self.job.store(null_mut(), SeqCst);
        self.wait();
    }

    /// Waits until no worker holds the job.
    fn wait(&self) {
        if self.spin.load(Relaxed) && spin(|| self.active.load(SeqCst) == 0) {
            return;
        }
        let mut guard = self.done.0.lock().unwrap_or_else(|e| e.into_inner());
        self.waiting.store(true, SeqCst);
        while self.active.load(SeqCst) != 0 {
            guard = self.done.1.wait(guard).unwrap_or_else(|e| e.into_inner());
        }
        self.waiting.store(false, SeqCst);
    }
}

/// Spins until `ready` is true, for a limited time and while no other thread needs the processor; returns whether it is.
fn spin(ready: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        for _ in 0..64 {
            if ready() {
                return true;
            }
            std::hint::spin_loop();
        }
        let before = start.elapsed();
        if before >= SPIN {
            return false;
        }
        if before >= SPIN_WITHOUT_YIELD {
            std::thread::yield_now();
            if start.elapsed() - before >= YIELDED {
                return ready();
            }
        }
    }
}

/// Processors this process may use: affinity and cgroup quota (std reads both).
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// As `cores`, determined once.
pub fn processors() -> usize {
    static COUNT: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *COUNT.get_or_init(cores)
}

fn from_environment() -> usize {
    let named = std::env::var("OMP_NUM_THREADS").ok();
    let named = named.and_then(|v| v.split(',').next()?.trim().parse::<usize>().ok());
    named.filter(|&n| n > 0).unwrap_or_else(cores).min(MOST)
}

extern "C" fn forked() {
    // Only plain stores: another thread of the parent may have held any lock.
    TEAM.store(null_mut(), SeqCst);
    WANTED.store(1, SeqCst);
}

/// Number of calls of this process that ran on more than one thread; execution plans learn from it which operators are
/// parallel.
pub fn calls() -> usize {
    CALLS.load(Relaxed)
}

/// Number of threads that take part in a parallel call of this thread, the caller included.
pub fn threads() -> usize {
    let limit = LIMIT.get();
    if limit > 0 {
        return limit;
    }
    match WANTED.load(Relaxed) {
        0 => {
            let n = from_environment();
            WANTED.compare_exchange(0, n, SeqCst, SeqCst).unwrap_or_else(|old| old.max(n));
            WANTED.load(Relaxed)
        }
        n => n,
    }
}

/// Sets the number of threads (0: from the environment). The child of a fork is serial until it calls this. Running
/// calls keep their threads.
pub fn set_threads(n: usize) {
    WANTED.store(if n == 0 { from_environment() } else { n.min(MOST) }, SeqCst);
}

/// The team of `wanted` threads with its `busy` flag acquired, or None if another call holds it.
fn take_team(wanted: usize) -> Option<&'static Team> {
    let mut team = TEAM.load(Acquire);
    if team.is_null() {
        // SAFETY: `forked` is an `extern "C"` function that only stores to atomics, as a fork handler must.
        #[cfg(unix)]
        AT_FORK.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(forked));
        });
        let fresh = Team::new() as *const Team as *mut Team;
        team = match TEAM.compare_exchange(null_mut(), fresh, SeqCst, SeqCst) {
            Ok(_) => fresh,
            // SAFETY: `fresh` came from Box::leak and has not been shared.
            Err(other) => unsafe {
                drop(Box::from_raw(fresh));
                other
            },
        };
    }
    // SAFETY: a team is never freed once it is stored in TEAM.
    let team: &'static Team = unsafe { &*team };
    team.busy.compare_exchange(false, true, Acquire, Relaxed).ok()?;
    if team.limit.load(Relaxed) + 1 != wanted || team.started.load(Relaxed) + 1 < wanted {
        team.resize(wanted);
    }
    Some(team)
}

/// Calls `f(i)` for every `i < chunks`, on the pool's threads and the caller's. A panic in `f` reaches the caller after
/// every thread has left the call; chunks that have not begun are dropped.
pub fn chunks(chunks: usize, f: impl Fn(usize) + Sync) {
    run_chunks(threads(), chunks, &Task::new(&f))
}

/// As `chunks`, on `threads` threads: for work whose number of parts is a parameter.
pub fn chunks_on(threads: usize, chunks: usize, f: impl Fn(usize) + Sync) {
    run_chunks(threads, chunks, &Task::new(&f))
}

/// Not generic, as `run_ranges`: a caller's loop is compiled once, not for each branch below.
#[inline(never)]
fn run_chunks(threads: usize, chunks: usize, f: &Task<usize>) {
    if chunks <= 1 || INSIDE.get() {
        return (0..chunks).for_each(|i| f.run(i));
    }
    let backward = alternate_direction();
    let team = if threads == 1 { None } else { take_team(threads) };
    let Some(team) = team else {
        return match backward {
            false => (0..chunks).for_each(|i| f.run(i)),
            true => (0..chunks).rev().for_each(|i| f.run(i)),
        };
    };
    // SAFETY: only the lifetime is erased; `Team::run` returns after every worker has left the job.
    let f: &Task<'static, usize> = unsafe { std::mem::transmute(f) };
    let job = Job::new(f, chunks, team.limit.load(Relaxed) + 1, backward);
    team.run(&job);
    team.busy.store(false, Release);
    if let Some(payload) = job.panic.into_inner().unwrap_or_else(|e| e.into_inner()) {
        resume_unwind(payload);
    }
}

/// Runs `f` with all parallel calls of this thread serial: for callers that run one such thread per processor.
pub fn serially<R>(f: impl FnOnce() -> R) -> R {
    with_cell(&INSIDE, true, f)
}

/// Calls `f` with consecutive ranges of `grain` indices (the last may be shorter) that cover `0..n`.
pub fn ranges(n: usize, grain: usize, f: impl Fn(Range<usize>) + Sync) {
    run_ranges(n, grain.max(1), &Task::new(&f))
}

#[inline(never)]
fn run_ranges(n: usize, grain: usize, f: &Task<Range<usize>>) {
    if n <= grain {
        return if n > 0 {
            f.run(0..n)
        };
    }
    chunks(n.div_ceil(grain), |i| f.run(i * grain..((i + 1) * grain).min(n)));
}

/// Elements per chunk for `n` elements that are read or written once each: at least `least` (one such chunk runs
/// inline), more for large `n`, so that threads read memory in long runs. It depends on its arguments only.
pub fn grain(n: usize, least: usize) -> usize {
    (n / 64).clamp(least, 16 * least)
}

/// A slice that chunks share: chunks write disjoint parts.
#[derive(Clone, Copy)]
pub struct Shared<T>(*mut T, usize);

// SAFETY: `Shared` is only a pointer and a length; `part` is unsafe and requires disjoint parts.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub fn new(slice: &mut [T]) -> Self {
        Shared(slice.as_mut_ptr(), slice.len())
    }

    /// The elements `range`.
    ///
    /// # Safety
    /// Parts that exist at the same time do not overlap, and no part outlives the slice.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn part<'a>(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.1);
        // SAFETY: in bounds by the assertion; disjoint by the caller's contract.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(range.start), range.end - range.start) }
    }

    /// Prefetches the cache lines of `n` elements, which other threads may be writing.
    #[inline(always)]
    pub fn prefetch(&self, at: usize, n: usize) {
        prefetch_at(self.0.wrapping_add(at), n);
    }
}

/// A pointer that threads share without a length: their accesses are disjoint.
pub struct SharedPtr<T>(pub *mut T);
// SAFETY: only a pointer; the code that dereferences it keeps accesses of different threads disjoint.
unsafe impl<T: Send> Sync for SharedPtr<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for SharedPtr<T> {}
impl<T> Clone for SharedPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for SharedPtr<T> {}
impl<T> SharedPtr<T> {
    pub fn get(&self) -> *mut T {
        self.0
    }
}

/// Calls `f(start, part)` for consecutive parts of `grain` elements of `out`, in parallel.
pub fn parts<T: Send>(out: &mut [T], grain: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let (n, shared) = (out.len(), Shared::new(out));
    // SAFETY: `ranges` hands out disjoint ranges and returns before `out` can be used again.
    ranges(n, grain, |r| f(r.start, unsafe { shared.part(r) }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn every_chunk_runs_once() {
        for threads in [1, 2, 5, 3] {
            set_threads(threads);
            for n in [0, 1, 2, 7, 1000] {
                let hits: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
                for _ in 0..50 {
                    chunks(n, |i| {
                        hits[i].fetch_add(1, Relaxed);
                    });
                }
                assert!(hits.iter().all(|h| h.load(Relaxed) == 50));
            }
        }
        set_threads(0);
    }

    #[test]
    fn parts_cover_and_nested_calls_run_inline() {
        set_threads(4);
        let mut out = vec![0usize; 1003];
        parts(&mut out, 10, |start, part| {
            let total = AtomicUsize::new(0);
            ranges(part.len(), 3, |r| {
                total.fetch_add(r.len(), Relaxed);
            });
            assert_eq!(total.load(Relaxed), part.len());
            part.iter_mut().enumerate().for_each(|(i, v)| *v = start + i);
        });
        assert!(out.iter().enumerate().all(|(i, &v)| i == v));
        set_threads(0);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        set_threads(3);
        for _ in 0..20 {
            let caught = catch_unwind(|| {
                chunks(100, |i| {
                    if i == 37 {
                        resume_unwind(Box::new("thirty-seven"));
                    }
                })
            });
            assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "thirty-seven");
            let sum = AtomicU64::new(0);
            chunks(100, |i| {
                sum.fetch_add(i as u64, Relaxed);
            });
            assert_eq!(sum.into_inner(), 4950);
        }
        set_threads(0);
    }

    #[test]
    fn callers_on_many_threads_do_not_wait_for_each_other() {
        set_threads(2);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..200 {
                        let sum = AtomicU64::new(0);
                        chunks(64, |i| {
                            sum.fetch_add(i as u64, Relaxed);
                        });
                        assert_eq!(sum.into_inner(), 2016);
                    }
                });
            }
        });
        set_threads(0);
    }

    #[cfg(unix)]
    #[test]
    fn the_child_of_a_fork_is_serial_until_it_asks() {
        set_threads(2);
        chunks(8, |_| ()); // the pool exists
        let work = || {
            let sum = AtomicU64::new(0);
            chunks(1000, |i| {
                sum.fetch_add(i as u64, Relaxed);
            });
            sum.into_inner() == 499_500
        };
        // SAFETY: the child calls only this module (no allocation held by other threads is needed: glibc's
        // malloc is usable after fork) and leaves by _exit.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let mut good = threads() == 1 && work();
            set_threads(2);
            good &= threads() == 2 && (0..50).all(|_| work());
            // SAFETY: _exit runs no destructors, as the child of a fork should.
            unsafe { libc::_exit(if good { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: `pid` is a child of this process and `status` a place for its status.
        unsafe { libc::waitpid(pid, &mut status, 0) };
        assert_eq!(status, 0);
        set_threads(0);
    }
}
