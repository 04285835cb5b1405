//! The dependency scheduler: tasks of a plan that do not depend on each other run at the same time.
//!
//! A task waits for those before it in the program that wrote what it touches (read after write, write after write) or
//! read what it writes (write after read). Variables are compared by number, that is by name; an operator that moves a
//! value out of a variable, or computes in it, writes it. Random draws keep program order. What touches the world
//! (files, Python, communication, sub-blocks) is a barrier: everything before it has run, nothing behind it has begun.
//!
//! Whether it pays is measured: the second and third run of a plan are timed task by task. Units whose kernels used
//! the pool already stay alone. Of the rest, stretches in which the threads would save enough become windows, whose
//! tasks are handed out as they become ready. A plan that is a chain, or is small, keeps the plain path; so do
//! sub-blocks, and runs that are fed much more or less than those timed. Results cannot depend on any of this, since
//! each task computes the same from the same operands; of several errors the first one of the program is raised.

use oar_core::base::Result;
use oar_core::err;
use oar_core::op::call::panic_text;
use oar_kernels::pool;
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::OnceLock;
use std::time::Instant;

/// Runs that are timed; the one before them fills caches.
const TIMED: u32 = 2;
/// Nanoseconds that a window must save, and what it costs for each of its tasks.
const WORTH: u64 = 20_000;
const PRICE: u64 = 300;

/// The dependencies of a plan and what was learnt of its tasks. `Default` is the plain path.
#[derive(Default)]
pub struct Schedule {
    /// For each task those before it that it waits for, barriers left out; none of it where no two are independent.
    pub after: Vec<Vec<u32>>,
    pub barrier: Vec<bool>,
    always: bool,
    runs: AtomicU32,
    /// Bytes that were fed to the timed runs: with much more or less of it the times would be others.
    fed: AtomicU64,
    times: Vec<AtomicU64>,
    wide: Vec<AtomicBool>,
    decided: OnceLock<Vec<Window>>,
}

/// Units in a row whose order is free but for what each waits for.
pub struct Window {
    pub tasks: Range<usize>,
    /// For each task, counted from the first: how many it waits for, and who waits for it.
    waits: Vec<u32>,
    next: Vec<Vec<u32>>,
}

impl Window {
    pub fn of(after: &[Vec<u32>], tasks: Range<usize>) -> Window {
        let mut next = vec![Vec::new(); tasks.len()];
        let mut waits = vec![0; tasks.len()];
        for u in tasks.clone() {
            for &w in after[u].iter().filter(|&&w| tasks.contains(&(w as usize))) {
                next[w as usize - tasks.start].push((u - tasks.start) as u32);
                waits[u - tasks.start] += 1;
            }
        }
        Window { tasks, waits, next }
    }
}

/// How a run goes.
pub enum Mode<'a> {
    Plain,
    Timed,
    Windows(&'a [Window]),
}

impl Schedule {
    /// What each task waits for, and which are barriers; `always`: even where it does not pay.
    pub fn new(after: Vec<Vec<u32>>, barrier: Vec<bool>, always: bool) -> Schedule {
        let n = after.len();
        Schedule {
            after,
            barrier,
            always,
            runs: AtomicU32::new(0),
            fed: AtomicU64::new(0),
            times: (0..n).map(|_| AtomicU64::new(u64::MAX)).collect(),
            wide: (0..n).map(|_| AtomicBool::new(false)).collect(),
            decided: OnceLock::new(),
        }
    }

    /// How the run that begins now goes; `fed` tells how many bytes are fed to it.
    #[inline]
    pub fn mode(&self, fed: impl FnOnce() -> usize) -> Mode<'_> {
        if self.after.is_empty() {
            return Mode::Plain;
        }
        self.choose(fed() as u64)
    }

    fn choose(&self, fed: u64) -> Mode<'_> {
        let threads = pool::threads();
        let run = self.runs.load(Relaxed);
        if !self.always {
            let known = self.fed.load(Relaxed);
            if threads == 1 || (run > 1 && (fed > 2 * known || 2 * fed < known)) {
                return Mode::Plain;
            }
            if run <= TIMED {
                self.runs.fetch_add(1, Relaxed);
                self.fed.store(fed, Relaxed);
                return if run == 0 { Mode::Plain } else { Mode::Timed };
            }
        }
        match self.decided.get_or_init(|| self.decide(threads)) {
            windows if windows.is_empty() => Mode::Plain,
            windows => Mode::Windows(windows),
        }
    }

    /// Runs a task and notes how long it took, and whether its kernel used the pool.
    pub fn timed(&self, task: usize, run: impl FnOnce() -> Result<()>) -> Result<()> {
        let (calls, start) = (pool::calls(), Instant::now());
        run()?;
        self.times[task].fetch_min(start.elapsed().as_nanos() as u64, Relaxed);
        if pool::calls() != calls {
            self.wide[task].store(true, Relaxed);
        }
        Ok(())
    }

    fn decide(&self, threads: usize) -> Vec<Window> {
        let n = self.after.len();
        let alone = |u: usize| self.barrier[u] || (!self.always && self.wide[u].load(Relaxed));
        let (mut windows, mut start) = (Vec::new(), 0);
        for u in 0..=n {
            if u < n && !alone(u) {
                continue;
            }
            if u - start > 1 {
                let window = Window::of(&self.after, start..u);
                if self.always || self.pays(&window, threads) {
                    windows.push(window);
                }
            }
            start = u + 1;
        }
        windows
    }

    /// Would so many threads save enough? Plays the window with the times measured.
    fn pays(&self, window: &Window, threads: usize) -> bool {
        let time = |u: usize| match self.times[window.tasks.start + u].load(Relaxed) {
            u64::MAX => 0,
            t => t + PRICE,
        };
        let serial: u64 = (0..window.waits.len()).map(|u| time(u) - time(u).min(PRICE)).sum();
        let mut waits = window.waits.clone();
        let mut ready: BinaryHeap<Reverse<usize>> = (0..waits.len()).filter(|&u| waits[u] == 0).map(Reverse).collect();
        let mut running: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let mut now = 0;
        loop {
            while running.len() < threads {
                let Some(Reverse(u)) = ready.pop() else { break };
                running.push(Reverse((now + time(u), u)));
            }
            let Some(Reverse((end, u))) = running.pop() else { break };
            now = end;
            for &v in &window.next[u] {
                waits[v as usize] -= 1;
                if waits[v as usize] == 0 {
                    ready.push(Reverse(v as usize));
                }
            }
        }
        now + WORTH <= serial && now * 10 <= serial * 9
    }
}

/// Runs the tasks of a window on the pool.
pub fn run(window: &Window, task: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
    let n = window.waits.len();
    let waits: Vec<AtomicU32> = window.waits.iter().map(|&w| AtomicU32::new(w)).collect();
    let first: BinaryHeap<Reverse<u32>> =
        (0..n as u32).filter(|&u| window.waits[u as usize] == 0).map(Reverse).collect();
    let ready = Mutex::new(first);
    let left = AtomicUsize::new(n);
    // The first task that failed; none behind it is begun any more.
    let stop = AtomicU32::new(u32::MAX);
    let failed = Mutex::new(None);
    let work = |_worker: usize| {
        let mut idle = 0u32;
        while left.load(Acquire) > 0 {
            let Some(Reverse(u)) = ready.lock().pop() else {
                idle += 1;
                if idle > 200 {
                    std::thread::yield_now();
                } else {
                    std::hint::spin_loop();
                }
                continue;
            };
            idle = 0;
            if u < stop.load(Acquire) {
                // A panic must not leave the others waiting for this task.
                let done = catch_unwind(AssertUnwindSafe(|| task(window.tasks.start + u as usize)))
                    .unwrap_or_else(|panic| Err(err!(Fatal, "internal error: {}", panic_text(&*panic))));
                if let Err(e) = done {
                    let mut failed = failed.lock();
                    if stop.fetch_min(u, AcqRel) > u {
                        *failed = Some(e);
                    }
                }
            }
            for &v in &window.next[u as usize] {
                if waits[v as usize].fetch_sub(1, AcqRel) == 1 {
                    ready.lock().push(Reverse(v));
                }
            }
            left.fetch_sub(1, AcqRel);
        }
    };
    pool::chunks(pool::threads().min(n), work);
    failed.into_inner().map_or(Ok(()), Err)
}
