//! Observers of operators (profiler, tracer, NaN check) and the profiler's log: what ran when, on which thread.
//! Without observers an operator pays one load.

use parking_lot::Mutex;
use std::borrow::Cow;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU8, Ordering};
use std::sync::OnceLock;
use std::time::Instant;

/// A logged interval. Times are nanoseconds since an unspecified moment of this process.
#[derive(Clone, Debug)]
pub struct Event {
    pub name: Cow<'static, str>,
    pub start: u64,
    pub end: u64,
    /// Threads are numbered in the order of their first event.
    pub thread: u32,
    /// Number of enclosing events.
    pub depth: u32,
}

/// A bit for each kind of observer.
static WATCHERS: AtomicU8 = AtomicU8::new(0);
const PROFILER: u8 = 1;
/// Some thread records what its eager calls read and write (`autograd::trace`).
const TRACER: u8 = 2;
/// Outputs are checked for NaN and infinities (`finite`).
const CHECKER: u8 = 4;
/// Some thread's eager calls cast their inputs (`autograd::autocast`).
const CASTER: u8 = 8;

static LOG: Mutex<Vec<Event>> = Mutex::new(Vec::new());
static THREADS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static THREAD: u32 = THREADS.fetch_add(1, Ordering::Relaxed);
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// True if any observer is active. Shortcuts that report nothing are disabled then.
#[inline]
pub fn watched() -> bool {
    WATCHERS.load(Ordering::Relaxed) != 0
}

#[inline]
pub fn on() -> bool {
    WATCHERS.load(Ordering::Relaxed) & PROFILER != 0
}

#[inline]
pub fn is_traced() -> bool {
    WATCHERS.load(Ordering::Relaxed) & TRACER != 0
}

#[inline]
pub fn is_checked() -> bool {
    WATCHERS.load(Ordering::Relaxed) & CHECKER != 0
}

#[inline]
pub fn is_casting() -> bool {
    WATCHERS.load(Ordering::Relaxed) & CASTER != 0
}

fn watch(watcher: u8, on: bool) {
    if on {
        WATCHERS.fetch_or(watcher, Ordering::Relaxed);
    } else {
        WATCHERS.fetch_and(!watcher, Ordering::Relaxed);
    }
}

pub fn set_traced(on: bool) {
    watch(TRACER, on);
}

pub fn set_casting(on: bool) {
    watch(CASTER, on);
}

pub fn set_checked(on: bool) {
    watch(CHECKER, on);
}

/// Starts with an empty log.
pub fn start() {
    reset();
    now();
    watch(PROFILER, true);
}

/// Clears the log.
pub fn reset() {
    LOG.lock().clear();
}

/// Stops, and returns the log in the order in which events ended.
pub fn stop() -> Vec<Event> {
    watch(PROFILER, false);
    std::mem::take(&mut *LOG.lock())
}

/// Logs an event that ends when this is dropped.
pub struct Span {
    name: Cow<'static, str>,
    start: u64,
}

/// A span of this name, if the profiler is on.
#[inline]
pub fn span(name: impl FnOnce() -> Cow<'static, str>) -> Option<Span> {
    if on() {
        return Some(begin(name()));
    }
    None
}

#[cold]
fn begin(name: Cow<'static, str>) -> Span {
    DEPTH.with(|d| d.set(d.get() + 1));
    Span { name, start: now() }
}

impl Span {
    /// Logs nothing for this span.
    pub fn cancel(mut self) {
        self.start = u64::MAX;
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let end = now();
        let depth = DEPTH.with(|d| {
            d.set(d.get() - 1);
            d.get()
        });
        if self.start <= end && on() {
            let name = std::mem::take(&mut self.name);
            LOG.lock().push(Event { name, start: self.start, end, thread: THREAD.with(|t| *t), depth });
        }
    }
}
