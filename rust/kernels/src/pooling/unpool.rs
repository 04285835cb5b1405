//! unpool: values scattered to the positions that max pooling with indices found.

use crate::types::Plain;

/// Calls `f(element of X, element of Out)` for every index, plane by plane. The error is an index outside its plane.
fn places(indices: &[i32], plane: usize, out_plane: usize, mut f: impl FnMut(usize, usize)) -> Result<(), i32> {
    for (at, &index) in indices.iter().enumerate() {
        if index < 0 || index as usize >= out_plane {
            return Err(index);
        }
        f(at, at / plane * out_plane + index as usize);
    }
    Ok(())
}

/// y[plane, indices[i]] = x[i], zeros elsewhere, for planes of `plane` and `out_plane` elements. For a repeated index
/// the last element stays. The error is an index outside its plane.
pub fn unpool<T: Plain>(x: &[T], indices: &[i32], plane: usize, out_plane: usize, y: &mut [T]) -> Result<(), i32> {
    y.fill(T::default());
    places(indices, plane, out_plane, |from, to| y[to] = x[from])
}

/// The gradient of x. For a repeated index only the last element has a gradient.
pub fn unpool_grad<T: Plain>(
    dy: &[T],
    indices: &[i32],
    plane: usize,
    out_plane: usize,
    dx: &mut [T],
) -> Result<(), i32> {
    let mut last = vec![usize::MAX; dy.len()];
    places(indices, plane, out_plane, |from, to| last[to] = from)?;
    dx.fill(T::default());
    last.iter().zip(dy).filter(|(&from, _)| from != usize::MAX).for_each(|(&from, &d)| dx[from] = d);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_to_their_positions() {
        let (x, indices) = ([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [4, 0, 4, 1, 2, 3]);
        let (mut y, mut want) = ([9.0; 10], [0.0; 10]);
        (0..6).for_each(|i| want[i / 3 * 5 + indices[i] as usize] = x[i]);
        unpool(&x, &indices, 3, 5, &mut y).unwrap();
        assert_eq!(y, want);
        let mut dx = [9.0; 6];
        unpool_grad(&want.map(|v| v * 10.0), &indices, 3, 5, &mut dx).unwrap();
        assert_eq!(dx, [0.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(unpool(&x, &[0, 1, 2, 3, 4, 5], 3, 5, &mut y), Err(5));
        assert_eq!(unpool_grad(&y, &[-1; 6], 3, 5, &mut dx), Err(-1));
    }
}
