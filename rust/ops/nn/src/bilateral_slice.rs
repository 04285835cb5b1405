//! bilateral_slice: a per-pixel affine map of the channels, read from a coarse grid at the depth given by a guide
//! image.

use oar_core::attrs;
use oar_core::base::{DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::pool;
use oar_kernels::types::Number;
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

/// Smooths the distance along the grid's depth, which makes it differentiable.
const SOFT: f64 = 1e-8;

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

/// Sizes of images (channels, height, width) and grid (depth, height, width).
struct Sizes {
    images: usize,
    inputs: usize,
    outputs: usize,
    /// Grid coefficients per output channel.
    each: usize,
    image: (usize, usize),
    cells: (usize, usize, usize),
}

/// A grid cell that a pixel reads: its offset, its weight, and the weight's derivative by the guide.
#[derive(Clone, Copy, Default)]
struct Corner {
    at: usize,
    weight: f64,
    by_guide: f64,
}

impl Sizes {
    fn new(cx: &KernelContext, x: &Tensor, grid: &Tensor, guide: &Tensor) -> Result<Sizes> {
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
        Ok(Sizes {
            images: n(x, 0),
            inputs: n(x, 1),
            outputs: outputs as usize,
            each: n(x, 1) + a.has_offset as usize,
            image: (n(x, 2), n(x, 3)),
            cells,
        })
    }

    fn pixels(&self) -> usize {
        self.image.0 * self.image.1
    }

    /// Cells per grid channel.
    fn plane(&self) -> usize {
        self.cells.0 * self.cells.1 * self.cells.2
    }

    /// The eight cells around a pixel for trilinear interpolation; positions outside the grid use its border cells.
    fn corners(&self, pixel: usize, guide: f64) -> [Corner; 8] {
        let ((h, w), (depth, rows, cols)) = (self.image, self.cells);
        let place = |at: usize, cells: usize, n: usize| (at as f64 + 0.5) * cells as f64 / n as f64;
        let (x, y) = (place(pixel % w, cols, w), place(pixel / w, rows, h));
        let z = guide * depth as f64;
        let first = [x, y, z].map(|v| (v - 0.5).floor());
        let clamp = |v: f64, n: usize| v.clamp(0.0, n as f64 - 1.0) as usize;
        std::array::from_fn(|k| {
            let [cx, cy, cz] = [first[0] + (k & 1) as f64, first[1] + (k >> 1 & 1) as f64, first[2] + (k >> 2) as f64];
            let linear = |c: f64, v: f64| (1.0 - (c + 0.5 - v).abs()).max(0.0);
            let off = cz + 0.5 - z;
            let soft = (off * off + SOFT).sqrt();
            let flat = linear(cx, x) * linear(cy, y);
            let at = (clamp(cz, depth) * rows + clamp(cy, rows)) * cols + clamp(cx, cols);
            let slope = if soft > 1.0 { 0.0 } else { depth as f64 * off / soft };
            Corner { at, weight: flat * (1.0 - soft).max(0.0), by_guide: flat * slope }
        })
    }
}

/// Weighted sum of one grid channel over the corners.
fn read<T: Number>(grid: &[T], corners: &[Corner; 8], weight: impl Fn(&Corner) -> f64) -> f64 {
    corners.iter().map(|c| grid[c.at].to_f64() * weight(c)).sum()
}

fn forward<T: Number>(s: &Sizes, x: &[T], grid: &[T], guide: &[T], out: &mut [T]) {
    let (n, plane) = (s.pixels(), s.plane());
    pool::parts(out, n.max(1), |start, out| {
        let (image, o) = (start / n / s.outputs, start / n % s.outputs);
        let (x, guide) = (&x[image * s.inputs * n..][..s.inputs * n], &guide[image * n..(image + 1) * n]);
        let grid = &grid[(image * s.outputs + o) * s.each * plane..][..s.each * plane];
        for (p, out) in out.iter_mut().enumerate() {
            let corners = s.corners(p, guide[p].to_f64());
            let value = grid.chunks_exact(plane).enumerate().map(|(i, grid)| {
                let input = if i < s.inputs { x[i * n + p].to_f64() } else { 1.0 };
                read(grid, &corners, |c| c.weight) * input
            });
            *out = T::from_f64(value.sum());
        }
    });
}

type Ins<'a, T> = (&'a [T], &'a [T], &'a [T], &'a [T]);

/// The gradients; each thread computes a part of each.
fn backward<T: Number>(s: &Sizes, (x, grid, guide, d): Ins<T>, outs: [Option<&mut [T]>; 3]) {
    let (n, plane) = (s.pixels(), s.plane());
    let [dx, dgrid, dguide] = outs;
    let numbers = |image: usize, o: usize, i: usize| &grid[((image * s.outputs + o) * s.each + i) * plane..][..plane];
    let input = |image: usize, i: usize, p: usize| match i < s.inputs {
        true => x[(image * s.inputs + i) * n + p].to_f64(),
        false => 1.0,
    };
    let gradient = |image: usize, o: usize, p: usize| d[(image * s.outputs + o) * n + p].to_f64();
    if let Some(dx) = dx {
        pool::parts(dx, n.max(1), |start, dx| {
            let (image, i) = (start / n / s.inputs, start / n % s.inputs);
            for (p, dx) in dx.iter_mut().enumerate() {
                let corners = s.corners(p, guide[image * n + p].to_f64());
                let of = |o: usize| read(numbers(image, o, i), &corners, |c| c.weight) * gradient(image, o, p);
                *dx = T::from_f64((0..s.outputs).map(of).sum());
            }
        });
    }
    if let Some(dgrid) = dgrid {
        pool::parts(dgrid, plane.max(1), |start, dgrid| {
            let channel = start / plane % (s.outputs * s.each);
            let (image, o, i) = (start / plane / (s.outputs * s.each), channel / s.each, channel % s.each);
            let mut sums = vec![0.0; plane];
            for p in 0..n {
                let by = gradient(image, o, p) * input(image, i, p);
                s.corners(p, guide[image * n + p].to_f64()).iter().for_each(|c| sums[c.at] += c.weight * by);
            }
            dgrid.iter_mut().zip(sums).for_each(|(g, s)| *g = T::from_f64(s));
        });
    }
    if let Some(dguide) = dguide {
        pool::parts(dguide, s.image.1.max(1), |start, dguide| {
            for (k, dguide) in dguide.iter_mut().enumerate() {
                let (image, p) = ((start + k) / n, (start + k) % n);
                let corners = s.corners(p, guide[start + k].to_f64());
                let of = |o: usize, i: usize| read(numbers(image, o, i), &corners, |c| c.by_guide) * input(image, i, p);
                let whole = |o: usize| (0..s.each).map(|i| of(o, i)).sum::<f64>() * gradient(image, o, p);
                *dguide = T::from_f64((0..s.outputs).map(whole).sum());
            }
        });
    }
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
    let s = Sizes::new(cx, x, grid, guide)?;
    dispatch!(x.dtype(), T in [f32, f64], {
        forward(&s, x.data::<T>(), grid.data::<T>(), guide.data::<T>(), cx.out_data::<T>(slice::OUT)?);
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    use slice_grad::{DGRID, DGUIDE, DOUT, DX, GRID, GUIDE, X};
    let (x, grid, guide, d) = (cx.input(X)?, cx.input(GRID)?, cx.input(GUIDE)?, cx.input(DOUT)?);
    let s = Sizes::new(cx, x, grid, guide)?;
    let out = [s.images as i64, s.outputs as i64, x.dims()[2], x.dims()[3]];
    like(cx, d, &out, x.dtype(), "the gradient of Out")?;
    let outs = cx.each_out([DX, DGRID, DGUIDE]);
    dispatch!(x.dtype(), T in [f32, f64], {
        let mut slices = [None, None, None];
        for (slot, t) in slices.iter_mut().zip(outs) {
            *slot = t.map(|t| t.data_mut::<T>()).transpose()?;
        }
        backward(&s, (x.data::<T>(), grid.data::<T>(), guide.data::<T>(), d.data::<T>()), slices);
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
