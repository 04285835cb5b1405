//! Training targets of two-stage detectors: matching of anchors and proposals with ground truth boxes, sampling, masks.
//! Boxes include their right and bottom pixels.

pub mod masks;
mod outline;
pub mod rcnn;
pub mod rpn;

use super::boxes::{least, most, Corners};
use crate::types::Float;

/// The boxes of a slice of four numbers each.
pub fn corners<R: Float>(boxes: &[R]) -> impl Iterator<Item = Corners<R>> + '_ {
    boxes.chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]])
}

/// Intersection over union.
pub fn overlap<R: Float>(a: &Corners<R>, b: &Corners<R>) -> R {
    let area = |b: &Corners<R>| (b[2] - b[0] + R::ONE) * (b[3] - b[1] + R::ONE);
    let side = |k: usize| most(least(a[k + 2], b[k + 2]) - most(a[k], b[k]) + R::ONE, R::ZERO);
    let shared = side(0) * side(1);
    if shared == R::ZERO {
        return R::ZERO;
    }
    shared / (area(a) + area(b) - shared)
}

/// The deltas from a box to the ground truth box: center offset relative to the sides, logarithm of the sides' ratio.
pub fn delta<R: Float>(from: &Corners<R>, to: &Corners<R>, weights: Option<&[f32]>) -> [R; 4] {
    let half = R::from_f64(0.5);
    let side = |b: &Corners<R>, k: usize| b[k + 2] - b[k] + R::ONE;
    let center = |b: &Corners<R>, k: usize| b[k] + half * side(b, k);
    let moved = |k: usize| (center(to, k) - center(from, k)) / side(from, k);
    let grown = |k: usize| R::from_f64((side(to, k) / side(from, k)).to_f64().ln());
    let mut found = [moved(0), moved(1), grown(0), grown(1)];
    if let Some(weights) = weights {
        found.iter_mut().zip(weights).for_each(|(d, &w)| *d = *d / R::from_f64(w as f64));
    }
    found
}

/// Random numbers of a seed; each call of `keep` starts from it.
pub struct Draws(Option<u64>);

impl Draws {
    const MODULUS: u64 = (1 << 31) - 1;

    /// Without a seed the first items are selected.
    pub fn new(seed: Option<u64>) -> Draws {
        Draws(seed.map(|seed| seed % (Self::MODULUS - 1) + 1))
    }

    /// A number in [0, 1) from `std::minstd_rand`.
    fn next(state: &mut u64) -> f64 {
        *state = *state * 48271 % Self::MODULUS;
        (*state - 1) as f64 / (Self::MODULUS - 1) as f64
    }

    /// Keeps `count` items (reservoir sampling); a negative count keeps all. Each call restarts from the seed.
    pub fn keep<T>(&self, items: &mut Vec<T>, count: i64) {
        let Ok(count) = usize::try_from(count) else { return };
        if items.len() <= count {
            return;
        }
        if let Some(mut state) = self.0 {
            for i in count..items.len() {
                let place = (Self::next(&mut state) * i as f64) as usize;
                if place < count {
                    items.swap(place, i);
                }
            }
        }
        items.truncate(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_count_pixels() {
        let (a, b) = ([0.0f64, 0.0, 3.0, 3.0], [2.0, 1.0, 5.0, 2.0]);
        assert_eq!(overlap(&a, &b), 4.0 / (16.0 + 8.0 - 4.0));
        assert_eq!([overlap(&a, &[4.0, 0.0, 9.0, 9.0]), overlap(&a, &a)], [0.0, 1.0]);
    }

    #[test]
    fn deltas_move_a_box_to_another() {
        let (from, to) = ([1.0f64, 2.0, 10.0, 21.0], [4.0, 0.0, 23.0, 9.0]);
        let d = delta(&from, &to, None);
        assert_eq!(d, [0.8, -0.35, 2f64.ln(), 0.5f64.ln()]);
        let weighted = delta(&from, &to, Some(&[10.0, 10.0, 5.0, 5.0]));
        assert_eq!(weighted, [d[0] / 10.0, d[1] / 10.0, d[2] / 5.0, d[3] / 5.0]);
    }

    #[test]
    fn draws_keep_a_subset() {
        let all: Vec<usize> = (0..50).collect();
        let keep = |seed, count| {
            let mut items = all.clone();
            Draws::new(seed).keep(&mut items, count);
            items
        };
        assert_eq!(keep(None, 5), [0, 1, 2, 3, 4]);
        assert_eq!([keep(Some(7), -1), keep(Some(7), 50)], [all.clone(), all.clone()]);
        let mut some = keep(Some(7), 20);
        assert_eq!(some, keep(Some(7), 20));
        assert_ne!(some, keep(Some(8), 20));
        some.sort_unstable();
        some.dedup();
        assert_eq!(some.len(), 20);
    }
}
