//! addmm: `Alpha * X Y + Beta * Input`, Input being broadcast.

use super::batched_gemm::{agree, multiply, one_type, to_sizes};
use oar_core::attrs;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, OutSlot, OP};
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::elementwise::map;
use oar_ops_common::axis::like;
use oar_ops_common::broadcast::reduce_to;
use oar_ops_common::region::broadcast_to;

attrs! {
    pub struct AddmmAttrs { use_mkldnn: bool = false, Alpha: f32 = 1.0, Beta: f32 = 1.0 }
}

slots! {
    mod addmm { INPUT "Input", X "X", Y "Y" => OUT "Out" }
    mod addmm_grad {
        INPUT "Input".meta_only(), X "X", Y "Y", DOUT "Out@GRAD"
        => DINPUT "Input@GRAD".kernel_allocated(), DX "X@GRAD", DY "Y@GRAD"
    }
}

/// Batch, rows, columns and inner size of the product.
fn of_addmm(op: &str, input: &[i64], x: &[i64], y: &[i64]) -> Result<[i64; 4]> {
    ensure!(
        ![input, x, y].iter().any(|d| d.contains(&0)),
        PreconditionNotMet,
        "operator {op}: Input, X and Y must have elements, got shapes {input:?}, {x:?}, {y:?}"
    );
    let (&[rows, cols], &[m, k], &[l, n]) = (input, x, y) else {
        bail!(InvalidArgument, "operator {op}: Input, X and Y must be matrices, got shapes {input:?}, {x:?}, {y:?}");
    };
    let fits = agree(k, l) && (rows == 1 || agree(rows, m)) && (cols == 1 || agree(cols, n));
    ensure!(
        fits,
        InvalidArgument,
        "operator {op}: Input of shape {input:?} and the product of X {x:?} and Y {y:?} cannot be broadcast together"
    );
    Ok([1, m, n, if k < 0 { l } else { k }])
}

fn addmm_grad(cx: &mut KernelContext) -> Result<()> {
    use addmm_grad::{DINPUT, DOUT, DX, DY, INPUT, X, Y};
    let (input, x, y, dout) = (cx.input(INPUT)?, cx.input(X)?, cx.input(Y)?, cx.input(DOUT)?);
    let sizes = of_addmm(cx.op.name, input.dims(), x.dims(), y.dims())?;
    like(cx, y, &Dims::from_slice(y.dims()), x.dtype(), "Y")?;
    like(cx, dout, &sizes[1..3], x.dtype(), "Out@GRAD")?;
    let a = cx.attrs::<AddmmAttrs>();
    let (_, m, n, k) = to_sizes(sizes);
    if cx.wants(DINPUT) {
        let mut d = dout.empty_like()?;
        dispatch!(dout.dtype(), T in [f32, f64], {
            map(dout.data::<T>(), d.data_mut::<T>()?, |v| v * a.Beta as T);
        }, other => return cx.unsupported(other));
        cx.set(DINPUT, reduce_to(d, input.dims(), -1)?);
    }
    let scale = [a.Alpha as f64, 0.0];
    if cx.wants(DX) {
        multiply((1, m, k, n), scale, (dout, false), (y, true), cx.out(DX)?)?;
    }
    if cx.wants(DY) {
        multiply((1, k, n, m), scale, (x, true), (dout, false), cx.out(DY)?)?;
    }
    Ok(())
}

const ADDMM_OUT: OutSlot = addmm::OUT;

pub static ADDMM: Op = Op {
    name: "addmm",
    inputs: addmm::INS,
    outputs: addmm::OUTS,
    attrs: AddmmAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: |cx| {
        let (input, x, y) = (cx.dims(addmm::INPUT)?, cx.dims(addmm::X)?, cx.dims(addmm::Y)?);
        let [_, m, n, _] = of_addmm(cx.op.name, &input, &x, &y)?;
        one_type(cx, &[addmm::X, addmm::Y, addmm::INPUT])?;
        let dtype = cx.dtype(addmm::X)?;
        cx.set(ADDMM_OUT, &[m, n], dtype);
        cx.share_lod(ADDMM_OUT, addmm::INPUT);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let (input, x, y) = (cx.input(addmm::INPUT)?, cx.input(addmm::X)?, cx.input(addmm::Y)?);
        let sizes = of_addmm(cx.op.name, input.dims(), x.dims(), y.dims())?;
        let a = cx.attrs::<AddmmAttrs>();
        let mut out = cx.take_out(ADDMM_OUT)?;
        let wide = broadcast_to(cx.op.name, input, &sizes[1..3])?;
        oar_ops_common::elements::copy_to(&wide, &mut out)?;
        multiply(to_sizes(sizes), [a.Alpha as f64, a.Beta as f64], (x, false), (y, false), &mut out)?;
        cx.set(ADDMM_OUT, out);
        Ok(())
    }),
    grad: Grad::By(&ADDMM_GRAD),
    ..OP
};

pub static ADDMM_GRAD: Op = Op {
    name: "addmm_grad",
    inputs: addmm_grad::INS,
    outputs: addmm_grad::OUTS,
    attrs: AddmmAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(addmm_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&ADDMM, &ADDMM_GRAD];
