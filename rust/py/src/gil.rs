//! The GIL around work of the engine: released while it computes, taken for calls of Python; forks wait for the work.

use oar_core::base::fork;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Runs work without the GIL, as a region that forks wait for. The region ends before the GIL is taken again.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    py.detach(|| {
        let _region = fork::compute();
        work()
    })
}

/// Calls Python from a thread that may be in a region: it is left while the thread waits for the GIL.
pub fn attached<T>(call: impl for<'py> FnOnce(Python<'py>) -> T) -> T {
    fork::outside(|| Python::attach(call))
}

/// Calls of `attached_until_exit` in progress.
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// The process whose calls are counted: a fork has none of its parent's threads.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static ENDED: AtomicBool = AtomicBool::new(false);
/// The longest that the exit of the interpreter waits for a call.
const LONGEST: Duration = Duration::from_secs(10);

/// Calls Python from a thread that no call of Python waits for; None once the interpreter ends. A C extension that takes
/// the GIL after that ends the process (PyGILState_Release aborts), so the exit waits for calls in progress.
pub fn attached_until_exit<T>(call: impl for<'py> FnOnce(Python<'py>) -> T) -> Option<T> {
    struct Call;
    impl Drop for Call {
        fn drop(&mut self) {
            CALLS.fetch_sub(1, SeqCst);
        }
    }
    CALLS.fetch_add(1, SeqCst);
    let _call = Call;
    (!ENDED.load(SeqCst)).then(|| attached(call))
}

/// Refuses further calls of `attached_until_exit`, and waits for those in progress; a function for `atexit`.
#[pyfunction]
fn end_calls(py: Python<'_>) {
    if PROCESS.load(SeqCst) != std::process::id() {
        return;
    }
    ENDED.store(true, SeqCst);
    let begin = Instant::now();
    py.detach(|| {
        while CALLS.load(SeqCst) > 0 && begin.elapsed() < LONGEST {
            std::thread::sleep(Duration::from_micros(100));
        }
    });
}

/// Lets the exit of the interpreter wait for calls of `attached_until_exit`; before the first of them in a process.
pub fn wait_at_exit(py: Python<'_>) -> PyResult<()> {
    let process = std::process::id();
    if PROCESS.swap(process, SeqCst) != process {
        CALLS.store(0, SeqCst);
        py.import("atexit")?.call_method1("register", (wrap_pyfunction!(end_calls, py)?,))?;
    }
    Ok(())
}
