//! batch_fc: a product with a bias for each slot of a batch. Paddle has it for CUDA only.

use super::operands::{agree, of_type};
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::gemm::matmul;

slots! {
    mod fc { INPUT "Input", W "W", BIAS "Bias" => OUT "Out" }
    mod fc_grad {
        INPUT "Input", W "W", BIAS "Bias".meta_only(), DOUT "Out@GRAD"
        => DINPUT "Input@GRAD", DW "W@GRAD", DBIAS "Bias@GRAD"
    }
}

fn infer_fc(cx: &mut ShapeContext) -> Result<()> {
    let (x, w, b) = (cx.dims(fc::INPUT)?, cx.dims(fc::W)?, cx.dims(fc::BIAS)?);
    let fits = x.len() == 3 && w.len() == 3 && agree(x[0], w[0]) && agree(x[2], w[1]);
    ensure!(
        fits && b.len() == 2 && agree(b[0], x[0]) && agree(b[1], w[2]),
        InvalidArgument,
        "operator {}: Input, W and Bias must have shapes [slots, rows, in], [slots, in, out] and [slots, out], got {:?}, \
         {:?} and {:?}",
        cx.op.name,
        &x[..],
        &w[..],
        &b[..]
    );
    let dtype = cx.dtype(fc::INPUT)?;
    cx.set(fc::OUT, &[x[0], x[1], w[2]], dtype);
    cx.share_lod(fc::OUT, fc::INPUT);
    Ok(())
}

/// (slots, rows, inner, outer)
fn fc_sizes(x: &Tensor, w: &Tensor) -> (usize, usize, usize, usize) {
    let (x, w) = (x.dims(), w.dims());
    (x[0] as usize, x[1] as usize, x[2] as usize, w[2] as usize)
}

fn part<T>(all: &[T], i: usize, parts: usize) -> &[T] {
    let each = all.len() / parts;
    &all[i * each..][..each]
}

fn part_mut<T>(all: &mut [T], i: usize, parts: usize) -> &mut [T] {
    let each = all.len() / parts;
    &mut all[i * each..][..each]
}

fn run_fc(cx: &mut KernelContext) -> Result<()> {
    let (x, w, bias) = (cx.input(fc::INPUT)?, cx.input(fc::W)?, cx.input(fc::BIAS)?);
    of_type(cx, x.dtype(), &[fc::W, fc::BIAS])?;
    let (slots, rows, inner, outer) = fc_sizes(x, w);
    dispatch!(x.dtype(), T in [f32, f64], {
        let out = cx.out_data::<T>(fc::OUT)?;
        for s in 0..slots {
            let out = part_mut(out, s, slots);
            let (x, w) = (part(x.data::<T>(), s, slots), part(w.data::<T>(), s, slots));
            matmul((rows, outer, inner), x, false, w, false, out);
            let bias = part(bias.data::<T>(), s, slots);
            for row in out.chunks_exact_mut(outer.max(1)) {
                row.iter_mut().zip(bias).for_each(|(o, &b)| *o += b);
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_fc_grad(cx: &mut KernelContext) -> Result<()> {
    let (x, w, dout) = (cx.input(fc_grad::INPUT)?, cx.input(fc_grad::W)?, cx.input(fc_grad::DOUT)?);
    of_type(cx, x.dtype(), &[fc_grad::W, fc_grad::BIAS, fc_grad::DOUT])?;
    let (slots, rows, inner, outer) = fc_sizes(x, w);
    ensure!(
        dout.numel() == slots * rows * outer,
        InvalidArgument,
        "operator batch_fc_grad: the gradient of Out must have shape [{slots}, {rows}, {outer}], got {dout:?}"
    );
    let [dx, dw, dbias] = cx.each_out([fc_grad::DINPUT, fc_grad::DW, fc_grad::DBIAS]);
    dispatch!(x.dtype(), T in [f32, f64], {
        let (x, w, dout) = (x.data::<T>(), w.data::<T>(), dout.data::<T>());
        if let Some(dx) = dx {
            let dx = dx.data_mut::<T>()?;
            for s in 0..slots {
                let (d, w) = (part(dout, s, slots), part(w, s, slots));
                matmul((rows, inner, outer), d, false, w, true, part_mut(dx, s, slots));
            }
        }
        if let Some(dw) = dw {
            let dw = dw.data_mut::<T>()?;
            for s in 0..slots {
                let (x, d) = (part(x, s, slots), part(dout, s, slots));
                matmul((inner, outer, rows), x, true, d, false, part_mut(dw, s, slots));
            }
        }
        if let Some(dbias) = dbias {
            let dbias = dbias.data_mut::<T>()?;
            dbias.fill(0.0);
            for s in 0..slots {
                let to = part_mut(dbias, s, slots);
                for row in part(dout, s, slots).chunks_exact(outer.max(1)) {
                    to.iter_mut().zip(row).for_each(|(to, &d)| *to += d);
                }
            }
        }
        Ok(())
    }, other => cx.unsupported(other))
}

pub static BATCH_FC: Op = Op {
    name: "batch_fc",
    inputs: fc::INS,
    outputs: fc::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_fc,
    cpu: Kernel::Pure(run_fc),
    grad: Grad::By(&BATCH_FC_GRAD),
    ..OP
};

pub static BATCH_FC_GRAD: Op = Op {
    name: "batch_fc_grad",
    inputs: fc_grad::INS,
    outputs: fc_grad::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_fc_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&BATCH_FC, &BATCH_FC_GRAD];
