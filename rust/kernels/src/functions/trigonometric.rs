//! sin and cos within [`LIMIT`], branch-free: |x| is reduced modulo pi / 2 (in doubles for f32, in three parts for
//! f64), both polynomials are evaluated, and one is selected. Largest errors found by `tests.rs`: f32 1.5 ulp, f64 2
//! (against libm). Beyond the limit, and for NaN, formulas call libm.

// Coefficients have the published digits, more than the type keeps.
#![allow(clippy::excessive_precision)]

use crate::functions::exponential::{horner, Exponential};
use std::f64::consts::FRAC_2_PI;

/// Largest argument for which multiples of the first parts of pi / 2 are exact.
pub const LIMIT: f64 = 1.0e6;

/// pi / 2: its first 33 bits, the next 33, and the rest; below, the rest after the first 33.
const HALF_PI: [f64; 3] = [1.57079632673412561417e+00, 6.07710050630396597660e-11, 2.02226624879595063154e-21];
const HALF_PI_REST: f64 = 6.07710050650619224932e-11;
/// Adding it rounds to an integer, which is in the last bits of the sum.
const MAGIC: f64 = 6755399441055744.0;

pub(crate) trait Trigonometric: Exponential {
    /// sin(|x| + quarters * pi / 2).
    fn sin_after_quarter_turns<const FMA: bool>(self, quarters: u32) -> Self;
    fn sin_<const FMA: bool>(self) -> Self;
    #[inline(always)]
    fn cos_<const FMA: bool>(self) -> Self {
        self.sin_after_quarter_turns::<FMA>(1)
    }
}

/// The nearest number of quarter turns, and the sum with `MAGIC` whose last bits are this number.
#[inline(always)]
fn quarters<const FMA: bool>(x: f64) -> (f64, u32) {
    let t = x.fma::<FMA>(FRAC_2_PI, MAGIC);
    (t - MAGIC, t.to_bits() as u32)
}

impl Trigonometric for f32 {
    #[inline(always)]
    fn sin_after_quarter_turns<const FMA: bool>(self, turns: u32) -> f32 {
        let x = self.abs() as f64;
        let (n, q) = quarters::<FMA>(x);
        let r = n.fma::<FMA>(-HALF_PI_REST, n.fma::<FMA>(-HALF_PI[0], x)) as f32;
        let (z, q) = (r * r, q.wrapping_add(turns));
        let s = horner!(z; -1.9515295891e-4f32, 8.3321608736e-3, -1.6666654611e-1);
        let s = (s * z).fma::<FMA>(r, r);
        let c = horner!(z; 2.443315711809948e-5f32, -1.388731625493765e-3, 4.166664568298827e-2);
        let c = c.fma::<FMA>(z * z, z.fma::<FMA>(-0.5, 1.0));
        let v = if q & 1 == 0 { s } else { c };
        f32::from_bits(v.to_bits() ^ ((q & 2) << 30))
    }
    #[inline(always)]
    fn sin_<const FMA: bool>(self) -> f32 {
        let v = self.sin_after_quarter_turns::<FMA>(0);
        f32::from_bits(v.to_bits() ^ (self.to_bits() & (1 << 31)))
    }
}

impl Trigonometric for f64 {
    #[inline(always)]
    fn sin_after_quarter_turns<const FMA: bool>(self, turns: u32) -> f64 {
        let x = self.abs();
        let (n, q) = quarters::<FMA>(x);
        let r = n.fma::<FMA>(-HALF_PI[1], n.fma::<FMA>(-HALF_PI[0], x));
        let r = n.fma::<FMA>(-HALF_PI[2], r);
        let (z, q) = (r * r, q.wrapping_add(turns) as u64);
        let s = horner!(z; 1.58969099521155010221e-10f64, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
            -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01);
        let s = (s * z).fma::<FMA>(r, r);
        let c = horner!(z; -1.13596475577881948265e-11f64, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
            2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02);
        let (half, one) = (0.5 * z, 1.0 - 0.5 * z);
        let c = one + c.fma::<FMA>(z * z, (1.0 - one) - half);
        let v = if q & 1 == 0 { s } else { c };
        f64::from_bits(v.to_bits() ^ ((q & 2) << 62))
    }
    #[inline(always)]
    fn sin_<const FMA: bool>(self) -> f64 {
        let v = self.sin_after_quarter_turns::<FMA>(0);
        f64::from_bits(v.to_bits() ^ (self.to_bits() & (1 << 63)))
    }
}
