//! cvm: rows that begin with show and click, which are replaced by logarithms or dropped.

use crate::types::Float;

/// y [rows, to] from x [rows, width]: with `to` = `width` show and click become ln(show + 1) and ln(click + 1) -
/// ln(show + 1), else (`to` = `width` - 2) they are dropped.
pub fn forward<T: Float>(x: &[T], width: usize, to: usize, ln: impl Fn(T) -> T, y: &mut [T]) {
    for (x, y) in x.chunks_exact(width).zip(y.chunks_exact_mut(to.max(1))) {
        y.copy_from_slice(&x[width - to..]);
        if to == width {
            y[0] = ln(x[0] + T::ONE);
            y[1] = ln(x[1] + T::ONE) - y[0];
        }
    }
}

/// dx: the gradient `d` [rows, from] in the last columns; show and click are values of `counts`, those of row
/// `owners[i]`.
pub fn backward<T: Float>(d: &[T], counts: &[T], owners: &[usize], width: usize, from: usize, dx: &mut [T]) {
    for (i, (dx, owner)) in dx.chunks_exact_mut(width).zip(owners).enumerate() {
        dx[width - from..].copy_from_slice(&d[i * from..][..from]);
        dx[..2].copy_from_slice(&counts[owner * 2..][..2]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn show_and_click_are_logarithms_or_dropped() {
        let x = [1.0f64, 0.0, 5.0, 3.0, 7.0, -1.0];
        let mut y = [9.0; 6];
        forward(&x, 3, 3, f64::ln, &mut y);
        assert_eq!(y, [2f64.ln(), -(2f64.ln()), 5.0, 4f64.ln(), 8f64.ln() - 4f64.ln(), -1.0]);
        let mut y = [9.0; 2];
        forward(&x, 3, 1, f64::ln, &mut y);
        assert_eq!(y, [5.0, -1.0]);
        let mut dx = [9.0; 6];
        backward(&[0.5, 0.25], &[10.0, 20.0, 30.0, 40.0], &[1, 0], 3, 1, &mut dx);
        assert_eq!(dx, [30.0, 40.0, 0.5, 10.0, 20.0, 0.25]);
        forward::<f32>(&[1.0, 2.0], 2, 0, f32::ln, &mut []);
    }
}
