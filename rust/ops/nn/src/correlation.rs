//! correlation: similarity of the patch around a position in one feature map and patches around displaced positions in
//! another.

use oar_core::base::{DTypes, Result};
use oar_core::op::infer::grads_like_inputs;
use oar_core::op::{Grad, Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{attrs, dispatch, ensure, slots};
use oar_kernels::pool;
use oar_ops_common::axis;

attrs! {
    pub struct CorrelationAttrs {
        pad_size: i32, kernel_size: i32, max_displacement: i32, stride1: i32, stride2: i32,
        corr_type_multiply: i32 = 1,
    }
}

slots! {
    mod correlation { X "Input1", Y "Input2" => OUT "Output" }
    mod correlation_grad { X "Input1", Y "Input2", DOUT "Output@GRAD" => DX "Input1@GRAD", DY "Input2@GRAD" }
}

/// Maximum number of output elements.
const MOST: i64 = 1 << 28;

/// Number of displacements to each side.
fn radius(a: &CorrelationAttrs) -> i64 {
    i64::from(a.max_displacement) / i64::from(a.stride2)
}

fn infer(cx: &mut ShapeContext) -> Result<()> {
    let (op, a) = (cx.op.name, cx.attrs::<CorrelationAttrs>());
    cx.shaped(correlation::X, &[-1; 4])?;
    let (x, dtype) = (cx.dims(correlation::X)?, cx.dtype(correlation::X)?);
    cx.shaped(correlation::Y, &x)?;
    ensure!(
        a.pad_size >= 0 && a.kernel_size > 0 && a.max_displacement >= 0 && a.stride1 > 0 && a.stride2 > 0,
        InvalidArgument,
        "operator {op}: pad_size and max_displacement cannot be negative, kernel_size and strides must be greater than 0, \
         got {}, {}, {}, {} and {}",
        a.pad_size,
        a.max_displacement,
        a.kernel_size,
        a.stride1,
        a.stride2
    );
    let border = i64::from(a.kernel_size - 1) / 2 + i64::from(a.max_displacement);
    let inner = |size: i64| {
        let left = size + 2 * i64::from(a.pad_size) - 2 * border;
        if size < 0 {
            -1
        } else {
            (left + i64::from(a.stride1) - 1).div_euclid(i64::from(a.stride1))
        }
    };
    let out = [x[0], (2 * radius(a) + 1).saturating_pow(2), inner(x[2]), inner(x[3])];
    let fits = |k: usize| out[k] > 0 || x[k] < 0;
    ensure!(
        fits(2) && fits(3),
        InvalidArgument,
        "operator {op}: the padded inputs must be larger than {} on both sides, got shape {:?} with pad_size {}",
        2 * border,
        &x[..],
        a.pad_size
    );
    let all = out.iter().fold(1i64, |n, &d| n.saturating_mul(d.max(1)));
    ensure!(all <= MOST, ResourceExhausted, "operator {op}: {all} elements of the output exceed the limit of {MOST}");
    cx.set(correlation::OUT, &out, dtype);
    Ok(())
}

/// The sizes of a call.
struct Sizes {
    channels: usize,
    height: usize,
    width: usize,
    /// Output rows.
    rows: usize,
    columns: usize,
    radius: i64,
    kernel: i64,
}

impl Sizes {
    fn new(x: &Tensor, out: &Tensor, a: &CorrelationAttrs) -> Sizes {
        let (d, o) = (x.dims(), out.dims());
        Sizes {
            channels: d[1] as usize,
            height: d[2] as usize,
            width: d[3] as usize,
            rows: o[2] as usize,
            columns: o[3] as usize,
            radius: radius(a),
            kernel: i64::from(a.kernel_size - 1) / 2,
        }
    }

    fn displacements(&self) -> usize {
        ((2 * self.radius + 1) * (2 * self.radius + 1)) as usize
    }

    /// Displacement number `k`, in rows and columns.
    fn displacement(&self, k: usize, a: &CorrelationAttrs) -> (i64, i64) {
        let (side, step) = (2 * self.radius + 1, i64::from(a.stride2));
        ((k as i64 / side - self.radius) * step, (k as i64 % side - self.radius) * step)
    }

    /// Calls `each(column, first, second)` for the pairs of elements (of a plane of each input) that contribute to an
    /// output row at one displacement. Padding is 0 and skipped.
    fn pairs(&self, k: usize, row: usize, a: &CorrelationAttrs, mut each: impl FnMut(usize, usize, usize)) {
        let (down, right) = self.displacement(k, a);
        let start = |i: usize| i as i64 * i64::from(a.stride1) + i64::from(a.max_displacement) - i64::from(a.pad_size);
        let inside = |i: i64, size: usize| (0..size as i64).contains(&i);
        // Clip the patch to the image.
        let top = start(row);
        for j in (-self.kernel).max(-top)..=self.kernel.min(self.height as i64 - 1 - top) {
            let y = top + j;
            if !inside(y + down, self.height) {
                continue;
            }
            let (left, right_most) = (start(0), start(self.columns - 1));
            for i in (-self.kernel).max(-right_most)..=self.kernel.min(self.width as i64 - 1 - left) {
                for column in 0..self.columns {
                    let x = start(column) + i;
                    if inside(x, self.width) && inside(x + right, self.width) {
                        let first = y as usize * self.width + x as usize;
                        each(column, first, (y + down) as usize * self.width + (x + right) as usize);
                    }
                }
            }
        }
    }

    /// The divisor of the sums.
    fn elements(&self, a: &CorrelationAttrs) -> f64 {
        f64::from(a.kernel_size) * f64::from(a.kernel_size) * self.channels as f64
    }
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (x, y, a) = (cx.input(correlation::X)?, cx.input(correlation::Y)?, cx.attrs::<CorrelationAttrs>());
    axis::like(cx, y, x.dims(), x.dtype(), "Input2")?;
    let s = Sizes::new(x, cx.out(correlation::OUT)?, a);
    let (plane, count) = (s.height * s.width, s.displacements());
    dispatch!(x.dtype(), T in [f32, f64], {
        let (x, y) = (x.data::<T>(), y.data::<T>());
        let mut rows: Vec<&mut [T]> = cx.out_data::<T>(correlation::OUT)?.chunks_exact_mut(s.columns.max(1)).collect();
        pool::parts(&mut rows, 1, |at, part| {
            for (n, to) in part.iter_mut().enumerate() {
                let (row, k, image) = ((at + n) % s.rows, (at + n) / s.rows % count, (at + n) / s.rows / count);
                to.fill(0.0);
                for channel in image * s.channels..(image + 1) * s.channels {
                    let (x, y) = (&x[channel * plane..][..plane], &y[channel * plane..][..plane]);
                    s.pairs(k, row, a, |column, first, second| to[column] += x[first] * y[second]);
                }
                to.iter_mut().for_each(|v| *v /= s.elements(a) as T);
            }
        });
    }, other => return cx.unsupported(other));
    Ok(())
}

fn run_grad(cx: &mut KernelContext) -> Result<()> {
    use correlation_grad::{DOUT, DX, DY, X, Y};
    let (x, y, d, a) = (cx.input(X)?, cx.input(Y)?, cx.input(DOUT)?, cx.attrs::<CorrelationAttrs>());
    axis::like(cx, y, x.dims(), x.dtype(), "Input2")?;
    axis::like(cx, d, d.dims(), x.dtype(), "Output@GRAD")?;
    let s = Sizes::new(x, d, a);
    let (plane, count) = (s.height * s.width, s.displacements());
    dispatch!(x.dtype(), T in [f32, f64], {
        let (x, y, d) = (x.data::<T>(), y.data::<T>(), d.data::<T>());
        for (slot, other, own_is_first) in [(DX, y, true), (DY, x, false)] {
            if !cx.wants(slot) || plane == 0 {
                continue;
            }
            let mut planes: Vec<&mut [T]> = cx.out_data::<T>(slot)?.chunks_exact_mut(plane).collect();
            pool::parts(&mut planes, 1, |at, part| {
                for (n, to) in part.iter_mut().enumerate() {
                    let (channel, image) = (at + n, (at + n) / s.channels);
                    let other = &other[channel * plane..][..plane];
                    to.fill(0.0);
                    for line in 0..count * s.rows {
                        let d = &d[(image * count * s.rows + line) * s.columns..][..s.columns];
                        s.pairs(line / s.rows, line % s.rows, a, |column, first, second| {
                            let (own, of) = if own_is_first { (first, second) } else { (second, first) };
                            to[own] += d[column] * other[of];
                        });
                    }
                    to.iter_mut().for_each(|v| *v /= s.elements(a) as T);
                }
            });
        }
    }, other => return cx.unsupported(other));
    Ok(())
}

pub static CORRELATION: Op = Op {
    name: "correlation",
    inputs: correlation::INS,
    outputs: correlation::OUTS,
    attrs: CorrelationAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer,
    cpu: Kernel::Pure(run),
    grad: Grad::By(&CORRELATION_GRAD),
    ..OP
};
pub static CORRELATION_GRAD: Op = Op {
    name: "correlation_grad",
    inputs: correlation_grad::INS,
    outputs: correlation_grad::OUTS,
    attrs: CorrelationAttrs::FIELDS,
    dtypes: DTypes::FLOATS,
    infer: grads_like_inputs,
    cpu: Kernel::Pure(run_grad),
    ..OP
};

pub static TABLE: &[&Op] = &[&CORRELATION, &CORRELATION_GRAD];
