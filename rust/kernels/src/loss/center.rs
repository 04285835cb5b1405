//! Center loss: half of the squared distance of each row to the centre of its class, and the update of the centres.

use crate::types::Float;

/// Writes the difference of each row to its centre, and the losses. Returns the sum of the differences of each centre (if
/// `update`), and the number of its rows plus one.
pub fn center<T: Float>(
    (x, labels): (&[T], &[i64]),
    centers: &[T],
    (clusters, width): (usize, usize),
    update: bool,
    diff: &mut [T],
    loss: &mut [T],
) -> (Vec<T>, Vec<T>) {
    let mut sums = vec![T::ZERO; if update { centers.len() } else { 0 }];
    let mut counts = vec![T::ONE; clusters];
    for (i, &label) in labels.iter().enumerate() {
        let at = label as usize * width;
        counts[label as usize] += T::ONE;
        let mut square = T::ZERO;
        for k in 0..width {
            let v = x[i * width + k] - centers[at + k];
            diff[i * width + k] = v;
            square += v * v;
            if update {
                sums[at + k] += v;
            }
        }
        loss[i] = square / T::from_f64(2.0);
    }
    (sums, counts)
}

/// Moves the centres by `rate` times the mean of their differences (with one more row).
pub fn update<T: Float>(sums: &[T], counts: &[T], width: usize, rate: T, centers: &mut [T]) {
    for (i, (c, &s)) in centers.iter_mut().zip(sums).enumerate() {
        *c += s * (rate / counts[i / width]);
    }
}

/// The gradient of the rows.
pub fn center_grad<T: Float>(diff: &[T], dloss: &[T], width: usize, dx: &mut [T]) {
    dx.iter_mut().enumerate().for_each(|(i, d)| *d = dloss[i / width] * diff[i]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn centres_move_to_their_rows() {
        let (x, labels, mut centers) = ([1.0, 2.0, 3.0, 5.0, 0.0, 1.0], [1, 1, 0], vec![0.5, 0.5, 1.0, 1.0, 9.0, 9.0]);
        let (mut diff, mut loss, mut dx) = ([0.0; 6], [0.0; 3], [0.0; 6]);
        let (sums, counts) = center((&x, &labels), &centers, (3, 2), true, &mut diff, &mut loss);
        assert_eq!((diff, loss), ([0.0, 1.0, 2.0, 4.0, -0.5, 0.5], [0.5, 10.0, 0.25]));
        assert_eq!(counts, [2.0, 3.0, 1.0]);
        update(&sums, &counts, 2, 0.5, &mut centers);
        let moved = [0.5 - 0.5 * 0.25, 0.5 + 0.5 * 0.25, 1.0 + 2.0 * (0.5 / 3.0), 1.0 + 5.0 * (0.5 / 3.0), 9.0, 9.0];
        assert_eq!(centers, moved);
        center_grad(&diff, &[1.0, 2.0, 4.0], 2, &mut dx);
        assert_eq!(dx, [0.0, 1.0, 4.0, 8.0, -2.0, 2.0]);
        assert!(center::<f32>((&[], &[]), &[], (1, 0), false, &mut [], &mut []).0.is_empty());
    }
}
