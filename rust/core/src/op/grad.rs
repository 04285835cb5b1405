//! Gradients of operators: which variables the gradient operator reads and writes.
//!
//! Three forms. By name: the gradient operator's own slots give the wiring (`Out`, `Out@GRAD` -> `X@GRAD`). By map:
//! the same with renamed slots (`DDX` stands for `X@GRAD@GRAD`). By function: any list of operators.

use super::{Attrs, Op};
use crate::base::Result;
use crate::ir::desc::OpDesc;
use crate::ir::BlockNode;
use std::collections::HashSet;
use std::sync::Arc;

pub enum Grad {
    /// No gradient flows through this operator.
    None,
    By(&'static Op),
    /// Slot of the gradient operator -> name in the forward operator (`X`, `Out`, `Out@GRAD`; outputs: `X@GRAD`).
    Map(&'static Op, &'static [(&'static str, &'static str)]),
    Fn(fn(&Fwd) -> Result<Vec<GradOp>>),
    /// The gradient needs the Program (names, sub-blocks): `(forward desc, names without gradient, gradient blocks)`.
    Program(fn(&OpDesc, &HashSet<String>, &[Arc<BlockNode>]) -> Result<Vec<OpDesc>>),
}

/// A variable that a gradient operator reads. `None` as index: the whole slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Src {
    In(usize, Option<usize>),
    Out(usize, Option<usize>),
    GradOut(usize, Option<usize>),
}

/// A gradient that a gradient operator writes: of the forward operator's input slot (and variable).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dst(pub usize, pub Option<usize>);

/// One operator of a gradient.
#[derive(Clone)]
pub struct GradOp {
    pub op: &'static Op,
    pub attrs: Attrs,
    /// For each input slot of `op` the variables that it reads.
    pub ins: Vec<Vec<Src>>,
    /// For each output slot of `op` the gradients that it writes.
    pub outs: Vec<Vec<Dst>>,
}

impl GradOp {
    /// An operator that computes the first input's gradient from the first output's.
    pub fn of_first(op: &'static Op, attrs: Attrs) -> GradOp {
        GradOp { op, attrs, ins: vec![vec![Src::GradOut(0, None)]], outs: vec![vec![Dst(0, None)]] }
    }
}

/// The forward operator as a gradient function sees it.
pub struct Fwd<'a> {
    pub op: &'static Op,
    pub attrs: &'a Attrs,
    /// Number of variables of each input slot, 0 where absent.
    pub ins: &'a [usize],
    pub outs: &'a [usize],
    /// True if input variable `i` of the slot needs a gradient.
    pub needs: &'a dyn Fn(usize, usize) -> bool,
}

impl Fwd<'_> {
    pub fn attrs<A: 'static>(&self) -> &A {
        self.attrs.as_any().downcast_ref().expect("attributes of another operator")
    }
}

/// The compiled form of `By` and `Map`.
#[derive(Debug)]
pub struct Wiring {
    pub op: &'static Op,
    pub ins: Vec<Option<Src>>,
    pub outs: Vec<Option<usize>>,
    /// Bit i: the gradient reads forward input (output) slot i, and whether it needs the elements.
    pub reads_in: u64,
    pub reads_out: u64,
    pub needs_in: u64,
    pub needs_out: u64,
}

impl Wiring {
    fn compile(fwd: &'static Op, grad: &'static Op, map: &[(&str, &str)]) -> Wiring {
        let rename = |slot: &'static str| map.iter().find(|(from, _)| *from == slot).map_or(slot, |(_, to)| *to);
        let mut w =
            Wiring { op: grad, ins: vec![], outs: vec![], reads_in: 0, reads_out: 0, needs_in: 0, needs_out: 0 };
        for s in grad.inputs {
            let name = rename(s.name);
            let needs = !s.has(super::SlotFlag::MetaOnly) as u64;
            let src = if let Some(i) = fwd.input(name) {
                w.reads_in |= 1 << i;
                w.needs_in |= needs << i;
                Some(Src::In(i, None))
            } else if let Some(i) = fwd.output(name) {
                w.reads_out |= 1 << i;
                w.needs_out |= needs << i;
                Some(Src::Out(i, None))
            } else {
                name.strip_suffix("@GRAD").and_then(|n| fwd.output(n)).map(|i| Src::GradOut(i, None))
            };
            w.ins.push(src);
        }
        for s in grad.outputs {
            w.outs.push(rename(s.name).strip_suffix("@GRAD").and_then(|n| fwd.input(n)));
        }
        w
    }
}

impl Op {
    /// The wiring of `By` and `Map`; `None` for the other forms.
    #[inline]
    pub fn wired(&'static self) -> Option<&'static Wiring> {
        match self.grad {
            Grad::By(grad) => Some(self.compiled(grad, &[])),
            Grad::Map(grad, map) => Some(self.compiled(grad, map)),
            _ => None,
        }
    }

    #[inline]
    fn compiled(&'static self, grad: &'static Op, map: &[(&str, &str)]) -> &'static Wiring {
        self.wiring.get_or_init(|| Wiring::compile(self, grad, map))
    }

    /// The gradient operators of one call, whatever the form.
    pub fn grad_ops(&'static self, fwd: &Fwd) -> Result<Vec<GradOp>> {
        if let Some(w) = self.wired() {
            return Ok(vec![GradOp {
                op: w.op,
                attrs: w.op.attrs.convert(w.op.name, fwd.attrs)?,
                ins: w.ins.iter().map(|s| s.iter().copied().collect()).collect(),
                outs: w.outs.iter().map(|d| d.iter().map(|&i| Dst(i, None)).collect()).collect(),
            }]);
        }
        match self.grad {
            Grad::Fn(f) => f(fwd),
            _ => Ok(Vec::new()),
        }
    }
}
