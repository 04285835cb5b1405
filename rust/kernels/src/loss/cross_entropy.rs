//! Cross entropies of probabilities, of logits (through softmax) and of single logits (through a sigmoid), and their
//! gradients. Hard labels are class numbers, soft labels a distribution. The class axis is the middle of (outer, n,
//! inner); each (outer, inner) has a hard label and a loss.

use crate::pool::SharedPtr;
use crate::simd_fn;
use crate::softmax::{softmax, CHUNK};
use crate::types::Float;

/// An integer type of hard labels.
pub trait Label: Copy + Send + Sync {
    fn class(self) -> i64;
}

macro_rules! label {
    ($($t:ty)*) => {$(impl Label for $t {
        #[inline(always)]
        fn class(self) -> i64 {
            self as i64
        }
    })*};
}
label!(i8 u8 i16 i32 i64);

/// A label that is neither a class nor the ignored label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLabel {
    pub label: i64,
    pub classes: usize,
}

impl std::fmt::Display for BadLabel {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "label {} is not a class of 0..{}", self.label, self.classes)
    }
}

impl std::error::Error for BadLabel {}

type Dims = (usize, usize, usize);

/// Checks all labels before anything is written.
fn check<L: Label>((outer, n, inner): Dims, labels: &[L], ignore: i64) -> Result<(), BadLabel> {
    assert!(labels.len() == outer * inner, "one label for each loss");
    match labels.iter().map(|l| l.class()).find(|&l| l != ignore && !(0..n as i64).contains(&l)) {
        Some(label) => Err(BadLabel { label, classes: n }),
        None => Ok(()),
    }
}

/// -log(p), with infinities replaced by +-1e20.
#[inline(always)]
fn surprise<T: Float>(p: T) -> T {
    let big = T::from_f64(1e20);
    let l = p.log_::<{ crate::simd::BASELINE_FMA }>();
    let l = if l == T::from_f64(f64::INFINITY) { big } else { l };
    T::ZERO - if l == T::from_f64(f64::NEG_INFINITY) { T::ZERO - big } else { l }
}

/// Calls `f(outer index, part of out)` in parallel, with parts of `each` elements.
fn outer<T: Float>(out: &mut [T], each: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    if out.is_empty() {
        return;
    }
    let to = SharedPtr(out.as_mut_ptr());
    crate::pool::ranges(out.len() / each, (CHUNK / each).max(1), |r| {
        for o in r {
            // SAFETY: parts are disjoint.
            f(o, unsafe { std::slice::from_raw_parts_mut(to.get().add(o * each), each) });
        }
    });
}

/// `loss = -log(x[label])` of probabilities; 0 for an ignored label.
pub fn cross_entropy<T: Float, L: Label>(
    dims: Dims,
    x: &[T],
    labels: &[L],
    ignore: i64,
    loss: &mut [T],
) -> Result<(), BadLabel> {
    let (count, n, inner) = dims;
    check(dims, labels, ignore)?;
    assert!(x.len() == count * n * inner && loss.len() == count * inner, "sizes do not fit the axis");
    for (i, (l, &label)) in loss.iter_mut().zip(labels).enumerate() {
        let label = label.class();
        *l = T::ZERO;
        if label != ignore {
            *l = surprise(x[(i / inner * n + label as usize) * inner + i % inner]);
        }
    }
    Ok(())
}

simd_fn! {
    fn soft_part[T: Float](x: &[T], labels: &[T], inner: usize, loss: &mut [T]) {
        loss.fill(T::ZERO);
        let big = T::from_f64(1e20);
        if inner == 1 {
            let mut sum = [T::ZERO; crate::softmax::W];
            for (x, y) in x.chunks(crate::softmax::W).zip(labels.chunks(crate::softmax::W)) {
                for (s, (&x, &y)) in sum.iter_mut().zip(x.iter().zip(y)) {
                    let l = x.log_::<FMA>();
                    let l = if l == T::from_f64(f64::NEG_INFINITY) { T::ZERO - big } else { l };
                    *s = *s - y * if l == T::from_f64(f64::INFINITY) { big } else { l };
                }
            }
            loss[0] = crate::softmax::lane_sum(sum);
        } else {
            for (x, y) in x.chunks_exact(inner).zip(labels.chunks_exact(inner)) {
                for (s, (&x, &y)) in loss.iter_mut().zip(x.iter().zip(y)) {
                    let l = x.log_::<FMA>();
                    let l = if l == T::from_f64(f64::NEG_INFINITY) { T::ZERO - big } else { l };
                    *s = *s - y * if l == T::from_f64(f64::INFINITY) { big } else { l };
                }
            }
        }
    }
}

/// `loss = -sum(labels * log(x))` of probabilities.
pub fn cross_entropy_soft<T: Float>(dims: Dims, x: &[T], labels: &[T], loss: &mut [T]) {
    let (count, n, inner) = dims;
    assert!(x.len() == count * n * inner && labels.len() == x.len() && loss.len() == count * inner);
    if inner > 0 {
        outer(loss, inner, |o, loss| {
            let part = o * n * inner..(o + 1) * n * inner;
            soft_part(&x[part.clone()], &labels[part], inner, loss);
        });
    }
}

/// Gradient of `cross_entropy`: `-dloss / x` at the label, 0 elsewhere.
pub fn cross_entropy_grad<T: Float, L: Label>(
    dims: Dims,
    x: &[T],
    labels: &[L],
    ignore: i64,
    dloss: &[T],
    dx: &mut [T],
) -> Result<(), BadLabel> {
    let (count, n, inner) = dims;
    check(dims, labels, ignore)?;
    assert!(x.len() == count * n * inner && dx.len() == x.len() && dloss.len() == labels.len());
    dx.fill(T::ZERO);
    for (i, (&d, &label)) in dloss.iter().zip(labels).enumerate() {
        if label.class() != ignore {
            let at = (i / inner * n + label.class() as usize) * inner + i % inner;
            dx[at] = T::ZERO - d / x[at];
        }
    }
    Ok(())
}

/// Gradient of `cross_entropy_soft`: `-labels * dloss / x`.
pub fn cross_entropy_soft_grad<T: Float>(dims: Dims, x: &[T], labels: &[T], dloss: &[T], dx: &mut [T]) {
    per_class(dims, x, dloss, dx, |at, x, d| T::ZERO - labels[at] * d / x);
}

/// The position of each label's class in `(count, classes)` rows; `None` for an ignored label and for one that is no
/// class.
fn positions<L: Label>(labels: &[L], classes: usize, ignore: i64) -> impl Iterator<Item = Option<usize>> + '_ {
    labels.iter().enumerate().map(move |(i, label)| {
        let label = label.class();
        (label != ignore && (0..classes as i64).contains(&label)).then(|| i * classes + label as usize)
    })
}

/// `matched = x[label]` of rows of `classes` elements; 0 for an ignored label and for one that is no class.
pub fn at_labels<T: Float, L: Label>(classes: usize, x: &[T], labels: &[L], ignore: i64, matched: &mut [T]) {
    assert!(x.len() == labels.len() * classes && matched.len() == labels.len());
    for (m, at) in matched.iter_mut().zip(positions(labels, classes, ignore)) {
        *m = at.map_or(T::ZERO, |at| x[at]);
    }
}

/// Gradient of `cross_entropy` from the probabilities of the labels: `dx[label] = f(row)`, 0 elsewhere.
pub fn spread_labels<T: Float, L: Label>(
    classes: usize,
    labels: &[L],
    ignore: i64,
    dx: &mut [T],
    f: impl Fn(usize) -> T,
) {
    assert!(dx.len() == labels.len() * classes);
    dx.fill(T::ZERO);
    for (i, at) in positions(labels, classes, ignore).enumerate() {
        if let Some(at) = at {
            dx[at] = f(i);
        }
    }
}

/// `dx = f(element, x, dloss)`.
fn per_class<T: Float>(dims: Dims, x: &[T], dloss: &[T], dx: &mut [T], f: impl Fn(usize, T, T) -> T + Sync) {
    let (count, n, inner) = dims;
    assert!(x.len() == count * n * inner && dx.len() == x.len() && dloss.len() == count * inner);
    if dx.is_empty() {
        return;
    }
    outer(dx, n * inner, |o, dx| {
        let first = o * n * inner;
        let dloss = &dloss[o * inner..(o + 1) * inner];
        for (k, dx) in dx.chunks_exact_mut(inner).enumerate() {
            let at = first + k * inner;
            for (j, (v, (&x, &d))) in dx.iter_mut().zip(x[at..at + inner].iter().zip(dloss)).enumerate() {
                *v = f(at + j, x, d);
            }
        }
    });
}

/// `prob = softmax(x)`, `loss = -log(prob[label])`; 0 for an ignored label.
pub fn softmax_cross_entropy<T: Float, L: Label>(
    dims: Dims,
    x: &[T],
    labels: &[L],
    ignore: i64,
    prob: &mut [T],
    loss: &mut [T],
) -> Result<(), BadLabel> {
    check(dims, labels, ignore)?;
    softmax(dims, x, prob);
    cross_entropy(dims, prob, labels, ignore, loss)
}

/// `prob = softmax(x)`, `loss = -sum(labels * log(prob))`.
pub fn softmax_cross_entropy_soft<T: Float>(dims: Dims, x: &[T], labels: &[T], prob: &mut [T], loss: &mut [T]) {
    softmax(dims, x, prob);
    cross_entropy_soft(dims, prob, labels, loss);
}

/// Gradient of `softmax_cross_entropy`: `(prob - one_hot(label)) * dloss`, 0 for an ignored label.
pub fn softmax_cross_entropy_grad<T: Float, L: Label>(
    dims: Dims,
    prob: &[T],
    labels: &[L],
    ignore: i64,
    dloss: &[T],
    dx: &mut [T],
) -> Result<(), BadLabel> {
    let (_, n, inner) = dims;
    check(dims, labels, ignore)?;
    per_class(dims, prob, dloss, dx, |_, p, d| p * d);
    for (i, (&d, &label)) in dloss.iter().zip(labels).enumerate() {
        let at = |k: usize| (i / inner * n + k) * inner + i % inner;
        if label.class() == ignore {
            (0..n).for_each(|k| dx[at(k)] = T::ZERO);
        } else {
            let v = &mut dx[at(label.class() as usize)];
            *v = *v - d;
        }
    }
    Ok(())
}

/// Gradient of `softmax_cross_entropy_soft`: `(prob - labels) * dloss`.
pub fn softmax_cross_entropy_soft_grad<T: Float>(dims: Dims, prob: &[T], labels: &[T], dloss: &[T], dx: &mut [T]) {
    per_class(dims, prob, dloss, dx, |at, p, d| d * (p - labels[at]));
}

simd_fn! {
    fn sigmoid_part[T: Float](x: &[T], labels: &[T], ignore: T, scale: T, out: &mut [T]) {
        for (o, (&x, &y)) in out.iter_mut().zip(x.iter().zip(labels)) {
            let positive = if x > T::ZERO { x } else { T::ZERO };
            let size = if x > T::ZERO { x } else { T::ZERO - x };
            let tail = (T::ONE + (T::ZERO - size).exp_::<FMA>()).log_::<FMA>();
            let v = (positive - x * y + tail) * scale;
            *o = if y == ignore { T::ZERO } else { v };
        }
    }
}

simd_fn! {
    fn sigmoid_grad_part[T: Float](x: &[T], labels: &[T], dout: &[T], ignore: T, scale: T, dx: &mut [T]) {
        for (o, ((&x, &y), &d)) in dx.iter_mut().zip(x.iter().zip(labels).zip(dout)) {
            let s = T::ONE / (T::ONE + (T::ZERO - x).exp_::<FMA>());
            let v = d * (s - y) * scale;
            *o = if y == ignore { T::ZERO } else { v };
        }
    }
}

/// 1 / (number of labels that are not ignored) if `normalize`, else 1.
fn scale<T: Float>(labels: &[T], ignore: i64, normalize: bool) -> T {
    if !normalize {
        return T::ONE;
    }
    let ignore = T::from_f64(ignore as f64).to_f64();
    let count = labels.iter().filter(|l| (l.to_f64() - ignore).abs() > 1e-6).count();
    T::ONE / T::from_f64((count as f64).max(1e-5))
}

/// `out = max(x, 0) - x * labels + log(1 + exp(-|x|))`; 0 where the label is `ignore`; divided by the number of labels
/// that are not ignored if `normalize`.
pub fn sigmoid_cross_entropy<T: Float>(x: &[T], labels: &[T], ignore: i64, normalize: bool, out: &mut [T]) {
    assert!(labels.len() == x.len() && out.len() == x.len());
    let (skip, scale) = (T::from_f64(ignore as f64), scale(labels, ignore, normalize));
    crate::pool::parts(out, CHUNK, |at, out| {
        let r = at..at + out.len();
        sigmoid_part(&x[r.clone()], &labels[r], skip, scale, out);
    });
}

/// Gradient of `sigmoid_cross_entropy`: `dout * (sigmoid(x) - labels)`.
pub fn sigmoid_cross_entropy_grad<T: Float>(
    x: &[T],
    labels: &[T],
    ignore: i64,
    normalize: bool,
    dout: &[T],
    dx: &mut [T],
) {
    assert!(labels.len() == x.len() && dout.len() == x.len() && dx.len() == x.len());
    let (skip, scale) = (T::from_f64(ignore as f64), scale(labels, ignore, normalize));
    crate::pool::parts(dx, CHUNK, |at, dx| {
        let r = at..at + dx.len();
        sigmoid_grad_part(&x[r.clone()], &labels[r.clone()], &dout[r], skip, scale, dx);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_at_labels_and_back() {
        let x = [0.1, 0.2, 0.7, 0.3, 0.3, 0.4, 0.5, 0.25, 0.25];
        let labels = [2i64, -100, 0];
        let mut matched = [9.0; 3];
        at_labels(3, &x, &labels, -100, &mut matched);
        assert_eq!(matched, [0.7, 0.0, 0.5]);
        let mut dx = [9.0; 9];
        spread_labels(3, &labels, -100, &mut dx, |i| -1.0 / matched[i]);
        let mut want = [0.0; 9];
        (want[2], want[6]) = (-1.0 / 0.7, -2.0);
        assert_eq!(dx, want);
    }

    #[test]
    fn a_label_that_is_no_class_has_no_gradient() {
        let mut dx = [9.0f32; 4];
        spread_labels(2, &[5i32, -1], -100, &mut dx, |_| 1.0);
        assert_eq!(dx, [0.0; 4]);
    }
}
