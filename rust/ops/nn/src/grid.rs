//! affine_grid and grid_sampler: places in an image that a matrix moves, and the image's values there.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DTypes, Dims, Result};
use oar_core::op::attrs::Text;
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, dispatch, ensure, slots};
use oar_kernels::pool;
use oar_kernels::resample::grid_sample::{self as kernel, Padding, Sampling};
use oar_ops_common::axis::like;
use oar_ops_common::given::{given, Given, Inputs, Way};

attrs! {
    pub struct AffineAttrs { use_cudnn: bool = true, align_corners: bool = true, output_shape: Vec<i32> = vec![] }
    pub struct SamplerAttrs {
        use_cudnn: bool = true, align_corners: bool = true, mode: Text = "bilinear".into(),
        padding_mode: Text = "zeros".into(),
    }
}

slots! {
    mod affine { THETA "Theta", SHAPE "OutputShape".dispensable() => OUT "Output".kernel_allocated() }
    mod affine_grad { SHAPE "OutputShape".dispensable(), DOUT "Output@GRAD" => DTHETA "Theta@GRAD" }
    mod sampler { X "X", GRID "Grid" => OUT "Output" }
    mod sampler_grad { X "X", GRID "Grid", DOUT "Output@GRAD" => DX "X@GRAD", DGRID "Grid@GRAD" }
}

// affine_grid

/// Height and width of the grid; -1 where only values tell.
fn target(cx: &impl Inputs, a: &AffineAttrs, slot: InSlot) -> Result<[i64; 2]> {
    let op = cx.op().name;
    let shape: Dims = match a.output_shape.is_empty() {
        false => a.output_shape.iter().map(|&d| d as i64).collect(),
        true => match given(cx, &[Way::One(slot)])? {
            Given::Values(v) => v.into(),
            Given::Count(_) => return Ok([-1, -1]),
            Given::No => bail!(NotFound, "operator {op}: OutputShape or the attribute output_shape must be given"),
        },
    };
    ensure!(
        shape.len() == 4,
        InvalidArgument,
        "operator {op}: output_shape must have 4 numbers (N, C, H, W), got {:?}",
        &shape[..]
    );
    Ok([shape[2], shape[3]])
}

fn check_theta(op: &str, theta: &[i64]) -> Result<()> {
    let fits = theta.len() == 3 && matches!(theta[1], 2 | -1) && matches!(theta[2], 3 | -1);
    ensure!(fits, InvalidArgument, "operator {op}: Theta must have shape [N, 2, 3], got {theta:?}");
    Ok(())
}

fn infer_affine(cx: &mut ShapeContext) -> Result<()> {
    let (theta, dtype) = (cx.dims(affine::THETA)?, cx.dtype(affine::THETA)?);
    check_theta(cx.op.name, &theta)?;
    target(cx, cx.attrs(), affine::SHAPE)?;
    // As 2.0.2, which leaves the sizes to the kernel.
    cx.set(affine::OUT, &[theta[0], -1, -1, 2], dtype);
    cx.share_lod(affine::OUT, affine::THETA);
    Ok(())
}

/// The places of pixels along an axis, from -1 to 1: of the outermost pixels' centres, or of the image's borders.
#[derive(Clone, Copy)]
struct Places {
    n: usize,
    start: f64,
    step: f64,
}

impl Places {
    fn new(n: i64, align_corners: bool) -> Places {
        let (start, step) = match align_corners {
            // A single pixel stands at -1.
            true => (-1.0, if n > 1 { 2.0 / (n - 1) as f64 } else { 0.0 }),
            false => (-(n as f64 - 1.0) / n as f64, 2.0 / n as f64),
        };
        Places { n: n as usize, start, step }
    }

    fn at(self, i: usize) -> f64 {
        self.start + i as f64 * self.step
    }
}

fn axes(op: &str, [h, w]: [i64; 2], align_corners: bool) -> Result<[Places; 2]> {
    ensure!(
        h >= 0 && w >= 0,
        InvalidArgument,
        "operator {op}: height and width of the grid must not be negative, got {h} and {w}"
    );
    Ok([Places::new(h, align_corners), Places::new(w, align_corners)])
}

fn run_affine(cx: &mut KernelContext) -> Result<()> {
    let (op, theta, a) = (cx.op.name, cx.input(affine::THETA)?, cx.attrs::<AffineAttrs>());
    check_theta(op, theta.dims())?;
    let [h, w] = target(cx, a, affine::SHAPE)?;
    let [ys, xs] = axes(op, [h, w], a.align_corners)?;
    let mut out = Tensor::empty(theta.dtype(), &[theta.dims()[0], h, w, 2])?;
    if out.numel() > 0 {
        dispatch!(theta.dtype(), T in [f32, f64], {
            let theta = theta.data::<T>();
            let row = 2 * xs.n;
            pool::parts(out.data_mut::<T>()?, ((1 << 13) / row).max(1) * row, |start, out| {
                for (i, out) in out.chunks_exact_mut(row).enumerate() {
                    let (image, y) = ((start / row + i) / ys.n, ys.at((start / row + i) % ys.n) as T);
                    let m = &theta[image * 6..image * 6 + 6];
                    for (k, o) in out.chunks_exact_mut(2).enumerate() {
                        let x = xs.at(k) as T;
                        o[0] = m[0] * x + m[1] * y + m[2];
                        o[1] = m[3] * x + m[4] * y + m[5];
                    }
                }
            });
        }, other => return cx.unsupported(other));
    }
    cx.set(affine::OUT, out.with_lod(theta.lod.clone()));
    Ok(())
}

fn infer_affine_grad(cx: &mut ShapeContext) -> Result<()> {
    let (d, dtype) = (cx.dims(affine_grad::DOUT)?, cx.dtype(affine_grad::DOUT)?);
    ensure!(
        d.len() == 4 && matches!(d[3], 2 | -1),
        InvalidArgument,
        "operator {}: the gradient of Output must have shape [N, H, W, 2], got {:?}",
        cx.op.name,
        &d[..]
    );
    cx.set(affine_grad::DTHETA, &[d[0], 2, 3], dtype);
    Ok(())
}

#[allow(clippy::unnecessary_cast)] // one of the types is f64
fn run_affine_grad(cx: &mut KernelContext) -> Result<()> {
    let (op, d, a) = (cx.op.name, cx.input(affine_grad::DOUT)?, cx.attrs::<AffineAttrs>());
    let size = target(cx, a, affine_grad::SHAPE)?;
    ensure!(
        d.dims()[1..] == [size[0], size[1], 2],
        InvalidArgument,
        "operator {op}: the gradient of Output must have shape [N, {}, {}, 2], got {d:?}",
        size[0],
        size[1]
    );
    let [ys, xs] = axes(op, size, a.align_corners)?;
    let grid = 2 * ys.n * xs.n;
    dispatch!(d.dtype(), T in [f32, f64], {
        let d = d.data::<T>();
        pool::parts(cx.out_data::<T>(affine_grad::DTHETA)?, 6, |start, out| {
            let d = &d[start / 6 * grid..][..grid];
            let mut sums = [0.0f64; 6];
            for (i, row) in d.chunks_exact((2 * xs.n).max(1)).enumerate() {
                for (j, d) in row.chunks_exact(2).enumerate() {
                    let place = [xs.at(j), ys.at(i), 1.0];
                    for (k, s) in sums.iter_mut().enumerate() {
                        *s += d[k / 3] as f64 * place[k % 3];
                    }
                }
            }
            out.iter_mut().zip(sums).for_each(|(o, s)| *o = s as T);
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

// grid_sampler

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

pub static AFFINE_GRID: Op = Op {
    name: "affine_grid",
    inputs: affine::INS,
    outputs: affine::OUTS,
    attrs: AffineAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: infer_affine,
    cpu: Kernel::Pure(run_affine),
    grad: Grad::By(&AFFINE_GRID_GRAD),
    ..OP
};

pub static AFFINE_GRID_GRAD: Op = Op {
    name: "affine_grid_grad",
    inputs: affine_grad::INS,
    outputs: affine_grad::OUTS,
    attrs: AffineAttrs::FIELDS,
    infer: infer_affine_grad,
    cpu: Kernel::Pure(run_affine_grad),
    ..OP
};

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

pub static TABLE: &[&Op] = &[&AFFINE_GRID, &AFFINE_GRID_GRAD, &GRID_SAMPLER, &GRID_SAMPLER_GRAD];
