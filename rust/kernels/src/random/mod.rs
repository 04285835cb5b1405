//! Paddle's CPU random numbers: std::mt19937_64 and libstdc++'s distributions, with equal sequences.
//!
//! A distribution object lives for one operator call, as in Paddle: the second value of a normal pair is dropped at the
//! end of a call. Distributions that use one word per number (uniform, dropout) run on all threads; the others are
//! sequential.

// Coefficients have the published digits, more than f32 keeps.
#![allow(clippy::excessive_precision)]

pub mod crop;
pub(crate) mod mt64;
pub mod sampling;

use crate::elementwise::zip;
use crate::functions::erfinv::erfinv;
pub use crate::random::mt64::Mt64;
use crate::simd_fn;
use crate::types::Number;

simd_fn! {
    /// Uniform numbers in [0, 1), as std::generate_canonical computes them from one word each.
    fn canonical_f32(words: &[u64], out: &mut [f32]) {
        for (o, &w) in out.iter_mut().zip(words) {
            let v = w as f32 * (1.0 / 18446744073709551616.0);
            *o = if v >= 1.0 { 1.0 - f32::EPSILON / 2.0 } else { v };
        }
    }
}

simd_fn! {
    fn canonical_f64(words: &[u64], out: &mut [f64]) {
        for (o, &w) in out.iter_mut().zip(words) {
            let v = w as f64 * (1.0 / 18446744073709551616.0);
            *o = if v >= 1.0 { 1.0 - f64::EPSILON / 2.0 } else { v };
        }
    }
}

/// f32 or f64: the result types of real distributions.
pub trait RandomFloat: Number {
    fn canonical(words: &[u64], out: &mut [Self]);
    /// A pair of normal numbers by the polar method.
    fn polar(next: impl FnMut() -> Self) -> (Self, Self);
    /// The inverse of the standard normal distribution between -2 and 2, scaled (Paddle's TruncatedNormal).
    fn truncated(self, mean: Self, std: Self) -> Self;
}

macro_rules! real {
    ($t:ident, $canonical:ident) => {
        impl RandomFloat for $t {
            fn canonical(words: &[u64], out: &mut [$t]) {
                $canonical(words, out)
            }

            fn polar(mut next: impl FnMut() -> $t) -> ($t, $t) {
                loop {
                    let (x, y) = (2.0 * next() - 1.0, 2.0 * next() - 1.0);
                    let r2 = x * x + y * y;
                    if r2 <= 1.0 && r2 != 0.0 {
                        let scale = (-2.0 * r2.ln() / r2).sqrt();
                        return (x * scale, y * scale);
                    }
                }
            }

            #[allow(clippy::unnecessary_cast, clippy::approx_constant)]
            fn truncated(self, mean: $t, std: $t) -> $t {
                // (1 + erf(x / sqrt(2))) / 2 at -2 and 2, as glibc computes it in double.
                let low = 0.022750131948179209 as $t;
                let high = 0.97724986805182079 as $t;
                let p = low + (high - low) * self;
                (2f64.sqrt() * erfinv!($t, 2.0 * p - 1.0) as f64 * std as f64 + mean as f64) as $t
            }
        }
    };
}
real!(f32, canonical_f32);
real!(f64, canonical_f64);

/// `std::uniform_real_distribution<T>(low, high)`.
pub fn uniform<T: RandomFloat>(engine: &mut Mt64, low: T, high: T, out: &mut [T]) {
    uniform_then(engine, low, high, out, |v| v);
}

/// As `uniform`, with `f` applied to each number.
fn uniform_then<T: RandomFloat>(engine: &mut Mt64, low: T, high: T, out: &mut [T], f: impl Fn(T) -> T + Sync) {
    let span = high.sub(low);
    engine.fill(out, |words, part| {
        T::canonical(words, part);
        part.iter_mut().for_each(|o| *o = f(o.mul(span).add(low)));
    });
}

/// `std::normal_distribution<T>(mean, std)`: the polar method; the second of each pair comes first.
pub fn normal<T: RandomFloat>(engine: &mut Mt64, mean: T, std: T, out: &mut [T]) {
    let mut next = || {
        let mut v = [T::ZERO];
        T::canonical(&[engine.next_u64()], &mut v);
        v[0]
    };
    for pair in out.chunks_mut(2) {
        let (saved, now) = T::polar(&mut next);
        pair[0] = now.mul(std).add(mean);
        if let Some(second) = pair.get_mut(1) {
            *second = saved.mul(std).add(mean);
        }
    }
}

/// Paddle's truncated_gaussian_random: a normal distribution truncated at two standard deviations.
pub fn truncated_normal<T: RandomFloat>(engine: &mut Mt64, mean: T, std: T, out: &mut [T]) {
    uniform_then(engine, T::from_f64(f32::MIN_POSITIVE as f64), T::ONE, out, |v| v.truncated(mean, std));
}

/// `std::uniform_int_distribution<int64_t>(low, high)` (for int32 the numbers are the same); `high` is included.
pub fn uniform_int(engine: &mut Mt64, low: i64, high: i64) -> i64 {
    assert!(low <= high, "an empty range");
    low.wrapping_add(below(engine, (high.wrapping_sub(low)) as u64) as i64)
}

/// An unbiased number in 0..=most (Lemire's method, as in libstdc++ from version 11).
fn below(engine: &mut Mt64, most: u64) -> u64 {
    let Some(range) = most.checked_add(1) else { return engine.next_u64() };
    let mut product = engine.next_u64() as u128 * range as u128;
    if (product as u64) < range {
        let threshold = range.wrapping_neg() % range;
        while (product as u64) < threshold {
            product = engine.next_u64() as u128 * range as u128;
        }
    }
    (product >> 64) as u64
}

/// `std::shuffle`: two positions are drawn from one number while their product fits.
pub fn shuffle<T>(engine: &mut Mt64, data: &mut [T]) {
    let n = data.len() as u64;
    if n == 0 {
        return;
    }
    if u64::MAX / n < n {
        for i in 1..data.len() {
            let j = below(engine, i as u64) as usize;
            data.swap(i, j);
        }
        return;
    }
    let mut i = 1;
    if n.is_multiple_of(2) {
        let j = below(engine, 1) as usize;
        data.swap(1, j);
        i = 2;
    }
    while i < data.len() {
        let range = i as u64 + 1;
        let x = below(engine, range * (range + 1) - 1);
        data.swap(i, (x / (range + 1)) as usize);
        data.swap(i + 1, (x % (range + 1)) as usize);
        i += 2;
    }
}

/// The least word for which `canonical_f32` is at least `p`, for `p` below 1: numbers are monotonic in their words.
fn least_word(p: f32) -> u64 {
    let (mut low, mut high) = (0, u64::MAX);
    while low < high {
        let (word, mut drawn) = (low + (high - low) / 2, [0.0]);
        canonical_f32(&[word], &mut drawn);
        if drawn[0] >= p {
            high = word;
        } else {
            low = word + 1;
        }
    }
    low
}

simd_fn! {
    fn at_least(words: &[u64], least: u64, mask: &mut [u8]) {
        for (m, &w) in mask.iter_mut().zip(words) {
            *m = (w >= least) as u8;
        }
    }
}

/// The mask of dropout: mask[i] = 0 if the next number is below `p`, else 1. With `p` = 1 no number is drawn.
pub fn dropout_mask(engine: &mut Mt64, p: f32, mask: &mut [u8]) {
    if p >= 1.0 {
        return mask.fill(0);
    }
    let least = least_word(p);
    engine.fill(mask, |words, part| at_least(words, least, part));
}

/// out = x / `keep` where the mask is not 0, else 0, for any x.
pub fn dropped<T: Number>(x: &[T], mask: &[u8], keep: f32, out: &mut [T]) {
    let keep = T::from_f64(keep as f64);
    zip(x, mask, out, |x, m| {
        let v = x.div(keep);
        if m != 0 {
            v
        } else {
            T::ZERO
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    // Expected numbers: a C++ program compiled with g++ 12, and Paddle 2.6.2 after paddle.seed(42).

    #[test]
    fn engine() {
        let mut e = Mt64::new(5489);
        (0..9999).for_each(|_| {
            e.next_u64();
        });
        assert_eq!(e.next_u64(), 9981545732273789042); // the check value of the C++ standard
        let mut e = Mt64::new(7);
        assert_eq!([e.next_u64(), e.next_u64()], [13915952638675311015, 17511516338625233250]);
        let mut e = Mt64::from_paddle_seed(42);
        assert_eq!([e.next_u64(), e.next_u64()], [15673539002298030186, 15265596833508273048]);
        let (words, index) = e.state();
        let mut copy = Mt64::from_state(&words, index).unwrap();
        assert!((0..1000).all(|_| copy.next_u64() == e.next_u64()));
        assert!(Mt64::from_state(&words[1..], 0).is_none() && Mt64::from_state(&words, 313).is_none());
    }

    #[test]
    fn uniform_numbers() {
        let mut f = [0.0f32; 5];
        uniform(&mut Mt64::from_paddle_seed(42), -1.0, 1.0, &mut f);
        assert_eq!(f, [0.699328542, 0.655099273, 0.366170764, 0.990966201, -0.598418713]);
        let mut d = [0.0f64; 5];
        uniform(&mut Mt64::from_paddle_seed(42), -1.0, 1.0, &mut d);
        assert_eq!(
            d,
            [0.69932850368278099, 0.6550993251177506, 0.36617075768669327, 0.99096615671536559, -0.59841869724983832]
        );
    }

    fn hash(h: u64, bits: u64) -> u64 {
        h.wrapping_mul(31).wrapping_add(bits)
    }

    #[test]
    fn normal_numbers() {
        let mut f = vec![0.0f32; 100_007];
        normal(&mut Mt64::from_paddle_seed(42), 0.5, 2.0, &mut f);
        assert_eq!(f[..7], [1.06482434, 1.10295868, -0.427994013, -0.310907423, 1.04741645, 0.038192302, 0.862395585]);
        assert_eq!(f[7..].iter().fold(0, |h, v| hash(h, v.to_bits() as u64)), 13036897901465075637);
        let mut d = vec![0.0f64; 100_007];
        normal(&mut Mt64::from_paddle_seed(42), 0.5, 2.0, &mut d);
        assert_eq!(d[0], 1.0648242996762698);
        assert_eq!(d[7..].iter().fold(0, |h, v| hash(h, v.to_bits())), 6460040348898421595);
    }

    #[test]
    fn truncated_numbers() {
        let mut f = [0.0f32; 12];
        truncated_normal(&mut Mt64::from_paddle_seed(42), 0.1, 2.0, &mut f);
        let want = [
            2.0382168292999268,
            1.8753784894943237,
            1.0061627626419067,
            3.9517006874084473,
            -1.482460856437683,
            -1.7834421396255493,
            1.98038649559021,
            3.6486706733703613,
            -1.5691852569580078,
            2.2011563777923584,
            1.9945123195648193,
            0.3510119318962097,
        ];
        assert_eq!(f, want);
        let mut d = [0.0f64; 6];
        truncated_normal(&mut Mt64::from_paddle_seed(42), 0.1f32 as f64, 2.0, &mut d);
        let want = [
            2.038216718378536,
            1.875378735532934,
            1.0061628565941434,
            3.9517006618255577,
            -1.48246094703056,
            -1.7834418618950232,
        ];
        assert_eq!(d, want);
        // 100,000 numbers of each kind in sequence, as in Paddle after paddle.seed(5).
        let mut e = Mt64::from_paddle_seed(5);
        let (mut f, mut d) = (vec![0.0f32; 100_000], vec![0.0f64; 100_000]);
        truncated_normal(&mut e, 0.1, 2.0, &mut f);
        assert_eq!(f.iter().fold(0, |h, v| hash(h, v.to_bits() as u64)), 4090452792290051376);
        truncated_normal(&mut e, 0.1f32 as f64, 2.0, &mut d);
        assert_eq!(d.iter().fold(0, |h, v| hash(h, v.to_bits())), 13539539602877970680);
        normal(&mut e, 0.0, 1.0, &mut f);
        assert_eq!(f.iter().fold(0, |h, v| hash(h, v.to_bits() as u64)), 11917875088870940500);
    }

    #[test]
    fn any_number_of_threads() {
        for (n, drawn) in [(100_003, 5), (40_000, 0), (312 * 200, 312), (33_000, 311)] {
            let mut one = Mt64::from_paddle_seed(3);
            (0..drawn).for_each(|_| {
                one.next_u64();
            });
            let start = one.clone();
            let words: Vec<u64> = (0..n).map(|_| one.next_u64()).collect();
            let mut numbers = vec![0.0f32; n];
            canonical_f32(&words, &mut numbers);
            for threads in 1..5 {
                crate::pool::set_threads(threads);
                let (mut e, mut mask, mut drawn) = (start.clone(), vec![2u8; n], vec![9.0f32; n]);
                dropout_mask(&mut e, 0.3, &mut mask);
                assert!(mask.iter().zip(&numbers).all(|(&m, &v)| m == (v >= 0.3) as u8), "{n} {threads}");
                assert_eq!(e.state(), one.state());
                uniform(&mut start.clone(), 0.0, 1.0, &mut drawn);
                assert!(drawn == numbers, "{n} {threads}");
            }
            crate::pool::set_threads(0);
        }
    }

    #[test]
    fn integers_and_permutations() {
        let mut e = Mt64::from_paddle_seed(42);
        let got: Vec<i64> = (0..12).map(|_| uniform_int(&mut e, 0, 9)).collect();
        assert_eq!(got, [8, 8, 6, 9, 2, 1, 8, 9, 1, 8, 8, 5]);
        let mut e = Mt64::from_paddle_seed(42);
        let got: Vec<i64> = (0..8).map(|_| uniform_int(&mut e, -5, 1000000)).collect();
        assert_eq!(got, [849664, 827549, 683084, 995484, 200786, 157583, 842001, 984020]);
        for (n, want) in [(1, 0u64), (2, 1), (7, 5441479941), (10, 6964272046755), (1000, 10747448045659007200)] {
            let mut v: Vec<u64> = (0..n).collect();
            shuffle(&mut Mt64::from_paddle_seed(42), &mut v);
            assert_eq!(v.iter().fold(0, |h, &x| hash(h, x)), want, "{n}");
        }
        shuffle(&mut Mt64::new(1), &mut [0u8; 0]);
    }

    #[test]
    fn dropout_draws() {
        crate::simd::at_every_level(|_| {
            let (x, mut y, mut mask) = ([1.0f32; 16], [9.0f32; 16], [9u8; 16]);
            dropout_mask(&mut Mt64::from_paddle_seed(42), 0.5, &mut mask);
            dropped(&x, &mask, 0.5, &mut y);
            assert_eq!(y, [2., 2., 2., 2., 0., 0., 2., 2., 0., 2., 2., 2., 2., 2., 2., 0.]);
            assert!(mask.iter().zip(&y).all(|(&m, &y)| m == (y != 0.0) as u8));
        });
    }
}
