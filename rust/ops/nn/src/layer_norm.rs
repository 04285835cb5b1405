//! layer_norm: normalization over the dimensions from begin_norm_axis on.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::norm::layer_norm as kernel;
use oar_ops_common::half::in_f32;
use oar_ops_common::norm::{check_channel, check_epsilon, check_like, check_statistics, statistics_dtype};

attrs! {
    pub struct LayerNormAttrs {
        epsilon: f32 = 1e-5, begin_norm_axis: i32 = 1, use_mkldnn: bool = false,
        mkldnn_data_type: Text = "float32".into(), is_test: bool = false,
    }
}

/// The number of rows and their length; -1 if unknown.
fn rows_of(op: &str, axis: i32, x: &[i64]) -> Result<(i64, i64)> {
    ensure!(
        axis > 0 && (axis as usize) < x.len(),
        InvalidArgument,
        "operator {op}: begin_norm_axis must be between 0 and the rank of X, got {axis} and shape {x:?}"
    );
    let product = |d: &[i64]| if d.iter().any(|&v| v < 0) { -1 } else { d.iter().product() };
    Ok((product(&x[..axis as usize]), product(&x[axis as usize..])))
}

slots! {
    mod layer_norm { X "X", SCALE "Scale".dispensable(), BIAS "Bias".dispensable() => Y "Y", MEAN "Mean".intermediate(), VARIANCE "Variance".intermediate() }
    mod layer_norm_grad {
        X "X", MEAN "Mean", VARIANCE "Variance", SCALE "Scale".dispensable(), BIAS "Bias".dispensable().meta_only(), DY "Y@GRAD"
        => DSCALE "Scale@GRAD", DBIAS "Bias@GRAD", DX "X@GRAD"
    }
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (cx.dims(layer_norm::X)?, cx.dtype(layer_norm::X)?);
    let a = cx.attrs::<LayerNormAttrs>();
    check_epsilon(cx.op.name, a.epsilon)?;
    let (left, right) = rows_of(cx.op.name, a.begin_norm_axis, &x)?;
    for slot in [layer_norm::SCALE, layer_norm::BIAS] {
        if !cx.has(slot) {
            continue;
        }
        let d = cx.dims(slot)?;
        ensure!(
            d.len() == 1 && (d[0] == right || d[0] < 0 || right < 0),
            InvalidArgument,
            "operator {}: {} must have shape [{right}], got {:?}",
            cx.op.name,
            cx.op.inputs[slot.0].name,
            &d[..]
        );
    }
    cx.set(layer_norm::Y, &x, dtype);
    cx.set(layer_norm::MEAN, &[left], statistics_dtype(dtype));
    cx.set(layer_norm::VARIANCE, &[left], statistics_dtype(dtype));
    cx.share_lod(layer_norm::Y, layer_norm::X);
    Ok(())
}

/// The elements of an output, or of a scratch buffer if it is not requested.
fn place<'a, T: Element>(out: Option<&'a mut Tensor>, spare: &'a mut Vec<T>, n: usize) -> Result<&'a mut [T]> {
    match out {
        Some(t) => t.data_mut::<T>(),
        None => {
            spare.resize(n, T::default());
            Ok(spare)
        }
    }
}

fn forward(cx: &mut KernelContext) -> Result<()> {
    let (x, scale, bias) = (cx.input(layer_norm::X)?, cx.opt(layer_norm::SCALE), cx.opt(layer_norm::BIAS));
    let a = cx.attrs::<LayerNormAttrs>();
    let (outer, n) = rows_of(cx.op.name, a.begin_norm_axis, x.dims())?;
    let (outer, n) = (outer as usize, n as usize);
    dispatch!(x.dtype(), T in [f32, f64], {
        let [y, mean, var] = cx.each_out([layer_norm::Y, layer_norm::MEAN, layer_norm::VARIANCE]);
        let mut spare = [const { Vec::new() }; 3];
        let [spare_y, spare_mean, spare_var] = &mut spare;
        kernel::layer_norm(
            (outer, n), x.data::<T>(), scale.map(|t| t.data::<T>()), bias.map(|t| t.data::<T>()), a.epsilon as f64,
            place(y, spare_y, outer * n)?, place(mean, spare_mean, outer)?, place(var, spare_var, outer)?,
        );
    }, other => return cx.unsupported(other));
    Ok(())
}

fn backward(cx: &mut KernelContext) -> Result<()> {
    use layer_norm_grad::{DBIAS, DSCALE, DX, DY, MEAN, SCALE, VARIANCE, X};
    let (x, dy) = (cx.input(X)?, cx.input(DY)?);
    let (mean, var, scale) = (cx.input(MEAN)?, cx.input(VARIANCE)?, cx.opt(SCALE));
    let a = cx.attrs::<LayerNormAttrs>();
    let (outer, n) = rows_of(cx.op.name, a.begin_norm_axis, x.dims())?;
    check_like(cx, x, &[DY])?;
    check_channel(cx, &[MEAN, VARIANCE], outer as usize, x.dtype())?;
    check_channel(cx, &[SCALE], n as usize, x.dtype())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let [dscale, dbias, dx] = cx.each_out([DSCALE, DBIAS, DX]);
        kernel::layer_norm_grad(
            (outer as usize, n as usize), x.data::<T>(), dy.data::<T>(), scale.map(|t| t.data::<T>()),
            mean.data::<T>(), var.data::<T>(), a.epsilon as f64,
            dx.map(|t| t.data_mut::<T>()).transpose()?,
            dscale.map(|t| t.data_mut::<T>()).transpose()?,
            dbias.map(|t| t.data_mut::<T>()).transpose()?,
        );
    }, other => return cx.unsupported(other));
    Ok(())
}

fn infer_grad(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (cx.dims(layer_norm_grad::X)?, cx.dtype(layer_norm_grad::X)?);
    let (_, right) = rows_of(cx.op.name, cx.attrs::<LayerNormAttrs>().begin_norm_axis, &x)?;
    cx.set(layer_norm_grad::DSCALE, &[right], statistics_dtype(dtype));
    cx.set(layer_norm_grad::DBIAS, &[right], statistics_dtype(dtype));
    cx.set(layer_norm_grad::DX, &x, dtype);
    Ok(())
}

pub static LAYER_NORM: Op = Op {
    name: "layer_norm",
    inputs: layer_norm::INS,
    outputs: layer_norm::OUTS,
    attrs: LayerNormAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer,
    cpu: Kernel::Pure(|cx| {
        let dtype = cx.input(layer_norm::X)?.dtype();
        check_statistics(cx, dtype, &[layer_norm::SCALE, layer_norm::BIAS], &[])?;
        in_f32(cx, layer_norm::X, forward)
    }),
    grad: Grad::By(&LAYER_NORM_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};

pub static LAYER_NORM_GRAD: Op = Op {
    name: "layer_norm_grad",
    inputs: layer_norm_grad::INS,
    outputs: layer_norm_grad::OUTS,
    attrs: LayerNormAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::HALVES),
    infer: infer_grad,
    cpu: Kernel::Pure(|cx| in_f32(cx, layer_norm_grad::X, backward)),
    ..OP
};

pub static TABLE: &[&Op] = &[&LAYER_NORM, &LAYER_NORM_GRAD];
