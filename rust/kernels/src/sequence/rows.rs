//! Copies of rows of sequences: runs of rows, concatenation, reversal, slices.

use super::spans;

/// Consecutive rows to copy: the first row in the source and in the destination, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub from: usize,
    pub to: usize,
    pub count: usize,
}

/// Copies runs of rows of `width` elements.
pub fn copy<T: Copy>(runs: impl IntoIterator<Item = Run>, width: usize, from: &[T], to: &mut [T]) {
    for run in runs {
        let n = run.count * width;
        to[run.to * width..][..n].copy_from_slice(&from[run.from * width..][..n]);
    }
}

/// Rows of each sequence in reverse order.
pub fn reverse<T: Copy>(level: &[usize], width: usize, from: &[T], to: &mut [T]) {
    for span in spans(level) {
        let last = span.start + span.end;
        copy(span.map(|row| Run { from: last - 1 - row, to: row, count: 1 }), width, from, to);
    }
}

/// Concatenates sequence i of every part, for each i. All levels have the same number of sequences.
pub fn concat<T: Copy>(parts: &[&[T]], levels: &[&[usize]], width: usize, to: &mut [T]) {
    for (k, part) in parts.iter().enumerate() {
        copy(runs_of_part(levels, k), width, part, to);
    }
}

/// Copies the rows of part `k` out of a concatenation.
pub fn split<T: Copy>(levels: &[&[usize]], k: usize, width: usize, from: &[T], to: &mut [T]) {
    copy(runs_of_part(levels, k).map(|r| Run { from: r.to, to: r.from, count: r.count }), width, from, to);
}

/// The runs of part `k` (`from`) in the concatenation (`to`): earlier sequences of every part come first, then this
/// sequence of earlier parts.
fn runs_of_part<'a>(levels: &'a [&'a [usize]], k: usize) -> impl Iterator<Item = Run> + 'a {
    spans(levels[k]).enumerate().map(move |(i, span)| {
        let before: usize = levels.iter().map(|l| l[i]).sum();
        let earlier: usize = levels[..k].iter().map(|l| l[i + 1] - l[i]).sum();
        Run { from: span.start, to: before + earlier, count: span.len() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concatenation_equals_a_plain_loop_and_splits_again() {
        let width = 3;
        let levels: [&[usize]; 3] = [&[0, 2, 2, 5], &[0, 0, 1, 3], &[0, 1, 4, 4]];
        let parts: Vec<Vec<i32>> =
            levels.iter().enumerate().map(|(k, l)| (0..l[3] * width).map(|i| (100 * k + i) as i32).collect()).collect();
        let mut want = Vec::new();
        for i in 0..3 {
            for (part, level) in parts.iter().zip(levels) {
                want.extend_from_slice(&part[level[i] * width..level[i + 1] * width]);
            }
        }
        let slices: Vec<&[i32]> = parts.iter().map(Vec::as_slice).collect();
        let mut out = vec![0; want.len()];
        concat(&slices, &levels, width, &mut out);
        assert_eq!(out, want);
        for (k, part) in parts.iter().enumerate() {
            let mut back = vec![0; part.len()];
            split(&levels, k, width, &out, &mut back);
            assert_eq!(back, *part);
        }
    }

    #[test]
    fn rows_of_each_sequence_are_reversed() {
        let x = [1, 1, 2, 2, 3, 3, 4, 4];
        let mut out = [0; 8];
        reverse(&[0, 3, 3, 4], 2, &x, &mut out);
        assert_eq!(out, [3, 3, 2, 2, 1, 1, 4, 4]);
        reverse::<i32>(&[0], 2, &[], &mut []);
    }
}
