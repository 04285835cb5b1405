//! histogram: counts of elements in equal intervals.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, OP};
use oar_core::{dispatch, ensure, slots};

attrs! {
    pub struct HistogramAttrs { bins: i64 = 100, min: i32 = 0, max: i32 = 0 }
}

slots! {
    mod histogram { X "X" => OUT "Out" }
}

/// Types whose intervals are computed in their own arithmetic, as in Paddle.
trait Binned: Copy + PartialOrd {
    fn from_int(v: i32) -> Self;
    fn is_usable(self) -> bool;
    /// (self - 1, self + 1): the range when all elements are equal.
    fn around(self) -> (Self, Self);
    /// The interval that a number between the ends falls in.
    fn bin(self, ends: (Self, Self), bins: i64) -> i64;
}

macro_rules! floats {
    ($($t:ty)*) => {$(impl Binned for $t {
        fn from_int(v: i32) -> $t { v as $t }
        fn is_usable(self) -> bool { self.is_finite() }
        fn around(self) -> ($t, $t) { (self - 1.0, self + 1.0) }
        fn bin(self, (min, max): ($t, $t), bins: i64) -> i64 { ((self - min) * bins as $t / (max - min)) as i64 }
    })*};
}
macro_rules! integers {
    ($($t:ty)*) => {$(impl Binned for $t {
        fn from_int(v: i32) -> $t { v as $t }
        fn is_usable(self) -> bool { true }
        fn around(self) -> ($t, $t) { (self.saturating_sub(1), self.saturating_add(1)) }
        fn bin(self, (min, max): ($t, $t), bins: i64) -> i64 {
            let [v, min, max] = [self, min, max].map(|n| n as i128);
            ((v - min) * bins as i128 / (max - min)) as i64
        }
    })*};
}
floats!(f32 f64);
integers!(i32 i64);

fn count<T: Binned>(op: &str, x: &[T], a: &HistogramAttrs, out: &mut [i64]) -> Result<()> {
    let (mut min, mut max) = (T::from_int(a.min), T::from_int(a.max));
    if min == max {
        if let Some(&first) = x.first() {
            // As std::min_element: a leading NaN stays, other NaNs are skipped.
            (min, max) =
                x.iter().fold((first, first), |(l, h), &v| (if v < l { v } else { l }, if h < v { v } else { h }));
        }
    }
    if min == max {
        (min, max) = min.around();
    }
    ensure!(min.is_usable() && max.is_usable(), OutOfRange, "operator {op}: the range of X is not finite");
    out.fill(0);
    for &v in x.iter().filter(|&&v| v >= min && v <= max) {
        out[v.bin((min, max), a.bins).clamp(0, a.bins - 1) as usize] += 1;
    }
    Ok(())
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (op, x, a) = (cx.op.name, cx.input(histogram::X)?, cx.attrs::<HistogramAttrs>());
    dispatch!(x.dtype(), T in [f32, f64, i32, i64], {
        count(op, x.data::<T>(), a, cx.out_data::<i64>(histogram::OUT)?)
    }, other => cx.unsupported(other))
}

pub static HISTOGRAM: Op = Op {
    name: "histogram",
    inputs: histogram::INS,
    outputs: histogram::OUTS,
    attrs: HistogramAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::INDICES),
    infer: |cx| {
        let a = cx.attrs::<HistogramAttrs>();
        ensure!(a.bins >= 1, OutOfRange, "operator histogram: bins must be positive, got {}", a.bins);
        ensure!(
            a.max >= a.min,
            InvalidArgument,
            "operator histogram: max must not be less than min, got {} and {}",
            a.max,
            a.min
        );
        cx.dtype(histogram::X)?;
        cx.set(histogram::OUT, &[a.bins], DType::I64);
        cx.share_lod(histogram::OUT, histogram::X);
        Ok(())
    },
    cpu: Kernel::Pure(run),
    ..OP
};

pub static TABLE: &[&Op] = &[&HISTOGRAM];
