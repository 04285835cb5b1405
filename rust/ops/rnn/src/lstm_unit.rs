//! lstm_unit: one LSTM step from gate sums, in the order input, forget, output, candidate.

use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{attrs, dispatch, ensure, slots};
use oar_kernels::gemm::GemmFloat;
use oar_kernels::rnn::activation::Activation;
use oar_ops_common::axis::like;

attrs! {
    pub struct LstmUnitAttrs { forget_bias: f32 = 0.0 }
}

slots! {
    /// X [batch, 4 * width], C_prev [batch, width].
    mod lstm_unit { X "X", BEFORE "C_prev" => C "C", H "H" }
    mod lstm_unit_grad {
        X "X", BEFORE "C_prev", C "C", DH "H@GRAD", DC "C@GRAD" => DX "X@GRAD", DBEFORE "C_prev@GRAD"
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, c, dtype) = (cx.dims(lstm_unit::X)?, cx.dims(lstm_unit::BEFORE)?, cx.dtype(lstm_unit::X)?);
    let agree = |a: i64, b: i64| a == b || a < 0 || b < 0;
    ensure!(
        x.len() == 2
            && c.len() == 2
            && agree(x[0], c[0])
            && (c[1] < 0 || agree(x[1], c[1].saturating_mul(4)))
            && cx.dtype(lstm_unit::BEFORE)? == dtype,
        InvalidArgument,
        "operator {}: X must be [batch, 4 * width] and C_prev [batch, width] of one data type, got {:?} and {:?}",
        cx.op.name,
        &x[..],
        &c[..]
    );
    cx.set(lstm_unit::C, &c, dtype);
    cx.set(lstm_unit::H, &c, dtype);
    cx.share_lod(lstm_unit::C, lstm_unit::BEFORE);
    Ok(())
}

/// The activated gates of a row.
fn activated<T: GemmFloat>(x: &[T], forget_bias: T, n: usize, to: &mut Vec<T>) {
    to.clear();
    to.extend_from_slice(x);
    to[n..2 * n].iter_mut().for_each(|f| *f += forget_bias);
    Activation::Sigmoid.apply(&mut to[..3 * n]);
    Activation::Tanh.apply(&mut to[3 * n..]);
}

fn rows<T: GemmFloat + Element>((x, before): (&[T], &[T]), forget_bias: T, n: usize, (c, h): (&mut [T], &mut [T])) {
    let mut gates = Vec::new();
    for (i, x) in x.chunks_exact(4 * n).enumerate() {
        activated(x, forget_bias, n, &mut gates);
        let (c, h, before) = (&mut c[i * n..][..n], &mut h[i * n..][..n], &before[i * n..][..n]);
        for k in 0..n {
            c[k] = gates[n + k] * before[k] + gates[k] * gates[3 * n + k];
        }
        h.copy_from_slice(c);
        Activation::Tanh.apply(h);
        h.iter_mut().zip(&gates[2 * n..]).for_each(|(h, &o)| *h = *h * o);
    }
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let (x, before) = (cx.input(lstm_unit::X)?, cx.input(lstm_unit::BEFORE)?);
    let n = before.dims()[1] as usize;
    let bias = cx.attrs::<LstmUnitAttrs>().forget_bias;
    if n == 0 {
        return Ok(());
    }
    dispatch!(x.dtype(), T in [f32, f64], {
        let (mut c, mut h) = (cx.take_out(lstm_unit::C)?, cx.take_out(lstm_unit::H)?);
        let out = (c.data_mut::<T>()?, h.data_mut::<T>()?);
        rows((x.data::<T>(), before.data::<T>()), bias as T, n, out);
        cx.set(lstm_unit::C, c);
        cx.set(lstm_unit::H, h);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn backward(cx: &mut KernelContext) -> Result<()> {
    use lstm_unit_grad::{BEFORE, C, DBEFORE, DC, DH, DX, X};
    let (x, before) = (cx.input(X)?, cx.input(BEFORE)?);
    let (c, dh, dc) = (cx.input(C)?, cx.input(DH)?, cx.input(DC)?);
    for t in [c, dh, dc] {
        like(cx, t, before.dims(), x.dtype(), "C, and the gradients of C and H,")?;
    }
    let n = before.dims()[1] as usize;
    let bias = cx.attrs::<LstmUnitAttrs>().forget_bias;
    if n == 0 {
        return Ok(());
    }
    dispatch!(x.dtype(), T in [f32, f64], {
        let mut spare = [Vec::new(), Vec::new()];
        let [dx, dbefore] = cx.each_out([DX, DBEFORE]);
        let [spare_x, spare_c] = &mut spare;
        let dx: &mut [T] = match dx {
            Some(t) => t.data_mut::<T>()?,
            None => {
                spare_x.resize(x.numel(), 0.0);
                spare_x
            }
        };
        let dbefore: &mut [T] = match dbefore {
            Some(t) => t.data_mut::<T>()?,
            None => {
                spare_c.resize(before.numel(), 0.0);
                spare_c
            }
        };
        let (mut gates, mut tanh) = (Vec::new(), vec![0.0 as T; n]);
        for (row, x) in x.data::<T>().chunks_exact(4 * n).enumerate() {
            let own = row * n..(row + 1) * n;
            activated(x, bias as T, n, &mut gates);
            let (before, dh, dc) = (
                &before.data::<T>()[own.clone()],
                &dh.data::<T>()[own.clone()],
                &dc.data::<T>()[own.clone()],
            );
            tanh.copy_from_slice(&c.data::<T>()[own.clone()]);
            Activation::Tanh.apply(&mut tanh);
            let (to, dbefore) = (&mut dx[row * 4 * n..][..4 * n], &mut dbefore[own]);
            for k in 0..n {
                let [i, f, o, g] = [0, 1, 2, 3].map(|gate| gates[gate * n + k]);
                let d = dc[k] + dh[k] * o * (1.0 - tanh[k] * tanh[k]);
                dbefore[k] = d * f;
                to[k] = d * g * i * (1.0 - i);
                to[n + k] = d * before[k] * f * (1.0 - f);
                to[2 * n + k] = dh[k] * tanh[k] * o * (1.0 - o);
                to[3 * n + k] = d * i * (1.0 - g * g);
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static LSTM_UNIT: Op = Op {
    name: "lstm_unit",
    inputs: lstm_unit::INS,
    outputs: lstm_unit::OUTS,
    attrs: LstmUnitAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(forward),
    grad: Grad::By(&LSTM_UNIT_GRAD),
    ..OP
};

pub static LSTM_UNIT_GRAD: Op = Op {
    name: "lstm_unit_grad",
    inputs: lstm_unit_grad::INS,
    outputs: lstm_unit_grad::OUTS,
    attrs: LstmUnitAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: oar_core::op::infer::grads_like_inputs,
    cpu: Kernel::Pure(backward),
    ..OP
};

pub static TABLE: &[&Op] = &[&LSTM_UNIT, &LSTM_UNIT_GRAD];
