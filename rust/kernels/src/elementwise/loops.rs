//! Inner loops of binary operators, comparisons and logic, for every element type.

use crate::simd;
use crate::simd_fn;
use crate::types::{Half, Number, Plain};
use half::{bf16, f16};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
    Pow,
    Mod,
    FloorDiv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logic {
    And,
    Or,
    Xor,
}

/// Elements of a tile that is computed in a buffer.
pub(crate) const TILE: usize = 1024;
/// Elements between two prefetches, and the distance of prefetches in bytes: the hardware prefetcher stops at the end
/// of each page.
const BLOCK: usize = 64;
const AHEAD: usize = 2048;

/// The inner loops of an operator: vector with vector, with a scalar on the right, with a scalar on the left.
pub struct Loops<T, U> {
    pub(crate) both: fn(&[T], &[T], &mut [U]),
    pub(crate) right: fn(&[T], T, &mut [U]),
    pub(crate) left: fn(T, &[T], &mut [U]),
    /// `both` with streaming stores; `None` if there is no such loop.
    pub(crate) stream: Option<fn(&[T], &[T], &mut [U])>,
}

impl<T, U> Loops<T, U> {
    /// out = a (op) b, elementwise, on the calling thread.
    #[inline]
    pub fn pair(&self, a: &[T], b: &[T], out: &mut [U]) {
        (self.both)(a, b, out)
    }
}

pub(crate) trait Op<T, U> {
    fn apply(a: T, b: T) -> U;
}

macro_rules! ops {
    ($($name:ident: $f:expr;)*) => {$(
        pub(crate) struct $name;
        impl<T: Number> Op<T, T> for $name {
            #[inline(always)]
            fn apply(a: T, b: T) -> T {
                let f: fn(T, T) -> T = $f;
                f(a, b)
            }
        }
    )*};
}

ops! {
    Add: T::add;
    Sub: T::sub;
    Mul: T::mul;
    Div: T::div;
    Max: |a, b| if a > b { a } else { b };
    Min: |a, b| if a < b { a } else { b };
    Pow: T::pow;
    Mod: T::modulo;
    FloorDiv: T::floordiv;
}

macro_rules! predicates {
    ($($name:ident: $f:expr;)*) => {$(
        pub(crate) struct $name;
        impl<T: PartialOrd> Op<T, bool> for $name {
            #[inline(always)]
            fn apply(a: T, b: T) -> bool {
                let f: fn(&T, &T) -> bool = $f;
                f(&a, &b)
            }
        }
    )*};
}

/// Equality as in Paddle: floating-point numbers are equal if they differ by less than 1e-8.
pub trait Equal: Plain + PartialOrd {
    fn equal(self, o: Self) -> bool;
}

macro_rules! equal {
    (exact $($t:ty),*) => { $(impl Equal for $t { #[inline(always)] fn equal(self, o: $t) -> bool { self == o } })* };
    (near $($t:ty),*) => {$(
        impl Equal for $t {
            #[inline(always)]
            fn equal(self, o: $t) -> bool {
                // The first test is for infinities: their difference is NaN.
                self == o || Number::to_f64(Number::sub(self, o)).abs() < 1e-8
            }
        }
    )*};
}
equal!(exact bool, u8, i8, i16, i32, i64);
equal!(near f32, f64, f16, bf16);

pub(crate) struct Eq;
pub(crate) struct Ne;
impl<T: Equal> Op<T, bool> for Eq {
    #[inline(always)]
    fn apply(a: T, b: T) -> bool {
        a.equal(b)
    }
}
impl<T: Equal> Op<T, bool> for Ne {
    #[inline(always)]
    fn apply(a: T, b: T) -> bool {
        !a.equal(b)
    }
}

predicates! {
    Lt: |a, b| a < b;
    Le: |a, b| a <= b;
    Gt: |a, b| a > b;
    Ge: |a, b| a >= b;
}

pub(crate) struct And;
pub(crate) struct Or;
pub(crate) struct Xor;
impl Op<bool, bool> for And {
    #[inline(always)]
    fn apply(a: bool, b: bool) -> bool {
        a & b
    }
}
impl Op<bool, bool> for Or {
    #[inline(always)]
    fn apply(a: bool, b: bool) -> bool {
        a | b
    }
}
impl Op<bool, bool> for Xor {
    #[inline(always)]
    fn apply(a: bool, b: bool) -> bool {
        a ^ b
    }
}

#[inline(always)]
fn both_body<T: Copy, U, O: Op<T, U>>(a: &[T], b: &[T], out: &mut [U]) {
    let n = out.len();
    let (a, b) = (&a[..n], &b[..n]);
    let whole = n - n % BLOCK;
    for i in (0..whole).step_by(BLOCK) {
        let (a, b, out) = (&a[i..i + BLOCK], &b[i..i + BLOCK], &mut out[i..i + BLOCK]);
        simd::prefetch_far(a, AHEAD);
        simd::prefetch_far(b, AHEAD);
        for k in 0..BLOCK {
            out[k] = O::apply(a[k], b[k]);
        }
    }
    for i in whole..n {
        out[i] = O::apply(a[i], b[i]);
    }
}

/// `both_body` with streaming stores.
#[inline(always)]
fn stream_body<T: Copy, U: Plain, O: Op<T, U>>(a: &[T], b: &[T], out: &mut [U]) {
    let n = out.len();
    let head = out.as_ptr().align_offset(64).min(n);
    let end = head + (n - head) / BLOCK * BLOCK;
    both_body::<T, U, O>(&a[..head], &b[..head], &mut out[..head]);
    for i in (head..end).step_by(BLOCK) {
        let (a, b) = (&a[i..i + BLOCK], &b[i..i + BLOCK]);
        simd::prefetch_far(a, AHEAD);
        simd::prefetch_far(b, AHEAD);
        let mut block = [U::default(); BLOCK];
        for k in 0..BLOCK {
            block[k] = O::apply(a[k], b[k]);
        }
        simd::stream_block(&block, &mut out[i..i + BLOCK]);
    }
    both_body::<T, U, O>(&a[end..n], &b[end..n], &mut out[end..]);
}

#[inline(always)]
fn right_body<T: Copy, U, O: Op<T, U>>(a: &[T], b: T, out: &mut [U]) {
    out.iter_mut().zip(a).for_each(|(o, &a)| *o = O::apply(a, b));
}

#[inline(always)]
fn left_body<T: Copy, U, O: Op<T, U>>(a: T, b: &[T], out: &mut [U]) {
    out.iter_mut().zip(b).for_each(|(o, &b)| *o = O::apply(a, b));
}

simd_fn! {
    fn both_simd[T: Copy, U, O: Op<T, U>](a: &[T], b: &[T], out: &mut [U]) {
        both_body::<T, U, O>(a, b, out)
    }
}
simd_fn! {
    fn stream_simd[T: Copy, U: Plain, O: Op<T, U>](a: &[T], b: &[T], out: &mut [U]) {
        stream_body::<T, U, O>(a, b, out)
    }
}
simd_fn! {
    fn right_simd[T: Copy, U, O: Op<T, U>](a: &[T], b: T, out: &mut [U]) {
        right_body::<T, U, O>(a, b, out)
    }
}
simd_fn! {
    fn left_simd[T: Copy, U, O: Op<T, U>](a: T, b: &[T], out: &mut [U]) {
        left_body::<T, U, O>(a, b, out)
    }
}

pub(crate) fn simple<T: Copy, U, O: Op<T, U>>() -> Loops<T, U> {
    Loops { both: both_body::<T, U, O>, right: right_body::<T, U, O>, left: left_body::<T, U, O>, stream: None }
}

fn hot<T: Number, U: Plain, O: Op<T, U>>() -> Loops<T, U> {
    if T::HOT {
        return Loops {
            both: both_simd::<T, U, O>,
            right: right_simd::<T, U, O>,
            left: left_simd::<T, U, O>,
            stream: Some(stream_simd::<T, U, O>),
        };
    }
    simple::<T, U, O>()
}

/// Loops of a half type: each tile is computed in f32.
fn half<H: Half, O: Op<f32, f32>>() -> Loops<H, H> {
    fn tiles<H: Half>(out: &mut [H], f: impl Fn(usize, &mut [f32])) {
        let mut result = [0.0f32; TILE];
        for (t, part) in out.chunks_mut(TILE).enumerate() {
            f(t * TILE, &mut result[..part.len()]);
            H::narrow(&result[..part.len()], part);
        }
    }
    fn widened<H: Half>(x: &[H], at: usize, n: usize) -> [f32; TILE] {
        let mut wide = [0.0f32; TILE];
        H::widen(&x[at..at + n], &mut wide[..n]);
        wide
    }
    Loops {
        stream: None,
        both: |a, b, out| {
            tiles(out, |at, r| both_simd::<f32, f32, O>(&widened(a, at, r.len()), &widened(b, at, r.len()), r))
        },
        right: |a, b, out| {
            tiles(out, |at, r| right_simd::<f32, f32, O>(&widened(a, at, r.len()), b.to_f64() as f32, r))
        },
        left: |a, b, out| tiles(out, |at, r| left_simd::<f32, f32, O>(a.to_f64() as f32, &widened(b, at, r.len()), r)),
    }
}

/// A number type with binary operators.
pub trait Arithmetic: Number {
    fn loops(op: Binary) -> Loops<Self, Self>;
}

macro_rules! arithmetic {
    ($make:ident: $($t:ty),*) => {$(
        impl Arithmetic for $t {
            fn loops(op: Binary) -> Loops<$t, $t> {
                match op {
                    Binary::Add => $make::<$t, Add>(),
                    Binary::Sub => $make::<$t, Sub>(),
                    Binary::Mul => $make::<$t, Mul>(),
                    Binary::Div => $make::<$t, Div>(),
                    Binary::Max => $make::<$t, Max>(),
                    Binary::Min => $make::<$t, Min>(),
                    Binary::Pow => $make::<$t, Pow>(),
                    Binary::Mod => $make::<$t, Mod>(),
                    Binary::FloorDiv => $make::<$t, FloorDiv>(),
                }
            }
        }
    )*};
}

fn number<T: Number, O: Op<T, T>>() -> Loops<T, T> {
    hot::<T, T, O>()
}

arithmetic!(number: u8, i8, i16, i32, i64, f32, f64);
arithmetic!(half: f16, bf16);
