//! The gradient of a leaf variable: accumulated by backward, read, cleared.

use super::tape::GradEdge;
use super::EagerVar;
use oar_core::base::Result;
use oar_core::tensor::{Tensor, Value};
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// Adds a gradient to a leaf's and calls the leaf's hooks with the sum.
pub(super) fn accumulate(
    track: &GradEdge,
    new: &EagerVar,
    add: impl Fn(Option<EagerVar>, EagerVar) -> Result<EagerVar>,
) -> Result<()> {
    let cell = |grad: &Option<EagerVar>| grad.as_ref().map(|g| Arc::as_ptr(&g.cell));
    loop {
        let old = track.grad.lock().clone();
        let mut sum = add(old.clone(), new.clone())?;
        let hooks: Vec<_> = track.hooks.lock().iter().map(|h| h.call.clone()).collect();
        for hook in hooks {
            if let Some(changed) = hook(&sum)? {
                sum = changed;
            }
        }
        let mut held = track.grad.lock();
        // If a backward of another thread came first, this gradient is added to its sum.
        if cell(&held) == cell(&old) {
            *held = Some(sum);
            return Ok(());
        }
    }
}

/// The gradient of a variable as a value, if there is one. As in 2.0.2 an output without gradient of its own has
/// zeros: its producer's gradient operator read it as such.
pub fn grad_of(v: &EagerVar) -> Option<EagerVar> {
    let track = v.track_if_any()?;
    let mut grad = track.grad.lock();
    if grad.is_none() && track.is_zero() {
        if let Value::Dense(t) = v.cell.get() {
            *grad = Tensor::zeros(t.dtype(), t.dims()).ok().map(|zeros| EagerVar::new(zeros, true));
        }
    }
    grad.clone()
}

/// Clears the gradient of a leaf. As in 2.0.2 a dense one is zeros from then on; they are allocated when they are
/// read.
pub fn clear_grad(v: &EagerVar) {
    let Some(track) = v.track_if_any() else { return };
    let old = track.grad.lock().take();
    if let Some(old) = old {
        track.cleared.store(matches!(old.cell.get(), Value::Dense(_)), Ordering::Relaxed);
    }
}
