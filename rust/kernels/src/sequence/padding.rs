//! Padded sequences (`length` rows each) and packed ones (rows of all sequences, one after the other); masks of lengths.

use super::rows::{copy, Run};
use super::spans;

/// A row of `size` elements for each length: ones up to it (clipped to the row), then zeros.
pub fn mask<T: Copy>(lengths: &[i64], size: usize, [zero, one]: [T; 2], out: &mut [T]) {
    if size == 0 {
        return;
    }
    for (row, &n) in out.chunks_exact_mut(size).zip(lengths) {
        let (on, off) = row.split_at_mut(n.clamp(0, size as i64) as usize);
        on.fill(one);
        off.fill(zero);
    }
}

/// Pads packed rows of `width` elements; `value` (whose length divides `width`) fills the rows after a sequence.
pub fn pad<T: Copy>(level: &[usize], length: usize, width: usize, value: &[T], x: &[T], out: &mut [T]) {
    if out.is_empty() || width == 0 {
        return;
    }
    for (rows, span) in out.chunks_exact_mut(length * width).zip(spans(level)) {
        let own = &x[span.start * width..span.end * width];
        let (steps, rest) = rows.split_at_mut(own.len());
        steps.copy_from_slice(own);
        rest.chunks_exact_mut(value.len()).for_each(|to| to.copy_from_slice(value));
    }
}

/// The runs of the packed sequences (`from`) among the padded ones (`to`).
fn runs(level: &[usize], length: usize) -> impl Iterator<Item = Run> + '_ {
    spans(level).enumerate().map(move |(i, span)| Run { from: span.start, to: i * length, count: span.len() })
}

/// Copies padded sequences to packed ones.
pub fn unpad<T: Copy>(level: &[usize], length: usize, width: usize, padded: &[T], packed: &mut [T]) {
    copy(runs(level, length).map(|r| Run { from: r.to, to: r.from, count: r.count }), width, padded, packed);
}

/// Copies packed sequences to padded ones; the rows after a sequence are zeros.
pub fn unpad_grad<T: Copy + Default>(level: &[usize], length: usize, width: usize, packed: &[T], padded: &mut [T]) {
    padded.fill(T::default());
    copy(runs(level, length), width, packed, padded);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_clip_lengths() {
        let mut out = [9; 12];
        mask(&[2, 0, 5, -1], 3, [0, 1], &mut out);
        assert_eq!(out, [1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0]);
        mask::<u8>(&[1, 2], 0, [0, 1], &mut []);
    }

    #[test]
    fn padding_equals_a_plain_loop_and_unpads_again() {
        let (level, length, width) = ([0, 2, 2, 5], 4, 2);
        let x: Vec<i64> = (1..=10).collect();
        for value in [&[7][..], &[7, 8]] {
            let mut want = Vec::new();
            for i in 0..3 {
                want.extend_from_slice(&x[level[i] * width..level[i + 1] * width]);
                for at in (level[i + 1] - level[i]) * width..length * width {
                    want.push(value[at % value.len()]);
                }
            }
            let mut out = vec![0; want.len()];
            pad(&level, length, width, value, &x, &mut out);
            assert_eq!(out, want);
            let mut back = vec![0; x.len()];
            unpad(&level, length, width, &out, &mut back);
            assert_eq!(back, x);
        }
        let mut with_zeros = vec![9; 3 * length * width];
        unpad_grad(&level, length, width, &x, &mut with_zeros);
        let mut want = vec![0; with_zeros.len()];
        pad(&level, length, width, &[0], &x, &mut want);
        assert_eq!(with_zeros, want);
        pad::<u8>(&[0, 0], 0, 3, &[0], &[], &mut []);
    }
}
