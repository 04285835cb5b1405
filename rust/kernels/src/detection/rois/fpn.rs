//! Feature pyramid networks: RoIs assigned to levels by size, and the best RoIs of all levels.

use crate::ranking;
use crate::types::Float;
use std::ops::Range;

/// The levels of a pyramid. RoIs of side `refer_scale` are of level `refer`; each level doubles the side.
#[derive(Clone, Copy)]
pub struct PyramidLevels {
    pub first: i32,
    pub last: i32,
    pub refer: i32,
    pub refer_scale: i32,
    /// Sides include their last pixel.
    pub pixel_offset: bool,
}

impl PyramidLevels {
    /// The level for a RoI of this size.
    fn level_of<R: Float>(&self, b: &[R]) -> i64 {
        let more = if self.pixel_offset { R::ONE } else { R::ZERO };
        let empty = b[2] < b[0] || b[3] < b[1];
        let area = if empty { R::ZERO } else { (b[2] - b[0] + more) * (b[3] - b[1] + more) };
        let scale = R::from_f64(area.to_f64().sqrt()) / R::from_f64(self.refer_scale as f64);
        let octave = R::from_f64((scale + R::from_f64(1e-6)).to_f64().log2());
        let level = (octave + R::from_f64(self.refer as f64)).to_f64().floor() as i64;
        level.clamp(self.first as i64, self.last as i64)
    }
}

/// The RoIs of a level: rows in ascending order, and the end of each image among them, after a 0.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelRows {
    pub rows: Vec<usize>,
    pub ends: Vec<usize>,
}

/// The RoIs of each level, where `images` are the rows of each image.
pub fn distribute<R: Float>(levels: &PyramidLevels, rois: &[R], images: &[Range<usize>]) -> Vec<LevelRows> {
    let count = (levels.last as i64 - levels.first as i64 + 1) as usize;
    let mut found = vec![LevelRows { rows: Vec::new(), ends: vec![0] }; count];
    for rows in images {
        for row in rows.clone() {
            let level = levels.level_of(&rois[row * 4..][..4]) - levels.first as i64;
            found[level as usize].rows.push(row);
        }
        found.iter_mut().for_each(|of_level| of_level.ends.push(of_level.rows.len()));
    }
    found
}

/// The position of each of `count` rows in the concatenation of all levels.
pub fn restore(levels: &[LevelRows], count: usize) -> Vec<i32> {
    let mut found = vec![0; count];
    levels.iter().flat_map(|l| &l.rows).enumerate().for_each(|(at, &row)| found[row] = at as i32);
    found
}

/// The boxes of some rows, one after another.
pub fn gather<R: Float>(boxes: &[R], rows: &[usize]) -> Vec<R> {
    rows.iter().flat_map(|&row| boxes[row * 4..][..4].iter().copied()).collect()
}

/// A RoI with its score, image, level and row among those of the level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region<R> {
    pub score: R,
    pub image: usize,
    pub level: usize,
    pub row: usize,
}

/// Appends the regions of a level, where `images` are the rows of each image.
pub fn add_level<R: Float>(all: &mut Vec<Region<R>>, level: usize, scores: &[R], images: Vec<Range<usize>>) {
    for (image, rows) in images.into_iter().enumerate() {
        all.extend(rows.map(|row| Region { score: scores[row], image, level, row }));
    }
}

/// Keeps at most `most` regions with the highest scores, sorted by image; returns the end of each of `images` images
/// among them, after a 0. Among equal scores the last region comes first, as in Paddle; NaN comes last.
pub fn collect<R: Float>(all: &mut Vec<Region<R>>, most: usize, images: usize) -> Vec<usize> {
    all.reverse();
    ranking::sort(all, |a, b| b.score.partial_cmp(&a.score).unwrap_or(a.score.is_nan().cmp(&b.score.is_nan())));
    all.truncate(most);
    ranking::sort(all, |a, b| a.image.cmp(&b.image));
    (0..=images).map(|i| all.partition_point(|r| r.image < i)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_double_the_side() {
        let levels = PyramidLevels { first: 2, last: 5, refer: 4, refer_scale: 224, pixel_offset: true };
        let square = |side: f64| [10.0, 20.0, 10.0 + side - 1.0, 20.0 + side - 1.0];
        let rois: Vec<f64> =
            [224.0, 112.0, 111.0, 56.0, 3.0, 448.0, 9999.0, 0.0].into_iter().flat_map(square).collect();
        let found = distribute(&levels, &rois, &[0..3, 3..3, 3..8]);
        let rows: Vec<&[usize]> = found.iter().map(|l| &l.rows[..]).collect();
        assert_eq!(rows, [&[2, 3, 4, 7][..], &[1][..], &[0][..], &[5, 6][..]].map(|r| r.to_vec()));
        assert_eq!(found[0].ends, [0, 1, 1, 4]);
        assert_eq!(found[3].ends, [0, 0, 0, 2]);
        let back = restore(&found, 8);
        let order: Vec<usize> = found.iter().flat_map(|l| l.rows.clone()).collect();
        assert!((0..8).all(|row| order[back[row] as usize] == row));
        assert_eq!(gather(&rois, &[1, 0])[4..], rois[..4]);
    }

    #[test]
    fn the_best_regions_stay() {
        let mut all = Vec::new();
        add_level(&mut all, 0, &[0.5f32, 0.9, f32::NAN], vec![0..1, 1..3]);
        add_level(&mut all, 1, &[0.9, 0.5], vec![0..1, 1..2]);
        let every = all.clone();
        let ends = collect(&mut all, 3, 2);
        // Of the two scores of 0.5 the later one.
        assert_eq!(all, [every[3], every[1], every[4]]);
        assert_eq!(ends, [0, 1, 3]);
    }
}
