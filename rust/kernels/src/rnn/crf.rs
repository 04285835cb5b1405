//! Linear-chain conditional random fields: emission scores of tags per step, and transition scores. Row 0 of the
//! transitions has the scores of the first tag, row 1 of the last tag, row 2 + i of the transitions from tag i.
//! Computed with probabilities that are normalised to a sum of 1 at each step.

use crate::simd_fn;
use crate::types::Float;
use std::ops::Range;

const LANES: usize = 16;

/// The exponentials of the transitions, in rows padded to whole vectors, and buffers of a step; shared by all sequences
/// of a call.
pub struct Chains<T> {
    tags: usize,
    stride: usize,
    /// The exponentials, [2 + tags, stride].
    w: Vec<T>,
    /// The transitions transposed, by the following tag: [tags, stride].
    back: Vec<T>,
    /// The gradient of the transitions, before the multiplication by their exponentials: [tags, stride].
    sums: Vec<T>,
    now: Vec<T>,
    next: Vec<T>,
}

/// One sequence: exponentials of its scores minus the largest of each row, and its tags.
pub struct Sequence<'a, T> {
    pub x: &'a [T],
    pub x_exps: &'a [T],
    pub labels: &'a [usize],
}

simd_fn! {
    /// Exponentials of rows minus the largest value of each row, which is written to `tops`.
    pub fn exps[T: Float](x: &[T], tags: usize, to: &mut [T], tops: &mut [T]) {
        for ((row, to), top) in x.chunks_exact(tags).zip(to.chunks_exact_mut(tags)).zip(tops) {
            let mut lanes = [T::from_f64(f64::NEG_INFINITY); LANES];
            for part in row.chunks(LANES) {
                for (m, &v) in lanes.iter_mut().zip(part) {
                    *m = if v > *m { v } else { *m };
                }
            }
            *top = lanes.iter().fold(lanes[0], |m, &v| if v > m { v } else { m });
            for (o, &v) in to.iter_mut().zip(row) {
                *o = (v - *top).exp_::<FMA>();
            }
        }
    }
}

#[inline(always)]
fn sum<T: Float>(x: &[T]) -> T {
    let mut lanes = [T::ZERO; LANES];
    for part in x.chunks_exact(LANES) {
        for l in 0..LANES {
            lanes[l] += part[l];
        }
    }
    lanes.iter().fold(T::ZERO, |a, &b| a + b)
}

/// Divides by the sum and returns the sum; `None` if it is 0. NaN propagates.
#[inline(always)]
fn normalize<T: Float>(x: &mut [T]) -> Option<T> {
    let total = sum(x);
    if total <= T::ZERO {
        return None;
    }
    x.iter_mut().for_each(|x| *x = *x / total);
    Some(total)
}

/// `to = a w`; rows of `w` are as long as `to`, which is whole vectors.
#[inline(always)]
fn product<T: Float, const FMA: bool>(a: &[T], w: &[T], to: &mut [T]) {
    let stride = to.len();
    for (at, to) in to.chunks_exact_mut(LANES).enumerate() {
        let mut lanes = [T::ZERO; LANES];
        for (&a, row) in a.iter().zip(w.chunks_exact(stride)) {
            let row = &row[at * LANES..at * LANES + LANES];
            for l in 0..LANES {
                lanes[l] = a.fma::<FMA>(row[l], lanes[l]);
            }
        }
        to.copy_from_slice(&lanes);
    }
}

simd_fn! {
    /// The logarithm of the partition function, without the sum of `tops`; `alpha` becomes the forward probabilities.
    fn forward[T: Float](c: &mut Chains<T>, x_exps: &[T], steps: usize, alpha: &mut [T]) -> Option<f64> {
        let (n, stride) = (c.tags, c.stride);
        let (now, next) = (&mut c.now[..stride], &mut c.next[..stride]);
        let mut found = 0.0;
        now.copy_from_slice(&c.w[..stride]);
        for k in 0..steps {
            if k > 0 {
                product::<T, FMA>(&alpha[(k - 1) * n..k * n], &c.w[2 * stride..], now);
            }
            let row = k * n..(k + 1) * n;
            next[..n].copy_from_slice(&x_exps[row.clone()]);
            for (o, &x) in now.iter_mut().zip(&*next) {
                *o = *o * x;
            }
            found += normalize(now)?.to_f64().ln();
            alpha[row].copy_from_slice(&now[..n]);
        }
        for (o, &w) in now.iter_mut().zip(&c.w[stride..2 * stride]) {
            *o = *o * w;
        }
        Some(found + sum(now).to_f64().ln())
    }
}

simd_fn! {
    /// See [`Chains::grad`].
    fn backward[T: Float](c: &mut Chains<T>, s: &Sequence<T>, alpha: &[T], d: T, dx: &mut [T]) -> Option<()> {
        let (n, stride, steps) = (c.tags, c.stride, s.labels.len());
        let (now, next) = (&mut c.now[..stride], &mut c.next[..stride]);
        now.copy_from_slice(&c.w[stride..2 * stride]);
        normalize(now)?;
        for k in (0..steps).rev() {
            let row = k * n..(k + 1) * n;
            next.fill(T::ZERO);
            for ((o, &a), &b) in next.iter_mut().zip(&alpha[row.clone()]).zip(&*now) {
                *o = a * b;
            }
            let (total, own) = (sum(next), &mut dx[row.clone()]);
            for (o, &v) in own.iter_mut().zip(&*next) {
                *o = v / total * d;
            }
            own[s.labels[k]] = own[s.labels[k]] - d;
            if k == 0 {
                break;
            }
            next[n..].fill(T::ZERO);
            for ((o, &b), &x) in next.iter_mut().zip(&*now).zip(&s.x_exps[row]) {
                *o = b * x;
            }
            product::<T, FMA>(&next[..n], &c.back, now);
            let before = &alpha[(k - 1) * n..k * n];
            let total = before.iter().zip(&*now).fold(T::ZERO, |sum, (&a, &b)| sum + a * b);
            for (&a, sums) in before.iter().zip(c.sums.chunks_exact_mut(stride)) {
                let a = d / total * a;
                for (o, &v) in sums.iter_mut().zip(&*next) {
                    *o = a.fma::<FMA>(v, *o);
                }
            }
            normalize(now)?;
        }
        Some(())
    }
}

impl<T: Float> Chains<T> {
    /// `w_exps` are the exponentials of the transitions.
    pub fn new(tags: usize, w_exps: &[T]) -> Chains<T> {
        let stride = tags.next_multiple_of(LANES);
        let padded = |rows: usize| vec![T::ZERO; rows * stride];
        let mut w = padded(tags + 2);
        for (to, from) in w.chunks_exact_mut(stride).zip(w_exps.chunks_exact(tags)) {
            to[..tags].copy_from_slice(from);
        }
        Chains { tags, stride, w, back: Vec::new(), sums: Vec::new(), now: padded(1), next: padded(1) }
    }

    /// Prepares the transposed transitions for [`Chains::grad`].
    pub fn backwards(mut self) -> Chains<T> {
        let (n, stride) = (self.tags, self.stride);
        self.sums = vec![T::ZERO; n * stride];
        self.back = vec![T::ZERO; n * stride];
        for from in 0..n {
            for to in 0..n {
                self.back[to * stride + from] = self.w[(from + 2) * stride + to];
            }
        }
        self
    }

    /// Minus the log likelihood of the labels (at least one). `tops` are the largest scores of the steps, `w` the
    /// transition scores; `alpha` becomes the normalised forward probabilities. `None` if all are 0.
    pub fn cost(&mut self, s: &Sequence<T>, tops: &[T], w: &[T], alpha: &mut [T]) -> Option<T> {
        let (n, steps) = (self.tags, s.labels.len());
        let log_z = forward(self, s.x_exps, steps, alpha)? + tops.iter().map(|top| top.to_f64()).sum::<f64>();
        let at = |i: usize| w[i].to_f64();
        let mut score = at(s.labels[0]) + at(n + s.labels[steps - 1]);
        score += s.labels.iter().enumerate().map(|(k, &label)| s.x[k * n + label].to_f64()).sum::<f64>();
        score += s.labels.windows(2).map(|pair| at((pair[0] + 2) * n + pair[1])).sum::<f64>();
        Some(T::from_f64(log_z - score))
    }

    /// `dx` becomes the gradient of the scores for gradient `d` of the cost. The gradients of the first and last tag
    /// and of the transitions between labels are added to `dw`; [`Chains::finish`] adds the rest. `None` if all
    /// probabilities of a step are 0.
    pub fn grad(&mut self, s: &Sequence<T>, alpha: &[T], d: T, dx: &mut [T], dw: Option<&mut [T]>) -> Option<()> {
        backward(self, s, alpha, d, dx)?;
        let (n, steps) = (self.tags, s.labels.len());
        let Some(dw) = dw else { return Some(()) };
        for k in 0..n {
            dw[k] += dx[k];
            dw[n + k] += dx[(steps - 1) * n + k];
        }
        for pair in s.labels.windows(2) {
            let own = (pair[0] + 2) * n + pair[1];
            dw[own] = dw[own] - d;
        }
        Some(())
    }

    /// Adds the gradients of the transitions of all sequences.
    pub fn finish(&self, dw: &mut [T]) {
        let (n, stride) = (self.tags, self.stride);
        let rows = self.w[2 * stride..].chunks_exact(stride).zip(self.sums.chunks_exact(stride));
        for (to, (w, sums)) in dw[2 * n..].chunks_exact_mut(n).zip(rows) {
            to.iter_mut().zip(w.iter().zip(sums)).for_each(|(o, (&w, &v))| *o += w * v);
        }
    }
}

/// Viterbi decoding: transition scores in rows padded to whole vectors, and the back pointers of the search.
pub struct Viterbi<T> {
    tags: usize,
    stride: usize,
    w: Vec<T>,
    score: Vec<T>,
    best: Vec<T>,
    /// For each step and tag, the best previous tag.
    from: Vec<u32>,
}

simd_fn! {
    /// `best[i] = max(score[j] + w[j, i])`, and the first such `j`.
    fn step[T: Float](score: &[T], w: &[T], best: &mut [T], from: &mut [u32]) {
        let stride = best.len();
        for (at, (best, from)) in best.chunks_exact_mut(LANES).zip(from.chunks_exact_mut(LANES)).enumerate() {
            let (mut top, mut which) = ([T::from_f64(f64::MIN); LANES], [0u32; LANES]);
            for (j, (&s, row)) in score.iter().zip(w.chunks_exact(stride)).enumerate() {
                let row = &row[at * LANES..at * LANES + LANES];
                for l in 0..LANES {
                    let v = s + row[l];
                    let better = v > top[l];
                    top[l] = if better { v } else { top[l] };
                    which[l] = if better { j as u32 } else { which[l] };
                }
            }
            best.copy_from_slice(&top);
            from.copy_from_slice(&which);
        }
    }
}

impl<T: Float> Viterbi<T> {
    pub fn new(tags: usize, w: &[T]) -> Viterbi<T> {
        let padded = Chains::new(tags, w);
        let Chains { stride, w, now: score, next: best, .. } = padded;
        Viterbi { tags, stride, w, score, best, from: Vec::new() }
    }

    /// The best sequence of tags for the scores of a sequence; the first of equal scores.
    pub fn path(&mut self, x: &[T], path: &mut [i64]) {
        let (n, stride, steps) = (self.tags, self.stride, path.len());
        self.from.resize(steps * stride, 0);
        self.score[..n].iter_mut().zip(&self.w[..n]).zip(x).for_each(|((s, &w), &x)| *s = w + x);
        for k in 1..steps {
            let from = &mut self.from[k * stride..(k + 1) * stride];
            step(&self.score[..n], &self.w[2 * stride..], &mut self.best, from);
            let now = self.best.iter().zip(&x[k * n..(k + 1) * n]);
            self.score.iter_mut().zip(now).for_each(|(s, (&b, &x))| *s = b + x);
        }
        let mut found = (T::from_f64(f64::MIN), 0);
        for (i, (&s, &w)) in self.score[..n].iter().zip(&self.w[stride..]).enumerate() {
            if s + w > found.0 {
                found = (s + w, i);
            }
        }
        let mut tag = found.1;
        for (k, to) in path.iter_mut().enumerate().rev() {
            *to = tag as i64;
            tag = self.from[k * stride + tag] as usize;
        }
    }
}

/// Sequences of a matrix of scores: the rows of each, and its labels.
pub struct Sequences<'a> {
    pub rows: &'a [Range<usize>],
    pub labels: &'a [Vec<usize>],
}

/// The cost of each sequence (0 of an empty one), with the exponentials of the scores and of the transitions. `None`: see
/// [`Chains::cost`].
pub fn costs<T: Float>(
    s: &Sequences,
    (x, w, tags): (&[T], &[T], usize),
    (x_exps, w_exps): (&mut [T], &mut [T]),
    alpha: &mut [T],
    cost: &mut [T],
) -> Option<()> {
    let mut tops = vec![T::ZERO; x.len() / tags];
    exps(x, tags, x_exps, &mut tops);
    w_exps.iter_mut().zip(w).for_each(|(o, &v)| *o = v.exp());
    let mut chains = Chains::new(tags, w_exps);
    for ((rows, labels), cost) in s.rows.iter().zip(s.labels).zip(cost) {
        let own = rows.start * tags..rows.end * tags;
        let sequence = Sequence { x: &x[own.clone()], x_exps: &x_exps[own.clone()], labels };
        *cost = match labels.is_empty() {
            true => T::ZERO,
            false => chains.cost(&sequence, &tops[rows.clone()], w, &mut alpha[own])?,
        };
    }
    Some(())
}

/// Writes the gradient of the scores and adds that of the transitions, from the exponentials and `alpha` of [`costs`].
pub fn costs_grad<T: Float>(
    s: &Sequences,
    (x_exps, w_exps, alpha, tags): (&[T], &[T], &[T], usize),
    dcost: &[T],
    dx: &mut [T],
    mut dw: Option<&mut [T]>,
) -> Option<()> {
    let mut chains = Chains::new(tags, w_exps).backwards();
    for ((rows, labels), &d) in s.rows.iter().zip(s.labels).zip(dcost).filter(|((_, labels), _)| !labels.is_empty()) {
        let own = rows.start * tags..rows.end * tags;
        let sequence = Sequence { x: &x_exps[own.clone()], x_exps: &x_exps[own.clone()], labels };
        chains.grad(&sequence, &alpha[own.clone()], d, &mut dx[own], dw.as_deref_mut())?;
    }
    if let Some(dw) = dw {
        chains.finish(dw);
    }
    Some(())
}

/// The best tags of each sequence; rows of no sequence stay unchanged.
pub fn paths<T: Float>(rows: &[Range<usize>], (x, w, tags): (&[T], &[T], usize), path: &mut [i64]) {
    let mut best = Viterbi::new(tags, w);
    for own in rows.iter().filter(|r| !r.is_empty()) {
        best.path(&x[own.start * tags..own.end * tags], &mut path[own.clone()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::at_every_level;

    /// The score of a sequence of tags.
    fn score(x: &[f64], w: &[f64], n: usize, tags: &[usize]) -> f64 {
        let own: f64 = tags.iter().enumerate().map(|(k, &t)| x[k * n + t]).sum();
        let changes: f64 = tags.windows(2).map(|p| w[(p[0] + 2) * n + p[1]]).sum();
        own + changes + w[tags[0]] + w[n + tags[tags.len() - 1]]
    }

    #[test]
    fn costs_and_paths_are_those_of_all_sequences() {
        let (n, steps) = (3, 4);
        let x: Vec<f64> = (0..n * steps).map(|i| ((i * 7 % 11) as f64 - 5.0) / 4.0).collect();
        let w: Vec<f64> = (0..n * (n + 2)).map(|i| ((i * 5 % 13) as f64 - 6.0) / 5.0).collect();
        let labels = [2, 0, 1, 1];
        let all: Vec<Vec<usize>> = (0..81usize).map(|i| (0..4).map(|k| i / 3usize.pow(k) % 3).collect()).collect();
        let z: f64 = all.iter().map(|tags| score(&x, &w, n, tags).exp()).sum();
        let best = all.iter().max_by(|a, b| score(&x, &w, n, a).total_cmp(&score(&x, &w, n, b))).unwrap();
        at_every_level(|_| {
            let (mut x_exps, mut tops, mut alpha) = (vec![0.0; 12], vec![0.0; 4], vec![0.0; 12]);
            exps(&x, n, &mut x_exps, &mut tops);
            let w_exps: Vec<f64> = w.iter().map(|v| v.exp()).collect();
            let s = Sequence { x: &x, x_exps: &x_exps, labels: &labels };
            let mut chains = Chains::new(n, &w_exps).backwards();
            let cost = chains.cost(&s, &tops, &w, &mut alpha).unwrap();
            assert!((cost - (z.ln() - score(&x, &w, n, &labels))).abs() < 1e-9);
            let (mut dx, mut dw) = (vec![0.0; 12], vec![0.0; 15]);
            chains.grad(&s, &alpha, 1.0, &mut dx, Some(&mut dw)).unwrap();
            chains.finish(&mut dw);
            let share = |f: &dyn Fn(&[usize]) -> f64| {
                all.iter().map(|t| score(&x, &w, n, t).exp() / z * f(t)).sum::<f64>() - f(&labels)
            };
            assert!((dx[5] - share(&|t| f64::from(t[1] == 2))).abs() < 1e-9);
            let changes = |t: &[usize]| t.windows(2).filter(|p| p == &[1, 1]).count() as f64;
            assert!((dw[3 * 3 + 1] - share(&changes)).abs() < 1e-9);
            let mut path = [0; 4];
            Viterbi::new(n, &w).path(&x, &mut path);
            // Other sequences may have the same score.
            let path = path.map(|tag| tag as usize);
            assert!((score(&x, &w, n, &path) - score(&x, &w, n, best)).abs() < 1e-9);
        });
    }

    #[test]
    fn sequences_have_the_costs_of_each_alone() {
        let tags = 3;
        let x: Vec<f64> = (0..15).map(|i| (i * 7 % 11) as f64 / 4.0 - 1.0).collect();
        let w: Vec<f64> = (0..15).map(|i| (i * 5 % 7) as f64 / 3.0 - 1.0).collect();
        let (rows, labels) = ([0..2, 2..2, 2..5], [vec![0, 2], vec![], vec![1, 1, 0]]);
        let all = Sequences { rows: &rows, labels: &labels };
        let (mut xe, mut we, mut alpha, mut cost) = (vec![0.0; 15], vec![0.0; 15], vec![0.0; 15], vec![9.0; 3]);
        assert_eq!(costs(&all, (&x, &w, tags), (&mut xe, &mut we), &mut alpha, &mut cost), Some(()));
        let (mut dx, mut dw, mut path) = (vec![0.0; 15], vec![0.0; 15], vec![9; 5]);
        let saved = (&xe[..], &we[..], &alpha[..], tags);
        assert_eq!(costs_grad(&all, saved, &[1.0, 2.0, -0.5], &mut dx, Some(&mut dw)), Some(()));
        paths(&rows, (&x, &w, tags), &mut path);
        assert_eq!(cost[1], 0.0);
        let mut sum = vec![0.0; 15];
        for (i, d) in [(0, 1.0), (2, -0.5)] {
            let own = rows[i].start * tags..rows[i].end * tags;
            let one = Sequences { rows: &[0..rows[i].len()], labels: &labels[i..=i] };
            let n = own.len();
            let (mut xe, mut alpha, mut c) = (vec![0.0; n], vec![0.0; n], vec![0.0]);
            costs(&one, (&x[own.clone()], &w, tags), (&mut xe, &mut we.clone()), &mut alpha, &mut c).unwrap();
            assert_eq!(c[0], cost[i]);
            let mut own_dx = vec![0.0; n];
            costs_grad(&one, (&xe, &we, &alpha, tags), &[d], &mut own_dx, Some(&mut sum)).unwrap();
            assert_eq!(own_dx, dx[own.clone()]);
            let mut own_path = vec![9; rows[i].len()];
            Viterbi::new(tags, &w).path(&x[own], &mut own_path);
            assert_eq!(own_path, path[rows[i].clone()]);
        }
        assert!(sum.iter().zip(&dw).all(|(a, b)| (a - b).abs() < 1e-12));
    }
}
