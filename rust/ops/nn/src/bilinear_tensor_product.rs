//! bilinear_tensor_product: out[b, k] = x[b] W[k] y[b] + bias[k].

use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Result};
use oar_core::op::{Grad, Kernel, KernelContext, NoAttrs, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::nn::bilinear_tensor_product::BilinearProduct;
use oar_ops_common::elements::same_types;
use oar_ops_common::half::in_f32;

slots! {
    mod product { X "X", Y "Y", WEIGHT "Weight", BIAS "Bias".dispensable() => OUT "Out" }
    mod product_grad {
        X "X", Y "Y", WEIGHT "Weight", DOUT "Out@GRAD"
        => DBIAS "Bias@GRAD", DX "X@GRAD", DY "Y@GRAD", DWEIGHT "Weight@GRAD"
    }
}

/// Whether two sizes agree; unknown sizes agree with any.
fn alike(a: i64, b: i64) -> bool {
    a == b || a < 0 || b < 0
}

/// Checks the operands; returns the output shape.
fn out_shape(op: &str, x: &[i64], y: &[i64], w: &[i64]) -> Result<[i64; 2]> {
    ensure!(
        x.len() == 2 && y.len() == 2 && w.len() == 3,
        InvalidArgument,
        "operator {op}: X and Y must have 2 dimensions, Weight 3, got shapes {x:?}, {y:?} and {w:?}"
    );
    ensure!(
        alike(x[0], y[0]) && alike(x[1], w[1]) && alike(y[1], w[2]),
        InvalidArgument,
        "operator {op}: X [batch, m], Y [batch, n] and Weight [size, m, n] must fit each other, got {x:?}, {y:?} and {w:?}"
    );
    Ok([if x[0] < 0 { y[0] } else { x[0] }, w[0]])
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, y, w) = (cx.dims(product::X)?, cx.dims(product::Y)?, cx.dims(product::WEIGHT)?);
    let (out, dtype) = (out_shape(cx.op.name, &x, &y, &w)?, cx.dtype(product::X)?);
    if cx.has(product::BIAS) {
        let b = cx.dims(product::BIAS)?;
        ensure!(
            b.len() == 2 && alike(b[0], 1) && alike(b[1], w[0]),
            InvalidArgument,
            "operator {}: Bias must have shape [1, {}], got {:?}",
            cx.op.name,
            w[0],
            &b[..]
        );
    }
    cx.set(product::OUT, &out, dtype);
    cx.share_lod(product::OUT, product::X);
    Ok(())
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    use product_grad::{DBIAS, DWEIGHT, DX, DY, WEIGHT, X, Y};
    let [_, size] = out_shape(cx.op.name, &cx.dims(X)?, &cx.dims(Y)?, &cx.dims(WEIGHT)?)?;
    cx.like(DX, X)?;
    cx.like(DY, Y)?;
    cx.like(DWEIGHT, WEIGHT)?;
    let dtype = cx.dtype(X)?;
    cx.set(DBIAS, &[1, size], dtype);
    Ok(())
}

fn operands<'a, T: Element>(x: &'a Tensor, y: &'a Tensor, w: &'a Tensor) -> BilinearProduct<'a, T> {
    let [size, m, n] = [0, 1, 2].map(|i| w.dims()[i] as usize);
    BilinearProduct { batch: x.dims()[0] as usize, m, n, size, x: x.data(), y: y.data(), w: w.data() }
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, y, w) = (cx.input(product::X)?, cx.input(product::Y)?, cx.input(product::WEIGHT)?);
    let bias = cx.opt(product::BIAS);
    same_types(cx.op.name, x, &[y, w])?;
    if let Some(b) = bias {
        same_types(cx.op.name, x, &[b])?;
    }
    dispatch!(x.dtype(), T in [f32, f64], {
        operands::<T>(x, y, w).forward(bias.map(|b| b.data::<T>()), cx.out_data::<T>(product::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    use product_grad::{DBIAS, DOUT, DWEIGHT, DX, DY, WEIGHT, X, Y};
    let (x, y, w, dout) = (cx.input(X)?, cx.input(Y)?, cx.input(WEIGHT)?, cx.input(DOUT)?);
    same_types(cx.op.name, x, &[y, w, dout])?;
    let out = out_shape(cx.op.name, x.dims(), y.dims(), w.dims())?;
    ensure!(
        dout.dims() == out,
        InvalidArgument,
        "operator {}: the gradient of Out must have shape {out:?}, got {:?}",
        cx.op.name,
        dout.dims()
    );
    dispatch!(x.dtype(), T in [f32, f64], {
        let operands = operands::<T>(x, y, w);
        let [dx, dy, dw, dbias] = cx.each_out([DX, DY, DWEIGHT, DBIAS]);
        let dout = dout.data::<T>();
        if let Some(dbias) = dbias {
            operands.bias_grad(dout, dbias.data_mut::<T>()?);
        }
        let [mut dx, mut dy, mut dw] = [dx, dy, dw];
        let [dx, dy, dw] = [&mut dx, &mut dy, &mut dw].map(|d| d.as_mut().map(|t| t.data_mut::<T>()).transpose());
        operands.backward(dout, dx?, dy?, dw?);
    }, other => return cx.unsupported(other));
    Ok(())
}

const FLOATS: DTypes = DTypes::FLOATS.union(DTypes::HALVES);

pub static PRODUCT: Op = Op {
    name: "bilinear_tensor_product",
    inputs: product::INS,
    outputs: product::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: FLOATS,
    infer,
    cpu: Kernel::Pure(|cx| in_f32(cx, product::X, run)),
    grad: Grad::By(&PRODUCT_GRAD),
    ..OP
};

pub static PRODUCT_GRAD: Op = Op {
    name: "bilinear_tensor_product_grad",
    inputs: product_grad::INS,
    outputs: product_grad::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: FLOATS,
    infer: infer_grad,
    cpu: Kernel::Pure(|cx| in_f32(cx, product_grad::X, run_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&PRODUCT, &PRODUCT_GRAD];
