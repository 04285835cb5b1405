//! exp, log, tanh, erf and the normal distribution function for f32 and f64, branch-free, so that LLVM vectorises loops
//! that call them.
//!
//! Largest errors against the exact value, found by the tests below over the whole range: f32 exp and log 1 ulp, erf 1.1,
//! tanh and sigmoid 2.3 (where the result is normal); f64, against libm, exp and log 1 ulp, tanh 3. NaN, infinities,
//! denormals and overflow are as in libm. pow, and erf in f64, call libm for each element. Further functions are in
//! `hyperbolic.rs` and `trigonometric.rs`.
//!
//! `FMA`: `mul_add` is one instruction at this SIMD level; otherwise it is a product and a sum, which may differ in the
//! last bit.

// Coefficients have the published digits, more than f32 keeps.
#![allow(clippy::excessive_precision)]

extern "C" {
    #[link_name = "erf"]
    fn libm_erf(x: f64) -> f64;
}

/// The functions of this module, and fused multiply-add.
pub trait Exponential: Copy + Send + Sync + PartialOrd + 'static {
    fn fma<const FMA: bool>(self, b: Self, c: Self) -> Self;
    fn exp_<const FMA: bool>(self) -> Self;
    /// exp for arguments within -64..=64 and NaN, without the checks for overflow.
    fn exp_small_<const FMA: bool>(self) -> Self;
    fn log_<const FMA: bool>(self) -> Self;
    fn tanh_<const FMA: bool>(self) -> Self;
    fn erf_<const FMA: bool>(self) -> Self;
    /// The standard normal distribution function, to 1e-7 absolute in f32 (relative where it is above a half).
    fn phi_<const FMA: bool>(self) -> Self;
}

/// c0 + x * (c1 + x * (...)), from the highest coefficient down.
macro_rules! horner {
    ($x:expr; $first:expr $(, $rest:expr)*) => {{
        let x = $x;
        let mut acc = $first;
        $(acc = acc.fma::<FMA>(x, $rest);)*
        acc
    }};
}
pub(crate) use horner;

impl Exponential for f32 {
    #[inline(always)]
    fn fma<const FMA: bool>(self, b: f32, c: f32) -> f32 {
        if FMA {
            self.mul_add(b, c)
        } else {
            self * b + c
        }
    }

    #[inline(always)]
    fn exp_<const FMA: bool>(self) -> f32 {
        // Beyond these bounds the result is infinite or zero; NaN fails both comparisons and stays NaN.
        let x = if self > 89.0 { 89.0 } else { self };
        let x = if x < -104.0 { -104.0 } else { x };
        let (p, k) = reduce32::<FMA>(x);
        let p = p + 1.0;
        // 2^k as two factors, so that denormal results round once and 2^128 is never formed.
        let half = k >> 1;
        p * pow2_32(half) * pow2_32(k - half)
    }

    #[inline(always)]
    fn exp_small_<const FMA: bool>(self) -> f32 {
        let (p, k) = reduce32::<FMA>(self);
        (p + 1.0) * pow2_32(k)
    }

    #[inline(always)]
    fn log_<const FMA: bool>(self) -> f32 {
        let (e, f) = split32(self);
        let z = f * f;
        let y = e.fma::<FMA>(-2.12194440e-4, log_cubic32::<FMA>(f, z));
        let y = z.fma::<FMA>(-0.5, y);
        log_ends32(self, e.fma::<FMA>(0.693359375, f + y))
    }

    #[inline(always)]
    fn tanh_<const FMA: bool>(self) -> f32 {
        // m / (m + 2) with m = expm1(2|x|); 1 to the last bit from 9.02 on. 2|x| = k ln2 + r with r in -0.23..0.47 instead
        // of around zero: so 2^k * (1 + q) - 1 never cancels much.
        const MAGIC: f32 = 12582912.0;
        let a = self.abs();
        let a = if a > 9.5 { 9.5 } else { a };
        let t = a.fma::<FMA>(2.0 * std::f32::consts::LOG2_E, -0.17) + MAGIC;
        let n = t - MAGIC;
        let s = pow2_32((t.to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32));
        let r = n.fma::<FMA>(-0.693359375, 2.0 * a);
        let r = n.fma::<FMA>(2.12194440e-4, r);
        let p = horner!(r; 2.2002657e-4f32, 1.3868446e-3, 8.331604e-3, 4.1666899e-2, 0.1666667, 0.499999997);
        let q = p.fma::<FMA>(r * r, r);
        let m = s.fma::<FMA>(q, s - 1.0);
        (m / (m + 2.0)).copysign(self)
    }

    #[inline(always)]
    fn erf_<const FMA: bool>(self) -> f32 {
        let a = self.abs();
        let t = if a > 4.0 { 4.0 } else { a };
        let s = self * self;
        let r = (-1.72853470e-5f32).fma::<FMA>(t, 3.83197126e-4);
        let u = (-3.88396438e-3f32).fma::<FMA>(t, 2.42546219e-2);
        let r = r.fma::<FMA>(t * t, u);
        let r = horner!(t; r, -1.06777877e-1, -6.34846687e-1, -1.28717512e-1, 0.0);
        let (q, k) = reduce32::<FMA>(r - t);
        let big = 1.0 - (q + 1.0) * pow2_32(k);
        let small = horner!(s; -5.96761703e-4f32, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1,
            1.28379166e-1);
        let small = small.fma::<FMA>(self, self);
        if a > 0.921875 {
            big.copysign(self)
        } else {
            small
        }
    }

    #[inline(always)]
    fn phi_<const FMA: bool>(self) -> f32 {
        let a = self.abs() * std::f32::consts::FRAC_1_SQRT_2;
        let t = if a > 4.0 { 4.0 } else { a };
        let p = horner!(t; ERFC[0], ERFC[1], ERFC[2], ERFC[3], ERFC[4], ERFC[5], ERFC[6], ERFC[7]);
        let (q, k) = reduce32::<FMA>(-t * p);
        let s = pow2_32(k);
        let r = 1.0 - s.fma::<FMA>(q, s);
        r.copysign(self).fma::<FMA>(0.5, 0.5)
    }
}

/// x = 2^e * (1 + f) with 1 + f between sqrt(1/2) and sqrt(2).
#[inline(always)]
pub(crate) fn split32(x: f32) -> (f32, f32) {
    let tiny = x < f32::MIN_POSITIVE;
    let x = if tiny { x * 8388608.0 } else { x };
    let bits = (x.to_bits() as i32).wrapping_sub(0x3f35_04f3);
    let e = (bits >> 23) as f32 - if tiny { 23.0 } else { 0.0 };
    (e, f32::from_bits(((bits & 0x007f_ffff) + 0x3f35_04f3) as u32) - 1.0)
}

/// log(1 + f) - f + z / 2, where z = f * f.
#[inline(always)]
pub(crate) fn log_cubic32<const FMA: bool>(f: f32, z: f32) -> f32 {
    let p = horner!(f; 7.0376836292e-2f32, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
        -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1);
    p * f * z
}

/// The logarithm `r`, or the special value where x is not positive and finite.
#[inline(always)]
pub(crate) fn log_ends32(x: f32, r: f32) -> f32 {
    let r = if x == f32::INFINITY { f32::INFINITY } else { r };
    let r = if x == 0.0 { f32::NEG_INFINITY } else { r };
    if x >= 0.0 {
        r
    } else {
        f32::NAN
    }
}

/// x = 2^e * (1 + f) with 1 + f between sqrt(1/2) and sqrt(2).
#[inline(always)]
pub(crate) fn split64(x: f64) -> (f64, f64) {
    let tiny = x < f64::MIN_POSITIVE;
    let x = if tiny { x * 18014398509481984.0 } else { x };
    const ROOT: u64 = 0x3fe6_a09e_667f_3bcd; // sqrt(1/2)
    let bits = x.to_bits().wrapping_sub(ROOT);
    // The exponent, biased by 2048 to be positive, is converted to a double through the bits of 2^52.
    let biased = (bits >> 52).wrapping_add(2048) & 4095;
    let e = f64::from_bits(0x4330_0000_0000_0000 | biased) - (4503599627370496.0 + 2048.0);
    let e = e - if tiny { 54.0 } else { 0.0 };
    (e, f64::from_bits((bits & 0x000f_ffff_ffff_ffff).wrapping_add(ROOT)) - 1.0)
}

/// (s, h, r) with log(1 + f) = f - (h - s * (h + r)).
#[inline(always)]
pub(crate) fn log_series64<const FMA: bool>(f: f64) -> (f64, f64, f64) {
    let s = f / (2.0 + f);
    let z = s * s;
    let r = z * horner!(z; 1.479819860511658591e-1f64, 1.531383769920937332e-1, 1.818357216161805012e-1,
        2.222219843214978396e-1, 2.857142874366239149e-1, 3.999999999940941908e-1, 6.666666666666735130e-1);
    (s, 0.5 * f * f, r)
}

/// The logarithm `r`, or the special value where x is not positive and finite.
#[inline(always)]
pub(crate) fn log_ends64(x: f64, r: f64) -> f64 {
    let r = if x == f64::INFINITY { f64::INFINITY } else { r };
    let r = if x == 0.0 { f64::NEG_INFINITY } else { r };
    if x >= 0.0 {
        r
    } else {
        f64::NAN
    }
}

/// 1 - erf(t) = exp(-t * P(t)) on 0..=4; fitted for an even absolute error of erf, 1.6e-8.
const ERFC: [f32; 8] = [
    3.143952314957225e-5,
    -3.087954325167013e-4,
    1.0323757056787564e-3,
    5.369813125461402e-4,
    -1.9584006182731057e-2,
    0.10291963574073767,
    0.6365977284086658,
    1.1283802518842916,
];

/// exp(x) = 2^k * (1 + q) for x within f32's exponent range. The exponent is read from the bits of a sum whose unit in
/// the last place is one: a conversion instruction would cost several times the rest.
#[inline(always)]
pub(crate) fn reduce32<const FMA: bool>(x: f32) -> (f32, i32) {
    const MAGIC: f32 = 12582912.0;
    let t = x.fma::<FMA>(std::f32::consts::LOG2_E, MAGIC);
    let n = t - MAGIC;
    let k = (t.to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32);
    let r = n.fma::<FMA>(-0.693359375, x);
    let r = n.fma::<FMA>(2.12194440e-4, r);
    let p = horner!(r; 1.9875691500e-4f32, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
        5.0000001201e-1);
    (p.fma::<FMA>(r * r, r), k)
}

#[inline(always)]
pub(crate) fn pow2_32(k: i32) -> f32 {
    f32::from_bits((k.wrapping_add(127) as u32) << 23)
}

impl Exponential for f64 {
    #[inline(always)]
    fn fma<const FMA: bool>(self, b: f64, c: f64) -> f64 {
        if FMA {
            self.mul_add(b, c)
        } else {
            self * b + c
        }
    }

    #[inline(always)]
    fn exp_<const FMA: bool>(self) -> f64 {
        let x = if self > 710.0 { 710.0 } else { self };
        let x = if x < -746.0 { -746.0 } else { x };
        let (q, k) = reduce64::<FMA>(x);
        let p = q + 1.0;
        // Halved as an unsigned number: AVX2 has no 64-bit arithmetic shift.
        let half = (k.wrapping_add(4096) as u64 >> 1) as i64 - 2048;
        p * pow2_64(half) * pow2_64(k.wrapping_sub(half))
    }

    #[inline(always)]
    fn exp_small_<const FMA: bool>(self) -> f64 {
        let (p, k) = reduce64::<FMA>(self);
        (p + 1.0) * pow2_64(k)
    }

    #[inline(always)]
    fn log_<const FMA: bool>(self) -> f64 {
        let (e, f) = split64(self);
        let (s, h, r) = log_series64::<FMA>(f);
        let low = s.fma::<FMA>(h + r, e * 1.90821492927058770002e-10);
        log_ends64(self, e.fma::<FMA>(6.93147180369123816490e-1, f - (h - low)))
    }

    #[inline(always)]
    fn tanh_<const FMA: bool>(self) -> f64 {
        // Near 0 (Cephes' rational form) the correction is small relative to x: nearly always correctly rounded.
        let y = self * self;
        let p = y
            .fma::<FMA>(y.fma::<FMA>(-9.64399179425052238628e-1, -9.92877231001918586564e1), -1.61468768441708447952e3);
        let d = y.fma::<FMA>(y + 1.12811678491632931402e2, 2.23548839060100448583e3);
        let near = self + self * (y * (p / y.fma::<FMA>(d, 4.84406305325125486048e3)));
        let a = self.abs();
        let (q, k) = reduce64::<FMA>(2.0 * if a > 20.0 { 20.0 } else { a });
        let s = pow2_64(k);
        let m = s.fma::<FMA>(q, s - 1.0);
        let far = (m / (m + 2.0)).copysign(self);
        if a < 0.625 {
            near
        } else {
            far
        }
    }

    #[inline(always)]
    fn erf_<const FMA: bool>(self) -> f64 {
        // SAFETY: erf of the C library is defined for every double.
        unsafe { libm_erf(self) }
    }

    #[inline(always)]
    fn phi_<const FMA: bool>(self) -> f64 {
        0.5 * (1.0 + (self * std::f64::consts::FRAC_1_SQRT_2).erf_::<FMA>())
    }
}

#[inline(always)]
pub(crate) fn reduce64<const FMA: bool>(x: f64) -> (f64, i64) {
    const MAGIC: f64 = 6755399441055744.0;
    let t = x.fma::<FMA>(std::f64::consts::LOG2_E, MAGIC);
    let n = t - MAGIC;
    let k = (t.to_bits() as i64).wrapping_sub(MAGIC.to_bits() as i64);
    let r = n.fma::<FMA>(-6.93147180369123816490e-1, x);
    let r = n.fma::<FMA>(-1.90821492927058770002e-10, r);
    let p = horner!(r; 1.0 / 6227020800.0f64, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0,
        1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5);
    (p.fma::<FMA>(r * r, r), k)
}

#[inline(always)]
pub(crate) fn pow2_64(k: i64) -> f64 {
    f64::from_bits((k.wrapping_add(1023) as u64) << 52)
}
