//! Categories drawn by their probabilities, and random orders of rows.

use super::{uniform, uniform_int, Mt64, RandomFloat};
use crate::types::Number;

/// Probabilities that cannot be drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BadProbabilities<T> {
    Negative(T),
    AllZero,
}

/// Cumulative sums of the normalised probabilities; the last one is 1.
pub fn cumulative<T: RandomFloat>(p: &[T]) -> Result<Vec<T>, BadProbabilities<T>> {
    let mut sum = T::ZERO;
    let mut sums = Vec::with_capacity(p.len());
    for &v in p {
        // A NaN is not at least zero.
        if !matches!(v.partial_cmp(&T::ZERO), Some(order) if order.is_ge()) {
            return Err(BadProbabilities::Negative(v));
        }
        sum = sum.add(v);
        sums.push(sum);
    }
    if !matches!(sum.partial_cmp(&T::ZERO), Some(order) if order.is_gt()) {
        return Err(BadProbabilities::AllZero);
    }
    sums.iter_mut().for_each(|s| *s = s.div(sum));
    Ok(sums)
}

/// Draws categories; without replacement a drawn one is removed from the cumulative sums.
pub fn multinomial<T: RandomFloat>(engine: &mut Mt64, sums: &mut [T], replacement: bool, out: &mut [i64]) {
    let mut draws = vec![T::ZERO; out.len()];
    uniform(engine, T::ZERO, T::ONE, &mut draws);
    let (last, count) = (sums.len() - 1, out.len());
    for (s, (o, draw)) in out.iter_mut().zip(draws).enumerate() {
        sums[last] = T::ONE;
        let (mut left, mut right) = (0, sums.len());
        while right > left {
            let middle = left + (right - left) / 2;
            if sums[middle] < draw {
                left = middle + 1;
            } else {
                right = middle;
            }
        }
        *o = left as i64;
        if !replacement && s + 1 < count {
            let before = if left == 0 { T::ZERO } else { sums[left - 1] };
            let taken = sums[left].sub(before);
            // In f64, then in the type of the probabilities: rounds as Paddle does.
            let rest = T::from_f64(1.0 - taken.to_f64());
            for (j, v) in sums.iter_mut().enumerate() {
                *v = if j >= left { v.sub(taken) } else { *v }.div(rest);
            }
        }
    }
}

/// For each row of `width` probabilities the first index whose cumulative probability exceeds the drawn number, else the last
/// one.
pub fn ids<T: Number>(x: &[T], width: usize, drawn: &[T], out: &mut [i64]) {
    for ((row, &draw), o) in x.chunks_exact(width).zip(drawn).zip(out) {
        let mut left = draw;
        let found = row.iter().position(|&p| {
            left = left.sub(p);
            left < T::ZERO
        });
        *o = found.unwrap_or(width - 1) as i64;
    }
}

/// A cyclic permutation of `n` rows (Sattolo's algorithm): the target of each row.
pub fn cycle(engine: &mut Mt64, n: usize) -> Vec<i64> {
    let mut places: Vec<i64> = (0..n as i64).collect();
    for i in (1..n).rev() {
        places.swap(i, uniform_int(engine, 0, i as i64 - 1) as usize);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_end_at_one() {
        assert_eq!(cumulative(&[1.0, 0.0, 3.0]), Ok(vec![0.25, 0.25, 1.0]));
        assert_eq!(cumulative(&[1.0, -1.0]), Err(BadProbabilities::Negative(-1.0)));
        assert_eq!(cumulative(&[0.0f32, 0.0]), Err(BadProbabilities::AllZero));
        assert!(matches!(cumulative(&[f64::NAN]), Err(BadProbabilities::Negative(_))));
    }

    #[test]
    fn without_replacement_categories_are_distinct() {
        let mut engine = Mt64::new(5);
        for _ in 0..20 {
            let (mut sums, mut out) = (cumulative(&[0.5f64, 0.0, 0.25, 0.25]).unwrap(), [9; 3]);
            multinomial(&mut engine, &mut sums, false, &mut out);
            out.sort_unstable();
            assert_eq!(out, [0, 2, 3]);
        }
        let (mut sums, mut out) = (cumulative(&[0.0f64, 1.0]).unwrap(), [9; 5]);
        multinomial(&mut engine, &mut sums, true, &mut out);
        assert_eq!(out, [1; 5]);
    }

    #[test]
    fn ids_are_those_of_cumulative_probabilities() {
        let mut out = [9; 3];
        ids(&[0.25, 0.25, 0.5, 0.25, 0.25, 0.5, 0.1, 0.1, 0.1], 3, &[0.25, 0.1, 0.9], &mut out);
        assert_eq!(out, [1, 0, 2]);
    }

    #[test]
    fn a_cycle_moves_every_row() {
        let places = cycle(&mut Mt64::new(1), 7);
        let (mut at, mut visited) = (0, 0);
        loop {
            (at, visited) = (places[at] as usize, visited + 1);
            if at == 0 {
                break;
            }
        }
        assert_eq!(visited, 7);
        assert_eq!((cycle(&mut Mt64::new(1), 0).len(), cycle(&mut Mt64::new(1), 1)), (0, vec![0]));
    }
}
