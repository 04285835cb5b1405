//! Pooling of images and volumes over windows.

/// One row per pooling and gradient: static, slots, shape rule, kernels. Before the rows: the slot whose type selects
/// the gradient, and the data types.
macro_rules! pool_ops {
    ($slot:ident $dtypes:expr;
        $($attrs:ident: $op:ident $name:literal, $grad:ident $grad_name:literal;)*) => {$(
        pub static $op: Op = Op {
            name: $name,
            inputs: pool::INS,
            outputs: pool::OUTS,
            attrs: $attrs::FIELDS,
            dtypes: FLOATS,
            infer: infer::<$attrs>,
            cpu: Kernel::Pure(|cx| in_f32(cx, pool::X, run_pool::<$attrs>)),
            grad: Grad::By(&$grad),
            ..OP
        };
        pub static $grad: Op = Op {
            name: $grad_name,
            inputs: pool_grad::INS,
            outputs: pool_grad::OUTS,
            attrs: $attrs::FIELDS,
            dtypes: $dtypes,
            infer: grads_like_inputs,
            cpu: Kernel::Pure(|cx| in_f32(cx, pool_grad::$slot, run_pool_grad::<$attrs>)),
            ..OP
        };
    )*};
}

mod geometry;
mod indexed;
mod pyramid;

use geometry::{Pooling, FLOATS};
use indexed::{INDEXED2D, INDEXED2D_GRAD, INDEXED3D, INDEXED3D_GRAD, UNPOOL, UNPOOL_GRAD};
use oar_core::attrs;
use oar_core::base::Result;
use oar_core::op::attrs::Text;
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{dispatch, ensure, slots};
use oar_kernels::pooling as kernel;
use oar_kernels::pooling::grad as gradient;
use oar_ops_common::half::in_f32;
use pyramid::{SPP, SPP_GRAD};

attrs! {
    pub struct PoolAttrs {
        pooling_type: String, ksize: Vec<i32>, global_pooling: bool = false, strides: Vec<i32> = vec![1, 1],
        paddings: Vec<i32> = vec![0, 0], exclusive: bool = true, adaptive: bool = false, use_cudnn: bool = false,
        ceil_mode: bool = false, use_mkldnn: bool = false, use_quantizer: bool = false,
        mkldnn_data_type: Text = "float32".into(), data_format: Text = "NCHW".into(), is_test: bool = false,
        padding_algorithm: Text = "EXPLICIT".into(),
    }
    pub struct Pool3dAttrs {
        pooling_type: String, ksize: Vec<i32>, global_pooling: bool = false, strides: Vec<i32> = vec![1, 1, 1],
        paddings: Vec<i32> = vec![0, 0, 0], exclusive: bool = true, adaptive: bool = false, use_cudnn: bool = false,
        ceil_mode: bool = false, use_mkldnn: bool = false, data_format: Text = "NCDHW".into(),
        padding_algorithm: Text = "EXPLICIT".into(),
    }
}

slots! {
    mod pool { X "X" => OUT "Out" }
    mod pool_grad { X "X", OUT "Out", DOUT "Out@GRAD" => DX "X@GRAD" }
}

/// Attributes of max and average pooling.
trait Pools: 'static {
    fn pooling<'a>(&'a self, op: &'a str) -> Pooling<'a>;
}

macro_rules! pools {
    ($($attrs:ty)*) => {$(
        impl Pools for $attrs {
            fn pooling<'a>(&'a self, op: &'a str) -> Pooling<'a> {
                Pooling {
                    op,
                    pooling_type: &self.pooling_type,
                    ksize: &self.ksize,
                    strides: &self.strides,
                    paddings: &self.paddings,
                    padding_algorithm: &self.padding_algorithm,
                    data_format: &self.data_format,
                    global_pooling: self.global_pooling,
                    adaptive: self.adaptive,
                    exclusive: self.exclusive,
                    ceil_mode: self.ceil_mode,
                }
            }
        }
    )*};
}

pools!(PoolAttrs Pool3dAttrs);

fn infer<A: Pools>(cx: &mut ShapeContext) -> Result<()> {
    let (x, dtype) = (cx.dims(pool::X)?, cx.dtype(pool::X)?);
    let out = cx.attrs::<A>().pooling(cx.op.name).out(&x)?;
    cx.set(pool::OUT, &out, dtype);
    cx.share_lod(pool::OUT, pool::X);
    Ok(())
}

fn run_pool<A: Pools>(cx: &mut KernelContext) -> Result<()> {
    let x = cx.input(pool::X)?;
    let a = cx.attrs::<A>().pooling(cx.op.name);
    let ((p, _), max) = (a.plan(x.dims())?, a.pooling_type == "max");
    dispatch!(x.dtype(), T in [f32, f64], {
        let run = if max { kernel::max_pool::<T> } else { kernel::avg_pool::<T> };
        run(&p, x.data::<T>(), cx.out_data::<T>(pool::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_pool_grad<A: Pools>(cx: &mut KernelContext) -> Result<()> {
    let (x, out, dout) = (cx.input(pool_grad::X)?, cx.input(pool_grad::OUT)?, cx.input(pool_grad::DOUT)?);
    let a = cx.attrs::<A>().pooling(cx.op.name);
    let ((p, dims), max) = (a.plan(x.dims())?, a.pooling_type == "max");
    ensure!(
        dout.dims() == &dims[..] && out.dims() == &dims[..] && dout.dtype() == x.dtype() && out.dtype() == x.dtype(),
        InvalidArgument,
        "operator {}: Out and its gradient must have shape {:?} and the type of X, got {out:?} and {dout:?}",
        cx.op.name,
        &dims[..]
    );
    dispatch!(x.dtype(), T in [f32, f64], {
        let dx = cx.out_data::<T>(pool_grad::DX)?;
        if max {
            gradient::max_pool_grad(&p, x.data::<T>(), out.data::<T>(), dout.data::<T>(), dx);
        } else {
            gradient::avg_pool_grad(&p, dout.data::<T>(), dx);
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pool_ops! {
    X FLOATS;
    PoolAttrs: POOL2D "pool2d", POOL2D_GRAD "pool2d_grad";
    Pool3dAttrs: POOL3D "pool3d", POOL3D_GRAD "pool3d_grad";
}

pub static TABLE: &[&Op] = &[
    &POOL2D,
    &POOL2D_GRAD,
    &POOL3D,
    &POOL3D_GRAD,
    &INDEXED2D,
    &INDEXED2D_GRAD,
    &INDEXED3D,
    &INDEXED3D_GRAD,
    &UNPOOL,
    &UNPOOL_GRAD,
    &SPP,
    &SPP_GRAD,
];
