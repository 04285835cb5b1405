//! Index arithmetic of strided kernels: merging and walking of axes, checks of bounds.

/// Product of the dimensions.
pub fn numel(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Strides, in elements, of a contiguous tensor.
pub fn strides_of(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1isize;
    for (s, &d) in strides.iter_mut().zip(shape).rev() {
        *s = step;
        step *= d.max(1) as isize;
    }
    strides
}

/// Whether the strides are those of a contiguous tensor (strides of axes of length one are ignored).
pub fn contiguous(shape: &[usize], strides: &[isize]) -> bool {
    let mut step = 1;
    shape.iter().zip(strides).rev().all(|(&d, &s)| {
        let fits = d == 1 || s == step;
        step *= d as isize;
        fits
    })
}

/// Strides with which a contiguous tensor of shape `from` is read as one of shape `to`, numpy-style when `axis` is
/// `None`; otherwise `from`'s first dimension is aligned with `to`'s dimension `axis` (Paddle's `axis` attribute).
/// `None` if the shapes do not fit.
pub fn broadcast_strides(from: &[usize], to: &[usize], axis: Option<usize>) -> Option<Vec<isize>> {
    // With an explicit axis, trailing dimensions of one in the smaller operand are ignored.
    let mut from = from;
    let axis = match axis {
        Some(axis) => {
            while axis.saturating_add(from.len()) > to.len() && from.last() == Some(&1) {
                from = &from[..from.len() - 1];
            }
            axis
        }
        None => to.len().checked_sub(from.len())?,
    };
    if axis.checked_add(from.len()).is_none_or(|end| end > to.len()) {
        return None;
    }
    let own = strides_of(from);
    let mut strides = vec![0; to.len()];
    for (i, (&d, &s)) in from.iter().zip(&own).enumerate() {
        if d == to[axis + i] {
            strides[axis + i] = if d == 1 { 0 } else { s };
        } else if d != 1 {
            return None;
        }
    }
    Some(strides)
}

/// The axes along which an operand with these strides over `shape` repeats; its gradient is summed over them.
pub fn repeated_axes(strides: &[isize], shape: &[usize]) -> Vec<bool> {
    strides.iter().zip(shape).map(|(&s, &d)| s == 0 && d != 1).collect()
}

/// Whether every index of `shape`, with `strides` from `offset`, is within `len` elements.
pub fn in_bounds(shape: &[usize], strides: &[isize], offset: isize, len: usize) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let (mut low, mut high) = (offset as i128, offset as i128);
    for (&d, &s) in shape.iter().zip(strides) {
        let reach = (d as i128 - 1) * s as i128;
        if reach < 0 {
            low += reach;
        } else {
            high += reach;
        }
    }
    low >= 0 && high < len as i128
}

/// A shape with the strides of `N` tensors that are walked together. Axes of length one are dropped, adjacent axes are
/// merged if all tensors allow. At least one axis.
#[derive(Clone, Debug)]
pub struct Walk<const N: usize> {
    pub shape: Vec<usize>,
    pub strides: Vec<[isize; N]>,
}

impl<const N: usize> Walk<N> {
    pub fn new(shape: &[usize], strides: [&[isize]; N]) -> Self {
        let mut walk = Walk { shape: Vec::with_capacity(shape.len()), strides: Vec::with_capacity(shape.len()) };
        for (i, &d) in shape.iter().enumerate() {
            if d == 1 {
                continue;
            }
            let step: [isize; N] = std::array::from_fn(|t| strides[t][i]);
            if let (Some(last), Some(outer)) = (walk.shape.last_mut(), walk.strides.last_mut()) {
                if (0..N).all(|t| outer[t] == step[t] * d as isize) {
                    *last *= d;
                    *outer = step;
                    continue;
                }
            }
            walk.shape.push(d);
            walk.strides.push(step);
        }
        if walk.shape.is_empty() {
            walk.shape.push(1);
            walk.strides.push([0; N]);
        }
        walk
    }

    /// Strides of the innermost axis.
    pub fn inner(&self) -> [isize; N] {
        self.strides[self.strides.len() - 1]
    }

    /// Calls `f(position, offsets, length)` for the pieces of innermost runs within flat positions `range`.
    #[inline]
    #[allow(clippy::needless_range_loop)] // `t` indexes two arrays
    pub fn runs(&self, range: std::ops::Range<usize>, mut f: impl FnMut(usize, [isize; N], usize)) {
        let axes = self.shape.len();
        let (inner, steps) = (self.shape[axes - 1], self.inner());
        if range.is_empty() {
            return;
        }
        // The multi-dimensional index of the first run.
        let mut index = [0usize; 16];
        let index = &mut index[..axes.min(16)];
        assert!(axes <= 16, "tensors of more than 16 unmergeable axes");
        let (mut run, mut skip) = (range.start / inner, range.start % inner);
        let mut base = [0isize; N];
        for a in (0..axes - 1).rev() {
            index[a] = run % self.shape[a];
            run /= self.shape[a];
            for t in 0..N {
                base[t] += index[a] as isize * self.strides[a][t];
            }
        }
        let mut at = range.start;
        while at < range.end {
            let n = (inner - skip).min(range.end - at);
            f(at, std::array::from_fn(|t| base[t] + skip as isize * steps[t]), n);
            at += n;
            skip = 0;
            for a in (0..axes - 1).rev() {
                index[a] += 1;
                for t in 0..N {
                    base[t] += self.strides[a][t];
                }
                if index[a] < self.shape[a] {
                    break;
                }
                for t in 0..N {
                    base[t] -= self.shape[a] as isize * self.strides[a][t];
                }
                index[a] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting() {
        assert_eq!(broadcast_strides(&[3], &[2, 3], None), Some(vec![0, 1]));
        assert_eq!(broadcast_strides(&[3], &[3, 2], Some(0)), Some(vec![1, 0]));
        assert_eq!(broadcast_strides(&[3, 1], &[2, 3], Some(1)), Some(vec![0, 1]));
        assert_eq!(broadcast_strides(&[2, 1, 4], &[2, 3, 4], None), Some(vec![4, 0, 1]));
        assert_eq!(broadcast_strides(&[4], &[2, 3], None), None);
        assert_eq!(repeated_axes(&[4, 0, 1], &[2, 3, 4]), [false, true, false]);
        assert!(contiguous(&[2, 1, 3], &[3, 9, 1]) && !contiguous(&[2, 3], &[1, 2]));
        assert!(in_bounds(&[3], &[-1], 2, 3) && !in_bounds(&[3], &[-1], 1, 3));
    }

    #[test]
    fn walks_visit_every_element_in_order() {
        let shape = [2, 1, 3, 4];
        let (a, b) = (strides_of(&shape), broadcast_strides(&[3, 1], &shape, None).unwrap());
        let walk = Walk::new(&shape, [&a, &b]);
        assert_eq!(walk.shape, [2, 3, 4]);
        for chunk in [1, 5, 24] {
            let mut seen = Vec::new();
            for start in (0..24).step_by(chunk) {
                walk.runs(start..(start + chunk).min(24), |at, [a, b], n| {
                    assert_eq!(at as isize, a);
                    (0..n)
                        .for_each(|i| seen.push((a + i as isize * walk.inner()[0], b + i as isize * walk.inner()[1])));
                });
            }
            assert!(
                seen.iter().enumerate().all(|(i, &(a, b))| a == i as isize && b == (i / 4 % 3) as isize),
                "{seen:?}"
            );
        }
    }
}
