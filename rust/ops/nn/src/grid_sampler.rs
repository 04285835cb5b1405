//! grid_sampler: image values at the positions of a grid.

use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, bail, dispatch, ensure, slots};
use oar_kernels::resample::grid_sample::{self as kernel, Padding, Sampling};
use oar_ops_common::axis::like;

attrs! {
    pub struct SamplerAttrs {
        use_cudnn: bool = true, align_corners: bool = true, mode: Text = "bilinear".into(),
        padding_mode: Text = "zeros".into(),
    }
}

slots! {
    mod sampler { X "X", GRID "Grid" => OUT "Output" }
    mod sampler_grad { X "X", GRID "Grid", DOUT "Output@GRAD" => DX "X@GRAD", DGRID "Grid@GRAD" }
}

fn sampling(op: &str, a: &SamplerAttrs) -> Result<Sampling> {
    Ok(Sampling {
        align_corners: a.align_corners,
        nearest: match &a.mode[..] {
            "bilinear" => false,
            "nearest" => true,
            other => bail!(InvalidArgument, "operator {op}: mode must be bilinear or nearest, got '{other}'"),
        },
        beyond: match &a.padding_mode[..] {
            "zeros" => Padding::Zeros,
            "border" => Padding::Border,
            "reflection" => Padding::Mirror,
            other => {
                bail!(InvalidArgument, "operator {op}: padding_mode must be zeros, border or reflection, got '{other}'")
            }
        },
    })
}

fn infer_sampler(cx: &mut ShapeContext) -> Result<()> {
    let (x, grid, dtype) = (cx.dims(sampler::X)?, cx.dims(sampler::GRID)?, cx.dtype(sampler::X)?);
    sampling(cx.op.name, cx.attrs())?;
    for (what, d) in [("X", &x), ("Grid", &grid)] {
        ensure!(
            d.len() == 4,
            InvalidArgument,
            "operator {}: {what} must have 4 dimensions, got shape {:?}",
            cx.op.name,
            &d[..]
        );
    }
    ensure!(
        matches!(grid[3], 2 | -1) && (grid[0] == x[0] || grid[0] < 0 || x[0] < 0),
        InvalidArgument,
        "operator {}: Grid must have shape [{}, H, W, 2], got {:?}",
        cx.op.name,
        x[0],
        &grid[..]
    );
    cx.set(sampler::OUT, &[x[0], x[1], grid[1], grid[2]], dtype);
    cx.share_lod(sampler::OUT, sampler::X);
    Ok(())
}

/// Sizes of images and grids.
fn sizes(x: &Tensor, grid: &Tensor) -> kernel::Sizes {
    let n = |d: &[i64], i: usize| d[i] as usize;
    let (x, g) = (x.dims(), grid.dims());
    kernel::Sizes { images: n(x, 0), channels: n(x, 1), input: (n(x, 2), n(x, 3)), output: (n(g, 1), n(g, 2)) }
}

fn run_sampler(cx: &mut KernelContext) -> Result<()> {
    let (x, grid) = (cx.input(sampler::X)?, cx.input(sampler::GRID)?);
    like(cx, grid, grid.dims(), x.dtype(), "Grid")?;
    let s = sampling(cx.op.name, cx.attrs())?;
    let sizes = sizes(x, grid);
    dispatch!(x.dtype(), T in [f32, f64], {
        kernel::sample(&s, &sizes, x.data::<T>(), grid.data::<T>(), cx.out_data::<T>(sampler::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn sampler_grads<T: Element + oar_kernels::types::Number>(cx: &mut KernelContext, s: Sampling) -> Result<()> {
    use sampler_grad::{DGRID, DOUT, DX, GRID, X};
    let (x, grid, d) = (cx.input(X)?, cx.input(GRID)?, cx.input(DOUT)?);
    let sizes = sizes(x, grid);
    let [dx, dgrid] = cx.each_out([DX, DGRID]);
    let dx = dx.map(|t| t.data_mut::<T>()).transpose()?;
    let dgrid = dgrid.map(|t| t.data_mut::<T>()).transpose()?;
    kernel::sample_grad(&s, &sizes, (x.data::<T>(), grid.data::<T>(), d.data::<T>()), dx, dgrid);
    Ok(())
}

fn run_sampler_grad(cx: &mut KernelContext) -> Result<()> {
    use sampler_grad::{DOUT, GRID, X};
    let (x, grid, d) = (cx.input(X)?, cx.input(GRID)?, cx.input(DOUT)?);
    let fits = x.rank() == 4 && grid.rank() == 4 && grid.dims()[0] == x.dims()[0] && grid.dims()[3] == 2;
    ensure!(fits, InvalidArgument, "operator {}: X {x:?} and Grid {grid:?} do not fit", cx.op.name);
    like(cx, grid, grid.dims(), x.dtype(), "Grid")?;
    let out = [x.dims()[0], x.dims()[1], grid.dims()[1], grid.dims()[2]];
    like(cx, d, &out, x.dtype(), "the gradient of Output")?;
    let s = sampling(cx.op.name, cx.attrs())?;
    dispatch!(x.dtype(), T in [f32, f64], sampler_grads::<T>(cx, s), other => cx.unsupported(other))
}

pub static GRID_SAMPLER: Op = Op {
    name: "grid_sampler",
    inputs: sampler::INS,
    outputs: sampler::OUTS,
    attrs: SamplerAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_sampler,
    cpu: Kernel::Pure(run_sampler),
    grad: Grad::By(&GRID_SAMPLER_GRAD),
    ..OP
};

pub static GRID_SAMPLER_GRAD: Op = Op {
    name: "grid_sampler_grad",
    inputs: sampler_grad::INS,
    outputs: sampler_grad::OUTS,
    attrs: SamplerAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_sampler_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&GRID_SAMPLER, &GRID_SAMPLER_GRAD];
