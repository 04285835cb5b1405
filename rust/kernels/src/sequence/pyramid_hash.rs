//! N-grams (n = 2, 3, ..) of sequences of 4-byte words, and a row of weights for each, gathered at hashed positions.

use super::spans;
use crate::hash::{murmur3, xxh32};
use std::ops::Range;

/// Bytes of a word.
const WORD: usize = 4;
/// Magic number at the start of a filter.
const MAGIC: u64 = 17_070_416;
/// Limit of hash functions of a valid filter.
const MOST_HASHES: u64 = 1 << 16;
/// Bytes of a filter's header.
const HEADER: usize = 32;

/// A Bloom filter.
pub struct Filter<'a> {
    bits: &'a [u8],
    count: u64,
    hashes: u64,
}

/// The header of bytes that are not a filter.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidFilter {
    pub magic: u64,
    /// Number of bits, of hash functions, and of bytes of bits.
    pub count: u64,
    pub hashes: u64,
    pub bytes: usize,
}

impl<'a> Filter<'a> {
    /// Reads a filter: magic number, number of bits, number of hash functions, 8 reserved bytes, bits.
    pub fn read(bytes: &'a [u8]) -> Result<Filter<'a>, InvalidFilter> {
        let word =
            |i: usize| bytes.get(i * 8..i * 8 + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap_or_default()));
        let (magic, count, hashes, bits) = (word(0), word(1), word(2), bytes.get(HEADER..).unwrap_or_default());
        match magic == MAGIC && hashes <= MOST_HASHES && count > 0 && count.div_ceil(8) <= bits.len() as u64 {
            true => Ok(Filter { bits, count, hashes }),
            false => Err(InvalidFilter { magic, count, hashes, bytes: bits.len() }),
        }
    }

    /// Whether the key is probably one of the filter's; false is certain.
    pub fn has(&self, key: &[u8]) -> bool {
        let set = |hash: u64| {
            let bit = hash % self.count;
            self.bits[(bit / 8) as usize] & (0x80 >> (bit % 8)) != 0
        };
        (0..self.hashes).all(|seed| murmur3(key, seed as u32).into_iter().all(set))
    }
}

/// glibc's rand_r.
fn next_random(state: &mut u32) -> u32 {
    let mut bits = |count: u32| {
        *state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        (*state >> 16) % count
    };
    let first = bits(2048);
    let second = first << 10 ^ bits(1024);
    second << 10 ^ bits(1024)
}

/// The n-grams of a sequence of `n` words of up to `layers` words, short ones first.
pub fn ngrams(layers: usize, n: usize) -> impl Iterator<Item = Range<usize>> {
    (2..=layers.min(n)).flat_map(move |length| (0..=n - length).map(move |at| at..at + length))
}

/// Sequences of words and the layout of their rows of weights.
pub struct Pyramid<'a> {
    /// Sequence i has the words `level[i]..level[i + 1]`.
    pub level: &'a [usize],
    pub words: &'a [u8],
    /// Words of the longest n-gram.
    pub layers: usize,
    /// Elements of a row of weights, and of the pieces of which it consists.
    pub width: usize,
    pub piece: usize,
    /// Number of hashed positions.
    pub space: u32,
}

impl Pyramid<'_> {
    /// The bytes of the n-grams of a sequence.
    fn keys(&self, sequence: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let start = sequence.start;
        ngrams(self.layers, sequence.len()).map(move |n| &self.words[(start + n.start) * WORD..(start + n.end) * WORD])
    }

    /// Offsets in the weights of the pieces of an n-gram's row.
    fn places<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        let seeds = (0..self.width as u32).step_by(self.piece);
        seeds.map(move |seed| (xxh32(key, seed) % self.space) as usize)
    }

    /// Marks the n-grams that are `wanted` and not dropped (with probability `drop`, drawn from `seed`), and returns the
    /// number of marked ones of each sequence.
    pub fn mark(
        &self,
        wanted: impl Fn(&[u8]) -> bool,
        drop: Option<f32>,
        mut seed: u32,
        marks: &mut [i32],
    ) -> Vec<usize> {
        let mut marks = marks.iter_mut();
        let counted = spans(self.level).map(|sequence| {
            let mut count = 0;
            for (key, mark) in self.keys(sequence).zip(&mut marks) {
                let kept = |drop| next_random(&mut seed) as f32 / i32::MAX as f32 >= drop;
                *mark = (wanted(key) && drop.is_none_or(kept)) as i32;
                count += *mark as usize;
            }
            count
        });
        counted.collect()
    }

    /// Calls `f(row, key)` for each marked n-gram. A sequence without marks has a row of its own.
    fn each_marked(&self, marks: &[i32], mut f: impl FnMut(usize, &[u8])) {
        let (mut row, mut marks) = (0, marks.iter());
        for sequence in spans(self.level) {
            let first = row;
            for (key, &mark) in self.keys(sequence).zip(&mut marks) {
                if mark != 0 {
                    f(row, key);
                    row += 1;
                }
            }
            row = row.max(first + 1);
        }
    }

    /// Writes the row of each marked n-gram; rows of sequences without marks stay unchanged.
    pub fn gather<T: Copy>(&self, marks: &[i32], weights: &[T], out: &mut [T]) {
        self.each_marked(marks, |row, key| {
            let to = out[row * self.width..][..self.width].chunks_exact_mut(self.piece);
            to.zip(self.places(key)).for_each(|(to, at)| to.copy_from_slice(&weights[at..at + self.piece]));
        });
    }

    /// Subtracts `rate` times the gradient of each row from its weights.
    pub fn descend(&self, marks: &[i32], dout: &[f32], rate: f32, weights: &mut [f32]) {
        self.each_marked(marks, |row, key| {
            let d = dout[row * self.width..][..self.width].chunks_exact(self.piece);
            for (d, at) in d.zip(self.places(key)) {
                weights[at..at + self.piece].iter_mut().zip(d).for_each(|(w, d)| *w += -rate * d);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ngrams_are_short_ones_first() {
        assert_eq!(ngrams(3, 4).collect::<Vec<_>>(), [0..2, 1..3, 2..4, 0..3, 1..4]);
        assert_eq!(ngrams(5, 2).collect::<Vec<_>>(), [0..2]);
        assert_eq!(ngrams(2, 1).count() + ngrams(2, 0).count(), 0);
    }

    #[test]
    fn filters_have_a_header() {
        let mut bytes: Vec<u8> = [MAGIC, 64, 1, 0].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(Filter::read(&bytes).err(), Some(InvalidFilter { magic: MAGIC, count: 64, hashes: 1, bytes: 0 }));
        bytes.extend([0; 8]);
        assert!(!Filter::read(&bytes).unwrap().has(b"key"));
        bytes[HEADER..].fill(0xff);
        assert!(Filter::read(&bytes).unwrap().has(b"key"));
        assert!(Filter::read(b"short").is_err());
    }

    #[test]
    fn rows_of_weights_are_those_of_a_plain_loop() {
        let values: Vec<f32> = (0..6).map(|i| i as f32).collect();
        let words: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        // The second sequence is too short, the third is dropped by the choice.
        let level = [0, 3, 4, 6];
        let p = Pyramid { level: &level, words: &words, layers: 3, width: 4, piece: 2, space: 11 };
        let last = &words[16..24];
        let mut marks = vec![7; 5];
        let counts = p.mark(|key| key != last, None, 0, &mut marks);
        assert_eq!((&counts[..], &marks[..]), (&[3, 0, 0][..], &[1, 1, 1, 0, 7][..]));
        let weights: Vec<f32> = (0..13).map(|i| i as f32 / 3.0).collect();
        let (mut out, mut updated) = (vec![0.0; 5 * 4], weights.clone());
        p.gather(&marks, &weights, &mut out);
        let dout: Vec<f32> = (0..20).map(|i| i as f32).collect();
        p.descend(&marks, &dout, 0.5, &mut updated);
        let (mut want, mut want_updated) = (vec![0.0; 20], weights.clone());
        for (row, key) in [&words[..8], &words[4..12], &words[..12]].iter().enumerate() {
            for k in 0..2 {
                let at = (xxh32(key, 2 * k as u32) % 11) as usize;
                for j in 0..2 {
                    want[row * 4 + 2 * k + j] = weights[at + j];
                    want_updated[at + j] -= 0.5 * dout[row * 4 + 2 * k + j];
                }
            }
        }
        assert_eq!((out, updated), (want, want_updated));
        let mut none = vec![0; 4];
        assert_eq!(p.mark(|_| true, Some(1.1), 3, &mut none), [0, 0, 0]);
        assert_eq!(p.mark(|_| true, Some(0.0), 3, &mut none), [3, 0, 1]);
    }
}
