//! Numbers from levels: by scales of channels, by a dictionary of magnitudes, and of table rows stored as bytes.

use crate::types::Float;

/// `x * scale * second / range`, with a scale for each channel of `x` [.., channels, inner].
pub fn channels<T: Float>(x: &[T], (scales, second): (&[T], T), range: T, inner: usize, y: &mut [T]) {
    for (i, (x, y)) in x.chunks_exact(inner).zip(y.chunks_exact_mut(inner)).enumerate() {
        let scale = scales[i % scales.len()];
        y.iter_mut().zip(x).for_each(|(y, &x)| *y = x * scale * second / range);
    }
}

/// Looks up magnitudes by level; negative levels are offset by 128. Returns the first level without a magnitude, and its
/// position in the dictionary, as an error.
pub fn by_dictionary(x: &[i8], magnitudes: &[f32], y: &mut [f32]) -> Result<(), (i8, usize)> {
    for (y, &x) in y.iter_mut().zip(x) {
        let at = if x < 0 { x as i32 + 128 } else { x as i32 } as usize;
        let magnitude = *magnitudes.get(at).ok_or((x, at))?;
        *y = if x < 0 { -magnitude } else { magnitude };
    }
    Ok(())
}

/// Rows of a table: minimum, maximum, then bytes, four in each float32. Rows of the id `padding` are zeros. Returns the first id
/// that is no row as an error.
pub fn rows_of_bytes(
    (table, height, columns): (&[f32], i64, usize),
    ids: &[i64],
    padding: Option<i64>,
    y: &mut [f32],
) -> Result<(), i64> {
    let width = (columns - 2) * 4;
    for (i, &id) in ids.iter().enumerate() {
        let y = &mut y[i * width..][..width];
        if padding == Some(id) {
            y.fill(0.0);
            continue;
        }
        if !(0..height).contains(&id) {
            return Err(id);
        }
        let row = &table[id as usize * columns..][..columns];
        let (least, step) = (row[0], (row[1] - row[0]) / 256.0);
        for (y, packed) in y.chunks_exact_mut(4).zip(&row[2..]) {
            y.iter_mut().zip(packed.to_le_bytes()).for_each(|(y, byte)| *y = step * f32::from(byte) + least);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_have_their_scales() {
        let x: Vec<f64> = (0..12).map(f64::from).collect();
        let mut y = [0.0; 12];
        channels(&x, (&[2.0, 4.0], 3.0), 127.0, 3, &mut y);
        for i in 0..12 {
            assert_eq!(y[i], x[i] * [2.0, 4.0][i / 3 % 2] * 3.0 / 127.0);
        }
    }

    #[test]
    fn levels_are_positions_of_magnitudes() {
        let mut y = [0.0; 3];
        assert_eq!(by_dictionary(&[1, -127, 0], &[0.5, 2.0], &mut y), Ok(()));
        assert_eq!(y, [2.0, -2.0, 0.5]);
        assert_eq!(by_dictionary(&[5], &[0.5], &mut y), Err((5, 5)));
        assert_eq!(by_dictionary(&[-126], &[0.5], &mut y), Err((-126, 2)));
    }

    #[test]
    fn rows_are_bytes_between_two_numbers() {
        let table = [0.0, 256.0, f32::from_le_bytes([1, 2, 3, 4]), -1.0, 1.0, f32::from_le_bytes([0, 128, 255, 0])];
        let mut y = [9.0; 12];
        assert_eq!(rows_of_bytes((&table, 2, 3), &[1, 7, 0], Some(7), &mut y), Ok(()));
        let step = 2.0 / 256.0;
        assert_eq!(y, [-1.0, 0.0, 255.0 * step - 1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(rows_of_bytes((&table, 2, 3), &[2], None, &mut y), Err(2));
        assert_eq!(rows_of_bytes((&table, 2, 3), &[-1], None, &mut y), Err(-1));
    }
}
