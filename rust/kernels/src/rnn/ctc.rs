//! The loss of connectionist temporal classification (CTC): the probability of a sequence of labels, with blanks and
//! repetitions, summed over all alignments by the forward-backward algorithm. Computed in logarithms and in f64 for
//! every type of scores: sums over thousands of steps are large, and their differences matter.

use crate::functions::exponential::Exponential;
use crate::simd_fn;
use crate::types::Float;

/// Lower than every logarithm of a probability, but finite, so that differences are not NaN.
const FLOOR: f64 = -1e300;
/// Padding before the first and after the last state, with probability zero.
const EDGE: usize = 2;

simd_fn! {
    /// `to[s] = log(exp(a[s]) + exp(b[s]) + exp(c[s] + skip[s])) + add[s]`.
    fn add_up(a: &[f64], b: &[f64], c: &[f64], skip: &[f64], add: &[f64], to: &mut [f64]) {
        let n = to.len();
        let (a, b, c, skip, add) = (&a[..n], &b[..n], &c[..n], &skip[..n], &add[..n]);
        for s in 0..n {
            let c = c[s] + skip[s];
            let m = if a[s] > b[s] { a[s] } else { b[s] };
            let m = if m > c { m } else { c };
            let m = if m < FLOOR { FLOOR } else { m };
            let sum = (a[s] - m).exp_::<FMA>() + (b[s] - m).exp_::<FMA>() + (c - m).exp_::<FMA>();
            to[s] = m + sum.log_::<FMA>() + add[s];
        }
    }
}

simd_fn! {
    /// The logarithm of the sum of the exponentials.
    fn log_sum[T: Float](x: &[T]) -> f64 {
        const LANES: usize = 16;
        let top = x.iter().fold(T::from_f64(f64::NEG_INFINITY), |m, &v| if v > m { v } else { m });
        let mut lanes = [T::ZERO; LANES];
        let (whole, rest) = x.split_at(x.len() / LANES * LANES);
        for part in whole.chunks_exact(LANES) {
            for (l, &v) in lanes.iter_mut().zip(part) {
                *l += (v - top).exp_::<FMA>();
            }
        }
        let mut sum: f64 = lanes.iter().map(|l| l.to_f64()).sum();
        for &v in rest {
            sum += (v - top).exp_::<FMA>().to_f64();
        }
        top.to_f64() + sum.ln()
    }
}

simd_fn! {
    /// `to = exp(x - log_sum)`
    fn softmax[T: Float](x: &[T], log_sum: T, to: &mut [T]) {
        for (o, &v) in to.iter_mut().zip(x) {
            *o = (v - log_sum).exp_::<FMA>();
        }
    }
}

/// Least number of steps of an alignment: one per label, and a blank between equal adjacent labels.
fn least(labels: &[usize]) -> usize {
    labels.len() + labels.windows(2).filter(|w| w[0] == w[1]).count()
}

/// Minus the logarithm of the probability of `labels`, where `row(t)` has the scores of step `t` of `steps`. `grad`
/// receives the gradient of the scores of each step. Without a valid alignment both are 0, as in warp-ctc.
pub fn loss<'a, T: Float>(
    steps: usize,
    row: impl Fn(usize) -> &'a [T],
    labels: &[usize],
    blank: usize,
    mut grad: Option<&mut dyn FnMut(usize, &[T])>,
) -> f64 {
    if steps == 0 || least(labels) > steps {
        return 0.0;
    }
    let states = 2 * labels.len() + 1;
    let of = |s: usize| if s.is_multiple_of(2) { blank } else { labels[s / 2] };
    let padded = states + 2 * EDGE;
    let inside = EDGE..EDGE + states;
    let none = f64::NEG_INFINITY;
    // Whether a state may follow the one two before it: skipping a blank between different labels.
    let skip: Vec<f64> =
        (0..states).map(|s| if s % 2 == 1 && s > 1 && of(s) != of(s - 2) { 0.0 } else { none }).collect();
    let sums: Vec<f64> = (0..steps).map(|t| log_sum(row(t))).collect();
    let log_probs = |t: usize, to: &mut [f64]| {
        let x = row(t);
        to.iter_mut().enumerate().for_each(|(s, p)| *p = x[of(s)].to_f64() - sums[t]);
    };
    let mut probs = vec![0.0; states];
    let mut forward = vec![none; steps * padded];
    log_probs(0, &mut probs);
    forward[EDGE] = probs[0];
    if states > 1 {
        forward[EDGE + 1] = probs[1];
    }
    for t in 1..steps {
        let (before, now) = forward.split_at_mut(t * padded);
        let before = &before[(t - 1) * padded..];
        log_probs(t, &mut probs);
        add_up(&before[EDGE..], &before[1..], before, &skip, &probs, &mut now[inside.clone()]);
    }
    let last = &forward[(steps - 1) * padded..][inside.clone()];
    let (a, b) = (last[states - 1], if states > 1 { last[states - 2] } else { none });
    let top = a.max(b).max(FLOOR);
    let total = top + ((a - top).exp() + (b - top).exp()).ln();
    let Some(grad) = grad.as_mut() else { return -total };

    // The backward probability of each state: the sum over its successors, their own probability included.
    let mut behind = vec![none; padded];
    let mut next = vec![none; padded];
    behind[EDGE + states - 1] = 0.0;
    if states > 1 {
        behind[EDGE + states - 2] = 0.0;
    }
    // From a state, the flag of the successor two after it says whether it may be reached.
    let mut jump = vec![none; states];
    jump[..states.saturating_sub(2)].copy_from_slice(skip.get(2..).unwrap_or(&[]));
    let nothing = vec![0.0; states];
    let mut out: Vec<T> = vec![T::ZERO; row(0).len()];
    for t in (0..steps).rev() {
        softmax(row(t), T::from_f64(sums[t]), &mut out);
        let forward = &forward[t * padded..][inside.clone()];
        for (s, (&f, &b)) in forward.iter().zip(&behind[inside.clone()]).enumerate() {
            let share = (f + b - total).exp();
            out[of(s)] = out[of(s)] - T::from_f64(share);
        }
        grad(t, &out);
        if t > 0 {
            log_probs(t, &mut probs);
            next[inside.clone()].iter_mut().zip(&behind[inside.clone()]).zip(&probs).for_each(|((n, b), p)| *n = b + p);
            let to = &mut behind[inside.clone()];
            add_up(&next[EDGE..], &next[EDGE + 1..], &next[EDGE + 2..], &jump, &nothing, to);
        }
    }
    -total
}

/// Appends the labels of one alignment to `to`: steps without blanks, and without repetitions if `merge`.
pub fn align<T: Copy + PartialEq>(steps: &[T], blank: Option<T>, merge: bool, to: &mut Vec<T>) {
    let mut before = None;
    for &step in steps {
        if Some(step) != blank && !(merge && before == Some(step)) {
            to.push(step);
        }
        before = Some(step);
    }
}

/// The alignment of each row of `width` steps, of which `lengths` count, padded with `padding`; and the numbers of labels.
pub fn align_padded<T: Copy + PartialEq>(
    (x, width, lengths): (&[T], usize, &[usize]),
    blank: Option<T>,
    merge: bool,
    padding: T,
    out: &mut [T],
) -> Vec<usize> {
    let (mut counts, mut labels) = (Vec::with_capacity(lengths.len()), Vec::new());
    for (b, (to, n)) in out.chunks_exact_mut(width.max(1)).zip(lengths).enumerate() {
        labels.clear();
        align(&x[b * width..b * width + n], blank, merge, &mut labels);
        to[..labels.len()].copy_from_slice(&labels);
        to[labels.len()..].fill(padding);
        counts.push(labels.len());
    }
    counts.resize(lengths.len(), 0);
    counts
}

/// The alignments of the sequences of a level, and their offsets.
pub fn align_sequences<T: Copy + PartialEq>(
    level: &[usize],
    x: &[T],
    blank: Option<T>,
    merge: bool,
) -> (Vec<T>, Vec<usize>) {
    let (mut labels, mut ends) = (Vec::new(), vec![0]);
    for w in level.windows(2) {
        align(&x[w[0]..w[1]], blank, merge, &mut labels);
        ends.push(labels.len());
    }
    (labels, ends)
}

/// The gradient of the scores (zeros before) from the saved one [steps, sequences, classes] and that of the losses, divided by
/// the number of steps if `by_steps`. `rows` has the first row of a sequence in the scores and the stride of its rows.
pub fn scale_grad<T: Float>(
    (saved, classes): (&[T], usize),
    (steps, rows): (&[usize], &[(usize, usize)]),
    dloss: &[T],
    by_steps: bool,
    dx: &mut [T],
) {
    let sequences = steps.len();
    for (b, (&steps, &(first, stride))) in steps.iter().zip(rows).enumerate() {
        let scale = if by_steps { dloss[b] / T::from_f64(steps as f64) } else { dloss[b] };
        for t in 0..steps {
            let to = &mut dx[(first + t * stride) * classes..][..classes];
            to.iter_mut().zip(&saved[(t * sequences + b) * classes..]).for_each(|(o, &g)| *o = g * scale);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignments_become_labels() {
        let steps = [0, 1, 1, 0, 1, 2, 2, 0];
        let run = |blank, merge| {
            let mut to = vec![9];
            align(&steps, blank, merge, &mut to);
            to
        };
        assert_eq!(run(Some(0), true), [9, 1, 1, 2]);
        assert_eq!(run(Some(0), false), [9, 1, 1, 1, 2, 2]);
        assert_eq!(run(None, true), [9, 0, 1, 0, 1, 2, 0]);
    }

    #[test]
    fn rows_and_sequences_are_aligned() {
        let x = [1, 1, 0, 2, 0, 3, 3, 9];
        let mut out = [7; 8];
        assert_eq!(align_padded((&x, 4, &[4, 3]), Some(0), true, -1, &mut out), [2, 1]);
        assert_eq!(out, [1, 2, -1, -1, 3, -1, -1, -1]);
        assert_eq!(align_sequences(&[0, 4, 4, 7], &x, Some(0), true), (vec![1, 2, 3], vec![0, 2, 2, 3]));
        assert_eq!(align_padded::<i32>((&[], 0, &[0, 0]), None, true, -1, &mut []), [0, 0]);
    }

    #[test]
    fn gradients_are_scaled_by_those_of_the_losses() {
        // Two sequences of 2 and 1 steps; the rows of the scores interleave.
        let saved: Vec<f64> = (1..=8).map(f64::from).collect();
        let mut dx = [0.0; 8];
        scale_grad((&saved, 2), (&[2, 1], &[(0, 2), (1, 2)]), &[2.0, 10.0], true, &mut dx);
        assert_eq!(dx, [1.0, 2.0, 30.0, 40.0, 5.0, 6.0, 0.0, 0.0]);
    }
}
