//! Stable sorting of lists by a comparison, compiled once for all element types.
//!
//! The standard library's sorts have 5 to 20 KB of code for each pair of element type and comparison. These sort
//! positions through a pointer to the comparison, for lists whose use takes longer than their sorting.

use std::cmp::Ordering;

type Compare<'a> = &'a dyn Fn(usize, usize) -> Ordering;

#[inline(never)]
fn sort_positions(positions: &mut [usize], compare: Compare) {
    positions.sort_by(|&a, &b| compare(a, b));
}

#[inline(never)]
fn first_positions(positions: &mut Vec<usize>, count: usize, compare: Compare) {
    if count < positions.len() {
        positions.select_nth_unstable_by(count, |&a, &b| compare(a, b));
        positions.truncate(count);
    }
    sort_positions(positions, compare);
}

/// Keeps the first `count` pairs in ascending order, of keys ([`crate::order::Sortable`]) and distinct positions.
#[inline(never)]
pub fn sort_keys(keys: &mut Vec<(u64, u32)>, count: usize) {
    if count < keys.len() {
        keys.select_nth_unstable(count);
        keys.truncate(count);
    }
    keys.sort_unstable();
}

/// The positions 0..n, sorted.
pub fn positions(n: usize, compare: impl Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    sort_positions(&mut order, &compare);
    order
}

/// The first `count` of the sorted positions 0..n; `compare` finds no two positions equal.
pub fn first(n: usize, count: usize, compare: impl Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    first_positions(&mut order, count, &compare);
    order
}

/// Sorts the items.
pub fn sort<T: Copy>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let order = positions(items.len(), |a, b| compare(&items[a], &items[b]));
    let sorted: Vec<T> = order.iter().map(|&at| items[at]).collect();
    items.copy_from_slice(&sorted);
}

/// Keeps the first `count` of the sorted items; `compare` finds no two items equal.
pub fn keep_first<T: Copy>(items: &mut Vec<T>, count: usize, compare: impl Fn(&T, &T) -> Ordering) {
    let order = first(items.len(), count, |a, b| compare(&items[a], &items[b]));
    *items = order.iter().map(|&at| items[at]).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_as_by_the_standard_library() {
        for n in [0usize, 1, 2, 19, 100] {
            let items: Vec<(u32, usize)> = (0..n).map(|i| ((i * 7919 % 13) as u32, i)).collect();
            let mut want = items.clone();
            want.sort_by_key(|item| std::cmp::Reverse(item.0));
            let mut got = items.clone();
            sort(&mut got, |a, b| b.0.cmp(&a.0));
            assert_eq!(got, want, "equal items keep their order");
            assert_eq!(positions(n, |a, b| items[b].0.cmp(&items[a].0)), want.iter().map(|i| i.1).collect::<Vec<_>>());
            for count in [0, 1, 7, n, n + 3] {
                let mut keys: Vec<(u64, u32)> = items.iter().map(|i| (u64::from(99 - i.0), i.1 as u32)).collect();
                sort_keys(&mut keys, count);
                assert!(keys.iter().map(|k| k.1 as usize).eq(want[..count.min(n)].iter().map(|i| i.1)));
                let mut got = items.clone();
                keep_first(&mut got, count, |a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
                assert_eq!(got, want[..count.min(n)]);
            }
        }
    }
}
