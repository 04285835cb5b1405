//! Casts between all element types, as numpy does them.

use crate::pool;
use crate::types::{Half, Plain};
use half::{bf16, f16};

/// Elements per chunk of a parallel run; up to this many run inline.
const GRAIN: usize = 16 * 1024;

/// A target type of casts, with the semantics of numpy. A float outside the range of an integer type becomes the result
/// of x86 instructions (the lowest value of int32 and int64, its low bits for smaller types); a boolean is true for all
/// values but 0.
pub trait Cast: Plain {
    fn from_bool(v: bool) -> Self;
    fn from_i64(v: i64) -> Self;
    fn from_f32(v: f32) -> Self;
    fn from_f64(v: f64) -> Self;
    /// Casts a whole slice; types with vector instructions for it override this.
    fn from_f32s(x: &[f32], out: &mut [Self]) {
        out.iter_mut().zip(x).for_each(|(o, &v)| *o = Self::from_f32(v));
    }
}

/// As cvttss2si and similar instructions: NaN and values out of range become the lowest value.
#[inline(always)]
fn truncate_i32(v: f64) -> i32 {
    if v > -2147483649.0 && v < 2147483648.0 {
        v as i32
    } else {
        i32::MIN
    }
}

#[inline(always)]
fn truncate_i64(v: f64) -> i64 {
    if (-9223372036854775808.0..9223372036854775808.0).contains(&v) {
        v as i64
    } else {
        i64::MIN
    }
}

macro_rules! cast_integers {
    ($($t:ty, $truncate:ident);*) => {$(
        impl Cast for $t {
            #[inline(always)] fn from_bool(v: bool) -> $t { v as $t }
            #[inline(always)] fn from_i64(v: i64) -> $t { v as $t }
            #[inline(always)] fn from_f32(v: f32) -> $t { $truncate(v as f64) as $t }
            #[inline(always)] fn from_f64(v: f64) -> $t { $truncate(v) as $t }
        }
    )*};
}
cast_integers!(u8, truncate_i32; i8, truncate_i32; i16, truncate_i32; i32, truncate_i32; i64, truncate_i64);

macro_rules! cast_floats {
    ($($t:ty: $b:expr, $i:expr, $f:expr, $d:expr $(, $slices:path)?);*) => {$(
        impl Cast for $t {
            #[inline(always)] fn from_bool(v: bool) -> $t { $b(v) }
            #[inline(always)] fn from_i64(v: i64) -> $t { $i(v) }
            #[inline(always)] fn from_f32(v: f32) -> $t { $f(v) }
            #[inline(always)] fn from_f64(v: f64) -> $t { $d(v) }
            $(fn from_f32s(x: &[f32], out: &mut [$t]) { <$t as $slices>::narrow(x, out) })?
        }
    )*};
}
cast_floats!(
    f32: |v| v as u8 as f32, |v| v as f32, |v| v, |v| v as f32;
    f64: |v| v as u8 as f64, |v| v as f64, |v| v as f64, |v| v;
    f16: |v| f16::from_f32(v as u8 as f32), |v| f16::from_f64(v as f64), f16::from_f32, f16::from_f64, Half;
    bf16: |v| bf16::from_f32(v as u8 as f32), |v| bf16::from_f64(v as f64), bf16::from_f32, bf16::from_f64, Half;
    bool: |v| v, |v| v != 0, |v| v != 0.0, |v| v != 0.0
);

/// A source type of casts.
pub trait CastFrom: Plain {
    fn cast<U: Cast>(self) -> U;
    fn casts<U: Cast>(x: &[Self], out: &mut [U]) {
        out.iter_mut().zip(x).for_each(|(o, &v)| *o = v.cast());
    }
}

/// Casts a half type through f32, tile by tile.
fn widened<H: Half, U: Cast>(x: &[H], out: &mut [U]) {
    let mut tile = [0.0f32; 512];
    for (x, out) in x.chunks(512).zip(out.chunks_mut(512)) {
        H::widen(x, &mut tile[..x.len()]);
        U::from_f32s(&tile[..x.len()], out);
    }
}

macro_rules! cast_from {
    ($($t:ty: $f:expr $(, $casts:expr)?);*) => {$(
        impl CastFrom for $t {
            #[inline(always)]
            fn cast<U: Cast>(self) -> U {
                let f: fn($t) -> U = $f;
                f(self)
            }
            $(fn casts<U: Cast>(x: &[$t], out: &mut [U]) { $casts(x, out) })?
        }
    )*};
}
cast_from!(
    bool: U::from_bool;
    u8: |v| U::from_i64(v as i64);
    i8: |v| U::from_i64(v as i64);
    i16: |v| U::from_i64(v as i64);
    i32: |v| U::from_i64(v as i64);
    i64: U::from_i64;
    f16: |v| U::from_f32(v.to_f32()), widened;
    bf16: |v| U::from_f32(v.to_f32()), widened;
    f32: U::from_f32, U::from_f32s;
    f64: U::from_f64
);

/// out[i] = x[i] as another type.
pub fn cast<T: CastFrom, U: Cast>(x: &[T], out: &mut [U]) {
    assert_eq!(x.len(), out.len());
    pool::parts(out, pool::grain(out.len(), GRAIN), |start, part| T::casts(&x[start..start + part.len()], part));
}
