//! Optimizer updates of parameters: one pass over parameter, gradient and states, in place.
//!
//! A rule updates one run of elements; dense, sparse and lazy updates are generic over rules.

pub mod dgc;
pub mod loss_scaling;
pub mod rules;

use crate::pool::{self, Shared};
use crate::simd_fn;
use crate::types::Float;
use half::{bf16, f16};
use std::ops::Range;

/// Elements of one part of a parallel pass.
pub(crate) const CHUNK: usize = 1 << 14;
/// Rows by which sparse updates prefetch ahead.
const AHEAD: usize = 8;

/// A storage type of parameters, gradients and states; updates are computed in `T`.
pub trait Stored<T>: Copy + Send + Sync + 'static {
    fn wide(self) -> T;
    fn narrow(v: T) -> Self;
}
macro_rules! stored {
    ($($t:ty as $w:ty: $v:ident => $wide:expr, $n:ident => $narrow:expr;)*) => {$(
        impl Stored<$w> for $t {
            #[inline(always)]
            fn wide(self) -> $w { let $v = self; $wide }
            #[inline(always)]
            fn narrow($n: $w) -> $t { $narrow }
        }
    )*};
}
stored! {
    f32 as f32: v => v, n => n;
    f64 as f64: v => v, n => n;
    f16 as f32: v => v.to_f32(), n => f16::from_f32(n);
    bf16 as f32: v => v.to_f32(), n => bf16::from_f32(n);
}

/// The update of a parameter and its states by one optimizer.
pub trait Rule<T>: Copy + Send + Sync {
    /// Updates a run of elements. A missing gradient is zero. `states` has the states of the rule.
    fn update<const FMA: bool, M: Stored<T>, G: Stored<T>>(
        &self,
        grad: Option<&[G]>,
        param: &mut [M],
        states: &mut [&mut [M]],
    );
}

/// The loop of a rule: `|g, p| new p`, where each state names its element. The loop is in a function with the slices as
/// arguments, so that the compiler knows that they do not alias; a closure would be compiled without the vector
/// instructions of its caller.
macro_rules! each {
    ($grad:ident, $param:ident, [$($s:ident),*], |$g:ident, $p:ident| $body:expr) => {{
        let n = $param.len();
        $(let $s = &mut $s[..n];)*
        if let Some(grad) = $grad {
            let grad = &grad[..n];
            for i in 0..n {
                let ($g, $p) = (grad[i].wide(), $param[i].wide());
                $param[i] = M::narrow({ $(let $s = &mut $s[i];)* $body });
            }
        } else {
            for i in 0..n {
                let ($g, $p) = (T::ZERO, $param[i].wide());
                $param[i] = M::narrow({ $(let $s = &mut $s[i];)* $body });
            }
        }
    }};
}
pub(crate) use each;

/// param -= rate * grad.
#[derive(Clone, Copy)]
pub struct Sgd<T> {
    pub rate: T,
}

impl<T: Float> Rule<T> for Sgd<T> {
    #[inline(always)]
    fn update<const FMA: bool, M: Stored<T>, G: Stored<T>>(
        &self,
        grad: Option<&[G]>,
        param: &mut [M],
        _: &mut [&mut [M]],
    ) {
        let step = T::ZERO - self.rate;
        if let Some(grad) = grad {
            for (p, g) in param.iter_mut().zip(grad) {
                *p = M::narrow(step.fma::<FMA>(g.wide(), p.wide()));
            }
        }
    }
}

/// velocity = mu * velocity + g; param -= rate * velocity, with g = scale * grad + decay * param.
#[derive(Clone, Copy)]
pub struct Momentum<T> {
    pub rate: T,
    pub mu: T,
    pub scale: T,
    pub decay: T,
    /// Nesterov momentum: param -= rate * (g + mu * velocity).
    pub nesterov: bool,
}

impl<T: Float> Rule<T> for Momentum<T> {
    #[inline(always)]
    fn update<const FMA: bool, M: Stored<T>, G: Stored<T>>(
        &self,
        grad: Option<&[G]>,
        param: &mut [M],
        states: &mut [&mut [M]],
    ) {
        let [velocity] = states else { unreachable!("momentum has one state") };
        momentum_run::<FMA, T, M, G>(*self, grad, param, velocity);
    }
}

#[inline(always)]
fn momentum_run<const FMA: bool, T: Float, M: Stored<T>, G: Stored<T>>(
    rule: Momentum<T>,
    grad: Option<&[G]>,
    param: &mut [M],
    velocity: &mut [M],
) {
    let Momentum { rate, mu, scale, decay, nesterov } = rule;
    let back = T::ZERO - rate;
    each!(grad, param, [velocity], |g, p| {
        let g = decay.fma::<FMA>(p, scale * g);
        let v = mu.fma::<FMA>(velocity.wide(), g);
        *velocity = M::narrow(v);
        let along = if nesterov { mu.fma::<FMA>(v, g) } else { v };
        back.fma::<FMA>(along, p)
    });
}

/// Adam; `rate` and `epsilon` are corrected for the number of steps.
#[derive(Clone, Copy)]
pub struct Adam<T> {
    pub beta1: T,
    pub beta2: T,
    pub rate: T,
    pub epsilon: T,
    /// Epsilon of rows without a gradient.
    pub idle_epsilon: T,
    /// Factor of the parameter before its step (decoupled weight decay).
    pub keep: T,
}

impl<T: Float> Adam<T> {
    /// With the powers beta1^t and beta2^t: rate * sqrt(1 - beta2^t) / (1 - beta1^t), epsilon * sqrt(1 - beta2^t). Rows
    /// without a gradient use the uncorrected epsilon, as in Paddle's CPU kernel.
    pub fn new(rate: f64, (beta1, beta2): (f64, f64), epsilon: f64, powers: (f64, f64)) -> Adam<T> {
        let t = T::from_f64;
        let left = (T::ONE - t(powers.1)).sqrt();
        Adam {
            beta1: t(beta1),
            beta2: t(beta2),
            rate: t(rate) * (left / (T::ONE - t(powers.0))),
            epsilon: t(epsilon) * left,
            idle_epsilon: t(epsilon),
            keep: T::ONE,
        }
    }

    pub fn keeping(self, keep: T) -> Adam<T> {
        Adam { keep, ..self }
    }
}

impl<T: Float> Rule<T> for Adam<T> {
    #[inline(always)]
    fn update<const FMA: bool, M: Stored<T>, G: Stored<T>>(
        &self,
        grad: Option<&[G]>,
        param: &mut [M],
        states: &mut [&mut [M]],
    ) {
        let [first, second] = states else { unreachable!("Adam has two states") };
        adam_run::<FMA, T, M, G>(*self, grad, param, first, second);
    }
}

#[inline(always)]
fn adam_run<const FMA: bool, T: Float, M: Stored<T>, G: Stored<T>>(
    rule: Adam<T>,
    grad: Option<&[G]>,
    param: &mut [M],
    first: &mut [M],
    second: &mut [M],
) {
    let Adam { beta1, beta2, rate, keep, .. } = rule;
    let epsilon = if grad.is_some() { rule.epsilon } else { rule.idle_epsilon };
    let (other1, other2) = (T::ONE - beta1, T::ONE - beta2);
    each!(grad, param, [first, second], |g, p| {
        let m = beta1.fma::<FMA>(first.wide(), other1 * g);
        let v = beta2.fma::<FMA>(second.wide(), other2 * g * g);
        *first = M::narrow(m);
        *second = M::narrow(v);
        p * keep - rate * (m / (v.sqrt() + epsilon))
    });
}

simd_fn! {
    fn one_run[T: Float, M: Stored<T>, G: Stored<T>, R: Rule<T>](rule: R, grad: Option<&[G]>, param: &mut [M],
        states: &mut [&mut [M]]) {
        rule.update::<FMA, M, G>(grad, param, states)
    }
}

/// Largest number of states of a rule.
pub const STATES: usize = 4;

/// Parameter and states; threads write disjoint parts.
struct Table<M> {
    param: Shared<M>,
    states: [Shared<M>; STATES],
    count: usize,
}

impl<M: Copy> Table<M> {
    fn new(param: &mut [M], states: &mut [&mut [M]]) -> Table<M> {
        let n = param.len();
        assert!(states.len() <= STATES && states.iter().all(|s| s.len() == n), "parameter and states differ in size");
        let mut shared = [Shared::new(&mut []); STATES];
        states.iter_mut().zip(&mut shared).for_each(|(s, to)| *to = Shared::new(s));
        Table { param: Shared::new(param), states: shared, count: states.len() }
    }

    /// # Safety
    /// As [`Shared::part`].
    #[inline(always)]
    unsafe fn run<T: Float, G: Stored<T>, R: Rule<T>>(&self, rule: R, grad: Option<&[G]>, r: Range<usize>)
    where
        M: Stored<T>,
    {
        let of = |k: usize| if k < self.count { r.clone() } else { 0..0 };
        // SAFETY: the caller's contract.
        let (param, mut states): (&mut [M], [&mut [M]; STATES]) =
            unsafe { (self.param.part(r.clone()), std::array::from_fn(|k| self.states[k].part(of(k)))) };
        one_run::<T, M, G, R>(rule, grad, param, &mut states[..self.count]);
    }
}

/// Updates the whole parameter. Panics if lengths differ.
pub fn dense<T: Float, M: Stored<T>, G: Stored<T>, R: Rule<T>>(
    rule: R,
    grad: &[G],
    param: &mut [M],
    states: &mut [&mut [M]],
) {
    assert!(grad.len() == param.len(), "parameter and gradient differ in size");
    if grad.len() <= CHUNK {
        return one_run::<T, M, G, R>(rule, Some(grad), param, states);
    }
    let table = Table::new(param, states);
    // SAFETY: ranges are disjoint, and `ranges` returns before the slices can be used again.
    pool::ranges(grad.len(), CHUNK, |r| unsafe { table.run(rule, Some(&grad[r.clone()]), r) });
}

/// Updates the whole parameter with a zero gradient. Panics if lengths differ.
pub fn idle<T: Float, M: Stored<T>, R: Rule<T>>(rule: R, param: &mut [M], states: &mut [&mut [M]]) {
    let n = param.len();
    let table = Table::new(param, states);
    // SAFETY: ranges are disjoint, and `ranges` returns before the slices can be used again.
    pool::ranges(n, CHUNK, |r| unsafe { table.run::<T, M, R>(rule, None, r) });
}

/// The rows of a gradient: row `rows[i]` of the parameter has gradient `grad[i * width..]`; other rows have none.
struct GradientRows<'a, G> {
    rows: &'a [i64],
    grad: &'a [G],
    width: usize,
}

impl<G> GradientRows<'_, G> {
    fn row(&self, i: usize) -> &[G] {
        &self.grad[i * self.width..(i + 1) * self.width]
    }
}

/// Updates by the gradients of some rows. Panics unless rows are strictly ascending and within the parameter. `lazy`:
/// other rows stay unchanged; otherwise they are updated with a zero gradient.
pub fn sparse<T: Float, M: Stored<T>, G: Stored<T>, R: Rule<T>>(
    rule: R,
    rows: &[i64],
    grad: &[G],
    lazy: bool,
    param: &mut [M],
    states: &mut [&mut [M]],
) {
    if rows.is_empty() || grad.is_empty() {
        return;
    }
    let width = grad.len() / rows.len();
    let height = param.len() / width;
    assert!(grad.len() == width * rows.len());
    assert!(rows[0] >= 0 && rows[rows.len() - 1] < height as i64, "a row outside the parameter");
    assert!(rows.is_sorted_by(|a, b| a < b), "rows must ascend");
    let from = GradientRows { rows, grad, width };
    let table = Table::new(param, states);
    let grain = (CHUNK / width).max(1);
    // SAFETY: rows are distinct, and each belongs to one chunk.
    let run = |r: Range<usize>, grad: Option<&[G]>| unsafe { table.run(rule, grad, r) };
    if lazy {
        return pool::ranges(rows.len(), grain, |r| {
            for i in r {
                let at = rows[i] as usize * width;
                run(at..at + width, Some(from.row(i)));
            }
        });
    }
    pool::ranges(height, grain, |r| {
        let mut at = r.start;
        let mut i = from.rows.partition_point(|&row| (row as usize) < r.start);
        while at < r.end {
            let next = rows.get(i).map_or(r.end, |&row| (row as usize).min(r.end));
            if next > at {
                run(at * width..next * width, None);
            }
            if next < r.end {
                run(next * width..(next + 1) * width, Some(from.row(i)));
                i += 1;
            }
            at = next + 1;
        }
    });
}

simd_fn! {
    /// Updates the rows of one owner, in order; `own` are their places in `rows`.
    fn sgd_rows_of[T: Float, M: Stored<T>](rate: T, own: &[u32], rows: &[i64], grad: &[M], width: usize,
        param: &Shared<M>) {
        for (k, &i) in own.iter().enumerate() {
            // Rows are in random order: the next ones are prefetched.
            if let Some(&soon) = own.get(k + AHEAD) {
                param.prefetch((rows[soon as usize] as usize).wrapping_mul(width), width);
                crate::simd::prefetch(&grad[soon as usize * width..][..width]);
            }
            let at = rows[i as usize] as usize * width;
            // SAFETY: a row has one owner, and parts of one owner do not exist at the same time.
            let param = unsafe { param.part(at..at + width) };
            Sgd { rate }.update::<FMA, M, M>(Some(&grad[i as usize * width..][..width]), param, &mut []);
        }
    }
}

/// param[rows[i]] -= rate * grad[i]; rows are in any order and may repeat. Panics if a row is outside the parameter.
pub fn sgd_rows<T: Float, M: Stored<T>>(rate: T, rows: &[i64], grad: &[M], param: &mut [M]) {
    if rows.is_empty() || grad.is_empty() {
        return;
    }
    assert!(rows.len() <= u32::MAX as usize, "{} rows are too many", rows.len());
    let width = grad.len() / rows.len();
    // The owner of a row applies its updates in order, so that results do not depend on the number of owners.
    let owners: usize = if grad.len() > 4 * CHUNK && pool::threads() > 1 { 8 } else { 1 };
    let mut own: Vec<_> = (0..owners).map(|_| Vec::with_capacity(rows.len().div_ceil(owners))).collect();
    for (i, &row) in rows.iter().enumerate() {
        own[row as usize % owners].push(i as u32);
    }
    let shared = Shared::new(param);
    pool::chunks(owners, |k| sgd_rows_of::<T, M>(rate, &own[k], rows, grad, width, &shared));
}

/// Copies a master parameter to its narrow type.
pub fn narrow<T: Float, M: Stored<T>, P: Stored<T>>(from: &[M], to: &mut [P]) {
    assert_eq!(from.len(), to.len());
    pool::parts(to, CHUNK, |at, to| {
        to.iter_mut().zip(&from[at..]).for_each(|(t, f)| *t = P::narrow(f.wide()));
    });
}

/// The distinct rows in ascending order, and the index of each given row among them. Rows must be in `0..height`.
pub fn distinct(rows: &[i64], height: usize) -> (Vec<i64>, Vec<u32>) {
    if height / 64 <= 4 * rows.len() + 1024 {
        return distinct_by_bits(rows, height);
    }
    let mut sorted = rows.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let place = rows.iter().map(|r| sorted.binary_search(r).expect("the row is there") as u32).collect();
    (sorted, place)
}

/// As `distinct`, by a bitmap of rows and the number of bits before each word.
fn distinct_by_bits(rows: &[i64], height: usize) -> (Vec<i64>, Vec<u32>) {
    let mut bits = vec![0u64; height.div_ceil(64)];
    for &r in rows {
        bits[r as usize / 64] |= 1 << (r % 64);
    }
    let mut total = 0u32;
    let mut sorted = Vec::with_capacity(rows.len());
    let before: Vec<u32> = bits
        .iter()
        .enumerate()
        .map(|(w, &word)| {
            let at = total;
            let mut left = word;
            while left != 0 {
                sorted.push((w * 64) as i64 + left.trailing_zeros() as i64);
                left &= left - 1;
            }
            total += word.count_ones();
            at
        })
        .collect();
    let place = rows.iter().map(|&r| {
        let w = r as usize / 64;
        before[w] + (bits[w] & ((1u64 << (r % 64)) - 1)).count_ones()
    });
    (sorted, place.collect())
}

/// out[r] = the sum of the rows `values[i]` with place[i] = r, added in order. Every r occurs in `place`.
pub fn sum_rows<T: Copy + Send + Sync + std::ops::AddAssign>(place: &[u32], values: &[T], width: usize, out: &mut [T]) {
    if width == 0 {
        return;
    }
    let mut begun = vec![false; out.len() / width];
    for (&p, v) in place.iter().zip(values.chunks_exact(width)) {
        let to = &mut out[p as usize * width..(p as usize + 1) * width];
        if std::mem::replace(&mut begun[p as usize], true) {
            to.iter_mut().zip(v).for_each(|(o, &v)| *o += v);
        } else {
            to.copy_from_slice(v);
        }
    }
}
