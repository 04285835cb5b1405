//! Operations by index along an axis of [outer, n, inner], and conversions of indices.

use super::index::{gather, scatter, Index, OutOfRange, Scatter};
use crate::types::{Number, Plain};

fn check(ids: &[i64], limit: usize) -> Result<(), OutOfRange> {
    match ids.iter().find(|&&i| i < 0 || i as usize >= limit) {
        Some(&index) => Err(OutOfRange { index, limit }),
        None => Ok(()),
    }
}

/// out [outer, ids, inner] = x[:, ids, :]. The error is an index outside 0..n, also where there is nothing to copy.
pub fn gather_along<T: Plain>(
    x: &[T],
    ids: &[i64],
    (n, inner): (usize, usize),
    out: &mut [T],
) -> Result<(), OutOfRange> {
    if out.is_empty() || n == 0 {
        return check(ids, n);
    }
    for (from, to) in x.chunks(n * inner).zip(out.chunks_mut(ids.len() * inner)) {
        gather(from, inner, ids, None, to)?;
    }
    Ok(())
}

/// out[:, ids, :] (=, +=) updates [outer, ids, inner].
pub fn scatter_along<T: Number, I: Index>(
    mode: Scatter,
    updates: &[T],
    ids: &[I],
    (n, inner): (usize, usize),
    out: &mut [T],
) -> Result<(), OutOfRange> {
    if updates.is_empty() || out.is_empty() {
        return Ok(());
    }
    for (from, to) in updates.chunks(ids.len() * inner).zip(out.chunks_mut(n * inner)) {
        scatter(mode, ids, from, inner, to)?;
    }
    Ok(())
}

/// Fills with zeros the rows, of `row` elements, of all but the last position of each index.
pub fn clear_overwritten<T: Plain>(ids: &[i64], row: usize, rows: &mut [T]) {
    let mut seen = std::collections::HashSet::with_capacity(ids.len());
    for (k, _) in ids.iter().enumerate().rev().filter(|(_, i)| !seen.insert(**i)) {
        rows[k * row..][..row].fill(T::default());
    }
}

/// The number of the slice that each of `count` rows of `ids`, of `depth` indices, names in a tensor of sizes `dims`.
pub fn slice_numbers(ids: &[i64], count: usize, depth: usize, dims: &[i64]) -> Result<Vec<i64>, OutOfRange> {
    let mut flat = Vec::with_capacity(count);
    for i in 0..count {
        let mut at = 0;
        for (&k, &n) in ids[i * depth..(i + 1) * depth].iter().zip(dims) {
            if k < 0 || k >= n {
                return Err(OutOfRange { index: k, limit: n as usize });
            }
            at = at * n + k;
        }
        flat.push(at);
    }
    Ok(flat)
}

/// The coordinates of each element number in a tensor of sizes `dims`.
pub fn coordinates(numbers: &[usize], dims: &[i64], out: &mut [i64]) {
    for (row, &number) in out.chunks_exact_mut(dims.len().max(1)).zip(numbers) {
        let mut at = number;
        for (o, &d) in row.iter_mut().zip(dims).rev() {
            *o = (at % d as usize) as i64;
            at /= d as usize;
        }
    }
}

/// Ids relative to shard `shard` of `size` ids each, `ignored` for those of other shards. The error is an id outside
/// 0..count.
pub fn shard_ids<I: Index + Number>(
    x: &[I],
    count: i64,
    size: i64,
    (shard, ignored): (i64, i64),
    out: &mut [I],
    narrow: impl Fn(i64) -> I,
) -> Result<(), i64> {
    for (o, &v) in out.iter_mut().zip(x) {
        let v: i64 = v.into();
        if !(0..count).contains(&v) {
            return Err(v);
        }
        *o = narrow(if v / size == shard { v % size } else { ignored });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_along_an_axis() {
        let (outer, n, inner) = (3, 4, 2);
        let x: Vec<i32> = (0..24).collect();
        let ids = [3, 0, 3];
        let mut out = vec![-1; outer * 3 * inner];
        gather_along(&x, &ids, (n, inner), &mut out).unwrap();
        for (k, &got) in out.iter().enumerate() {
            assert_eq!(got, x[(k / 6 * n + ids[k / 2 % 3] as usize) * inner + k % 2]);
        }
        let (mut sums, mut want) = (vec![0; 24], vec![0; 24]);
        scatter_along(Scatter::Add, &out, &ids, (n, inner), &mut sums).unwrap();
        (0..out.len()).for_each(|k| want[(k / 6 * n + ids[k / 2 % 3] as usize) * inner + k % 2] += out[k]);
        assert_eq!(sums, want);
        let wrong = OutOfRange { index: 4, limit: 4 };
        assert_eq!(gather_along(&x, &[4], (n, inner), &mut out[..6]), Err(wrong));
        assert_eq!(gather_along::<u8>(&[], &[0, 4], (n, 0), &mut []), Err(wrong));
        assert!(gather_along::<u8>(&[], &[0], (0, 2), &mut [0; 2]).is_err());
        assert_eq!(scatter_along(Scatter::Add, &[0i32; 0], &ids, (n, 0), &mut []), Ok(()));
    }

    #[test]
    fn the_last_row_of_an_index_stays() {
        let mut rows = [1, 2, 3, 4, 5, 6, 7, 8];
        clear_overwritten(&[5, 2, 5, 2], 2, &mut rows);
        assert_eq!(rows, [0, 0, 0, 0, 5, 6, 7, 8]);
    }

    #[test]
    fn numbers_of_elements_and_coordinates() {
        let dims = [2, 3, 4];
        let all: Vec<usize> = (0..24).collect();
        let mut places = vec![-1; 72];
        coordinates(&all, &dims, &mut places);
        assert_eq!(slice_numbers(&places, 24, 3, &dims).unwrap(), (0..24).collect::<Vec<i64>>());
        assert_eq!(slice_numbers(&[1, 2, 0, 1], 2, 2, &dims).unwrap(), [5, 1]);
        assert_eq!(slice_numbers(&[1, 3], 1, 2, &dims), Err(OutOfRange { index: 3, limit: 3 }));
        assert_eq!(slice_numbers(&[], 2, 0, &dims).unwrap(), [0, 0]);
        let mut out = [0i32; 4];
        shard_ids(&[0, 3, 5, 7], 8, 4, (1, -1), &mut out, |v| v as i32).unwrap();
        assert_eq!(out, [-1, -1, 1, 3]);
        assert_eq!(shard_ids(&[8i64], 8, 4, (0, -1), &mut [0], |v| v), Err(8));
    }
}
