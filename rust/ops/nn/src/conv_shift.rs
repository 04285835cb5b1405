//! conv_shift: circular convolution of the rows of two matrices.

use super::operands::{agree, check};
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::{grads_like_inputs, like_first};
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::conv::conv_shift::ConvShift;
use oar_ops_common::half::in_f32;

slots! {
    mod shift { X "X", Y "Y" => OUT "Out" }
    mod shift_grad { X "X", Y "Y", DOUT "Out@GRAD" => DX "X@GRAD", DY "Y@GRAD" }
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

/// X [batch, m], Y [batch, n] with n odd and at most m.
fn infer_shift(cx: &mut ShapeContext) -> Result<()> {
    let (x, y) = (cx.dims(shift::X)?, cx.dims(shift::Y)?);
    ensure!(
        x.len() == 2 && y.len() == 2 && agree(x[0], y[0]),
        InvalidArgument,
        "operator {}: X and Y must have 2 dimensions and one first size, got shapes {:?} and {:?}",
        cx.op.name,
        &x[..],
        &y[..]
    );
    ensure!(
        y[1] < 0 || (y[1] % 2 == 1 && (x[1] < 0 || y[1] <= x[1])),
        InvalidArgument,
        "operator {}: the second size of Y must be odd, and at most that of X, got shapes {:?} and {:?}",
        cx.op.name,
        &x[..],
        &y[..]
    );
    like_first(cx)
}

fn run_shift(cx: &mut KernelContext) -> Result<()> {
    let (x, y) = (cx.input(shift::X)?, cx.input(shift::Y)?);
    check(cx, x, y, None)?;
    let [batch, m, n] = [x.dims()[0], x.dims()[1], y.dims()[1]].map(|d| d as usize);
    let sizes = ConvShift { batch, m, n };
    dispatch!(x.dtype(), T in [f32, f64], {
        sizes.forward(x.data::<T>(), y.data::<T>(), cx.out_data::<T>(shift::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_shift_grad(cx: &mut KernelContext) -> Result<()> {
    use shift_grad::{DOUT, DX, DY, X, Y};
    let (x, y, dout) = (cx.input(X)?, cx.input(Y)?, cx.input(DOUT)?);
    check(cx, x, y, Some(dout))?;
    let [batch, m, n] = [x.dims()[0], x.dims()[1], y.dims()[1]].map(|d| d as usize);
    let sizes = ConvShift { batch, m, n };
    dispatch!(x.dtype(), T in [f32, f64], {
        let (x, y, dout) = (x.data::<T>(), y.data::<T>(), dout.data::<T>());
        let [dx, dy] = cx.each_out([DX, DY]);
        if let Some(dx) = dx {
            sizes.x_grad(dout, y, dx.data_mut::<T>()?);
        }
        if let Some(dy) = dy {
            sizes.y_grad(dout, x, dy.data_mut::<T>()?);
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static CONV_SHIFT: Op = Op {
    name: "conv_shift",
    inputs: shift::INS,
    outputs: shift::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: FLOATS,
    infer: infer_shift,
    cpu: Kernel::Pure(|cx| in_f32(cx, shift::X, run_shift)),
    grad: Grad::By(&CONV_SHIFT_GRAD),
    ..OP
};

pub static CONV_SHIFT_GRAD: Op = Op {
    name: "conv_shift_grad",
    inputs: shift_grad::INS,
    outputs: shift_grad::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, shift_grad::X, run_shift_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&CONV_SHIFT, &CONV_SHIFT_GRAD];
