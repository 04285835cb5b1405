//! Polygon rasterization of the COCO tools: the outline is traced in fifths of a cell, and columns are filled between
//! crossings.

use oar_core::base::Result;
use oar_core::ensure;

/// Outline steps per cell.
const STEPS: f64 = 5.0;
/// Limit of outline points.
const MOST: i64 = 1 << 26;

fn cut(v: f64) -> i64 {
    v as i32 as i64
}

/// The points of the outline, side by side.
fn outline(op: &str, corners: &[(f32, f32)]) -> Result<Vec<(i64, i64)>> {
    let place = |v: f32| cut(STEPS * v as f64 + 0.5);
    let mut places: Vec<_> = corners.iter().map(|&(x, y)| (place(x), place(y))).collect();
    places.extend(places.first().copied());
    let sides = || places.windows(2).map(|w| (w[0], w[1]));
    let length = |((xs, ys), (xe, ye)): ((i64, i64), (i64, i64))| (xe - xs).abs().max((ye - ys).abs()) + 1;
    let count: i64 = sides().map(length).sum();
    ensure!(
        count <= MOST,
        ResourceExhausted,
        "operator {op}: a polygon is too large for its box: its outline has {count} points"
    );
    let mut points = Vec::with_capacity(count as usize);
    for ((xs, ys), (xe, ye)) in sides() {
        let (dx, dy) = ((xe - xs).abs(), (ye - ys).abs());
        let flat = dx >= dy;
        // Every side is traced from its lower end, so that neighbouring polygons share it.
        let turned = if flat { xs > xe } else { ys > ye };
        let ((xs, ys), (xe, ye)) = if turned { ((xe, ye), (xs, ys)) } else { ((xs, ys), (xe, ye)) };
        let slope = match (dx.max(dy), flat) {
            (0, _) => 0.0,
            (n, true) => (ye - ys) as f64 / n as f64,
            (n, false) => (xe - xs) as f64 / n as f64,
        };
        for d in 0..=dx.max(dy) {
            let t = if turned { dx.max(dy) - d } else { d };
            points.push(match flat {
                true => (t + xs, cut(ys as f64 + slope * t as f64 + 0.5)),
                false => (cut(xs as f64 + slope * t as f64 + 0.5), t + ys),
            });
        }
    }
    Ok(points)
}

/// Marks the cells of a row-major `size` x `size` grid within the polygon.
pub fn draw(op: &str, corners: &[(f32, f32)], size: usize, cells: &mut [u8]) -> Result<()> {
    let points = outline(op, corners)?;
    // Crossings of the outline with column centers, as column-major cell indices.
    let mut crossings: Vec<usize> = Vec::new();
    for w in points.windows(2) {
        let ((before, above), (x, y)) = (w[0], w[1]);
        if x == before {
            continue;
        }
        let column = ((if x < before { x } else { x - 1 }) as f64 + 0.5) / STEPS - 0.5;
        if column.floor() != column || column < 0.0 || column > size as f64 - 1.0 {
            continue;
        }
        let row = (y.min(above) as f64 + 0.5) / STEPS - 0.5;
        crossings.push(column as usize * size + row.clamp(0.0, size as f64).ceil() as usize);
    }
    crossings.sort_unstable();
    for pair in crossings.chunks(2) {
        let end = pair.get(1).copied().unwrap_or(size * size);
        for cell in pair[0]..end.min(size * size) {
            cells[cell % size * size + cell / size] = 1;
        }
    }
    Ok(())
}
