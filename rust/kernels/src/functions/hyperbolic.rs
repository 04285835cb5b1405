//! log1p, log2, log10, hyperbolic and inverse trigonometric functions, branch-free. Largest errors found by `tests.rs`:
//! f32 asin 2.3 ulp, atan 2.1, log10 1.7 (without FMA), the others 1.5; f64 2 (against libm).

// Coefficients have the published digits, more than the type keeps.
#![allow(clippy::excessive_precision)]

use crate::functions::exponential::{
    horner, log_cubic32, log_ends32, log_ends64, log_series64, pow2_32, pow2_64, reduce32, reduce64, split32, split64,
    Exponential,
};
use std::f32::consts as c32;
use std::f64::consts as c64;

pub(crate) trait Hyperbolic: Exponential {
    fn log1p_<const FMA: bool>(self) -> Self;
    fn log2_<const FMA: bool>(self) -> Self;
    fn log10_<const FMA: bool>(self) -> Self;
    fn sinh_<const FMA: bool>(self) -> Self;
    fn cosh_<const FMA: bool>(self) -> Self;
    fn asin_<const FMA: bool>(self) -> Self;
    fn acos_<const FMA: bool>(self) -> Self;
    fn atan_<const FMA: bool>(self) -> Self;
}

// log10(2) and log10(e) in two parts: the first has few enough bits for exact products.
const LOG10_2: f64 = 3.0078125E-1;
const LOG10_2_LOW: f64 = 2.48745663981195213739E-4;
const LOG10_E: f64 = 4.3359375E-1;
const LOG10_E_LOW: f64 = 7.00731903251827651129E-4;
/// log2(e) - 1.
const LOG2_E: f64 = 0.44269504088896340735992;

/// The rounding error of pi / 2 as a double, and as a float.
const HALF_PI_LOW: f64 = 6.12323399573676603587e-17;
const HALF_PI_LOW_32: f32 = -4.371139e-8;

macro_rules! by_halves {
    ($t:ident, $reduce:ident, $pow2:ident, $largest:expr) => {
        /// e^x / 2 for x >= 0: infinite only where cosh(x) is.
        #[inline(always)]
        pub fn half_exp<const FMA: bool>(x: $t) -> $t {
            let x = if x > $largest { $largest } else { x };
            let (q, k) = $reduce::<FMA>(x);
            let (a, b) = (k >> 1, k.wrapping_sub(1).wrapping_sub(k >> 1));
            (q + 1.0) * $pow2(a) * $pow2(b)
        }
    };
}

/// log(1 + x) from the logarithm of the rounded sum, corrected by the rounding error of the sum.
macro_rules! log1p {
    ($x:expr) => {{
        let x = $x;
        let u = 1.0 + x;
        let lost = if x > 1.0 { 1.0 - (u - x) } else { x - (u - 1.0) };
        let log = u.log_::<FMA>();
        let r = if u > 0.0 && u < Self::INFINITY { log + lost / u } else { log };
        if u == 1.0 {
            x
        } else {
            r
        }
    }};
}

/// The functions, for both types: module `$m` has the series of the type.
macro_rules! alike {
    ($t:ident, $m:ident, $ends:ident, $half_pi:expr, $half_pi_low:expr, sinh: $($sinh:expr),+) => {
        #[inline(always)]
        fn log1p_<const FMA: bool>(self) -> $t {
            log1p!(self)
        }

        #[inline(always)]
        fn log2_<const FMA: bool>(self) -> $t {
            let (e, f, y) = $m::log_parts::<FMA>(self);
            let r = f.fma::<FMA>(LOG2_E as $t, y * LOG2_E as $t);
            $ends(self, r + y + f + e)
        }

        #[inline(always)]
        fn log10_<const FMA: bool>(self) -> $t {
            let (e, f, y) = $m::log_parts::<FMA>(self);
            let r = (f + y) * LOG10_E_LOW as $t;
            let r = e.fma::<FMA>(LOG10_2_LOW as $t, r);
            let r = y.fma::<FMA>(LOG10_E as $t, r);
            let r = f.fma::<FMA>(LOG10_E as $t, r);
            $ends(self, e.fma::<FMA>(LOG10_2 as $t, r))
        }

        #[inline(always)]
        fn sinh_<const FMA: bool>(self) -> $t {
            let a = self.abs();
            let h = $m::half_exp::<FMA>(a);
            let big = (h - 0.25 / h).copysign(self);
            let z = self * self;
            let small = (horner!(z; $($sinh),+) * z).fma::<FMA>(self, self);
            if a < 1.0 {
                small
            } else {
                big
            }
        }

        #[inline(always)]
        fn cosh_<const FMA: bool>(self) -> $t {
            let h = $m::half_exp::<FMA>(self.abs());
            h + 0.25 / h
        }

        #[inline(always)]
        fn asin_<const FMA: bool>(self) -> $t {
            let a = self.abs();
            let far = a > 0.5;
            let z = if far { 0.5 * (1.0 - a) } else { a * a };
            let t = if far { z.sqrt() } else { a };
            let r = $m::asin_tail::<FMA>(z).fma::<FMA>(t, t);
            (if far { $half_pi - (2.0 * r - $half_pi_low) } else { r }).copysign(self)
        }
    };
}

mod f32s {
    use super::*;
    by_halves!(f32, reduce32, pow2_32, 90.0);

    /// x = 2^e * (1 + f), and log(1 + f) - f.
    #[inline(always)]
    pub fn log_parts<const FMA: bool>(x: f32) -> (f32, f32, f32) {
        let (e, f) = split32(x);
        let z = f * f;
        (e, f, z.fma::<FMA>(-0.5, log_cubic32::<FMA>(f, z)))
    }

    /// (asin(x) - x) / x at z = x * x, up to x = 0.5.
    #[inline(always)]
    pub fn asin_tail<const FMA: bool>(z: f32) -> f32 {
        z * horner!(z; 4.2163199048e-2f32, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
    }
}

impl Hyperbolic for f32 {
    alike!(f32, f32s, log_ends32, c32::FRAC_PI_2, HALF_PI_LOW_32,
        sinh: 1.0 / 362880.0f32, 1.0 / 5040.0, 1.0 / 120.0, 1.0 / 6.0);

    #[inline(always)]
    fn acos_<const FMA: bool>(self) -> f32 {
        let a = self.abs();
        let far = a > 0.5;
        let z = if far { 0.5 * (1.0 - a) } else { a * a };
        let t = if far { z.sqrt() } else { self };
        let r = f32s::asin_tail::<FMA>(z).fma::<FMA>(t, t);
        let far_r = if self < 0.0 { c32::PI - 2.0 * r } else { 2.0 * r };
        if far {
            far_r
        } else {
            c32::FRAC_PI_2 - r
        }
    }

    #[inline(always)]
    fn atan_<const FMA: bool>(self) -> f32 {
        let a = self.abs();
        let (far, middle) = (a > 2.414213562373095, a > 0.4142135623730950);
        let t = if middle { (a - 1.0) / (a + 1.0) } else { a };
        let t = if far { -1.0 / a } else { t };
        let y = if middle { c32::FRAC_PI_4 } else { 0.0 };
        let y = if far { c32::FRAC_PI_2 } else { y };
        let z = t * t;
        let p = horner!(z; 8.05374449538e-2f32, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1);
        let low = if far { HALF_PI_LOW_32 } else { 0.0 };
        let low = if middle && !far { 0.5 * HALF_PI_LOW_32 } else { low };
        (y + ((p * z).fma::<FMA>(t, t) + low)).copysign(self)
    }
}

mod f64s {
    use super::*;
    by_halves!(f64, reduce64, pow2_64, 711.0);

    /// x = 2^e * (1 + f), and log(1 + f) - f.
    #[inline(always)]
    pub fn log_parts<const FMA: bool>(x: f64) -> (f64, f64, f64) {
        let (e, f) = split64(x);
        let (s, h, r) = log_series64::<FMA>(f);
        (e, f, s.fma::<FMA>(h + r, -h))
    }

    /// (asin(x) - x) / x at z = x * x, up to x = 0.5.
    #[inline(always)]
    pub fn asin_tail<const FMA: bool>(z: f64) -> f64 {
        let p = horner!(z; 3.47933107596021167570e-05f64, 7.91534994289814532176e-04, -4.00555345006794114027e-02,
            2.01212532134862925881e-01, -3.25565818622400915405e-01, 1.66666666666666657415e-01);
        let q = horner!(z; 7.70381505559019352791e-02f64, -6.88283971605453293030e-01, 2.02094576023350569471e+00,
            -2.40339491173441421878e+00, 1.0);
        z * p / q
    }
}

impl Hyperbolic for f64 {
    alike!(f64, f64s, log_ends64, c64::FRAC_PI_2, HALF_PI_LOW,
        sinh: 1.0 / 355687428096000.0f64, 1.0 / 1307674368000.0, 1.0 / 6227020800.0, 1.0 / 39916800.0, 1.0 / 362880.0,
        1.0 / 5040.0, 1.0 / 120.0, 1.0 / 6.0);

    #[inline(always)]
    fn acos_<const FMA: bool>(self) -> f64 {
        let a = self.abs();
        let far = a > 0.5;
        let z = if far { 0.5 * (1.0 - a) } else { a * a };
        let t = if far { z.sqrt() } else { self };
        let tail = f64s::asin_tail::<FMA>(z);
        let r = tail.fma::<FMA>(t, t);
        let far_r = if self < 0.0 { c64::PI - 2.0 * (r - HALF_PI_LOW) } else { 2.0 * r };
        let near = c64::FRAC_PI_2 - (self - tail.fma::<FMA>(-self, HALF_PI_LOW));
        if far {
            far_r
        } else {
            near
        }
    }

    #[inline(always)]
    fn atan_<const FMA: bool>(self) -> f64 {
        let a = self.abs();
        let (far, middle) = (a > 2.41421356237309504880, a > 0.66);
        let t = if middle { (a - 1.0) / (a + 1.0) } else { a };
        let t = if far { -1.0 / a } else { t };
        let (y, low) = if middle { (c64::FRAC_PI_4, 0.5 * HALF_PI_LOW) } else { (0.0, 0.0) };
        let (y, low) = if far { (c64::FRAC_PI_2, HALF_PI_LOW) } else { (y, low) };
        let z = t * t;
        let p = horner!(z; -8.750608600031904122785e-1f64, -1.615753718733365076637e1, -7.500855792314704667340e1,
            -1.228866684490136173410e2, -6.485021904942025371773e1);
        let q = horner!(z; 1.0f64, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2,
            4.853903996359136964868e2, 1.945506571482613964425e2);
        (y + ((z * p / q).fma::<FMA>(t, t) + low)).copysign(self)
    }
}
