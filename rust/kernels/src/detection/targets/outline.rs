//! Polygon rasterization of the COCO tools: the outline is traced in fifths of a cell, and columns are filled between
//! crossings.

/// Outline steps per cell.
const STEPS: f64 = 5.0;
/// Limit of outline points.
const MOST: i64 = 1 << 26;

fn cut(v: f64) -> i64 {
    v as i32 as i64
}

/// The points of the outline, side by side; the error is their number if there are too many.
fn outline(corners: &[(f32, f32)]) -> Result<Vec<(i64, i64)>, i64> {
    let place = |v: f32| cut(STEPS * v as f64 + 0.5);
    let mut places: Vec<_> = corners.iter().map(|&(x, y)| (place(x), place(y))).collect();
    places.extend(places.first().copied());
    let sides = || places.windows(2).map(|w| (w[0], w[1]));
    let length = |((xs, ys), (xe, ye)): ((i64, i64), (i64, i64))| (xe - xs).abs().max((ye - ys).abs()) + 1;
    let count: i64 = sides().map(length).sum();
    if count > MOST {
        return Err(count);
    }
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

/// Marks the cells of a row-major `size` x `size` grid within the polygon. The error is the number of points of an outline
/// that is too long.
pub fn draw(corners: &[(f32, f32)], size: usize, cells: &mut [u8]) -> Result<(), i64> {
    let points = outline(corners)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_those_within_the_polygon() {
        let polygon = [(1.0f32, 0.5), (8.5, 2.0), (6.0, 8.7), (2.2, 7.0)];
        let mut cells = vec![0u8; 100];
        draw(&polygon, 10, &mut cells).unwrap();
        let inside = |x: f32, y: f32| {
            let edges = (0..4).map(|i| (polygon[i], polygon[(i + 1) % 4]));
            let crossed =
                edges.filter(|(a, b)| (a.1 <= y) != (b.1 <= y) && a.0 + (y - a.1) * (b.0 - a.0) / (b.1 - a.1) > x);
            crossed.count() % 2 == 1
        };
        for (k, &cell) in cells.iter().enumerate() {
            let (row, column) = ((k / 10) as f32, (k % 10) as f32);
            // Cells that the outline crosses may be marked or not.
            let corners = [(0.1, 0.1), (0.9, 0.1), (0.1, 0.9), (0.9, 0.9)].map(|(x, y)| inside(column + x, row + y));
            if corners == [corners[0]; 4] {
                assert_eq!(cell != 0, corners[0], "{row} {column}");
            }
        }
    }

    #[test]
    fn squares_fill_whole_cells_and_long_outlines_are_refused() {
        let mut cells = vec![0u8; 16];
        draw(&[(1.0, 1.0), (3.0, 1.0), (3.0, 3.0), (1.0, 3.0)], 4, &mut cells).unwrap();
        assert_eq!(cells, [0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
        assert!(draw(&[(0.0, 0.0), (3e7, 0.0), (0.0, 1.0)], 4, &mut cells).is_err());
        assert_eq!(draw(&[], 4, &mut cells), Ok(()));
    }
}
