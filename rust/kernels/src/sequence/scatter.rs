//! Updates of single elements: sequence i of ids and updates belongs to row i of a matrix.

use super::spans;
use std::ops::AddAssign;

/// The flat index of each id in a matrix of `width` columns, or the first id outside of a row.
pub fn places(level: &[usize], ids: &[i64], width: usize) -> Result<Vec<usize>, i64> {
    let rows = spans(level).enumerate().flat_map(|(row, span)| ids[span].iter().map(move |&id| (row, id)));
    rows.map(|(row, id)| usize::try_from(id).ok().filter(|&i| i < width).map(|i| row * width + i).ok_or(id)).collect()
}

/// Adds each update to its place.
pub fn add<T: Copy + AddAssign>(places: &[usize], updates: &[T], out: &mut [T]) {
    for (&at, &update) in places.iter().zip(updates) {
        out[at] += update;
    }
}

/// Reads the element of each place.
pub fn add_grad<T: Copy>(places: &[usize], dout: &[T], dupdates: &mut [T]) {
    dupdates.iter_mut().zip(places).for_each(|(to, &at)| *to = dout[at]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_added_where_ids_say() {
        let (level, ids, width) = ([0, 2, 2, 5], [1, 1, 0, 3, 2], 4);
        let found = places(&level, &ids, width).unwrap();
        assert_eq!(found, [1, 1, 8, 11, 10]);
        let mut out = vec![1.0; 12];
        add(&found, &[1.0, 2.0, 3.0, 4.0, 5.0], &mut out);
        assert_eq!(out, [1.0, 4.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 4.0, 1.0, 6.0, 5.0]);
        let mut d = [0.0; 5];
        add_grad(&found, &out, &mut d);
        assert_eq!(d, [4.0, 4.0, 4.0, 5.0, 6.0]);
        assert_eq!(places(&level, &[0, 4, 0, 0, 0], width), Err(4));
        assert_eq!(places(&level, &[0, 0, 0, 0, -1], width), Err(-1));
        assert_eq!(places(&[0], &[], width), Ok(vec![]));
    }
}
