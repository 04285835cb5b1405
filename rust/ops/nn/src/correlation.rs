//! correlation: similarity of the patch around a position in one feature map and patches around displaced positions in
//! another.

use oar_core::base::{DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, dispatch, ensure, slots};
use oar_kernels::conv::correlation::Correlation;
use oar_ops_common::axis;

attrs! {
    pub struct CorrelationAttrs {
        pad_size: i32, kernel_size: i32, max_displacement: i32, stride1: i32, stride2: i32,
        corr_type_multiply: i32 = 1,
    }
}

slots! {
    mod correlation { X "Input1", Y "Input2" => OUT "Output" }
    mod correlation_grad { X "Input1", Y "Input2", DOUT "Output@GRAD" => DX "Input1@GRAD", DY "Input2@GRAD" }
}

/// Maximum number of output elements.
const MOST: i64 = 1 << 28;

/// Number of displacements to each side.
fn radius(a: &CorrelationAttrs) -> i64 {
    i64::from(a.max_displacement) / i64::from(a.stride2)
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<CorrelationAttrs>());
    cx.shaped(correlation::X, &[-1; 4])?;
    let (x, dtype) = (cx.dims(correlation::X)?, cx.dtype(correlation::X)?);
    cx.shaped(correlation::Y, &x)?;
    ensure!(
        a.pad_size >= 0 && a.kernel_size > 0 && a.max_displacement >= 0 && a.stride1 > 0 && a.stride2 > 0,
        InvalidArgument,
        "operator {op}: pad_size and max_displacement cannot be negative, kernel_size and strides must be greater than 0, \
         got {}, {}, {}, {} and {}",
        a.pad_size,
        a.max_displacement,
        a.kernel_size,
        a.stride1,
        a.stride2
    );
    let border = i64::from(a.kernel_size - 1) / 2 + i64::from(a.max_displacement);
    let inner = |size: i64| {
        let left = size + 2 * i64::from(a.pad_size) - 2 * border;
        if size < 0 {
            -1
        } else {
            (left + i64::from(a.stride1) - 1).div_euclid(i64::from(a.stride1))
        }
    };
    let out = [x[0], (2 * radius(a) + 1).saturating_pow(2), inner(x[2]), inner(x[3])];
    let fits = |k: usize| out[k] > 0 || x[k] < 0;
    ensure!(
        fits(2) && fits(3),
        InvalidArgument,
        "operator {op}: the padded inputs must be larger than {} on both sides, got shape {:?} with pad_size {}",
        2 * border,
        &x[..],
        a.pad_size
    );
    let all = out.iter().fold(1i64, |n, &d| n.saturating_mul(d.max(1)));
    ensure!(all <= MOST, ResourceExhausted, "operator {op}: {all} elements of the output exceed the limit of {MOST}");
    cx.set(correlation::OUT, &out, dtype);
    Ok(())
}

fn sizes(x: &Tensor, out: &Tensor, a: &CorrelationAttrs) -> Correlation {
    let (d, o) = (x.dims(), out.dims());
    Correlation {
        channels: d[1] as usize,
        height: d[2] as usize,
        width: d[3] as usize,
        rows: o[2] as usize,
        columns: o[3] as usize,
        pad: a.pad_size.into(),
        kernel: a.kernel_size.into(),
        max_displacement: a.max_displacement.into(),
        stride: a.stride1.into(),
        step: a.stride2.into(),
    }
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, y, a) = (cx.input(correlation::X)?, cx.input(correlation::Y)?, cx.attrs::<CorrelationAttrs>());
    axis::like(cx, y, x.dims(), x.dtype(), "Input2")?;
    let s = sizes(x, cx.out(correlation::OUT)?, a);
    dispatch!(x.dtype(), T in [f32, f64], {
        s.forward(x.data::<T>(), y.data::<T>(), cx.out_data::<T>(correlation::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    use correlation_grad::{DOUT, DX, DY, X, Y};
    let (x, y, d, a) = (cx.input(X)?, cx.input(Y)?, cx.input(DOUT)?, cx.attrs::<CorrelationAttrs>());
    axis::like(cx, y, x.dims(), x.dtype(), "Input2")?;
    axis::like(cx, d, d.dims(), x.dtype(), "Output@GRAD")?;
    let s = sizes(x, d, a);
    dispatch!(x.dtype(), T in [f32, f64], {
        for (slot, other, first) in [(DX, y, true), (DY, x, false)] {
            if cx.wants(slot) {
                s.backward(d.data::<T>(), other.data::<T>(), first, cx.out_data::<T>(slot)?);
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static CORRELATION: Op = Op {
    name: "correlation",
    inputs: correlation::INS,
    outputs: correlation::OUTS,
    attrs: CorrelationAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&CORRELATION_GRAD),
    ..OP
};
pub static CORRELATION_GRAD: Op = Op {
    name: "correlation_grad",
    inputs: correlation_grad::INS,
    outputs: correlation_grad::OUTS,
    attrs: CorrelationAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&CORRELATION, &CORRELATION_GRAD];
