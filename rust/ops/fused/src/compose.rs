//! Calls of other operators, for kernels composed of them.

use oar_core::base::Result;
use oar_core::ir::{Attr, AttrMap};
use oar_core::op::call::call_simple;
use oar_core::op::{table, Op};
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, ensure, err};

/// The outputs of an operator, by slot.
pub struct Outputs {
    op: &'static Op,
    outs: Vec<Vec<Value>>,
}

impl Outputs {
    pub fn take(&mut self, slot: &str) -> Result<Tensor> {
        let value = self.op.output(slot).and_then(|i| self.outs[i].first_mut()).map(std::mem::take);
        match value {
            Some(Value::Dense(t)) => Ok(t),
            _ => bail!(Fatal, "operator {} has no output {slot}", self.op.name),
        }
    }
}

/// Runs an operator on tensors by slot; a slot named more than once receives all of them.
pub fn run(name: &str, ins: &[(&str, &Tensor)], attrs: &[(&str, Attr)]) -> Result<Outputs> {
    let op = table::need(name)?;
    let mut slots = vec![Vec::new(); op.inputs.len()];
    for (slot, t) in ins {
        let i = op.input(slot).ok_or_else(|| err!(Fatal, "operator {name} has no input {slot}"))?;
        slots[i].push(Value::Dense((*t).clone()));
    }
    let attrs: AttrMap = attrs.iter().map(|(k, v)| ((*k).into(), v.clone())).collect();
    Ok(Outputs { op, outs: call_simple(op, &attrs, slots)? })
}

/// Runs an operator and returns its output Out.
pub fn out(name: &str, ins: &[(&str, &Tensor)], attrs: &[(&str, Attr)]) -> Result<Tensor> {
    run(name, ins, attrs)?.take("Out")
}

pub fn add(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    out("elementwise_add", &[("X", x), ("Y", y)], &[])
}

/// The same elements in another shape.
pub fn reshaped(op: &str, t: &Tensor, dims: &[i64]) -> Result<Tensor> {
    ensure!(
        dims.iter().all(|&d| d >= 0) && dims.iter().product::<i64>() == t.numel() as i64,
        InvalidArgument,
        "operator {op}: {t:?} does not have the elements of shape {dims:?}"
    );
    Ok(t.share()?.reshaped(dims))
}
