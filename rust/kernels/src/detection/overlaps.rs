//! Overlap test of a box against a set of kept boxes (non-maximum suppression), vectorised over blocks of boxes.

use crate::simd_fn;
use crate::types::Float;

const LANES: usize = 16;

/// Boxes [xmin, ymin, xmax, ymax] in blocks of `LANES`: the four sides, then the areas of each block.
#[derive(Default)]
pub struct KeptBoxes<T> {
    blocks: Vec<[[T; LANES]; 5]>,
    count: usize,
}

/// The area of a box whose sides are max - min + `pixel`; 0 if a side is negative.
#[inline(always)]
fn area<T: Float>(b: &[T; 4], pixel: T) -> T {
    if b[2] < b[0] || b[3] < b[1] {
        T::ZERO
    } else {
        (b[2] - b[0] + pixel) * (b[3] - b[1] + pixel)
    }
}

simd_fn! {
    /// Whether the intersection over union of `b` and one of the boxes exceeds `bound`, or is NaN.
    fn overlaps[T: Float](blocks: &[[[T; LANES]; 5]], count: usize, b: &[T; 4], pixel: T, bound: T) -> bool {
        let own = area(b, pixel);
        for (k, [x0, y0, x1, y1, areas]) in blocks.iter().enumerate() {
            let mut shares = [T::ZERO; LANES];
            for l in 0..LANES {
                let apart = (b[0] > x1[l]) | (b[2] < x0[l]) | (b[1] > y1[l]) | (b[3] < y0[l]);
                let (right, left) = (if x1[l] < b[2] { x1[l] } else { b[2] }, if b[0] < x0[l] { x0[l] } else { b[0] });
                let (low, high) = (if y1[l] < b[3] { y1[l] } else { b[3] }, if b[1] < y0[l] { y0[l] } else { b[1] });
                let shared = (right - left + pixel) * (low - high + pixel);
                let share = shared / (own + areas[l] - shared);
                shares[l] = if apart { T::ZERO } else { share };
            }
            let within = |shares: &[T]| shares.iter().fold(0, |n, &share| n + i32::from(share <= bound));
            let valid = LANES.min(count - k * LANES);
            // Whole blocks are compared without a branch.
            if if valid == LANES { within(&shares) } else { within(&shares[..valid]) } < valid as i32 {
                return true;
            }
        }
        false
    }
}

impl<T: Float> KeptBoxes<T> {
    pub fn overlaps(&self, b: &[T; 4], pixel: T, bound: T) -> bool {
        overlaps(&self.blocks, self.count, b, pixel, bound)
    }

    pub fn push(&mut self, b: &[T; 4], pixel: T) {
        let lane = self.count % LANES;
        if lane == 0 {
            self.blocks.push([[T::ZERO; LANES]; 5]);
        }
        if let Some(block) = self.blocks.last_mut() {
            let sides = b.iter().copied().chain([area(b, pixel)]);
            block.iter_mut().zip(sides).for_each(|(lanes, v)| lanes[lane] = v);
        }
        self.count += 1;
    }

    pub fn clear(&mut self) {
        self.blocks.clear();
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::at_every_level;

    #[test]
    fn every_box_is_compared_with_every_kept_one() {
        at_every_level(|_| {
            let mut kept = KeptBoxes::<f32>::default();
            for i in 0..37 {
                let b = [10.0 * i as f32, 0.0, 10.0 * i as f32 + 9.0, 9.0];
                assert!(!kept.overlaps(&b, 0.0, 0.3));
                kept.push(&b, 0.0);
                assert!(kept.overlaps(&b, 0.0, 0.3) && !kept.overlaps(&b, 0.0, 1.0));
            }
            // Overlaps of half of two adjacent boxes; NaN; an empty box next to them.
            assert!(kept.overlaps(&[184.5, 0.0, 194.5, 9.0], 0.0, 0.2));
            assert!(kept.overlaps(&[f32::NAN; 4], 0.0, 0.9));
            assert!(!kept.overlaps(&[400.0, 50.0, 300.0, 60.0], 0.0, 0.0));
            kept.clear();
            assert!(!kept.overlaps(&[0.0, 0.0, 9.0, 9.0], 1.0, 0.0));
        });
    }
}
