//! Binary operators, comparisons and logic over broadcast operands, and maps over one or two slices.
//!
//! An operand is a slice and its strides over the result's shape (`shape::strides::broadcast_strides`). Adjacent axes
//! merge where possible, so that equal shapes, a scalar, a row and a column use one of three inner loops; a short
//! repeated operand is first unrolled into a pattern.

pub mod cast;
pub mod complex;
pub mod cross;
pub mod integer;
pub(crate) mod loops;
#[cfg(test)]
mod tests;

use crate::elementwise::loops::{simple, And, Eq, Ge, Gt, Le, Lt, Ne, Or, Xor, TILE};
pub use crate::elementwise::loops::{Arithmetic, Binary, Compare, Equal, Logic, Loops};
use crate::pool;
use crate::shape::strides::{contiguous, in_bounds, numel, Walk};
use crate::simd;
use crate::simd_fn;
use crate::types::{Number, Plain};

/// Elements per chunk of a parallel run; up to this many run inline.
pub const GRAIN: usize = 16 * 1024;

/// Integer division by zero; the result is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DivideByZero;

/// The source of an operand's elements.
enum Source<'a, T> {
    Slice(&'a [T], &'a [isize]),
    /// The output itself (in place).
    Output,
}

/// out = op(a, b) over `shape`; `out` is contiguous.
///
/// Panics if an operand would be read out of bounds or the length of `out` differs.
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

/// a = op(a, b): the result replaces the left operand.
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

/// b = op(a, b): the result replaces the right operand.
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

/// A zero divisor is an error for integers, and in floor_divide for all types, as in Paddle.
fn check_divisor<T: Number>(op: Binary, b: &[T]) -> Result<(), DivideByZero> {
    let divides = op == Binary::FloorDiv || (T::INTEGER && matches!(op, Binary::Div | Binary::Mod));
    if divides && b.contains(&T::ZERO) {
        return Err(DivideByZero);
    }
    Ok(())
}

/// out = a (op) b as booleans, elementwise.
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

simd_fn! {
    fn map_run[T: Plain, U: Plain, F: Fn(T) -> U](x: &[T], out: &mut [U], f: &F) {
        out.iter_mut().zip(x).for_each(|(o, &v)| *o = f(v));
    }
}

simd_fn! {
    fn zip_run[T: Plain, S: Plain, U: Plain, F: Fn(T, S) -> U](x: &[T], y: &[S], out: &mut [U], f: &F) {
        out.iter_mut().zip(x.iter().zip(y)).for_each(|(o, (&x, &y))| *o = f(x, y));
    }
}

/// out[i] = f(x[i]), in parallel for large slices, vectorised if `f` allows it.
pub fn map<T: Plain, U: Plain>(x: &[T], out: &mut [U], f: impl Fn(T) -> U + Sync) {
    assert_eq!(x.len(), out.len());
    pool::parts(out, pool::grain(out.len(), GRAIN), |start, part| map_run(&x[start..start + part.len()], part, &f));
}

/// out[i] = f(x[i], y[i]); as `map`.
pub fn zip<T: Plain, S: Plain, U: Plain>(x: &[T], y: &[S], out: &mut [U], f: impl Fn(T, S) -> U + Sync) {
    assert!(x.len() == out.len() && y.len() == out.len());
    pool::parts(out, pool::grain(out.len(), GRAIN), |start, part| {
        let r = start..start + part.len();
        zip_run(&x[r.clone()], &y[r], part, &f)
    });
}

simd_fn! {
    fn update_run[T: Plain, F: Fn(T) -> T](y: &mut [T], f: &F) {
        y.iter_mut().for_each(|y| *y = f(*y));
    }
}

simd_fn! {
    fn update_by_run[T: Plain, F: Fn(T, T) -> T](y: &mut [T], x: &[T], f: &F) {
        y.iter_mut().zip(x).for_each(|(y, &x)| *y = f(*y, x));
    }
}

/// y[i] = f(y[i]); as `map`.
pub fn update<T: Plain>(y: &mut [T], f: impl Fn(T) -> T + Sync) {
    let grain = pool::grain(y.len(), GRAIN);
    pool::parts(y, grain, |_, part| update_run(part, &f));
}

/// y[i] = f(y[i], x[i]); as `map`.
pub fn update_by<T: Plain>(y: &mut [T], x: &[T], f: impl Fn(T, T) -> T + Sync) {
    assert_eq!(x.len(), y.len());
    let grain = pool::grain(y.len(), GRAIN);
    pool::parts(y, grain, |start, part| update_by_run(part, &x[start..start + part.len()], &f));
}

/// Elements per chunk of [`zip3`], whose functions cost some exponentials per element.
const GRAIN3: usize = 1 << 13;

/// out[i] = f(x[i], y[i], z[i]), in parallel for large slices. Panics if lengths differ.
pub fn zip3<T: Plain>(x: &[T], y: &[T], z: &[T], out: &mut [T], f: impl Fn(T, T, T) -> T + Sync) {
    assert!(x.len() == out.len() && y.len() == out.len() && z.len() == out.len(), "operands differ in size");
    pool::parts(out, GRAIN3, |at, out| {
        let end = at + out.len();
        for (((o, &a), &b), &c) in out.iter_mut().zip(&x[at..end]).zip(&y[at..end]).zip(&z[at..end]) {
            *o = f(a, b, c);
        }
    });
}

/// A short operand that repeats along the result, repeated in a buffer so that inner loops are long.
struct Pattern<T> {
    period: usize,
    data: Vec<T>,
}

/// The pattern of operand `t`, if the other operand is contiguous and inner runs would be short.
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
    // Small calls of the common kinds need no setup.
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
    // Operands count too: they would evict a result that fits the cache alone.
    let stream = simd::streams(std::mem::size_of_val(out) + std::mem::size_of_val(a) + std::mem::size_of_val(b));
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
            if let (true, [1, 1], Some(around)) = (stream, steps, loops.stream) {
                around(&a[oa..oa + n], &b[ob..ob + n], o);
            } else if stream {
                let mut tile = [U::default(); simd::STREAM_TILE];
                for (t, o) in o.chunks_mut(tile.len()).enumerate() {
                    let (i, n) = ((t * tile.len()) as isize, o.len());
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
    let own = crate::shape::strides::strides_of(shape);
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
