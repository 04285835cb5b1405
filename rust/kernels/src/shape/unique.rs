//! Groups of equal rows.

use crate::order::Sortable;
use crate::ranking;
use crate::types::Plain;
use std::cmp::Ordering;

/// Groups of equal rows of `width` elements: the first row of each group, and the group number of each row.
pub struct Groups {
    pub first: Vec<usize>,
    pub of: Vec<usize>,
    pub counts: Vec<usize>,
}

/// The order of numbers; NaN sorts after all of them.
pub fn order<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    let is_nan = |v: &T| v.partial_cmp(v).is_none();
    a.partial_cmp(b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

impl Groups {
    /// Groups in ascending order. `equal` compares neighbours.
    pub fn sorted<T: PartialOrd + Sortable>(x: &[T], n: usize, width: usize, equal: impl Fn(&T, &T) -> bool) -> Groups {
        let row = |i: usize| &x[i * width..(i + 1) * width];
        let compare = |a: usize, b: usize| {
            row(a).iter().zip(row(b)).map(|(a, b)| order(a, b)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
        };
        // Equal rows keep their order.
        let order = if width == 1 && n < u32::MAX as usize {
            let mut keys: Vec<(u64, u32)> = x[..n].iter().map(|v| v.key()).zip(0..).collect();
            ranking::sort_keys(&mut keys, n);
            keys.iter().map(|k| k.1 as usize).collect()
        } else {
            ranking::positions(n, compare)
        };
        let mut groups = Groups { first: vec![], of: vec![0; n], counts: vec![] };
        for (k, &i) in order.iter().enumerate() {
            let same = k > 0 && row(order[k - 1]).iter().zip(row(i)).all(|(a, b)| equal(a, b));
            if !same {
                groups.first.push(i);
                groups.counts.push(0);
            }
            let last = groups.first.len() - 1;
            groups.of[i] = last;
            groups.counts[last] += 1;
        }
        groups
    }

    /// Reorders the groups by first occurrence.
    pub fn by_first(self) -> Groups {
        let order = ranking::positions(self.first.len(), |a, b| self.first[a].cmp(&self.first[b]));
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(to, &from)| place[from] = to);
        Groups {
            first: order.iter().map(|&g| self.first[g]).collect(),
            of: self.of.iter().map(|&g| place[g]).collect(),
            counts: order.iter().map(|&g| self.counts[g]).collect(),
        }
    }

    /// Copies the first row of each group.
    pub fn firsts<T: Plain>(&self, x: &[T], width: usize, out: &mut [T]) {
        for (k, &i) in self.first.iter().enumerate() {
            out[k * width..(k + 1) * width].copy_from_slice(&x[i * width..(i + 1) * width]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_are_groups() {
        let x: Vec<i32> = (0..60).map(|i| (i * 7919 % 5) % 3).collect();
        let row = |i: usize| &x[i * 2..i * 2 + 2];
        let mut distinct: Vec<&[i32]> = (0..30).map(row).collect();
        distinct.sort();
        distinct.dedup();
        let sorted = Groups::sorted(&x, 30, 2, |a, b| a == b);
        let mut out = vec![9; distinct.len() * 2];
        sorted.firsts(&x, 2, &mut out);
        assert_eq!(out, distinct.concat());
        for (g, want) in distinct.iter().enumerate() {
            let all: Vec<usize> = (0..30).filter(|&i| row(i) == *want).collect();
            assert_eq!((sorted.first[g], sorted.counts[g]), (all[0], all.len()));
            assert!(all.iter().all(|&i| sorted.of[i] == g));
        }
        let numbers = [0.5, f64::NAN, -0.0, 2.0, 0.0, f64::NAN, -3.0];
        let groups = Groups::sorted(&numbers, 7, 1, |a, b| order(a, b).is_eq());
        assert_eq!((groups.first, groups.of), (vec![6, 2, 0, 3, 1], vec![2, 4, 1, 3, 1, 4, 0]));
        let by_first = sorted.by_first();
        assert!(by_first.first.is_sorted());
        assert!((0..30).all(|i| row(by_first.first[by_first.of[i]]) == row(i)));
        let nan = [f32::NAN, 1.0, f32::NAN];
        assert_eq!(Groups::sorted(&nan, 3, 1, |a, b| order(a, b).is_eq()).counts, [1, 2]);
        assert_eq!(Groups::sorted(&nan, 3, 1, |a, b| a == b).counts, [1, 1, 1]);
        assert_eq!(Groups::sorted::<f32>(&[], 0, 1, |a, b| a == b).first.len(), 0);
    }
}
