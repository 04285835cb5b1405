//! Combining rows of values: fixed order, halves in float32, vector instructions where the processor has them.

use half::{bf16, f16};

use crate::dtype::{Dtype, ReduceOp};
use crate::error::{Error, Result};

/// Elements combined at a time: a block of accumulators stays in the first-level cache.
const BLOCK: usize = 1024;

/// A value that can be combined; `Acc` holds partial results.
trait Value: Copy {
    type Acc: Copy;
    const ZERO: Self::Acc;
    fn widen(self) -> Self::Acc;
    fn narrow(acc: Self::Acc) -> Self;
    fn sum(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn prod(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn max(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn min(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn over(a: Self::Acc, n: usize) -> Self::Acc;
}

macro_rules! float_ops {
    ($acc:ty) => {
        #[inline(always)]
        fn sum(a: $acc, b: $acc) -> $acc {
            a + b
        }
        #[inline(always)]
        fn prod(a: $acc, b: $acc) -> $acc {
            a * b
        }
        // A NaN on either side stays one.
        #[inline(always)]
        fn max(a: $acc, b: $acc) -> $acc {
            if a > b || a.is_nan() {
                a
            } else {
                b
            }
        }
        #[inline(always)]
        fn min(a: $acc, b: $acc) -> $acc {
            if a < b || a.is_nan() {
                a
            } else {
                b
            }
        }
        #[inline(always)]
        fn over(a: $acc, n: usize) -> $acc {
            a / n as $acc
        }
    };
}

macro_rules! float_value {
    ($($t:ty)*) => {$(
        impl Value for $t {
            type Acc = $t;
            const ZERO: $t = 0.0;
            #[inline(always)]
            fn widen(self) -> $t { self }
            #[inline(always)]
            fn narrow(acc: $t) -> $t { acc }
            float_ops!($t);
        }
    )*};
}
float_value!(f32 f64);

impl Value for f16 {
    type Acc = f32;
    const ZERO: f32 = 0.0;
    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32()
    }
    #[inline(always)]
    fn narrow(acc: f32) -> f16 {
        f16::from_f32(acc)
    }
    float_ops!(f32);
}

impl Value for bf16 {
    type Acc = f32;
    const ZERO: f32 = 0.0;
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
    // To nearest, ties to even; written without branches so that it vectorises.
    #[inline(always)]
    fn narrow(acc: f32) -> bf16 {
        let bits = acc.to_bits();
        let rounded = bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16;
        let quiet = (bits >> 16) | 0x40;
        bf16::from_bits(if acc.is_nan() { quiet as u16 } else { rounded as u16 })
    }
    float_ops!(f32);
}

macro_rules! int_value {
    ($($t:ty)*) => {$(
        impl Value for $t {
            type Acc = $t;
            const ZERO: $t = 0;
            #[inline(always)]
            fn widen(self) -> $t { self }
            #[inline(always)]
            fn narrow(acc: $t) -> $t { acc }
            #[inline(always)]
            fn sum(a: $t, b: $t) -> $t { a.wrapping_add(b) }
            #[inline(always)]
            fn prod(a: $t, b: $t) -> $t { a.wrapping_mul(b) }
            #[inline(always)]
            fn max(a: $t, b: $t) -> $t { a.max(b) }
            #[inline(always)]
            fn min(a: $t, b: $t) -> $t { a.min(b) }
            // Toward zero. Ranks are far fewer than i64 can count; a type too narrow for the number has sums that wrap.
            #[inline(always)]
            fn over(a: $t, n: usize) -> $t { (a as i64 / n as i64) as $t }
        }
    )*};
}
int_value!(i8 i16 i32 i64 u8);

/// A truth value: any byte but 0 is true, and the result is 0 or 1.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Truth(u8);

impl Value for Truth {
    type Acc = u8;
    const ZERO: u8 = 0;
    #[inline(always)]
    fn widen(self) -> u8 {
        u8::from(self.0 != 0)
    }
    #[inline(always)]
    fn narrow(acc: u8) -> Truth {
        Truth(acc)
    }
    #[inline(always)]
    fn sum(a: u8, b: u8) -> u8 {
        a | b
    }
    #[inline(always)]
    fn prod(a: u8, b: u8) -> u8 {
        a & b
    }
    #[inline(always)]
    fn max(a: u8, b: u8) -> u8 {
        a | b
    }
    #[inline(always)]
    fn min(a: u8, b: u8) -> u8 {
        a & b
    }
    #[inline(always)]
    fn over(a: u8, _: usize) -> u8 {
        a
    }
}

/// Rows to combine and where to put the result: addresses, since they may lie in memory shared with other processes.
struct Rows<'a> {
    out: *mut u8,
    rows: &'a [*const u8],
    count: usize,
    op: ReduceOp,
    /// Divide the result by this many.
    over: usize,
}

/// Combine `count` elements of every row, first row first, into `out`. `over` > 1 divides the result (for the average).
///
/// # Safety
/// `out` and every row are valid for `count` elements of `dtype`; `out` is either apart from a row or the same as it;
/// nobody else writes to them meanwhile. No alignment is needed.
pub unsafe fn combine(dtype: Dtype, op: ReduceOp, out: *mut u8, rows: &[*const u8], count: usize, over: usize) {
    let r = Rows { out, rows, count, op, over };
    // SAFETY: as the caller promises; the dtype decides the element type.
    unsafe {
        match dtype {
            Dtype::Bool => dispatch::<Truth>(&r),
            Dtype::U8 => dispatch::<u8>(&r),
            Dtype::I8 => dispatch::<i8>(&r),
            Dtype::I16 => dispatch::<i16>(&r),
            Dtype::I32 => dispatch::<i32>(&r),
            Dtype::I64 => dispatch::<i64>(&r),
            Dtype::F32 => dispatch::<f32>(&r),
            Dtype::F64 => dispatch::<f64>(&r),
            Dtype::F16 => dispatch::<f16>(&r),
            Dtype::Bf16 => dispatch::<bf16>(&r),
        }
    }
}

unsafe fn dispatch<T: Value>(r: &Rows<'_>) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,f16c,fma")]
        unsafe fn wide<T: Value>(r: &Rows<'_>) {
            // SAFETY: the caller's promise, passed on.
            unsafe { by_op::<T>(r) }
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") && is_x86_feature_detected!("fma") {
            // SAFETY: the features were found; the rest is the caller's promise.
            return unsafe { wide::<T>(r) };
        }
    }
    // SAFETY: the caller's promise, passed on.
    unsafe { by_op::<T>(r) }
}

#[inline(always)]
unsafe fn by_op<T: Value>(r: &Rows<'_>) {
    // SAFETY: the caller's promise, passed on.
    unsafe {
        match r.op {
            ReduceOp::Sum | ReduceOp::Avg => blocks::<T>(r, T::sum),
            ReduceOp::Prod => blocks::<T>(r, T::prod),
            ReduceOp::Max => blocks::<T>(r, T::max),
            ReduceOp::Min => blocks::<T>(r, T::min),
        }
    }
}

#[inline(always)]
unsafe fn blocks<T: Value>(r: &Rows<'_>, f: impl Fn(T::Acc, T::Acc) -> T::Acc + Copy) {
    let Some((first, rest)) = r.rows.split_first() else { return };
    let mut acc = [T::ZERO; BLOCK];
    let mut at = 0;
    while at < r.count {
        let n = BLOCK.min(r.count - at);
        // SAFETY: at + n <= count, for which the caller vouches; reads and writes are unaligned ones.
        unsafe {
            let row = first.cast::<T>().add(at);
            for (i, a) in acc[..n].iter_mut().enumerate() {
                *a = row.add(i).read_unaligned().widen();
            }
            for other in rest {
                let row = other.cast::<T>().add(at);
                for (i, a) in acc[..n].iter_mut().enumerate() {
                    *a = f(*a, row.add(i).read_unaligned().widen());
                }
            }
            if r.over > 1 {
                for a in &mut acc[..n] {
                    *a = T::over(*a, r.over);
                }
            }
            let out = r.out.cast::<T>().add(at);
            for (i, a) in acc[..n].iter().enumerate() {
                out.add(i).write_unaligned(T::narrow(*a));
            }
        }
        at += n;
    }
}

/// `dst` = `dst` and `other` combined; `mine_first` says which of the two stands on the left.
pub fn combine_pair(dtype: Dtype, op: ReduceOp, dst: &mut [u8], other: &[u8], mine_first: bool, over: usize) {
    assert_eq!(dst.len(), other.len());
    let count = dst.len() / dtype.size();
    let out = dst.as_mut_ptr();
    let rows = if mine_first { [out.cast_const(), other.as_ptr()] } else { [other.as_ptr(), out.cast_const()] };
    // SAFETY: both slices hold `count` elements, and `dst` is the only writable one.
    unsafe { combine(dtype, op, out, &rows, count, over) }
}

/// Divide in place.
pub fn divide(dtype: Dtype, dst: &mut [u8], over: usize) {
    let out = dst.as_mut_ptr();
    // SAFETY: one row, the slice itself.
    unsafe { combine(dtype, ReduceOp::Sum, out, &[out.cast_const()], dst.len() / dtype.size(), over) }
}

/// Whether the reduction has a meaning for the type.
pub fn check(dtype: Dtype, op: ReduceOp) -> Result<()> {
    if dtype == Dtype::Bool && op == ReduceOp::Avg {
        return Err(Error::invalid("the average of truth values is not defined; cast to a number first"));
    }
    Ok(())
}

/// Halves to float32 values, as bytes.
pub fn widen(dtype: Dtype, src: &[u8], dst: &mut [u8]) {
    let from = src.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]]));
    let to = dst.chunks_exact_mut(4);
    match dtype {
        Dtype::F16 => to.zip(from).for_each(|(d, s)| d.copy_from_slice(&f16::from_bits(s).to_f32().to_ne_bytes())),
        _ => to.zip(from).for_each(|(d, s)| d.copy_from_slice(&(u32::from(s) << 16).to_ne_bytes())),
    }
}

/// Float32 values, as bytes, to halves.
pub fn narrow(dtype: Dtype, src: &[u8], dst: &mut [u8]) {
    let from = src.chunks_exact(4).map(|c| f32::from_ne_bytes([c[0], c[1], c[2], c[3]]));
    let to = dst.chunks_exact_mut(2);
    match dtype {
        Dtype::F16 => to.zip(from).for_each(|(d, s)| d.copy_from_slice(&f16::from_f32(s).to_ne_bytes())),
        _ => to.zip(from).for_each(|(d, s)| d.copy_from_slice(&<bf16 as Value>::narrow(s).to_ne_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_added_in_float32() {
        // 2048 + 1 is lost in float16 if every step rounds; all of 2048 + 1 + 1 + ... is not.
        for (dtype, start, steps) in [(Dtype::F16, 2048.0f32, 8), (Dtype::Bf16, 256.0, 8)] {
            let half = |x: f32| {
                let mut b = [0; 2];
                narrow(dtype, &x.to_ne_bytes(), &mut b);
                b
            };
            let (first, one) = (half(start), half(1.0));
            let mut rows = vec![first.as_ptr()];
            rows.resize(steps + 1, one.as_ptr());
            let mut out = [0u8; 2];
            // SAFETY: every row is one element.
            unsafe { combine(dtype, ReduceOp::Sum, out.as_mut_ptr(), &rows, 1, 1) };
            assert_eq!(out, half(start + steps as f32), "{dtype:?}");
        }
    }

    #[test]
    fn bf16_rounds_as_the_half_crate_does() {
        for bits in (0..=u32::MAX).step_by(9973) {
            let x = f32::from_bits(bits);
            let (a, b) = (<bf16 as Value>::narrow(x), bf16::from_f32(x));
            assert!(a == b || (a.is_nan() && b.is_nan()), "{x}");
        }
    }
}
