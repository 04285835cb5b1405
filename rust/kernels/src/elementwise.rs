//! Binary operators, comparisons and logic over broadcast operands, and maps over one or two slices.
//!
//! An operand is a slice and its strides over the result's shape (`shape::broadcast_strides`). Equal axes merge, so that
//! equal shapes, a scalar, a row and a column each end in one of three inner loops; a short repeated operand (a bias of
//! ten) is first unrolled into a pattern.

use crate::pool;
use crate::shape::{contiguous, in_bounds, numel, Walk};
use crate::simd;
use crate::simd_fn;
use crate::types::{Half, Number, Plain};
use half::{bf16, f16};

/// Elements per chunk of a parallel run, and the most that run inline.
pub const GRAIN: usize = 16 * 1024;
const TILE: usize = 1024;

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

/// An integer was to be divided by zero; the result is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DivideByZero;

/// The three inner loops of an operator: vector with vector, with a scalar on the right, with a scalar on the left.
pub struct Loops<T, U> {
    both: fn(&[T], &[T], &mut [U]),
    right: fn(&[T], T, &mut [U]),
    left: fn(T, &[T], &mut [U]),
}

impl<T, U> Loops<T, U> {
    /// out = a (op) b, element by element, on this thread.
    #[inline]
    pub fn pair(&self, a: &[T], b: &[T], out: &mut [U]) {
        (self.both)(a, b, out)
    }
}

trait Op<T, U> {
    fn apply(a: T, b: T) -> U;
}

macro_rules! ops {
    ($($name:ident: $f:expr;)*) => {$(
        struct $name;
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
        struct $name;
        impl<T: PartialOrd> Op<T, bool> for $name {
            #[inline(always)]
            fn apply(a: T, b: T) -> bool {
                let f: fn(&T, &T) -> bool = $f;
                f(&a, &b)
            }
        }
    )*};
}

/// Equality as Paddle has it: floating-point numbers are equal from 1e-8 on.
pub trait Equal: Plain + PartialOrd {
    fn equal(self, o: Self) -> bool;
}

macro_rules! equal {
    (exact $($t:ty),*) => { $(impl Equal for $t { #[inline(always)] fn equal(self, o: $t) -> bool { self == o } })* };
    (near $($t:ty),*) => {$(
        impl Equal for $t {
            #[inline(always)]
            fn equal(self, o: $t) -> bool {
                // The second test alone would hold infinities to be unequal.
                self == o || Number::to_f64(Number::sub(self, o)).abs() < 1e-8
            }
        }
    )*};
}
equal!(exact bool, u8, i8, i16, i32, i64);
equal!(near f32, f64, f16, bf16);

struct Eq;
struct Ne;
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

struct And;
struct Or;
struct Xor;
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
    for i in 0..n {
        out[i] = O::apply(a[i], b[i]);
    }
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
    fn right_simd[T: Copy, U, O: Op<T, U>](a: &[T], b: T, out: &mut [U]) {
        right_body::<T, U, O>(a, b, out)
    }
}
simd_fn! {
    fn left_simd[T: Copy, U, O: Op<T, U>](a: T, b: &[T], out: &mut [U]) {
        left_body::<T, U, O>(a, b, out)
    }
}

fn simple<T: Copy, U, O: Op<T, U>>() -> Loops<T, U> {
    Loops { both: both_body::<T, U, O>, right: right_body::<T, U, O>, left: left_body::<T, U, O> }
}

fn hot<T: Number, U, O: Op<T, U>>() -> Loops<T, U> {
    if T::HOT {
        return Loops { both: both_simd::<T, U, O>, right: right_simd::<T, U, O>, left: left_simd::<T, U, O> };
    }
    simple::<T, U, O>()
}

/// Loops of a half type: tiles through f32.
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
        both: |a, b, out| {
            tiles(out, |at, r| both_simd::<f32, f32, O>(&widened(a, at, r.len()), &widened(b, at, r.len()), r))
        },
        right: |a, b, out| {
            tiles(out, |at, r| right_simd::<f32, f32, O>(&widened(a, at, r.len()), b.to_f64() as f32, r))
        },
        left: |a, b, out| tiles(out, |at, r| left_simd::<f32, f32, O>(a.to_f64() as f32, &widened(b, at, r.len()), r)),
    }
}

/// A number type with its loops.
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

/// Where an operand's elements come from.
enum Source<'a, T> {
    Slice(&'a [T], &'a [isize]),
    /// The output itself, element by element.
    Output,
}

/// out = op(a, b) over `shape`; `out` is contiguous.
///
/// Panics if an operand would be read out of bounds or `out` has another number of elements.
pub fn binary<T: Arithmetic>(
    op: Binary,
    shape: &[usize],
    (a, a_strides): (&[T], &[isize]),
    (b, b_strides): (&[T], &[isize]),
    out: &mut [T],
) -> Result<(), DivideByZero> {
    check_divisor(op, b)?;
    run(&T::loops(op), shape, Source::Slice(a, a_strides), Source::Slice(b, b_strides), out);
    Ok(())
}

/// a = op(a, b): the result in place of the left operand.
pub fn binary_inplace<T: Arithmetic>(
    op: Binary,
    shape: &[usize],
    a: &mut [T],
    (b, b_strides): (&[T], &[isize]),
) -> Result<(), DivideByZero> {
    check_divisor(op, b)?;
    run_inplace(&T::loops(op), shape, Source::Output, Source::Slice(b, b_strides), a);
    Ok(())
}

/// b = op(a, b): the result in place of the right operand.
pub fn binary_inplace_right<T: Arithmetic>(
    op: Binary,
    shape: &[usize],
    (a, a_strides): (&[T], &[isize]),
    b: &mut [T],
) -> Result<(), DivideByZero> {
    check_divisor(op, b)?;
    run_inplace(&T::loops(op), shape, Source::Slice(a, a_strides), Source::Output, b);
    Ok(())
}

/// Paddle refuses a zero divisor for integers, and in floor_divide for all types.
fn check_divisor<T: Number>(op: Binary, b: &[T]) -> Result<(), DivideByZero> {
    let divides = op == Binary::FloorDiv || (T::INTEGER && matches!(op, Binary::Div | Binary::Mod));
    if divides && b.contains(&T::zero()) {
        return Err(DivideByZero);
    }
    Ok(())
}

/// out = a (op) b, element by element, as booleans.
pub fn compare<T: Equal>(
    op: Compare,
    shape: &[usize],
    (a, a_strides): (&[T], &[isize]),
    (b, b_strides): (&[T], &[isize]),
    out: &mut [bool],
) {
    let loops = match op {
        Compare::Eq => simple::<T, bool, Eq>(),
        Compare::Ne => simple::<T, bool, Ne>(),
        Compare::Lt => simple::<T, bool, Lt>(),
        Compare::Le => simple::<T, bool, Le>(),
        Compare::Gt => simple::<T, bool, Gt>(),
        Compare::Ge => simple::<T, bool, Ge>(),
    };
    run(&loops, shape, Source::Slice(a, a_strides), Source::Slice(b, b_strides), out);
}

/// out = a (op) b for booleans.
pub fn logic(
    op: Logic,
    shape: &[usize],
    (a, a_strides): (&[bool], &[isize]),
    (b, b_strides): (&[bool], &[isize]),
    out: &mut [bool],
) {
    let loops = match op {
        Logic::And => simple::<bool, bool, And>(),
        Logic::Or => simple::<bool, bool, Or>(),
        Logic::Xor => simple::<bool, bool, Xor>(),
    };
    run(&loops, shape, Source::Slice(a, a_strides), Source::Slice(b, b_strides), out);
}

/// out = !x.
pub fn logical_not(x: &[bool], out: &mut [bool]) {
    map(x, out, |v| !v);
}

/// out[i] = f(x[i]), in parallel where it pays.
pub fn map<T: Plain, U: Plain>(x: &[T], out: &mut [U], f: impl Fn(T) -> U + Sync) {
    assert_eq!(x.len(), out.len());
    pool::parts(out, pool::grain(out.len(), GRAIN), |start, part| {
        let x = &x[start..start + part.len()];
        part.iter_mut().zip(x).for_each(|(o, &v)| *o = f(v));
    });
}

/// out[i] = f(x[i], y[i]), in parallel where it pays.
pub fn zip<T: Plain, S: Plain, U: Plain>(x: &[T], y: &[S], out: &mut [U], f: impl Fn(T, S) -> U + Sync) {
    assert!(x.len() == out.len() && y.len() == out.len());
    pool::parts(out, pool::grain(out.len(), GRAIN), |start, part| {
        let (x, y) = (&x[start..start + part.len()], &y[start..start + part.len()]);
        part.iter_mut().zip(x.iter().zip(y)).for_each(|(o, (&x, &y))| *o = f(x, y));
    });
}

/// A short operand that repeats along the result, written out often enough that inner loops are long.
struct Pattern<T> {
    period: usize,
    data: Vec<T>,
}

/// The pattern of operand `t` where the other walks straight on and inner runs would be short.
fn pattern<T: Plain>(walk: &Walk<2>, t: usize, x: &[T]) -> Option<Pattern<T>> {
    let axes = walk.shape.len();
    let other = 1 - t;
    let straight = (0..axes - 1)
        .all(|i| walk.strides[i][other] == walk.strides[i + 1][other] * walk.shape[i + 1] as isize)
        && walk.inner()[other] == 1;
    let period = numel(&walk.shape[1..]);
    if axes < 2 || walk.shape[axes - 1] >= 64 || walk.strides[0][t] != 0 || !straight || period > 8192 {
        return None;
    }
    let mut data = Vec::with_capacity(period.max(2 * TILE) + period);
    let step = walk.inner()[t];
    walk.runs(0..period, |_, offsets, n| {
        data.extend((0..n).map(|i| x[(offsets[t] + i as isize * step) as usize]));
    });
    while data.len() < TILE {
        data.extend_from_within(..period);
    }
    Some(Pattern { period, data })
}

fn run<T: Plain, U: Plain>(loops: &Loops<T, U>, shape: &[usize], a: Source<T>, b: Source<T>, out: &mut [U]) {
    let (Source::Slice(a, a_strides), Source::Slice(b, b_strides)) = (a, b) else { unreachable!("slices only") };
    let n = numel(shape);
    assert_eq!(out.len(), n);
    // Small calls of the common kinds: nothing to set up.
    if n <= GRAIN {
        let (x, y) = (contiguous(shape, a_strides), contiguous(shape, b_strides));
        if x && y {
            return (loops.both)(&a[..n], &b[..n], out);
        }
        if x && n > 0 && b_strides.iter().all(|&s| s == 0) {
            return (loops.right)(&a[..n], b[0], out);
        }
    }
    assert!(in_bounds(shape, a_strides, 0, a.len()) && in_bounds(shape, b_strides, 0, b.len()));
    if n == 0 {
        return;
    }
    let walk = Walk::new(shape, [a_strides, b_strides]);
    let stream = simd::streams(std::mem::size_of_val(out));
    if let Some(p) = pattern(&walk, 1, b) {
        return pool::parts(out, pool::grain(out.len(), GRAIN), |start, part| {
            repeated(&p, start, part, |at, y, o| (loops.both)(&a[at..at + y.len()], y, o));
        });
    }
    if let Some(p) = pattern(&walk, 0, a) {
        return pool::parts(out, pool::grain(out.len(), GRAIN), |start, part| {
            repeated(&p, start, part, |at, x, o| (loops.both)(x, &b[at..at + x.len()], o));
        });
    }
    let steps = walk.inner();
    pool::parts(out, pool::grain(out.len(), GRAIN), |start, part| {
        walk.runs(start..start + part.len(), |at, [oa, ob], n| {
            let (oa, ob) = (oa as usize, ob as usize);
            let o = &mut part[at - start..at - start + n];
            if stream {
                let mut tile = [U::default(); TILE];
                for (t, o) in o.chunks_mut(TILE).enumerate() {
                    let (i, n) = ((t * TILE) as isize, o.len());
                    let (pa, pb) = (oa as isize + i * steps[0], ob as isize + i * steps[1]);
                    inner(loops, (a, pa as usize), (b, pb as usize), steps, &mut tile[..n]);
                    simd::stream(&tile[..n], o);
                }
            } else {
                inner(loops, (a, oa), (b, ob), steps, o);
            }
        });
        if stream {
            simd::stream_end();
        }
    });
}

/// Calls `f(at, slice of the pattern, slice of out)` along `part`, which starts at flat position `start`.
fn repeated<T, U>(p: &Pattern<T>, start: usize, part: &mut [U], f: impl Fn(usize, &[T], &mut [U])) {
    let mut done = 0;
    while done < part.len() {
        let phase = (start + done) % p.period;
        let n = (p.data.len() - phase).min(part.len() - done);
        f(start + done, &p.data[phase..phase + n], &mut part[done..done + n]);
        done += n;
    }
}

/// One run: both operands advance by `steps` from their offsets.
#[inline]
fn inner<T: Plain, U: Plain>(
    loops: &Loops<T, U>,
    (a, oa): (&[T], usize),
    (b, ob): (&[T], usize),
    steps: [isize; 2],
    o: &mut [U],
) {
    let n = o.len();
    match steps {
        [1, 1] => (loops.both)(&a[oa..oa + n], &b[ob..ob + n], o),
        [1, 0] => (loops.right)(&a[oa..oa + n], b[ob], o),
        [0, 1] => (loops.left)(a[oa], &b[ob..ob + n], o),
        [sa, sb] => {
            let (mut ta, mut tb) = ([T::default(); 256], [T::default(); 256]);
            for (t, o) in o.chunks_mut(256).enumerate() {
                for i in 0..o.len() {
                    let at = (t * 256 + i) as isize;
                    ta[i] = a[(oa as isize + at * sa) as usize];
                    tb[i] = b[(ob as isize + at * sb) as usize];
                }
                (loops.both)(&ta[..o.len()], &tb[..o.len()], o);
            }
        }
    }
}

fn run_inplace<T: Plain>(loops: &Loops<T, T>, shape: &[usize], a: Source<T>, b: Source<T>, out: &mut [T]) {
    let n = numel(shape);
    assert_eq!(out.len(), n);
    let (other, strides, output_is_left) = match (a, b) {
        (Source::Output, Source::Slice(x, s)) => (x, s, true),
        (Source::Slice(x, s), Source::Output) => (x, s, false),
        _ => unreachable!("one operand is the output"),
    };
    assert!(in_bounds(shape, strides, 0, other.len()));
    if n == 0 {
        return;
    }
    let own = crate::shape::strides_of(shape);
    let walk = Walk::new(shape, [&own, strides]);
    let step = walk.inner()[1];
    pool::parts(out, pool::grain(out.len(), GRAIN), |start, part| {
        let mut tile = [T::default(); TILE];
        walk.runs(start..start + part.len(), |at, [_, offset], n| {
            for (t, o) in part[at - start..at - start + n].chunks_mut(TILE).enumerate() {
                let n = o.len();
                let offset = (offset + (t * TILE) as isize * step) as usize;
                tile[..n].copy_from_slice(o);
                let tile: &[T] = &tile[..n];
                match output_is_left {
                    true => inner(loops, (tile, 0), (other, offset), [1, step], o),
                    false => inner(loops, (other, offset), (tile, 0), [step, 1], o),
                }
            }
        });
    });
}
