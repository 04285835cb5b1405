//! layer_norm: rows of the dimensions from begin_norm_axis on.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DType, Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::parts::half::in_f32;
use oar_core::op::parts::norm::{check_channel, check_epsilon, check_like, of_statistics};
use oar_core::op::{slot, Grad, Infer, Kernel, Op, Run, Slot, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure};
use oar_kernels::norm as kernel;

attrs! {
    pub struct LayerNormAttrs {
        epsilon: f32 = 1e-5, begin_norm_axis: i32 = 1, use_mkldnn: bool = false,
        mkldnn_data_type: Text = "float32".into(), is_test: bool = false,
    }
}

/// The number of rows and their length; -1 for what is not known yet.
fn rows_of(op: &str, axis: i32, x: &[i64]) -> Result<(i64, i64)> {
    ensure!(
        axis > 0 && (axis as usize) < x.len(),
        InvalidArgument,
        "operator {op}: begin_norm_axis must be between 0 and the rank of X, got {axis} and shape {x:?}"
    );
    let product = |d: &[i64]| if d.iter().any(|&v| v < 0) { -1 } else { d.iter().product() };
    Ok((product(&x[..axis as usize]), product(&x[axis as usize..])))
}

fn check_columns(cx: &Infer, slot: usize, columns: i64, dtype: DType) -> Result<()> {
    if !cx.has(slot) {
        return Ok(());
    }
    let d = cx.dims(slot)?;
    ensure!(
        d.len() == 1 && (!cx.is_run() || d[0] == columns && cx.dtype(slot)? == of_statistics(dtype)),
        InvalidArgument,
        "operator {}: {} must have shape [{columns}] and data type {}, got {:?} and {}",
        cx.op.name,
        cx.op.inputs[slot].name,
        of_statistics(dtype),
        &d[..],
        cx.dtype(slot)?
    );
    Ok(())
}

fn infer_layer(cx: &mut Infer) -> Result<()> {
    let (x, dtype) = (cx.dims(0)?, cx.dtype(0)?);
    let a = cx.attrs::<LayerNormAttrs>();
    check_epsilon(cx.op.name, a.epsilon)?;
    let (left, right) = rows_of(cx.op.name, a.begin_norm_axis, &x)?;
    check_columns(cx, 1, right, dtype)?;
    check_columns(cx, 2, right, dtype)?;
    cx.set(0, &x, dtype);
    cx.set(1, &[left], of_statistics(dtype));
    cx.set(2, &[left], of_statistics(dtype));
    cx.share_lod(0, 0);
    Ok(())
}

fn layer_norm(cx: &mut Run) -> Result<()> {
    let (x, scale, bias) = (cx.input(0)?, cx.opt(1), cx.opt(2));
    let a = cx.attrs::<LayerNormAttrs>();
    let (outer, n) = rows_of(cx.op.name, a.begin_norm_axis, x.dims())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let mut scratch = [Tensor::empty(T::DTYPE, &[0])?, Tensor::empty(T::DTYPE, &[0])?];
        let mut y = cx.take_out(0)?;
        // Statistics that nobody asked for still need a place.
        for (slot, t) in scratch.iter_mut().enumerate() {
            *t = if cx.wants(slot + 1) { cx.take_out(slot + 1)? } else { Tensor::empty(T::DTYPE, &[outer])? };
        }
        let [mut mean, mut var] = scratch;
        kernel::layer_norm(
            (outer as usize, n as usize), x.data::<T>(), scale.map(|t| t.data::<T>()), bias.map(|t| t.data::<T>()),
            a.epsilon as f64, y.data_mut::<T>()?, mean.data_mut::<T>()?, var.data_mut::<T>()?,
        );
        cx.set(0, y);
        cx.set(1, mean);
        cx.set(2, var);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn layer_norm_grad(cx: &mut Run) -> Result<()> {
    let (x, mean, var, scale, dy) = (cx.input(0)?, cx.input(1)?, cx.input(2)?, cx.opt(3), cx.input(5)?);
    let a = cx.attrs::<LayerNormAttrs>();
    let (outer, n) = rows_of(cx.op.name, a.begin_norm_axis, x.dims())?;
    check_like(cx, x, &[5])?;
    check_channel(cx, &[1, 2], outer as usize, x.dtype())?;
    check_channel(cx, &[3], n as usize, x.dtype())?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let mut made: [Option<Tensor>; 3] = [None, None, None];
        for (slot, t) in made.iter_mut().enumerate() {
            if cx.wants(slot) {
                *t = Some(cx.take_out(slot)?);
            }
        }
        let [dscale, dbias, dx] = &mut made;
        kernel::layer_norm_grad(
            (outer as usize, n as usize), x.data::<T>(), dy.data::<T>(), scale.map(|t| t.data::<T>()),
            mean.data::<T>(), var.data::<T>(), a.epsilon as f64,
            dx.as_mut().map(|t| t.data_mut::<T>()).transpose()?,
            dscale.as_mut().map(|t| t.data_mut::<T>()).transpose()?,
            dbias.as_mut().map(|t| t.data_mut::<T>()).transpose()?,
        );
        for (slot, t) in made.into_iter().enumerate() {
            if let Some(t) = t {
                cx.set(slot, t);
            }
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

fn infer_layer_grad(cx: &mut Infer) -> Result<()> {
    let (x, dtype) = (cx.dims(0)?, cx.dtype(0)?);
    let (_, right) = rows_of(cx.op.name, cx.attrs::<LayerNormAttrs>().begin_norm_axis, &x)?;
    let columns: Dims = Dims::from_slice(&[right]);
    cx.set(0, &columns, of_statistics(dtype));
    cx.set(1, &columns, of_statistics(dtype));
    cx.set(2, &x, dtype);
    Ok(())
}

pub static LAYER_NORM: Op = Op {
    name: "layer_norm",
    inputs: &[slot("X"), slot("Scale").opt(), slot("Bias").opt()],
    outputs: &[slot("Y"), slot("Mean").mid(), slot("Variance").mid()],
    attrs: LayerNormAttrs::FIELDS,
    infer: infer_layer,
    cpu: Kernel::Pure(|cx| in_f32(cx, 0, layer_norm)),
    grad: Grad::By(&LAYER_NORM_GRAD),
    amp: oar_core::op::Amp::Black,
    ..OP
};

const LAYER_GRAD_INPUTS: &[Slot] =
    &[slot("X"), slot("Mean"), slot("Variance"), slot("Scale").opt(), slot("Bias").opt().meta_only(), slot("Y@GRAD")];

pub static LAYER_NORM_GRAD: Op = Op {
    name: "layer_norm_grad",
    inputs: LAYER_GRAD_INPUTS,
    outputs: &[slot("Scale@GRAD"), slot("Bias@GRAD"), slot("X@GRAD")],
    attrs: LayerNormAttrs::FIELDS,
    infer: infer_layer_grad,
    cpu: Kernel::Pure(|cx| in_f32(cx, 0, layer_norm_grad)),
    ..OP
};

pub static TABLE: &[&Op] = &[&LAYER_NORM, &LAYER_NORM_GRAD];
