//! The log of what a thread's eager calls read and wrote, from which a TracedLayer's Program is made.

use super::tape::{EagerVar, Ins};
use oar_core::base::Result;
use oar_core::op::{profile, Args, Attrs, Op};
use oar_core::tensor::VarStorage;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// A variable of a call, kept alive so that its address stays unique while the log exists.
pub struct Seen {
    pub cell: Arc<VarStorage>,
    pub persistable: bool,
}

impl Seen {
    fn from_var(v: &EagerVar) -> Seen {
        Seen { cell: v.cell.clone(), persistable: v.persistable.load(Relaxed) }
    }
}

type Slots = Args<Option<Seen>>;

#[allow(clippy::large_enum_variant)] // nearly all are calls
pub enum Event {
    Call {
        op: &'static Op,
        attrs: Attrs,
        ins: Slots,
        outs: Slots,
    },
    /// The variable got a value that no operator computed.
    Given(Seen),
}

thread_local! {
    static LOG: RefCell<Option<Vec<Event>>> = const { RefCell::new(None) };
}

/// The number of threads that have a log.
static TRACED: Mutex<usize> = Mutex::new(0);

fn count(change: impl FnOnce(usize) -> usize) {
    let mut traced = TRACED.lock();
    *traced = change(*traced);
    profile::set_traced(*traced > 0);
}

/// Starts the log of this thread.
pub fn start() -> Result<()> {
    LOG.with_borrow_mut(|log| {
        oar_core::ensure!(log.is_none(), PreconditionNotMet, "this thread's calls are traced already");
        *log = Some(vec![]);
        count(|n| n + 1);
        Ok(())
    })
}

/// Ends the log and returns it.
pub fn stop() -> Vec<Event> {
    let log = LOG.take();
    if log.is_some() {
        count(|n| n - 1);
    }
    log.unwrap_or_default()
}

/// True if this thread is traced, for callers that would bypass the operators.
#[inline]
pub fn is_on() -> bool {
    profile::is_traced() && LOG.with_borrow(Option::is_some)
}

fn note(event: impl FnOnce() -> Event) {
    LOG.with_borrow_mut(|log| {
        if let Some(log) = log {
            log.push(event());
        }
    });
}

#[cold]
pub(super) fn call(op: &'static Op, attrs: &Attrs, ins: &Ins, outs: &Args<Option<EagerVar>>) {
    note(|| Event::Call {
        op,
        attrs: attrs.clone(),
        ins: ins.map(|v| v.map(Seen::from_var)),
        outs: outs.map(|v| v.as_ref().map(Seen::from_var)),
    });
}

/// [`call`] with one output.
#[cold]
pub(super) fn plain_call(op: &'static Op, attrs: &Attrs, ins: &Ins, out: &EagerVar) {
    let mut outs = Args::new();
    outs.push_one(Some(Seen::from_var(out)));
    note(|| Event::Call { op, attrs: attrs.clone(), ins: ins.map(|v| v.map(Seen::from_var)), outs });
}

/// Logs that a variable gets its value from something other than an operator.
#[inline]
pub fn given(v: &EagerVar) {
    if profile::is_traced() {
        note(|| Event::Given(Seen::from_var(v)));
    }
}

/// [`given`] for callers that have the storage only.
pub fn filled(cell: &Arc<VarStorage>) {
    note(|| Event::Given(Seen { cell: cell.clone(), persistable: false }));
}
