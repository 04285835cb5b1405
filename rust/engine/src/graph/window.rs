//! Windows: consecutive tasks of a plan that threads take as they become ready.

use super::var::Var;
use oar_core::base::Result;
use oar_core::err;
use oar_core::op::call::panic_text;
use oar_kernels::pool;
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

/// The temporaries that a task uses, and those that end with it.
#[derive(Default)]
pub struct Uses {
    pub vars: Vec<Var>,
    pub dead: Vec<Var>,
    /// Only the shape is read after the task.
    pub release: Vec<Var>,
}

/// A temporary that ends when all its users have run.
struct End {
    var: Var,
    shape_stays: bool,
    users: u32,
}

/// Consecutive tasks whose order is restricted only by their dependencies.
pub struct Window {
    pub tasks: Range<usize>,
    /// For each task, counted from the first: the number of tasks it waits for, and those that wait for it.
    waits: Vec<u32>,
    next: Vec<Vec<u32>>,
    /// What ends in the window, and for each task which of that it uses.
    ends: Vec<End>,
    uses: Vec<Vec<u32>>,
}

impl Window {
    pub fn from_tasks(after: &[Vec<u32>], uses: &[Uses], tasks: Range<usize>) -> Window {
        let n = tasks.len();
        let mut next = vec![Vec::new(); n];
        let mut waits = vec![0; n];
        for u in tasks.clone() {
            for &w in after[u].iter().filter(|&&w| tasks.contains(&(w as usize))) {
                next[w as usize - tasks.start].push((u - tasks.start) as u32);
                waits[u - tasks.start] += 1;
            }
        }
        let mut window = Window { tasks, waits, next, ends: Vec::new(), uses: vec![Vec::new(); n] };
        // The users of each variable so far.
        let mut users: HashMap<Var, Vec<usize>> = HashMap::new();
        let here = uses.get(window.tasks.clone()).unwrap_or(&[]);
        for (u, of) in here.iter().enumerate() {
            for &v in &of.vars {
                let known = users.entry(v).or_default();
                if known.last() != Some(&u) {
                    known.push(u);
                }
            }
            for (&v, shape_stays) in of.release.iter().map(|v| (v, true)).chain(of.dead.iter().map(|v| (v, false))) {
                if let Some(by) = users.get(&v) {
                    by.iter().for_each(|&w| window.uses[w].push(window.ends.len() as u32));
                    window.ends.push(End { var: v, shape_stays, users: by.len() as u32 });
                }
            }
        }
        window
    }

    /// The time of the tasks in sequence, and on this number of threads; `time` returns the time of each.
    pub fn play(&self, threads: usize, price: u64, time: impl Fn(usize) -> u64) -> (u64, u64) {
        let time = |u: usize| time(self.tasks.start + u);
        let serial = (0..self.waits.len()).map(time).sum();
        let mut waits = self.waits.clone();
        let mut ready: BinaryHeap<Reverse<usize>> = (0..waits.len()).filter(|&u| waits[u] == 0).map(Reverse).collect();
        let mut running: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let mut now = 0;
        loop {
            while running.len() < threads {
                let Some(Reverse(u)) = ready.pop() else { break };
                running.push(Reverse((now + time(u) + price, u)));
            }
            let Some(Reverse((end, u))) = running.pop() else { break };
            now = end;
            for &v in &self.next[u] {
                waits[v as usize] -= 1;
                if waits[v as usize] == 0 {
                    ready.push(Reverse(v as usize));
                }
            }
        }
        (serial, now)
    }

    /// Runs the tasks on `threads` threads, whose kernels stay on them. `end` drops what is not needed any more: a
    /// variable's value or, if `shape_only`, all but its shape.
    pub fn run(
        &self,
        threads: usize,
        task: &(dyn Fn(usize) -> Result<()> + Sync),
        end: &(dyn Fn(Var, bool) + Sync),
    ) -> Result<()> {
        let n = self.waits.len();
        let waits: Vec<AtomicU32> = self.waits.iter().map(|&w| AtomicU32::new(w)).collect();
        let users: Vec<AtomicU32> = self.ends.iter().map(|e| AtomicU32::new(e.users)).collect();
        let first: BinaryHeap<Reverse<u32>> =
            (0..n as u32).filter(|&u| self.waits[u as usize] == 0).map(Reverse).collect();
        let ready = Mutex::new(first);
        let left = AtomicUsize::new(n);
        // The first task that failed; no task after it is started any more.
        let stop = AtomicU32::new(u32::MAX);
        let failed = Mutex::new(None);
        let work = |_worker: usize| {
            let mut idle = 0u32;
            // A task that this thread's last task made ready: its operands are in this core's caches.
            let mut mine: Option<u32> = None;
            while left.load(Acquire) > 0 {
                let Some(u) = mine.take().or_else(|| ready.lock().pop().map(|Reverse(u)| u)) else {
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
                    let done = catch_unwind(AssertUnwindSafe(|| task(self.tasks.start + u as usize)))
                        .unwrap_or_else(|panic| Err(err!(Fatal, "internal error: {}", panic_text(&*panic))));
                    if let Err(e) = done {
                        let mut failed = failed.lock();
                        if stop.fetch_min(u, AcqRel) > u {
                            *failed = Some(e);
                        }
                    }
                }
                // Before another task can write the variable again.
                for &e in &self.uses[u as usize] {
                    if users[e as usize].fetch_sub(1, AcqRel) == 1 {
                        let e = &self.ends[e as usize];
                        end(e.var, e.shape_stays);
                    }
                }
                for &v in &self.next[u as usize] {
                    if waits[v as usize].fetch_sub(1, AcqRel) == 1 {
                        let later = match mine.replace(v) {
                            Some(m) if m < v => mine.replace(m),
                            other => other,
                        };
                        if let Some(later) = later {
                            ready.lock().push(Reverse(later));
                        }
                    }
                }
                left.fetch_sub(1, AcqRel);
            }
        };
        pool::chunks_on(threads, threads.min(n), work);
        failed.into_inner().map_or(Ok(()), Err)
    }
}
