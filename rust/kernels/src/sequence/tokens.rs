//! Sequences of tokens: windows, removal, hashed rows.

use super::spans;
use crate::hash::xxh64;

/// A window of `size` tokens from each token on; `pad` fills what lies after the end of a sequence.
pub fn enumerate<T: Copy>(level: &[usize], size: usize, pad: T, x: &[T], out: &mut [T]) {
    let ends = spans(level).flat_map(|span| std::iter::repeat_n(span.end, span.len()));
    for ((i, row), end) in out.chunks_exact_mut(size).enumerate().zip(ends) {
        let n = size.min(end - i);
        row[..n].copy_from_slice(&x[i..i + n]);
        row[n..].fill(pad);
    }
}

/// The tokens that are not in `removed` (ascending), and the offsets of the remaining sequences.
pub fn erase<T: Copy + Into<i64>>(level: &[usize], removed: &[i64], x: &[T]) -> (Vec<T>, Vec<usize>) {
    let (mut kept, mut ends) = (Vec::with_capacity(x.len()), vec![0]);
    for span in spans(level) {
        kept.extend(x[span].iter().filter(|&&t| removed.binary_search(&t.into()).is_err()));
        ends.push(kept.len());
    }
    (kept, ends)
}

/// `count` buckets (XXH64 with the seeds 0, 1, ..) below `buckets` for each row of `row` bytes.
pub fn hash<T>(bytes: &[u8], row: usize, count: usize, buckets: u64, from: impl Fn(u64) -> T, out: &mut [T]) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = from(xxh64(&bytes[i / count * row..][..row], (i % count) as u64) % buckets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_stop_at_the_end_of_a_sequence() {
        let mut out = [9; 8];
        enumerate(&[0, 3, 3, 4], 2, 0, &[1, 2, 3, 4], &mut out);
        assert_eq!(out, [1, 2, 2, 3, 3, 0, 4, 0]);
    }

    #[test]
    fn erased_tokens_shorten_their_sequence() {
        assert_eq!(erase(&[0, 3, 3, 5], &[2, 5], &[2, 3, 2, 5, 5]), (vec![3], vec![0, 1, 1, 1]));
        assert_eq!(erase::<i32>(&[0], &[], &[]), (vec![], vec![0]));
    }

    #[test]
    fn rows_hash_to_buckets() {
        let mut out = [0u64; 6];
        hash(b"abcabcxyz", 3, 2, 97, |v| v, &mut out);
        let want: Vec<u64> =
            [&b"abc"[..], b"abc", b"xyz"].iter().flat_map(|r| [xxh64(r, 0) % 97, xxh64(r, 1) % 97]).collect();
        assert_eq!(out[..], want);
    }
}
