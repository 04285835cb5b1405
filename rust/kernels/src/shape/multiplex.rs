//! multiplex: row i of the output is row i of one of several inputs.

use crate::types::Plain;

/// out[i] = inputs[ids[i]][i], rows of `row` elements.
pub fn multiplex<T: Plain>(inputs: &[&[T]], ids: &[i32], row: usize, out: &mut [T]) {
    for (i, &k) in ids.iter().enumerate() {
        out[i * row..(i + 1) * row].copy_from_slice(&inputs[k as usize][i * row..(i + 1) * row]);
    }
}

/// The gradient of input `k`: the rows of `dout` that are its; `dx` holds zeros.
pub fn multiplex_grad<T: Plain>(dout: &[T], ids: &[i32], k: usize, row: usize, dx: &mut [T]) {
    for (i, _) in ids.iter().enumerate().filter(|(_, &of)| of as usize == k) {
        dx[i * row..(i + 1) * row].copy_from_slice(&dout[i * row..(i + 1) * row]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_from_the_named_inputs() {
        let (a, b, ids) = ([0u8, 1, 2, 3, 4, 5], [10, 11, 12, 13, 14, 15], [1, 0, 1]);
        let mut out = [9; 6];
        multiplex(&[&a, &b], &ids, 2, &mut out);
        assert_eq!(out, [10, 11, 2, 3, 14, 15]);
        let mut dx = [0; 6];
        multiplex_grad(&out, &ids, 1, 2, &mut dx);
        assert_eq!(dx, [10, 11, 0, 0, 14, 15]);
        multiplex::<u8>(&[], &[], 3, &mut []);
    }
}
