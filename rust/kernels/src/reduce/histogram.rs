//! Counts of elements in equal intervals.

/// Types whose intervals are computed in their own arithmetic, as in Paddle.
pub trait Binned: Copy + PartialOrd {
    fn from_int(v: i32) -> Self;
    fn is_usable(self) -> bool;
    /// (self - 1, self + 1): the range when all elements are equal.
    fn around(self) -> (Self, Self);
    /// The interval that a number between the ends falls in.
    fn bin(self, ends: (Self, Self), bins: i64) -> i64;
}

macro_rules! floats {
    ($($t:ty)*) => {$(impl Binned for $t {
        fn from_int(v: i32) -> $t { v as $t }
        fn is_usable(self) -> bool { self.is_finite() }
        fn around(self) -> ($t, $t) { (self - 1.0, self + 1.0) }
        fn bin(self, (min, max): ($t, $t), bins: i64) -> i64 { ((self - min) * bins as $t / (max - min)) as i64 }
    })*};
}
macro_rules! integers {
    ($($t:ty)*) => {$(impl Binned for $t {
        fn from_int(v: i32) -> $t { v as $t }
        fn is_usable(self) -> bool { true }
        fn around(self) -> ($t, $t) { (self.saturating_sub(1), self.saturating_add(1)) }
        fn bin(self, (min, max): ($t, $t), bins: i64) -> i64 {
            let [v, min, max] = [self, min, max].map(|n| n as i128);
            ((v - min) * bins as i128 / (max - min)) as i64
        }
    })*};
}
floats!(f32 f64);
integers!(i32 i64);

/// The range of the elements is not finite.
#[derive(Debug, PartialEq)]
pub struct InfiniteRange;

/// Counts the elements in each of the intervals of `min`..=`max`, or of the range of x if both are equal.
pub fn histogram<T: Binned>(x: &[T], (min, max): (i32, i32), out: &mut [i64]) -> Result<(), InfiniteRange> {
    let (bins, mut min, mut max) = (out.len() as i64, T::from_int(min), T::from_int(max));
    if min == max {
        if let Some(&first) = x.first() {
            // As std::min_element: a leading NaN stays, other NaNs are skipped.
            (min, max) =
                x.iter().fold((first, first), |(l, h), &v| (if v < l { v } else { l }, if h < v { v } else { h }));
        }
    }
    if min == max {
        (min, max) = min.around();
    }
    if !min.is_usable() || !max.is_usable() {
        return Err(InfiniteRange);
    }
    out.fill(0);
    for &v in x.iter().filter(|&&v| v >= min && v <= max) {
        out[v.bin((min, max), bins).clamp(0, bins - 1) as usize] += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_counted_in_intervals() {
        let x: Vec<f64> = (0..200).map(|i| (i * 7919 % 101) as f64 / 10.0).collect();
        for ends in [(0, 0), (2, 7)] {
            let mut out = [9; 5];
            histogram(&x, ends, &mut out).unwrap();
            let (low, high) = if ends.0 == ends.1 { (0.0, 10.0) } else { (f64::from(ends.0), f64::from(ends.1)) };
            for (bin, &got) in out.iter().enumerate() {
                let of = |v: f64| (((v - low) * 5.0 / (high - low)) as usize).min(4);
                assert_eq!(got, x.iter().filter(|&&v| v >= low && v <= high && of(v) == bin).count() as i64);
            }
        }
        let mut out = [9; 3];
        histogram(&[7i32; 4], (0, 0), &mut out).unwrap();
        assert_eq!(out, [0, 4, 0]);
        assert_eq!(histogram(&[f32::INFINITY], (0, 0), &mut out), Err(InfiniteRange));
        histogram::<i64>(&[], (0, 0), &mut out).unwrap();
        assert_eq!(out, [0, 0, 0]);
    }
}
