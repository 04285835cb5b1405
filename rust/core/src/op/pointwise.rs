//! Elementwise formulas of operators, for plans that fuse operators or compute them in place. The rule runs once, when
//! a plan is compiled. Whether the operands of a run fit (floating-point tensors of one shape, or broadcast along it)
//! is checked at every run; if they do not, the operator's kernel runs.

use super::{Args, Attrs, InSlot, Op, OutSlot};
use oar_kernels::elementwise::Binary;
pub use oar_kernels::formula::fused::{Code, Lane, Operand};
use oar_kernels::formula::Row;

/// The rule of an operator; `None` if this call is not elementwise.
pub type PointwiseRule = fn(&mut PointwiseCall) -> Option<()>;

/// An output, by flat position.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    pub out: u16,
    pub from: Operand,
    /// The input (flat position) that gives shape and LoD, where the output is allocated by the kernel.
    pub like: Option<u16>,
}

/// A call of a rule. Operands that are inputs are flat positions.
pub struct PointwiseCall<'a> {
    pub op: &'static Op,
    pub attrs: &'a Attrs,
    /// The inputs and outputs that are present.
    pub ins: Args<bool>,
    pub outs: Args<bool>,
    pub lanes: Vec<Lane>,
    /// For each lane Paddle's `axis` if one operand may be broadcast along the other.
    pub axes: Vec<Option<i32>>,
    pub made: Vec<Made>,
}

impl<'a> PointwiseCall<'a> {
    pub fn new(op: &'static Op, attrs: &'a Attrs, ins: Args<bool>, outs: Args<bool>) -> PointwiseCall<'a> {
        PointwiseCall { op, attrs, ins, outs, lanes: Vec::new(), axes: Vec::new(), made: Vec::new() }
    }

    pub fn attrs<A: 'static>(&self) -> &'a A {
        self.attrs.as_any().downcast_ref().expect("attributes of another operator")
    }

    /// The only variable of an input slot.
    pub fn input(&self, slot: InSlot) -> Option<Operand> {
        let range = self.ins.range(slot.0);
        (range.len() == 1 && self.ins.flat[range.start]).then_some(Operand::Input(range.start as u16))
    }

    /// Every variable of a slot.
    pub fn inputs(&self, slot: InSlot) -> Option<Vec<Operand>> {
        self.ins.range(slot.0).map(|i| self.ins.flat[i].then_some(Operand::Input(i as u16))).collect()
    }

    pub fn has(&self, slot: InSlot) -> bool {
        self.ins.slot(slot.0).contains(&true)
    }

    pub fn wants(&self, slot: OutSlot) -> bool {
        self.outs.slot(slot.0).contains(&true)
    }

    /// A formula of operands that all have the shape of the result.
    pub fn row(&mut self, row: &'static Row, args: &[Operand], params: &[f64]) -> Operand {
        self.lane(Code::Row(row), args, params, None)
    }

    /// `a (op) b`, either of which may be broadcast along the other; `None`: both have the result's shape.
    pub fn binary(&mut self, op: Binary, a: Operand, b: Operand, axis: Option<i32>) -> Operand {
        self.lane(Code::Binary(op), &[a, b], &[], axis)
    }

    fn lane(&mut self, code: Code, args: &[Operand], params: &[f64], axis: Option<i32>) -> Operand {
        self.lanes.push(Lane { code, args: args.to_vec(), params: params.to_vec() });
        self.axes.push(axis);
        Operand::Lane((self.lanes.len() - 1) as u16)
    }

    /// The result in that slot, if it is wanted.
    pub fn give(&mut self, slot: OutSlot, from: Operand) {
        self.give_like(slot, from, None);
    }

    /// The same with the shape and LoD of an input.
    pub fn give_like(&mut self, slot: OutSlot, from: Operand, like: Option<Operand>) {
        let range = self.outs.range(slot.0);
        if range.len() == 1 && self.outs.flat[range.start] {
            let like = like.and_then(|l| if let Operand::Input(i) = l { Some(i) } else { None });
            self.made.push(Made { out: range.start as u16, from, like });
        }
    }
}

/// The rule of an operator that is one formula: its first slots are what the formula reads, its first output the result.
pub fn by_row(p: &mut PointwiseCall, row: &'static Row, params: &[f64]) -> Option<()> {
    let args = (0..row.inputs.len()).map(|slot| p.input(InSlot(slot))).collect::<Option<Vec<_>>>()?;
    let out = p.row(row, &args, params);
    p.give(OutSlot(0), out);
    Some(())
}
