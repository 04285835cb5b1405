//! reverse and flip: the order of the elements along some axes turned round.

use super::raw::{strided, strides_of};
use crate::attrs;
use crate::base::{shape, Result};
use crate::op::infer::like_first;
use crate::op::{slot, Dst, Fwd, Grad, GradOp, Kernel, Op, Run, Src, OP};

attrs! {
    pub struct FlipAttrs { axis: Vec<i32> }
}

fn flip(cx: &mut Run) -> Result<()> {
    let x = cx.input(0)?;
    let mut strides = strides_of(x.dims());
    let mut offset = 0usize;
    let mut turned = vec![false; x.rank()];
    for &axis in &cx.attrs::<FlipAttrs>().axis {
        let axis = shape::axis(cx.op.name, axis as i64, x.rank())?;
        if !turned[axis] && x.numel() > 0 {
            offset += (x.dims()[axis] as usize - 1) * strides[axis] as usize;
            strides[axis] = -strides[axis];
            turned[axis] = true;
        }
    }
    let out = strided(x, x.dims(), &strides, offset)?.with_lod(x.lod.clone());
    cx.set(0, out);
    Ok(())
}

/// Its own inverse, so its own gradient.
fn flip_grad(f: &Fwd) -> Result<Vec<GradOp>> {
    let op = if f.op.name == FLIP.name { &FLIP } else { &REVERSE };
    let (ins, outs) = (vec![vec![Src::GradOut(0, None)]], vec![vec![Dst(0, None)]]);
    Ok(vec![GradOp { op, attrs: f.attrs.clone(), ins, outs }])
}

macro_rules! flips {
    ($($static:ident $name:literal;)*) => {
        $(pub static $static: Op = Op {
            name: $name, inputs: &[slot("X")], outputs: &[slot("Out")], attrs: FlipAttrs::FIELDS, infer: like_first,
            cpu: Kernel::Pure(flip), grad: Grad::Fn(flip_grad), ..OP
        };)*
        pub static TABLE: &[&Op] = &[$(&$static),*];
    };
}

flips! {
    REVERSE "reverse";
    FLIP "flip";
}
