//! Max pooling with indices, and `unpool`, which scatters values to such indices.

use super::geometry::{Pooling, FLOATS};
use oar_core::attrs;
use oar_core::base::{DType, Dims, Error, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, err, slots};
use oar_kernels::pooling as kernel;
use oar_kernels::pooling::grad as gradient;
use oar_kernels::pooling::unpool as scatter;
use oar_ops_common::half::in_f32;

attrs! {
    pub struct IndexedAttrs {
        ksize: Vec<i32>, global_pooling: bool = false, adaptive: bool = false, strides: Vec<i32> = vec![1, 1],
        paddings: Vec<i32> = vec![0, 0],
    }
    pub struct Indexed3dAttrs {
        ksize: Vec<i32>, global_pooling: bool = false, adaptive: bool = false, strides: Vec<i32> = vec![1, 1, 1],
        paddings: Vec<i32> = vec![0, 0, 0],
    }
    pub struct UnpoolAttrs {
        ksize: Vec<i32>, strides: Vec<i32> = vec![1, 1], paddings: Vec<i32> = vec![0, 0], unpooling_type: String,
    }
}

slots! {
    mod pool { X "X" => OUT "Out", MASK "Mask" }
    mod pool_grad { X "X".meta_only(), MASK "Mask", DOUT "Out@GRAD" => DX "X@GRAD" }
    mod unpool { X "X", INDICES "Indices" => OUT "Out" }
    mod unpool_grad { X "X".meta_only(), INDICES "Indices", OUT "Out".meta_only(), DOUT "Out@GRAD" => DX "X@GRAD" }
}

trait Indexed: 'static {
    fn pooling<'a>(&'a self, op: &'a str) -> Result<Pooling<'a>>;
}

macro_rules! indexed {
    ($($attrs:ty)*) => {$(
        impl Indexed for $attrs {
            fn pooling<'a>(&'a self, op: &'a str) -> Result<Pooling<'a>> {
                ensure!(
                    self.paddings.len() == self.strides.len(),
                    InvalidArgument,
                    "operator {op}: paddings {:?} and strides {:?} must have as many numbers",
                    self.paddings,
                    self.strides
                );
                Ok(Pooling {
                    op,
                    pooling_type: "max",
                    ksize: &self.ksize,
                    strides: &self.strides,
                    paddings: &self.paddings,
                    padding_algorithm: "EXPLICIT",
                    data_format: "NCHW",
                    global_pooling: self.global_pooling,
                    adaptive: self.adaptive,
                    exclusive: true,
                    ceil_mode: false,
                })
            }
        }
    )*};
}

indexed!(IndexedAttrs Indexed3dAttrs);

fn infer<A: Indexed>(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (cx.dims(pool::X)?, cx.dtype(pool::X)?);
    let p = cx.attrs::<A>().pooling(cx.op.name)?;
    let out = p.out(&x)?;
    ensure!(
        x[2..].iter().try_fold(1i32, |n, &d| n.checked_mul(d.max(1).try_into().ok()?)).is_some(),
        InvalidArgument,
        "operator {}: places in planes of shape {:?} are beyond int32",
        cx.op.name,
        &x[2..]
    );
    cx.set(pool::OUT, &out, dtype);
    cx.set(pool::MASK, &out, DType::I32);
    Ok(())
}

fn run_pool<A: Indexed>(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(pool::X)?;
    let (p, _) = cx.attrs::<A>().pooling(cx.op.name)?.plan(x.dims())?;
    let mut mask = cx.take_out(pool::MASK)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        let out = cx.out_data::<T>(pool::OUT)?;
        kernel::max_pool_with_index(&p, x.data::<T>(), out, mask.data_mut::<i32>()?);
    }, other => return cx.unsupported(other));
    cx.set(pool::MASK, mask);
    Ok(())
}

fn run_pool_grad<A: Indexed>(cx: &mut KernelContext) -> Result<()> {
    let (x, mask, dout) = (cx.input(pool_grad::X)?, cx.input(pool_grad::MASK)?, cx.input(pool_grad::DOUT)?);
    let (p, dims) = cx.attrs::<A>().pooling(cx.op.name)?.plan(x.dims())?;
    ensure!(
        dout.dims() == &dims[..]
            && mask.dims() == &dims[..]
            && dout.dtype() == cx.out(pool_grad::DX)?.dtype()
            && mask.dtype() == DType::I32,
        InvalidArgument,
        "operator {}: Mask (int32) and the gradient of Out must have shape {:?}, got {mask:?} and {dout:?}",
        cx.op.name,
        &dims[..]
    );
    dispatch!(x.dtype(), T in [f32, f64], {
        gradient::max_pool_with_index_grad(&p, mask.data::<i32>(), dout.data::<T>(), cx.out_data::<T>(pool_grad::DX)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

pool_ops! {
    DOUT OP.dtypes;
    IndexedAttrs: INDEXED2D "max_pool2d_with_index", INDEXED2D_GRAD "max_pool2d_with_index_grad";
    Indexed3dAttrs: INDEXED3D "max_pool3d_with_index", INDEXED3D_GRAD "max_pool3d_with_index_grad";
}

fn unpool_out(op: &str, a: &UnpoolAttrs, x: &[i64], indices: &[i64]) -> Result<Dims> {
    let alike = |(a, b): (&i64, &i64)| a == b || *a < 0 || *b < 0;
    ensure!(
        x.len() == 4 && indices.len() == 4 && x.iter().zip(indices).all(alike),
        InvalidArgument,
        "operator {op}: X and Indices must have 4 dimensions and one shape, got {x:?} and {indices:?}"
    );
    ensure!(
        a.ksize.len() == 2 && a.strides.len() == 2 && a.paddings.len() == 2,
        InvalidArgument,
        "operator {op}: ksize {:?}, strides {:?} and paddings {:?} must have two numbers each",
        a.ksize,
        a.strides,
        a.paddings
    );
    ensure!(
        a.unpooling_type == "max",
        InvalidArgument,
        "operator {op}: unpooling_type must be max, got '{}'",
        a.unpooling_type
    );
    let mut out = Dims::from_slice(&x[..2]);
    for i in 0..2 {
        let (size, stride) = (x[i + 2], a.strides[i] as i64);
        if size < 0 {
            out.push(-1);
            continue;
        }
        let grown = (size - 1).saturating_mul(stride) - 2 * a.paddings[i] as i64 + a.ksize[i] as i64;
        ensure!(
            grown > 0 && stride > 0 && a.ksize[i] > 0 && a.paddings[i] >= 0,
            InvalidArgument,
            "operator {op}: the output would be empty: X of shape {x:?}, ksize {:?}, strides {:?}, paddings {:?}",
            a.ksize,
            a.strides,
            a.paddings
        );
        out.push(grown);
    }
    Ok(out)
}

fn infer_unpool(cx: &mut ShapeContext) -> Result<()> {
    let (x, indices, dtype) = (cx.dims(unpool::X)?, cx.dims(unpool::INDICES)?, cx.dtype(unpool::X)?);
    let out = unpool_out(cx.op.name, cx.attrs(), &x, &indices)?;
    cx.set(unpool::OUT, &out, dtype);
    Ok(())
}

fn beyond(op: &str, index: i32, out_plane: usize) -> Error {
    err!(
        InvalidArgument,
        "operator {op}: Indices must be places of the output's planes, at least 0 and less than {out_plane}, got {index}"
    )
}

fn run_unpool(cx: &mut KernelContext) -> Result<()> {
    let (x, indices, name) = (cx.input(unpool::X)?, cx.input(unpool::INDICES)?, cx.op.name);
    let out = unpool_out(name, cx.attrs(), x.dims(), indices.dims())?;
    ensure!(
        indices.dtype() == DType::I32,
        InvalidArgument,
        "operator {name}: Indices must be int32, got {}",
        indices.dtype()
    );
    let [plane, out_plane] = [x.dims(), &out].map(|d| (d[2] * d[3]) as usize);
    dispatch!(x.dtype(), T in [f32, f64], {
        let (indices, y) = (indices.data::<i32>(), cx.out_data::<T>(unpool::OUT)?);
        scatter::unpool(x.data::<T>(), indices, plane, out_plane, y).map_err(|i| beyond(name, i, out_plane))?;
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_unpool_grad(cx: &mut KernelContext) -> Result<()> {
    use unpool_grad::{DOUT, DX, INDICES, X};
    let (x, indices, dout, name) = (cx.input(X)?, cx.input(INDICES)?, cx.input(DOUT)?, cx.op.name);
    let out = unpool_out(name, cx.attrs(), x.dims(), indices.dims())?;
    ensure!(
        dout.dims() == &out[..] && dout.dtype() == cx.out(DX)?.dtype() && indices.dtype() == DType::I32,
        InvalidArgument,
        "operator {name}: the gradient of Out must have shape {:?}, and Indices be int32, got {dout:?} and {indices:?}",
        &out[..]
    );
    let [plane, out_plane] = [x.dims(), &out].map(|d| (d[2] * d[3]) as usize);
    dispatch!(x.dtype(), T in [f32, f64], {
        let (indices, dx) = (indices.data::<i32>(), cx.out_data::<T>(DX)?);
        scatter::unpool_grad(dout.data::<T>(), indices, plane, out_plane, dx).map_err(|i| beyond(name, i, out_plane))?;
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static UNPOOL: Op = Op {
    name: "unpool",
    inputs: unpool::INS,
    outputs: unpool::OUTS,
    attrs: UnpoolAttrs::FIELDS,
    dtypes: FLOATS,
    infer: infer_unpool,
    cpu: Kernel::Pure(|cx| in_f32(cx, unpool::X, run_unpool)),
    grad: Grad::By(&UNPOOL_GRAD),
    ..OP
};

pub static UNPOOL_GRAD: Op = Op {
    name: "unpool_grad",
    inputs: unpool_grad::INS,
    outputs: unpool_grad::OUTS,
    attrs: UnpoolAttrs::FIELDS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(|cx| in_f32(cx, unpool_grad::DOUT, run_unpool_grad)),
    ..OP
};
