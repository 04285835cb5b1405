//! Hogwild training: threads that run a Program over one scope, each with its own batches. Persistable variables are
//! shared and written without order (see `oar_core::tensor::VarStorage`); all else belongs to a run.

use oar_core::base::interrupt::check_interrupt;
use oar_core::base::{Error, Result};
use oar_core::ir::Program;
use oar_core::tensor::{Scope, Value};
use oar_kernels::pool;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// A thread's batches: values for the feeds; `None` after the last.
pub type Next<'a> = Box<dyn FnMut() -> Result<Option<Vec<Value>>> + Send + 'a>;

/// What threads do with a batch.
pub struct Work<'a> {
    pub program: &'a Arc<Program>,
    /// Runs the Program in a thread's scope with fed values; returns the values of the fetched names.
    pub run: &'a (dyn Fn(&Arc<Scope>, Vec<Value>, &[String]) -> Result<Vec<Value>> + Sync),
    /// Names that the first thread fetches at every `period`th of its batches (numbered from 1; 0: never), and the
    /// function that receives their values.
    pub fetches: &'a [String],
    pub period: u64,
    pub report: &'a (dyn Fn(u64, Vec<Value>) -> Result<()> + Sync),
    /// Variables that the first thread's scope shows after each batch, to observers outside.
    pub watched: &'a [String],
    /// Stops the sources of the batches.
    pub call_off: &'a (dyn Fn() + Sync),
}

/// Runs a thread for each scope until its batches end. The first error ends all.
pub fn train(work: &Work, root: &Arc<Scope>, threads: Vec<(Arc<Scope>, Next)>) -> Result<()> {
    // A variable that does not exist yet is created in the shared scope, not in that of the thread that meets it
    // first.
    if let Some(block) = work.program.block(0) {
        for var in block.all_vars().iter().filter(|v| v.read().is_persistable()) {
            let name = &var.read().name;
            if root.find(name).is_none() {
                root.var(name);
            }
        }
    }
    let stop = AtomicBool::new(false);
    let call_off = || {
        stop.store(true, Ordering::Relaxed);
        (work.call_off)();
    };
    let failed = Mutex::new(None::<Error>);
    let running = (Mutex::new(threads.len()), Condvar::new());
    let fail = |e: Error| {
        failed.lock().get_or_insert(e);
        call_off();
    };
    let many = threads.len() > 1;
    std::thread::scope(|scope| {
        for (number, (local, next)) in threads.into_iter().enumerate() {
            let (fail, running, stop) = (&fail, &running, &stop);
            let thread = move || {
                let body = || one_thread(work, number == 0, &local, next, stop);
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match many {
                    true => pool::serially(body),
                    false => body(),
                }));
                match result {
                    Ok(Ok(())) => {}
                    Ok(Err(e)) => fail(e),
                    Err(_) => fail(oar_core::err!(Fatal, "a training thread panicked")),
                }
                *running.0.lock() -= 1;
                running.1.notify_one();
            };
            if let Err(e) = std::thread::Builder::new().name("paddle-hogwild".into()).spawn_scoped(scope, thread) {
                *running.0.lock() -= 1;
                fail(e.into());
            }
        }
        let mut left = running.0.lock();
        while *left > 0 {
            running.1.wait_for(&mut left, Duration::from_millis(50));
            if *left > 0 && !stop.load(Ordering::Relaxed) {
                parking_lot::MutexGuard::unlocked(&mut left, || {
                    if let Err(e) = check_interrupt() {
                        fail(e);
                    }
                });
            }
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

fn one_thread(work: &Work, first: bool, local: &Arc<Scope>, mut next: Next, stop: &AtomicBool) -> Result<()> {
    let watched: &[String] = if first { work.watched } else { &[] };
    let with_fetches: Vec<String> = watched.iter().chain(work.fetches).cloned().collect();
    let mut batch = 0;
    while !stop.load(Ordering::Relaxed) {
        let Some(values) = next()? else { break };
        batch += 1;
        let reported = first && work.period > 0 && batch % work.period == 0;
        let mut fetched = (work.run)(local, values, if reported { &with_fetches } else { watched })?;
        let rest = fetched.split_off(watched.len());
        for (name, value) in watched.iter().zip(fetched) {
            local.var(name).set(value);
        }
        if reported {
            (work.report)(batch, rest)?;
        }
    }
    Ok(())
}
