//! reverse and flip: reversed order of the elements along some axes.

use oar_core::attrs;
use oar_core::base::{shape, Result};
use oar_core::op::infer::{like_first, VarKind};
use oar_core::op::{Dst, Fwd, Grad, GradOp, Kernel, KernelContext, Op, ShapeContext, Src, OP};
use oar_core::tensor::Value;
use oar_core::{ensure, slots};
use oar_ops_common::elements::{strided, strides_of};
use std::sync::Arc;

attrs! {
    pub struct FlipAttrs { axis: Vec<i32> }
}

slots! {
    // Tensors of an array are shared.
    mod flip { X "X" => OUT "Out".kernel_allocated() }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let axes = &cx.attrs::<FlipAttrs>().axis;
    let name = cx.op.name;
    if name == FLIP.name {
        let rank = cx.dims(flip::X)?.len();
        let twice =
            |(i, &a): (usize, &i32)| axes[..i].iter().any(|&b| a == b || (a as i64 - b as i64).abs() == rank as i64);
        ensure!(!axes.iter().enumerate().any(twice), InvalidArgument, "operator flip: axes must differ, got {axes:?}");
    } else {
        ensure!(!axes.is_empty(), InvalidArgument, "operator {name}: attribute 'axis' must not be empty");
    }
    let m = cx.meta(flip::X, 0)?;
    if m.kind == VarKind::Array {
        cx.set_meta(flip::OUT, 0, m);
        return Ok(());
    }
    axes.iter().try_for_each(|&a| shape::axis(cx.op.name, a as i64, m.dims.len()).map(drop))?;
    like_first(cx)
}

fn flip(cx: &mut KernelContext) -> Result<()> {
    if let Value::Array(items) = cx.value(flip::X)? {
        let axes = &cx.attrs::<FlipAttrs>().axis;
        ensure!(
            cx.op.name == REVERSE.name && axes[..] == [0],
            InvalidArgument,
            "operator {}: of a LoDTensorArray only axis 0 can be reversed, got {axes:?}",
            cx.op.name
        );
        let turned = items.iter().rev().cloned().collect::<Vec<_>>();
        cx.set(flip::OUT, Value::Array(Arc::new(turned)));
        return Ok(());
    }
    let x = cx.input(flip::X)?;
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
    cx.set(flip::OUT, out);
    Ok(())
}

/// The operator is its own inverse and its own gradient.
fn flip_grad(f: &Fwd) -> Result<Vec<GradOp>> {
    let op = if f.op.name == FLIP.name { &FLIP } else { &REVERSE };
    let (ins, outs) = (vec![vec![Src::GradOut(flip::OUT.0, None)]], vec![vec![Dst(flip::X.0, None)]]);
    Ok(vec![GradOp { op, attrs: f.attrs.clone(), ins, outs }])
}

macro_rules! flips {
    ($($static:ident $name:literal;)*) => {
        $(pub static $static: Op = Op {
            name: $name, inputs: flip::INS, outputs: flip::OUTS, attrs: FlipAttrs::FIELDS, infer,
            cpu: Kernel::Pure(flip), grad: Grad::Fn(flip_grad), ..OP
        };)*
        pub static TABLE: &[&Op] = &[$(&$static),*];
    };
}

flips! {
    REVERSE "reverse";
    FLIP "flip";
}
