//! The dependency scheduler: independent tasks of a plan run in parallel.
//!
//! A task waits for earlier tasks that write what it touches (read after write, write after write) or read what it
//! writes (write after read). Variables are compared by number, that is by name; an operator that moves a value out of
//! a variable, or computes in it, writes it. Random draws keep program order. Operators with side effects (files,
//! Python, communication, sub-blocks) are barriers: everything before has run, nothing after has started.
//!
//! The gain is measured: the second and third run of a plan are timed task by task. Tasks whose kernels use the pool
//! run alone. Of the rest, stretches in which threads save enough become windows, whose tasks are started as they
//! become ready. A plan that is a chain, or is small, keeps the plain path; so do sub-blocks, and runs with much more
//! or less fed data than those timed. Where even kernels that use the pool may run faster side by side, each on one
//! thread (replicas of a model for several places), both ways are tried for a few runs. Results do not depend on any
//! of this, since each task computes the same from the same operands; of several errors the first in program order is
//! raised.

use super::window::{Uses, Window};
use oar_core::base::Result;
use oar_kernels::pool;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Timed runs; the run before them fills caches.
const TIMED: u32 = 2;
/// Runs of each of two ways that are tried; the first fills caches.
const TRIED: u32 = 3;
/// Nanoseconds that a window must save, and its cost per task.
const WORTH: u64 = 20_000;
const PRICE: u64 = 300;

/// The dependencies of a plan and the times of its tasks. `Default` is the plain path.
#[derive(Default)]
pub struct Schedule {
    /// For each task the earlier ones that it waits for, without barriers; empty where no two are independent.
    pub after: Vec<Vec<u32>>,
    pub barrier: Vec<bool>,
    uses: Vec<Uses>,
    always: bool,
    runs: AtomicU32,
    /// Bytes fed to the timed runs: with much more or less data the times would differ.
    fed: AtomicU64,
    times: Vec<AtomicU64>,
    wide: Vec<AtomicBool>,
    decided: OnceLock<Ways>,
    /// The shortest time of a run in each way, in nanoseconds.
    tried: [AtomicU64; 2],
}

/// The windows of a plan, without the tasks whose kernels use the pool, and with them where that may be faster.
struct Ways {
    apart: Vec<Window>,
    joint: Option<Vec<Window>>,
}

/// How a run executes.
pub enum RunMode<'a> {
    Plain,
    Timed,
    /// By this number of threads; the way that this run tries.
    Windows(&'a [Window], usize, Option<usize>),
}

impl Schedule {
    /// The dependencies, the barriers and the variables of each task; `always`: even where it does not pay.
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

    /// How the run that begins now executes. `fed` is the number of bytes fed, `wanted` the number of threads that the
    /// Program asks for, whatever the number that a kernel may use.
    #[inline]
    pub fn mode(&self, fed: impl FnOnce() -> usize, wanted: usize) -> RunMode<'_> {
        if self.after.is_empty() {
            return RunMode::Plain;
        }
        self.choose(fed() as u64, wanted)
    }

    fn choose(&self, fed: u64, wanted: usize) -> RunMode<'_> {
        let threads = pool::threads();
        let threads = if wanted > threads { threads.max(wanted.min(pool::processors())) } else { threads };
        let run = self.runs.load(Relaxed);
        if !self.always {
            let known = self.fed.load(Relaxed);
            if threads == 1 || (run > 1 && (fed > 2 * known || 2 * fed < known)) {
                return RunMode::Plain;
            }
            if run <= TIMED {
                self.runs.fetch_add(1, Relaxed);
                self.fed.store(fed, Relaxed);
                return if run == 0 { RunMode::Plain } else { RunMode::Timed };
            }
        }
        let ways = self.decided.get_or_init(|| self.decide(threads));
        let Some(joint) = &ways.joint else {
            return if ways.apart.is_empty() { RunMode::Plain } else { RunMode::Windows(&ways.apart, threads, None) };
        };
        // Alternating, so that other load on the machine affects both alike.
        let trial = run - TIMED - 1;
        if trial < 2 * TRIED {
            self.runs.fetch_add(1, Relaxed);
            let way = (trial % 2) as usize;
            let windows = if way == 0 { &ways.apart } else { joint };
            return RunMode::Windows(windows, threads, (trial > 1).then_some(way));
        }
        let [apart, together] = [0, 1].map(|way| self.tried[way].load(Relaxed));
        RunMode::Windows(if together < apart { joint } else { &ways.apart }, threads, None)
    }

    /// Records the time of a trial of a way.
    pub fn record(&self, way: usize, took: Duration) {
        self.tried[way].fetch_min(took.as_nanos() as u64, Relaxed);
    }

    /// Runs a task and records its time, and whether its kernel used the pool.
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
        // Kernels on one thread may take `threads` times as long as on all: only a near halving is worth a trial.
        let may_pay = |window: &Window| {
            let (serial, by_threads) = self.play(window, threads);
            window.tasks.clone().any(wide) && by_threads + WORTH <= serial && by_threads * 10 <= serial * 7
        };
        let apart = self.cut(|u| !self.always && wide(u), |w| self.always || pays(w));
        let joint = if self.always { Vec::new() } else { self.cut(|_| false, may_pay) };
        Ways { apart, joint: (!joint.is_empty()).then_some(joint) }
    }

    /// The stretches between barriers, and between tasks that run `alone`, of those that are `kept`.
    fn cut(&self, alone: impl Fn(usize) -> bool, kept: impl Fn(&Window) -> bool) -> Vec<Window> {
        let n = self.after.len();
        let (mut windows, mut start) = (Vec::new(), 0);
        for u in 0..=n {
            if u < n && !self.barrier[u] && !alone(u) {
                continue;
            }
            if u - start > 1 {
                let window = Window::from_tasks(&self.after, &self.uses, start..u);
                if kept(&window) {
                    windows.push(window);
                }
            }
            start = u + 1;
        }
        windows
    }

    /// The time of a window by the measured times of its tasks.
    fn play(&self, window: &Window, threads: usize) -> (u64, u64) {
        window.play(threads, PRICE, |u| match self.times[u].load(Relaxed) {
            u64::MAX => 0,
            t => t,
        })
    }
}
