//! bilateral_slice: a per-pixel affine map of the channels, read from a coarse grid at the depth given by a guide
//! image.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::resample::bilateral_slice::{self as kernel, SliceSizes};
use oar_ops_common::axis::like;

attrs! {
    pub struct SliceAttrs { has_offset: bool = false }
}

slots! {
    mod slice { X "X", GRID "Grid", GUIDE "Guide" => OUT "Out" }
    mod slice_grad {
        X "X", GRID "Grid", GUIDE "Guide", DOUT "Out@GRAD" => DX "X@GRAD", DGRID "Grid@GRAD", DGUIDE "Guide@GRAD"
    }
}

/// Output channels; -1 while sizes are unknown.
fn channels(op: &str, a: &SliceAttrs, x: &[i64], grid: &[i64], guide: &[i64]) -> Result<i64> {
    ensure!(x.len() == 4, Unimplemented, "operator {op}: X must have 4 dimensions, got shape {x:?}");
    ensure!(
        grid.len() == 5 && guide.len() == 3,
        InvalidArgument,
        "operator {op}: Grid must have 5 dimensions and Guide 3, got shapes {grid:?} and {guide:?}"
    );
    let same = |a: i64, b: i64| a == b || a < 0 || b < 0;
    ensure!(
        same(x[0], grid[0]) && same(x[0], guide[0]) && same(x[2], guide[1]) && same(x[3], guide[2]),
        InvalidArgument,
        "operator {op}: Grid {grid:?} and Guide {guide:?} do not fit X {x:?}: the batch, height and width must be its"
    );
    if x[1] < 0 || grid[1] < 0 {
        return Ok(-1);
    }
    let each = x[1] + a.has_offset as i64;
    ensure!(
        each > 0 && grid[1] % each == 0,
        InvalidArgument,
        "operator {op}: the channels of Grid ({}) must be a multiple of {each}, the numbers that make one of the result's",
        grid[1]
    );
    Ok(grid[1] / each)
}

fn sizes(cx: &KernelContext, x: &Tensor, grid: &Tensor, guide: &Tensor) -> Result<SliceSizes> {
    let a = cx.attrs::<SliceAttrs>();
    let outputs = channels(cx.op.name, a, x.dims(), grid.dims(), guide.dims())?;
    for (t, what) in [(grid, "Grid"), (guide, "Guide")] {
        like(cx, t, t.dims(), x.dtype(), what)?;
    }
    let n = |t: &Tensor, i: usize| t.dims()[i] as usize;
    let cells = (n(grid, 2), n(grid, 3), n(grid, 4));
    ensure!(
        x.numel() == 0 || cells.0 * cells.1 * cells.2 > 0,
        InvalidArgument,
        "operator {}: Grid must have elements",
        cx.op.name
    );
    Ok(SliceSizes {
        images: n(x, 0),
        inputs: n(x, 1),
        outputs: outputs as usize,
        each: n(x, 1) + a.has_offset as usize,
        image: (n(x, 2), n(x, 3)),
        cells,
    })
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (x, grid, guide) = (cx.dims(slice::X)?, cx.dims(slice::GRID)?, cx.dims(slice::GUIDE)?);
    let outputs = channels(cx.op.name, cx.attrs(), &x, &grid, &guide)?;
    let dtype = cx.dtype(slice::X)?;
    cx.set(slice::OUT, &[grid[0], outputs, guide[1], guide[2]], dtype);
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, grid, guide) = (cx.input(slice::X)?, cx.input(slice::GRID)?, cx.input(slice::GUIDE)?);
    let s = sizes(cx, x, grid, guide)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        kernel::forward(&s, x.data::<T>(), grid.data::<T>(), guide.data::<T>(), cx.out_data::<T>(slice::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    use slice_grad::{DGRID, DGUIDE, DOUT, DX, GRID, GUIDE, X};
    let (x, grid, guide, d) = (cx.input(X)?, cx.input(GRID)?, cx.input(GUIDE)?, cx.input(DOUT)?);
    let s = sizes(cx, x, grid, guide)?;
    let out = [s.images as i64, s.outputs as i64, x.dims()[2], x.dims()[3]];
    like(cx, d, &out, x.dtype(), "the gradient of Out")?;
    let outs = cx.each_out([DX, DGRID, DGUIDE]);
    dispatch!(x.dtype(), T in [f32, f64], {
        let mut slices = [None, None, None];
        for (slot, t) in slices.iter_mut().zip(outs) {
            *slot = t.map(|t| t.data_mut::<T>()).transpose()?;
        }
        kernel::backward(&s, (x.data::<T>(), grid.data::<T>(), guide.data::<T>(), d.data::<T>()), slices);
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static BILATERAL_SLICE: Op = Op {
    name: "bilateral_slice",
    inputs: slice::INS,
    outputs: slice::OUTS,
    attrs: SliceAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&BILATERAL_SLICE_GRAD),
    ..OP
};

pub static BILATERAL_SLICE_GRAD: Op = Op {
    name: "bilateral_slice_grad",
    inputs: slice_grad::INS,
    outputs: slice_grad::OUTS,
    attrs: SliceAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&BILATERAL_SLICE, &BILATERAL_SLICE_GRAD];
