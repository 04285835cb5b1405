//! generate_mask_labels: for each foreground proposal the object's outline within it, as a grid of 0 and 1.

use super::{corners, outline, overlap};
use crate::detection::boxes::Corners;

/// Limit of mask elements.
pub const MOST: i64 = 1 << 31;
/// Mask value of other classes.
const IGNORED: i32 = -1;

/// The corners of a polygon, [x, y, x, y, ...].
pub type Polygon<'a> = &'a [f32];

/// The bounding box of polygons.
fn around(polygons: &[Polygon]) -> Corners<f32> {
    // As in Paddle: right and bottom start at the smallest positive number.
    let mut found = [f32::MAX, f32::MAX, f32::MIN_POSITIVE, f32::MIN_POSITIVE];
    for p in polygons.iter().flat_map(|p| p.chunks_exact(2)) {
        for k in 0..2 {
            found[k] = found[k].min(p[k]);
            found[k + 2] = found[k + 2].max(p[k]);
        }
    }
    found
}

/// The proposals and objects of an image.
pub struct MaskTargets<'a> {
    pub rois: &'a [f32],
    /// The class of each proposal.
    pub labels: &'a [i32],
    /// The polygons of objects that are not crowds.
    pub objects: Vec<&'a [Polygon<'a>]>,
    /// The scale of proposals relative to polygons.
    pub scale: f32,
}

/// The masks of all images.
#[derive(Default)]
pub struct MaskResults {
    pub rois: Vec<f32>,
    /// The proposals with masks, numbered within their image.
    pub has: Vec<i32>,
    /// Masks of `side` x `side` for each class of a proposal; -1 for other classes.
    pub mask: Vec<i32>,
}

/// Why there is no mask.
#[derive(Debug, PartialEq)]
pub enum MaskError {
    /// More than [`MOST`] elements.
    TooMany,
    /// The class of a proposal that is not below the number of classes, or has no object in its image.
    Class { label: i32, objects: usize },
    /// The number of points of an outline that is too long.
    Outline(i64),
}

impl MaskTargets<'_> {
    /// Appends the masks of foreground proposals on a grid of `side` x `side`.
    pub fn run(&self, side: usize, classes: i32, all: &mut MaskResults) -> Result<(), MaskError> {
        let (area, width) = (side * side, side * side * classes as usize);
        let shown: Vec<usize> = (0..self.labels.len()).filter(|&i| self.labels[i] > 0).collect();
        // Every image needs a mask: without objects, one background proposal with an ignored mask.
        let background = || self.labels.iter().position(|&l| l == 0);
        let chosen = if shown.is_empty() { background().into_iter().collect() } else { shown };
        if (all.mask.len() + chosen.len() * width) as i64 > MOST {
            return Err(MaskError::TooMany);
        }
        let boxes: Vec<Corners<f32>> = self.objects.iter().map(|p| around(p)).collect();
        let rois: Vec<Corners<f32>> = corners(self.rois).map(|b| b.map(|v| v / self.scale)).collect();
        for i in chosen {
            let (roi, label) = (&rois[i], self.labels[i]);
            all.rois.extend(roi.map(|v| v * self.scale));
            all.has.push(i as i32);
            let from = all.mask.len();
            all.mask.resize(from + width, IGNORED);
            if label <= 0 {
                continue;
            }
            if label >= classes || boxes.is_empty() {
                return Err(MaskError::Class { label, objects: boxes.len() });
            }
            let (mut best, mut most) = (0, f32::MIN_POSITIVE);
            for (j, b) in boxes.iter().enumerate() {
                let value = overlap(roi, b);
                if value > most {
                    (best, most) = (j, value);
                }
            }
            let mut cells = vec![0u8; area];
            for polygon in self.objects[best] {
                outline::draw(&within(polygon, roi, side), side, &mut cells).map_err(MaskError::Outline)?;
            }
            let to = &mut all.mask[from + label as usize * area..][..area];
            to.iter_mut().zip(&cells).for_each(|(to, &c)| *to = c as i32);
        }
        Ok(())
    }
}

/// The corners of a polygon in grid cells over the box.
fn within(polygon: Polygon, b: &Corners<f32>, side: usize) -> Vec<(f32, f32)> {
    let (width, height) = ((b[2] - b[0]).max(1.0), (b[3] - b[1]).max(1.0));
    let side = side as f32;
    polygon.chunks_exact(2).map(|p| ((p[0] - b[0]) * side / width, (p[1] - b[1]) * side / height)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_outlines_within_the_box() {
        let square: [f32; 8] = [2.0, 2.0, 6.0, 2.0, 6.0, 6.0, 2.0, 6.0];
        let far: [f32; 6] = [80.0, 80.0, 90.0, 80.0, 80.0, 90.0];
        let (first, second): ([Polygon; 1], [Polygon; 1]) = ([&far], [&square]);
        let image = MaskTargets {
            rois: &[0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 16.0, 16.0],
            labels: &[0, 1],
            objects: vec![&first, &second],
            scale: 2.0,
        };
        let mut all = MaskResults::default();
        image.run(4, 3, &mut all).unwrap();
        assert_eq!((all.rois.clone(), all.has.clone()), (vec![0.0, 0.0, 16.0, 16.0], vec![1]));
        let mut want = vec![-1; 48];
        for (k, v) in want[16..32].iter_mut().enumerate() {
            *v = i32::from((1..3).contains(&(k / 4)) && (1..3).contains(&(k % 4)));
        }
        assert_eq!(all.mask, want);
        // Without foreground, one background proposal with an ignored mask.
        MaskTargets { labels: &[0, 0], ..image }.run(4, 3, &mut all).unwrap();
        assert_eq!((&all.has[1..], &all.mask[48..]), (&[0][..], &[-1; 48][..]));
        let none = MaskTargets { rois: &[0.0; 4], labels: &[2], objects: vec![], scale: 1.0 };
        assert_eq!(none.run(4, 3, &mut all), Err(MaskError::Class { label: 2, objects: 0 }));
        assert_eq!(none.run(1 << 15, 3, &mut all), Err(MaskError::TooMany));
    }

    #[test]
    fn bounding_boxes_of_polygons() {
        assert_eq!(around(&[&[3.0, 1.0, 2.0, 9.0], &[5.0, 4.0]]), [2.0, 1.0, 5.0, 9.0]);
        assert_eq!(within(&[2.0, 3.0], &[0.0, 1.0, 4.0, 9.0], 8), [(4.0, 2.0)]);
    }
}
