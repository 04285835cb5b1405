//! Reductions of rows of values: in a fixed order, half precision in float32, vectorized.

use half::{bf16, f16};

use crate::dtype::{Dtype, ReduceOp};
use crate::error::{Error, Result};

/// Elements reduced at a time: a block of accumulators fits the first-level cache.
const BLOCK: usize = 1024;
/// Elements processed in registers at a time.
const FEW: usize = 64;

/// An element type; `Acc` holds partial results.
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
    /// Factor to multiply by instead of dividing by `n`, if that gives the same bits.
    #[inline(always)]
    fn inverse(_n: usize) -> Option<Self::Acc> {
        None
    }

    /// Loads `acc` from the values at `row`.
    ///
    /// # Safety
    /// `row` is valid for as many values as `acc` has, at any alignment.
    #[inline(always)]
    unsafe fn load(row: *const Self, acc: &mut [Self::Acc]) {
        for (i, a) in acc.iter_mut().enumerate() {
            // SAFETY: i is below the length, which the caller guarantees.
            *a = unsafe { row.add(i).read_unaligned() }.widen();
        }
    }

    /// Reduces the values at `row` into `acc`.
    ///
    /// # Safety
    /// As for `load`.
    #[inline(always)]
    unsafe fn fold(row: *const Self, acc: &mut [Self::Acc], f: impl Fn(Self::Acc, Self::Acc) -> Self::Acc) {
        for (i, a) in acc.iter_mut().enumerate() {
            // SAFETY: as in `load`.
            *a = f(*a, unsafe { row.add(i).read_unaligned() }.widen());
        }
    }

    /// Stores `acc` to the values at `out`.
    ///
    /// # Safety
    /// As for `load`, for writing.
    #[inline(always)]
    unsafe fn store(acc: &[Self::Acc], out: *mut Self) {
        for (i, a) in acc.iter().enumerate() {
            // SAFETY: as in `load`.
            unsafe { out.add(i).write_unaligned(Self::narrow(*a)) };
        }
    }
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
        // A NaN operand propagates.
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
        #[inline(always)]
        fn inverse(n: usize) -> Option<$acc> {
            n.is_power_of_two().then(|| 1.0 / n as $acc)
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
    // Conversions have neither branches nor calls, so that loops vectorize: the half crate converts one value per call.
    fn widen(self) -> f32 {
        let bits = u32::from(self.to_bits());
        let body = (bits & 0x7FFF) << 13;
        // The exponent biases differ by 112; the product also normalizes subnormal values.
        let finite = (f32::from_bits(body) * f32::from_bits((127 + 112) << 23)).to_bits();
        let special = body | 0x7F80_0000;
        f32::from_bits((bits & 0x8000) << 16 | if body >= 0x7C00 << 13 { special } else { finite })
    }
    #[inline(always)]
    fn narrow(acc: f32) -> f16 {
        let bits = acc.to_bits();
        let size = bits & 0x7FFF_FFFF;
        // Rounds to nearest, ties to even; values too large become infinity, as 65536 does.
        let capped = size.min(0x4780_0000);
        let normal = capped.wrapping_sub(112 << 23).wrapping_add(0xFFF + ((capped >> 13) & 1)) >> 13;
        // In [0.5, 1) the last bit of a float32 is that of a subnormal float16: the addition rounds correctly.
        let tiny = (f32::from_bits(size) + 0.5).to_bits().wrapping_sub(0x3F00_0000);
        let finite = if size < 0x3880_0000 { tiny } else { normal };
        let body = if size > 0x7F80_0000 { 0x7E00 | (size >> 13 & 0x3FF) } else { finite };
        f16::from_bits((bits >> 16 & 0x8000 | body) as u16)
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
    // Rounds to nearest, ties to even, without branches, so that loops vectorize.
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
            // Rounds toward zero. The number of ranks fits i64; in a narrower type that cannot hold it, sums wrap.
            #[inline(always)]
            fn over(a: $t, n: usize) -> $t { (a as i64 / n as i64) as $t }
        }
    )*};
}
int_value!(i8 i16 i32 i64 u8);

/// A boolean: any byte but 0 is true, and results are 0 or 1.
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

/// Rows to reduce and the destination: raw addresses, since they may be in memory shared with other processes.
struct ReduceArgs<'a> {
    out: *mut u8,
    rows: &'a [*const u8],
    count: usize,
    op: ReduceOp,
    /// Divisor of the result.
    over: usize,
}

/// Reduces `count` elements of every row, first row first, into `out`. `over` > 1 divides the result (for the average).
///
/// # Safety
/// `out` and every row are valid for `count` elements of `dtype`; `out` is either disjoint from a row or equal to it;
/// no other code writes to them meanwhile. No alignment is needed.
pub unsafe fn combine(dtype: Dtype, op: ReduceOp, out: *mut u8, rows: &[*const u8], count: usize, over: usize) {
    let r = ReduceArgs { out, rows, count, op, over };
    // SAFETY: the caller's contract; the dtype decides the element type.
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

unsafe fn dispatch<T: Value>(r: &ReduceArgs<'_>) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,f16c,fma")]
        unsafe fn wide<T: Value>(r: &ReduceArgs<'_>) {
            // SAFETY: the caller's contract.
            unsafe { by_op::<T>(r) }
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") && is_x86_feature_detected!("fma") {
            // SAFETY: the CPU features were detected; the rest is the caller's contract.
            return unsafe { wide::<T>(r) };
        }
    }
    // SAFETY: the caller's contract.
    unsafe { by_op::<T>(r) }
}

#[inline(always)]
unsafe fn by_op<T: Value>(r: &ReduceArgs<'_>) {
    // SAFETY: the caller's contract.
    unsafe {
        match r.op {
            ReduceOp::Sum | ReduceOp::Avg => match T::inverse(r.over) {
                _ if r.over <= 1 => blocks::<T>(r, T::sum, |a| a),
                Some(by) => blocks::<T>(r, T::sum, |a| T::prod(a, by)),
                None => blocks::<T>(r, T::sum, |a| T::over(a, r.over)),
            },
            ReduceOp::Prod => blocks::<T>(r, T::prod, |a| a),
            ReduceOp::Max => blocks::<T>(r, T::max, |a| a),
            ReduceOp::Min => blocks::<T>(r, T::min, |a| a),
        }
    }
}

#[inline(always)]
unsafe fn blocks<T: Value>(
    r: &ReduceArgs<'_>,
    f: impl Fn(T::Acc, T::Acc) -> T::Acc + Copy,
    end: impl Fn(T::Acc) -> T::Acc + Copy,
) {
    let mut at = 0;
    if let &[a, b] = r.rows {
        // Two rows are processed in registers: `out` is one of them, which prevents a plain loop from vectorizing.
        while at + FEW <= r.count {
            // SAFETY: at + FEW <= count, which the caller guarantees; reads and writes are unaligned.
            unsafe {
                let mut x = a.cast::<T>().add(at).cast::<[T; FEW]>().read_unaligned();
                let y = b.cast::<T>().add(at).cast::<[T; FEW]>().read_unaligned();
                for (x, y) in x.iter_mut().zip(&y) {
                    *x = T::narrow(end(f(x.widen(), y.widen())));
                }
                r.out.cast::<T>().add(at).cast::<[T; FEW]>().write_unaligned(x);
            }
            at += FEW;
        }
    }
    let Some((first, rest)) = r.rows.split_first() else { return };
    let mut acc = [T::ZERO; BLOCK];
    while at < r.count {
        let n = BLOCK.min(r.count - at);
        // SAFETY: at + n <= count, which the caller guarantees; reads and writes are unaligned.
        unsafe {
            let acc = &mut acc[..n];
            T::load(first.cast::<T>().add(at), acc);
            for other in rest {
                T::fold(other.cast::<T>().add(at), acc, f);
            }
            acc.iter_mut().for_each(|a| *a = end(*a));
            T::store(acc, r.out.cast::<T>().add(at));
        }
        at += n;
    }
}

/// Reduces `other` into `dst`; `mine_first` makes `dst` the left operand.
pub fn combine_pair(dtype: Dtype, op: ReduceOp, dst: &mut [u8], other: &[u8], mine_first: bool, over: usize) {
    assert_eq!(dst.len(), other.len());
    let count = dst.len() / dtype.size();
    let out = dst.as_mut_ptr();
    let rows = if mine_first { [out.cast_const(), other.as_ptr()] } else { [other.as_ptr(), out.cast_const()] };
    // SAFETY: both slices hold `count` elements, and `dst` is the only writable one.
    unsafe { combine(dtype, op, out, &rows, count, over) }
}

/// Divides in place.
pub fn divide(dtype: Dtype, dst: &mut [u8], over: usize) {
    let out = dst.as_mut_ptr();
    // SAFETY: one row, the slice itself.
    unsafe { combine(dtype, ReduceOp::Sum, out, &[out.cast_const()], dst.len() / dtype.size(), over) }
}

/// An error if the reduction is undefined for the type.
pub fn check(dtype: Dtype, op: ReduceOp) -> Result<()> {
    if dtype == Dtype::Bool && op == ReduceOp::Avg {
        return Err(Error::invalid("the average of booleans is not defined; cast to a number first"));
    }
    Ok(())
}

/// Converts half precision to float32; both as bytes.
pub fn widen(dtype: Dtype, src: &[u8], dst: &mut [u8]) {
    fn through<T: Value<Acc = f32>>(src: &[u8], dst: &mut [u8]) {
        let mut acc = [0.0f32; BLOCK];
        for (from, to) in src.chunks(2 * BLOCK).zip(dst.chunks_mut(4 * BLOCK)) {
            let acc = &mut acc[..from.len() / 2];
            // SAFETY: `from` holds as many half-precision values as `acc` has.
            unsafe { T::load(from.as_ptr().cast(), acc) };
            to.chunks_exact_mut(4).zip(acc).for_each(|(t, a)| t.copy_from_slice(&a.to_ne_bytes()));
        }
    }
    match dtype {
        Dtype::F16 => through::<f16>(src, dst),
        _ => through::<bf16>(src, dst),
    }
}

/// Converts float32 to half precision; both as bytes.
pub fn narrow(dtype: Dtype, src: &[u8], dst: &mut [u8]) {
    fn through<T: Value<Acc = f32>>(src: &[u8], dst: &mut [u8]) {
        let mut acc = [0.0f32; BLOCK];
        for (from, to) in src.chunks(4 * BLOCK).zip(dst.chunks_mut(2 * BLOCK)) {
            let values = from.chunks_exact(4).map(|c| f32::from_ne_bytes([c[0], c[1], c[2], c[3]]));
            acc.iter_mut().zip(values).for_each(|(a, v)| *a = v);
            // SAFETY: `to` has room for as many half-precision values as are stored.
            unsafe { T::store(&acc[..to.len() / 2], to.as_mut_ptr().cast()) };
        }
    }
    match dtype {
        Dtype::F16 => through::<f16>(src, dst),
        _ => through::<bf16>(src, dst),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cargo test --release -p oar-net --lib -- --ignored --nocapture speed
    #[test]
    #[ignore = "a measurement"]
    fn speed() {
        let mut dst = vec![1u8; 16 << 20];
        let piece = vec![0u8; 256 << 10];
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::I64] {
            let start = std::time::Instant::now();
            dst.chunks_mut(256 << 10).for_each(|d| combine_pair(dtype, ReduceOp::Sum, d, &piece, false, 1));
            println!("{} {:.1} GB/s", dtype.name(), dst.len() as f64 / start.elapsed().as_secs_f64() / 1e9);
        }
    }

    #[test]
    fn halves_are_added_in_float32() {
        // 2048 + 1 is lost in float16 if every addition rounds; 2048 + 1 + 1 + ... in float32 is not.
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
    fn an_average_is_the_rounded_quotient() {
        let values: Vec<f32> = [0, 1, 3, 0x7F_FFFF, 0x80_0001, 0x3F80_0001, 0x7F7F_FFFF, 0x7F80_0000, 0x7FC0_0000]
            .into_iter()
            .flat_map(|bits| [f32::from_bits(bits), -f32::from_bits(bits)])
            .cycle()
            .take(100)
            .collect();
        let zeros = vec![0.0f32; values.len()];
        for n in [2, 3, 4, 6] {
            let rows: Vec<*const u8> =
                (0..n).map(|i| if i == 0 { values.as_ptr() } else { zeros.as_ptr() }.cast()).collect();
            let mut out = vec![0.0f32; values.len()];
            // SAFETY: every row and `out` have as many values.
            unsafe { combine(Dtype::F32, ReduceOp::Avg, out.as_mut_ptr().cast(), &rows, values.len(), n) };
            for (o, v) in out.iter().zip(&values) {
                let want = (v + 0.0) / n as f32;
                assert!(o.to_bits() == want.to_bits() || o.is_nan() && want.is_nan(), "{v} / {n}: {o}");
            }
        }
    }

    #[test]
    fn f16_converts_as_the_half_crate_does() {
        let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        for bits in 0..=u16::MAX {
            let h = f16::from_bits(bits);
            assert!(same(h.widen(), h.to_f32()), "{bits:x}");
            // Values around every float16 and every midpoint.
            for d in -2i32..=2 {
                for base in [h.to_f32().to_bits(), h.to_f32().to_bits().wrapping_add(0x1000)] {
                    let x = f32::from_bits(base.wrapping_add_signed(d));
                    let (a, b) = (<f16 as Value>::narrow(x), f16::from_f32(x));
                    assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{x}");
                }
            }
        }
        for bits in (0..=u32::MAX).step_by(9973) {
            let x = f32::from_bits(bits);
            let (a, b) = (<f16 as Value>::narrow(x), f16::from_f32(x));
            assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{x}");
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
