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
//! sub-blocks, and runs that are fed much more or less than those timed. Where even kernels that use the pool would
//! better run side by side, each on one thread (the copies of a model for several places), both ways are tried for a
//! few runs. Results cannot depend on any of this, since each task computes the same from the same operands; of
//! several errors the first one of the program is raised.

use super::window::{Uses, Window};
use oar_core::base::Result;
use oar_kernels::pool;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Runs that are timed; the one before them fills caches.
const TIMED: u32 = 2;
/// Runs of each of two ways that are tried; the first of them fills caches.
const TRIED: u32 = 3;
/// Nanoseconds that a window must save, and what it costs for each of its tasks.
const WORTH: u64 = 20_000;
const PRICE: u64 = 300;

/// The dependencies of a plan and what was learnt of its tasks. `Default` is the plain path.
#[derive(Default)]
pub struct Schedule {
    /// For each task those before it that it waits for, barriers left out; none of it where no two are independent.
    pub after: Vec<Vec<u32>>,
    pub barrier: Vec<bool>,
    uses: Vec<Uses>,
    always: bool,
    runs: AtomicU32,
    /// Bytes that were fed to the timed runs: with much more or less of it the times would be others.
    fed: AtomicU64,
    times: Vec<AtomicU64>,
    wide: Vec<AtomicBool>,
    decided: OnceLock<Ways>,
    /// The shortest time of a run in each way, in nanoseconds.
    tried: [AtomicU64; 2],
}

/// The windows of a plan, with the tasks apart whose kernels use the pool, and with these in the windows, too, where that
/// may be better.
struct Ways {
    apart: Vec<Window>,
    joint: Option<Vec<Window>>,
}

/// How a run goes.
pub enum Mode<'a> {
    Plain,
    Timed,
    /// By so many threads; the way of which the run is a trial.
    Windows(&'a [Window], usize, Option<usize>),
}

impl Schedule {
    /// What each task waits for, which are barriers, and what they use; `always`: even where it does not pay.
    pub fn new(after: Vec<Vec<u32>>, barrier: Vec<bool>, uses: Vec<Uses>, always: bool) -> Schedule {
        let n = after.len();
        Schedule {
            after,
            barrier,
            uses,
            always,
            runs: AtomicU32::new(0),
            fed: AtomicU64::new(0),
            times: (0..n).map(|_| AtomicU64::new(u64::MAX)).collect(),
            wide: (0..n).map(|_| AtomicBool::new(false)).collect(),
            decided: OnceLock::new(),
            tried: [const { AtomicU64::new(u64::MAX) }; 2],
        }
    }

    /// How the run that begins now goes; `fed` tells how many bytes are fed to it. The Program asks for `wanted` threads,
    /// whatever the number of those that a kernel may use.
    #[inline]
    pub fn mode(&self, fed: impl FnOnce() -> usize, wanted: usize) -> Mode<'_> {
        if self.after.is_empty() {
            return Mode::Plain;
        }
        self.choose(fed() as u64, wanted)
    }

    fn choose(&self, fed: u64, wanted: usize) -> Mode<'_> {
        let threads = pool::threads();
        let threads = if wanted > threads { threads.max(wanted.min(pool::processors())) } else { threads };
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
        let ways = self.decided.get_or_init(|| self.decide(threads));
        let Some(joint) = &ways.joint else {
            return if ways.apart.is_empty() { Mode::Plain } else { Mode::Windows(&ways.apart, threads, None) };
        };
        // In turns, so that what else the machine does is the same for both.
        let trial = run - TIMED - 1;
        if trial < 2 * TRIED {
            self.runs.fetch_add(1, Relaxed);
            let way = (trial % 2) as usize;
            let windows = if way == 0 { &ways.apart } else { joint };
            return Mode::Windows(windows, threads, (trial > 1).then_some(way));
        }
        let [apart, together] = [0, 1].map(|way| self.tried[way].load(Relaxed));
        Mode::Windows(if together < apart { joint } else { &ways.apart }, threads, None)
    }

    /// How long the trial of a way took.
    pub fn tell(&self, way: usize, took: Duration) {
        self.tried[way].fetch_min(took.as_nanos() as u64, Relaxed);
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

    fn decide(&self, threads: usize) -> Ways {
        let wide = |u: usize| self.wide[u].load(Relaxed);
        let pays = |window: &Window| {
            let (serial, by_threads) = self.play(window, threads);
            by_threads + WORTH <= serial && by_threads * 10 <= serial * 9
        };
        // Kernels on one thread may take `threads` times as long as they did on all: only what nearly halves is worth a trial.
        let may_pay = |window: &Window| {
            let (serial, by_threads) = self.play(window, threads);
            window.tasks.clone().any(wide) && by_threads + WORTH <= serial && by_threads * 10 <= serial * 7
        };
        let apart = self.cut(|u| !self.always && wide(u), |w| self.always || pays(w));
        let joint = if self.always { Vec::new() } else { self.cut(|_| false, may_pay) };
        Ways { apart, joint: (!joint.is_empty()).then_some(joint) }
    }

    /// The stretches between barriers, and between tasks that are to be `alone`, that are to be `kept`.
    fn cut(&self, alone: impl Fn(usize) -> bool, kept: impl Fn(&Window) -> bool) -> Vec<Window> {
        let n = self.after.len();
        let (mut windows, mut start) = (Vec::new(), 0);
        for u in 0..=n {
            if u < n && !self.barrier[u] && !alone(u) {
                continue;
            }
            if u - start > 1 {
                let window = Window::of(&self.after, &self.uses, start..u);
                if kept(&window) {
                    windows.push(window);
                }
            }
            start = u + 1;
        }
        windows
    }

    /// Plays a window with the times measured.
    fn play(&self, window: &Window, threads: usize) -> (u64, u64) {
        window.play(threads, PRICE, |u| match self.times[u].load(Relaxed) {
            u64::MAX => 0,
            t => t,
        })
    }
}
