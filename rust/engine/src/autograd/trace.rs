//! What the eager calls of a thread read and wrote, in their order: the Program of a TracedLayer is made of it.

use super::tape::{EagerVar, Ins};
use oar_core::base::Result;
use oar_core::op::{profile, Args, Attrs, Op};
use oar_core::tensor::VarStorage;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// A variable of a call. It is kept alive, so that no other one gets its address while the log is there.
pub struct Seen {
    pub cell: Arc<VarStorage>,
    pub persistable: bool,
}

impl Seen {
    fn of(v: &EagerVar) -> Seen {
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

/// How many threads have a log.
static TRACED: Mutex<usize> = Mutex::new(0);

fn count(change: impl FnOnce(usize) -> usize) {
    let mut traced = TRACED.lock();
    *traced = change(*traced);
    profile::set_traced(*traced > 0);
}

/// Begins the log of this thread.
pub fn start() -> Result<()> {
    LOG.with_borrow_mut(|log| {
        oar_core::ensure!(log.is_none(), PreconditionNotMet, "this thread's calls are traced already");
        *log = Some(vec![]);
        count(|n| n + 1);
        Ok(())
    })
}

/// Ends the log and gives it.
pub fn stop() -> Vec<Event> {
    let log = LOG.take();
    if log.is_some() {
        count(|n| n - 1);
    }
    log.unwrap_or_default()
}

/// Is this thread traced? For callers that would work past the operators.
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
        ins: ins.map(|v| v.map(Seen::of)),
        outs: outs.map(|v| v.as_ref().map(Seen::of)),
    });
}

/// [`call`] with one output.
#[cold]
pub(super) fn plain_call(op: &'static Op, attrs: &Attrs, ins: &Ins, out: &EagerVar) {
    let mut outs = Args::new();
    outs.push_one(Some(Seen::of(out)));
    note(|| Event::Call { op, attrs: attrs.clone(), ins: ins.map(|v| v.map(Seen::of)), outs });
}

/// A variable gets its value from somewhere else than an operator.
#[inline]
pub fn given(v: &EagerVar) {
    if profile::is_traced() {
        note(|| Event::Given(Seen::of(v)));
    }
}

/// [`given`] where only the cell is at hand.
pub fn filled(cell: &Arc<VarStorage>) {
    note(|| Event::Given(Seen { cell: cell.clone(), persistable: false }));
}
