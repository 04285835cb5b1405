//! Gather, embedding lookup and its gradient, scatter, and the merge of SelectedRows: operations on rows by index.
//!
//! Rows with equal indices are summed in the order of positions, on one thread each: results equal those of a plain
//! loop for any number of threads.

use crate::pool;
pub use crate::shape::copy::OutOfRange;
use crate::simd;
use crate::types::{Number, Plain};

/// Elements per chunk.
const GRAIN: usize = 16 * 1024;

/// int32 or int64.
pub trait Index: Copy + Send + Sync + Into<i64> {}
impl Index for i32 {}
impl Index for i64 {}

fn check<I: Index>(ids: &[I], limit: usize, padding: Option<i64>) -> Result<(), OutOfRange> {
    let wrong = |i: &&I| {
        let i: i64 = (**i).into();
        (i < 0 || i as u64 >= limit as u64) && Some(i) != padding
    };
    match ids.iter().find(wrong) {
        Some(&index) => Err(OutOfRange { index: index.into(), limit }),
        None => Ok(()),
    }
}

/// out[i] = table[ids[i]], rows of `width` elements; zeros where ids[i] is `padding`. Nothing is written if an index is
/// out of range.
pub fn gather<T: Plain, I: Index>(
    table: &[T],
    width: usize,
    ids: &[I],
    padding: Option<i64>,
    out: &mut [T],
) -> Result<(), OutOfRange> {
    assert_eq!(out.len(), ids.len() * width);
    if width == 0 {
        return Ok(());
    }
    check(ids, table.len() / width, padding)?;
    let rows = (GRAIN / width).max(1);
    let bytes = width * std::mem::size_of::<T>();
    let stream = simd::copy_streams(std::mem::size_of_val(out)) && bytes >= 64;
    pool::parts(out, rows * width, |start, part| {
        let ids = &ids[start / width..];
        for (i, row) in part.chunks_exact_mut(width).enumerate() {
            if let Some(&ahead) = ids.get(i + 8) {
                prefetch(table, (ahead.into() as usize).wrapping_mul(width), width.min(256));
            }
            let id: i64 = ids[i].into();
            if Some(id) == padding {
                row.fill(T::default());
                continue;
            }
            let from = &table[id as usize * width..(id as usize + 1) * width];
            if stream {
                simd::stream(from, row);
            } else {
                row.copy_from_slice(from);
            }
        }
        if stream {
            simd::stream_end();
        }
    });
    Ok(())
}

/// out[r][i] = x[r][ids[i]], rows of `width` elements. Panics if an index is out of range.
pub fn pick_columns<T: Plain>(x: &[T], width: usize, ids: &[i64], out: &mut [T]) {
    let n = ids.len().max(1);
    assert_eq!(out.len() / n * width, x.len());
    pool::parts(out, (GRAIN / n).max(1) * n, |start, part| {
        for (r, out) in part.chunks_exact_mut(n).enumerate() {
            let row = &x[(start / n + r) * width..][..width];
            out.iter_mut().zip(ids).for_each(|(o, &id)| *o = row[id as usize]);
        }
    });
}

/// The gradient of `pick_columns`: dx[r][ids[i]] += dout[r][i], in order of i.
pub fn pick_columns_grad<T: Number>(dout: &[T], width: usize, ids: &[i64], dx: &mut [T]) {
    let (n, width) = (ids.len(), width.max(1));
    assert_eq!(dx.len() / width * n, dout.len());
    pool::parts(dx, (GRAIN / width.max(n)).max(1) * width, |start, part| {
        for (r, row) in part.chunks_exact_mut(width).enumerate() {
            row.fill(T::ZERO);
            let from = &dout[(start / width + r) * n..][..n];
            from.iter().zip(ids).for_each(|(&v, &id)| row[id as usize] = row[id as usize].add(v));
        }
    });
}

/// Prefetches a row: the hardware does not predict random rows.
#[inline(always)]
fn prefetch<T>(table: &[T], at: usize, width: usize) {
    if let Some(row) = table.get(at..at.saturating_add(width)) {
        simd::prefetch(row);
    }
}

/// Positions partitioned by chunks of `1 << shift` adjacent rows, ascending within each; a chunk then groups its
/// positions by row. The work of a thread depends on the indices, not on the height of the table.
struct Partitioned {
    shift: u32,
    starts: Vec<u32>,
    /// Row within the chunk, position.
    entries: Vec<(u32, u32)>,
}

fn deal<I: Index>(ids: &[I], height: usize, width: usize, padding: Option<i64>) -> Partitioned {
    assert!(ids.len() < u32::MAX as usize, "more than 2^32 indices");
    let shift = (GRAIN / width).max(1).ilog2();
    let valid = |id: i64| Some(id) != padding && id >= 0 && (id as u64) < height as u64;
    // Counts are stored two places ahead: after the prefix sum, starts are one place ahead while positions are
    // assigned, and in place afterwards.
    let mut starts = vec![0u32; (height >> shift) + 3];
    for &id in ids {
        let id: i64 = id.into();
        if valid(id) {
            starts[(id as usize >> shift) + 2] += 1;
        }
    }
    (1..starts.len()).for_each(|c| starts[c] += starts[c - 1]);
    let mut entries = vec![(0, 0); starts[starts.len() - 1] as usize];
    for (position, &id) in ids.iter().enumerate() {
        let id: i64 = id.into();
        if valid(id) {
            let at = &mut starts[(id as usize >> shift) + 1];
            entries[*at as usize] = ((id as usize & ((1 << shift) - 1)) as u32, position as u32);
            *at += 1;
        }
    }
    Partitioned { shift, starts, entries }
}

/// Positions grouped by row: those of row r are `order[starts[r]..starts[r + 1]]`, in ascending order.
struct Grouped {
    starts: Vec<u32>,
    order: Vec<u32>,
}

impl Partitioned {
    fn rows(&self) -> usize {
        1 << self.shift
    }

    /// The chunk whose first row is `first`, of `rows` rows.
    fn group(&self, first: usize, rows: usize) -> Grouped {
        let chunk = first >> self.shift;
        let entries = &self.entries[self.starts[chunk] as usize..self.starts[chunk + 1] as usize];
        let mut starts = vec![0u32; rows + 2];
        entries.iter().for_each(|&(row, _)| starts[row as usize + 2] += 1);
        (1..starts.len()).for_each(|r| starts[r] += starts[r - 1]);
        let mut order = vec![0u32; entries.len()];
        for &(row, position) in entries {
            let at = &mut starts[row as usize + 1];
            order[*at as usize] = position;
            *at += 1;
        }
        Grouped { starts, order }
    }
}

/// The gradient of a lookup as a dense table: grad[r] = sum of dout[i] over ids[i] = r, in order of i; zero if r does
/// not occur or is `padding`. All of `grad` is overwritten.
pub fn gather_grad<T: Number, I: Index>(
    ids: &[I],
    dout: &[T],
    width: usize,
    padding: Option<i64>,
    grad: &mut [T],
) -> Result<(), OutOfRange> {
    assert_eq!(dout.len(), ids.len() * width);
    if width == 0 {
        return Ok(());
    }
    let height = grad.len() / width;
    assert_eq!(grad.len(), height * width);
    check(ids, height, padding)?;
    let partitioned = deal(ids, height, width, padding);
    let stream = simd::streams(std::mem::size_of_val(grad)) && width * std::mem::size_of::<T>() >= 64;
    let zeros = vec![T::ZERO; width];
    pool::parts(grad, partitioned.rows() * width, |start, part| {
        let groups = partitioned.group(start / width, part.len() / width);
        let mut sum = if stream { zeros.clone() } else { Vec::new() };
        let mut at = 0;
        for (i, row) in part.chunks_exact_mut(width).enumerate() {
            let end = groups.starts[i + 1] as usize;
            let positions = &groups.order[at..end];
            if let Some(&ahead) = groups.order.get(at + 8) {
                prefetch(dout, ahead as usize * width, width.min(256));
            }
            at = end;
            let line = |p: u32| &dout[p as usize * width..(p as usize + 1) * width];
            match (positions, stream) {
                ([], false) => row.fill(T::ZERO),
                ([], true) => simd::stream(&zeros, row),
                ([one], false) => row.copy_from_slice(line(*one)),
                ([one], true) => simd::stream(line(*one), row),
                ([one, more @ ..], false) => {
                    row.copy_from_slice(line(*one));
                    more.iter().for_each(|&p| add_to(row, line(p)));
                }
                ([one, more @ ..], true) => {
                    sum.copy_from_slice(line(*one));
                    more.iter().for_each(|&p| add_to(&mut sum, line(p)));
                    simd::stream(&sum, row);
                }
            }
        }
        if stream {
            simd::stream_end();
        }
    });
    Ok(())
}

#[inline(always)]
fn add_body<T: Number>(to: &mut [T], x: &[T]) {
    to.iter_mut().zip(x).for_each(|(t, &v)| *t = t.add(v));
}

crate::simd_fn! {
    fn add_simd[T: Number](to: &mut [T], x: &[T]) {
        add_body(to, x)
    }
}

/// to += x.
fn add_to<T: Number>(to: &mut [T], x: &[T]) {
    if T::HOT && x.len() > 8 {
        add_simd(to, x)
    } else {
        add_body(to, x)
    }
}

/// Sums rows with equal indices: returns the distinct indices in ascending order and their sums [count, width].
pub fn merge_rows<T: Number>(rows: &[i64], values: &[T], width: usize) -> (Vec<i64>, Vec<T>) {
    assert_eq!(values.len(), rows.len() * width);
    let mut order: Vec<(i64, usize)> = rows.iter().copied().zip(0..).collect();
    order.sort_unstable(); // pairs differ in their positions, so this is stable
    let mut merged = Vec::new();
    let mut starts = Vec::new();
    for (i, &(row, _)) in order.iter().enumerate() {
        if merged.last() != Some(&row) {
            merged.push(row);
            starts.push(i);
        }
    }
    starts.push(order.len());
    let mut sums = vec![T::ZERO; merged.len() * width];
    let grain = (GRAIN / width.max(1)).max(1);
    if !sums.is_empty() {
        pool::parts(&mut sums, grain * width, |start, part| {
            for (i, row) in part.chunks_exact_mut(width).enumerate() {
                let g = start / width + i;
                let line = |p: usize| &values[p * width..(p + 1) * width];
                row.copy_from_slice(line(order[starts[g]].1));
                order[starts[g] + 1..starts[g + 1]].iter().for_each(|&(_, p)| add_to(row, line(p)));
            }
        });
    }
    (merged, sums)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scatter {
    /// The last update of a row wins.
    Overwrite,
    /// Updates are added to the row.
    Add,
    /// Rows with updates start from zero, then updates are added (Paddle's scatter with overwrite=False).
    Replace,
}

/// out[ids[i]] (=, +=) updates[i], rows of `width` elements. Nothing is written if an index is out of range.
pub fn scatter<T: Number, I: Index>(
    mode: Scatter,
    ids: &[I],
    updates: &[T],
    width: usize,
    out: &mut [T],
) -> Result<(), OutOfRange> {
    assert_eq!(updates.len(), ids.len() * width);
    if width == 0 {
        return Ok(());
    }
    let height = out.len() / width;
    check(ids, height, None)?;
    let line = |p: usize| &updates[p * width..(p + 1) * width];
    let at = |id: I| id.into() as usize * width;
    // Grouping does not pay for a large table with few updates.
    if updates.len() < 4 * GRAIN || height > 4 * ids.len() {
        if mode == Scatter::Replace {
            ids.iter().for_each(|&id| out[at(id)..at(id) + width].fill(T::ZERO));
        }
        for (p, &id) in ids.iter().enumerate() {
            let row = &mut out[at(id)..at(id) + width];
            match mode {
                Scatter::Overwrite => row.copy_from_slice(line(p)),
                _ => add_to(row, line(p)),
            }
        }
        return Ok(());
    }
    let partitioned = deal(ids, height, width, None);
    let whole = height * width;
    pool::parts(&mut out[..whole], partitioned.rows() * width, |start, part| {
        let groups = partitioned.group(start / width, part.len() / width);
        for (i, row) in part.chunks_exact_mut(width).enumerate() {
            let positions = &groups.order[groups.starts[i] as usize..groups.starts[i + 1] as usize];
            match (mode, positions) {
                (_, []) => {}
                (Scatter::Overwrite, [.., last]) => row.copy_from_slice(line(*last as usize)),
                (_, all) => {
                    if mode == Scatter::Replace {
                        row.fill(T::ZERO);
                    }
                    all.iter().for_each(|&p| add_to(row, line(p as usize)));
                }
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(n: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7919) % 1013) as f32 * 0.01).collect()
    }

    #[test]
    fn lookup_and_gradient() {
        for (height, width, n) in [(5, 3, 7), (1000, 17, 5000), (4, 1, 0), (100_000, 100, 3000)] {
            let table = data(height * width);
            let ids: Vec<i64> = (0..n).map(|i| ((i * 31 + i * i) % height) as i64).collect();
            let mut out = vec![9.0; n * width];
            gather(&table, width, &ids, Some(2), &mut out).unwrap();
            for (i, &id) in ids.iter().enumerate() {
                let row = &table[id as usize * width..][..width];
                assert!(out[i * width..][..width].iter().zip(row).all(|(o, t)| *o == if id == 2 { 0.0 } else { *t }));
            }
            let dout = data(n * width);
            let mut want = vec![0.0f32; height * width];
            for (i, &id) in ids.iter().enumerate().filter(|(_, &id)| id != 2) {
                (0..width).for_each(|k| want[id as usize * width + k] += dout[i * width + k]);
            }
            let mut grad = vec![7.0f32; height * width];
            gather_grad(&ids, &dout, width, Some(2), &mut grad).unwrap();
            assert!(grad == want, "{height} {width} {n}");
            let (rows, sums) = merge_rows(&ids, &dout, width);
            assert!(rows.windows(2).all(|w| w[0] < w[1]));
            for (i, &r) in rows.iter().enumerate().filter(|(_, &r)| r != 2) {
                assert_eq!(sums[i * width..][..width], want[r as usize * width..][..width]);
            }
        }
        let mut out = [5.0f32; 2];
        assert_eq!(gather(&[1.0, 2.0], 1, &[0i32, 2], None, &mut out), Err(OutOfRange { index: 2, limit: 2 }));
        assert_eq!(gather(&[1.0, 2.0], 1, &[0i32, -1], None, &mut out), Err(OutOfRange { index: -1, limit: 2 }));
        assert_eq!(out, [5.0; 2]);
        gather(&[1.0, 2.0], 1, &[-1i64, 1], Some(-1), &mut out).unwrap();
        assert_eq!(out, [0.0, 2.0]);
    }

    #[test]
    fn scattering() {
        for (height, width, n) in [(6, 2, 9), (900, 100, 5000)] {
            let ids: Vec<i64> = (0..n).map(|i| ((i * 31 + i * i) % height) as i64).collect();
            let updates = data(n * width);
            for mode in [Scatter::Overwrite, Scatter::Add, Scatter::Replace] {
                let mut want = vec![1.0f32; height * width];
                if mode == Scatter::Replace {
                    ids.iter().for_each(|&id| want[id as usize * width..][..width].fill(0.0));
                }
                for (i, &id) in ids.iter().enumerate() {
                    for k in 0..width {
                        let w = &mut want[id as usize * width + k];
                        *w = if mode == Scatter::Overwrite { 0.0 } else { *w } + updates[i * width + k];
                    }
                }
                let mut got = vec![1.0f32; height * width];
                scatter(mode, &ids, &updates, width, &mut got).unwrap();
                assert!(got == want, "{mode:?} {height}");
            }
        }
        assert!(scatter(Scatter::Add, &[9i64], &[1.0f32], 1, &mut [0.0; 3]).is_err());
    }
}
