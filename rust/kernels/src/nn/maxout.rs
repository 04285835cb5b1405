//! maxout: the maximum of each group of channels.

use crate::pool;
use crate::types::Number;

/// Minimum number of elements per parallel chunk.
const CHUNK: usize = 1 << 14;

/// y [.., inner] = the maximum over the second axis of x [.., groups, inner].
pub fn forward<T: Number>(groups: usize, inner: usize, x: &[T], y: &mut [T]) {
    let grain = (CHUNK / (groups * inner).max(1)).max(1) * inner;
    pool::parts(y, grain, |start, y| {
        for (i, y) in y.chunks_exact_mut(inner).enumerate() {
            let from = (start / inner + i) * groups * inner;
            y.copy_from_slice(&x[from..from + inner]);
            for k in 1..groups {
                let others = &x[from + k * inner..from + (k + 1) * inner];
                y.iter_mut().zip(others).filter(|(y, v)| **v > **y).for_each(|(y, v)| *y = *v);
            }
        }
    });
}

/// The gradient of x: that of y at the first maximum of each group.
pub fn backward<T: Number>(groups: usize, inner: usize, (x, y, dy): (&[T], &[T], &[T]), dx: &mut [T]) {
    let grain = (CHUNK / (groups * inner).max(1)).max(1) * groups * inner;
    pool::parts(dx, grain, |start, dx| {
        dx.fill(T::ZERO);
        for (i, dx) in dx.chunks_exact_mut(groups * inner).enumerate() {
            let group = start / (groups * inner) + i;
            let x = &x[group * groups * inner..][..groups * inner];
            for j in 0..inner {
                let of = group * inner + j;
                if let Some(k) = (0..groups).find(|k| x[k * inner + j] == y[of]) {
                    dx[k * inner + j] = dy[of];
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_maximum_counts() {
        let (outer, groups, inner) = (5, 3, 4);
        let x: Vec<f32> = (0..outer * groups * inner).map(|i| (i * 7919 % 7) as f32 - 3.0).collect();
        let (mut y, mut dx) = (vec![9.0; outer * inner], vec![9.0; x.len()]);
        forward(groups, inner, &x, &mut y);
        let dy: Vec<f32> = (0..y.len()).map(|i| i as f32 + 1.0).collect();
        backward(groups, inner, (&x, &y, &dy), &mut dx);
        let mut want_dx = vec![0.0; x.len()];
        for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
            let at = |k: usize| (o * groups + k) * inner + i;
            let best = (0..groups).fold(0, |best, k| if x[at(k)] > x[at(best)] { k } else { best });
            assert_eq!(y[o * inner + i], x[at(best)]);
            want_dx[at(best)] = dy[o * inner + i];
        }
        assert_eq!(dx, want_dx);
    }
}
