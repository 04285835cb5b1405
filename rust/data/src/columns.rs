//! Instances from columns: for each slot all values of the rows, and where each row's begin.

use super::block::{Block, MOST};
use super::desc::{Desc, Slot};
use super::parse::{is_zero, PADDED};
use oar_core::base::Result;
use oar_core::tensor::alloc::prefer_huge_for;
use oar_core::{bail, ensure};

#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// Negative ones wrap around.
    Ints(&'a [i64]),
    Floats(&'a [f32]),
}

impl Values<'_> {
    fn len(&self) -> usize {
        match self {
            Values::Ints(v) => v.len(),
            Values::Floats(v) => v.len(),
        }
    }
}

/// The values of a used slot. Row `i` has those from `offsets[i]` to `offsets[i + 1]`; without offsets it has value `i`.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    pub offsets: Option<&'a [i64]>,
    pub values: Values<'a>,
}

impl Column<'_> {
    fn rows(&self) -> usize {
        self.offsets.map_or(self.values.len(), |o| o.len().saturating_sub(1))
    }

    fn check(&self, slot: &Slot, rows: usize) -> Result<()> {
        let name = &slot.name;
        ensure!(self.rows() == rows, InvalidArgument, "column '{name}' has {} rows, others {rows}", self.rows());
        ensure!(
            slot.float == matches!(self.values, Values::Floats(_)),
            InvalidArgument,
            "column '{name}' must hold {}",
            if slot.float { "float32" } else { "int64" }
        );
        if let Some(offsets) = self.offsets {
            let ends = offsets.last().is_none_or(|&end| end >= 0 && end as usize <= self.values.len());
            let rising = offsets.first().is_none_or(|&first| first >= 0) && offsets.windows(2).all(|o| o[0] <= o[1]);
            ensure!(ends && rising, InvalidArgument, "the offsets of column '{name}' leave its values");
        }
        Ok(())
    }
}

/// Rows copied at a time: what they fill stays in the first-level cache.
const TILE: usize = 64;

/// Whether a value passes the test; it looks at some at a time, which the compiler makes one instruction.
fn any<T: Copy>(values: &[T], test: impl Fn(T) -> bool) -> bool {
    values.chunks(64).any(|part| part.iter().fold(false, |found, &v| found | test(v)))
}

/// The number of kept values if it is the same for every row, and the index of the first; None otherwise.
fn same_number(column: &Column, all: bool) -> Option<(usize, usize)> {
    let (first, n) = match column.offsets {
        None => (0, 1),
        Some(&[first, second, ..]) => (first as usize, (second - first) as usize),
        Some(_) => return None,
    };
    let same = column.offsets.is_none_or(|o| o.windows(2).all(|o| (o[1] - o[0]) as usize == n));
    let kept = all
        || match column.values {
            Values::Ints(v) => !any(v, |v| v == 0),
            Values::Floats(v) => !any(v, is_zero),
        };
    (n > 0 && same && kept).then_some((n, first))
}

/// Copies row `i` of `from`, `n` values, to `to[i * width..]`, for the rows of `to`.
fn spread<T: Copy, U>(from: &[T], n: usize, to: &mut [U], width: usize, convert: impl Fn(T) -> U) {
    if n == 1 {
        for (&v, to) in from.iter().zip(to.iter_mut().step_by(width)) {
            *to = convert(v);
        }
        return;
    }
    for (from, to) in from.chunks_exact(n).zip(to.chunks_mut(width)) {
        for (&v, to) in from.iter().zip(to) {
            *to = convert(v);
        }
    }
}

fn zeros<T: Default + Clone>(n: usize) -> Vec<T> {
    let mut values = vec![T::default(); n];
    prefer_huge_for(&mut values);
    values
}

/// The rows as instances if every row has as many kept values of a slot as the others (None otherwise), slot by slot.
fn even_block(desc: &Desc, slots: &[&Slot], columns: &[Column], rows: usize) -> Option<Block> {
    let mut found = Vec::with_capacity(slots.len());
    let (mut ints, mut floats) = (0, 0);
    for (slot, column) in slots.iter().zip(columns) {
        let (n, first) = same_number(column, !desc.drop_zeros || slot.dense)?;
        if slot.each > 1 && n % slot.each != 0 {
            return None;
        }
        let at = if slot.float { &mut floats } else { &mut ints };
        found.push((n, first, *at));
        *at += n;
    }
    let mut block = Block {
        ints: zeros(rows * ints),
        floats: zeros(rows * floats),
        counts: found.iter().map(|&(n, ..)| n as u32).collect(),
        ends: (1..=rows).map(|row| ((row * ints) as u32, (row * floats) as u32)).collect(),
        ..Block::default()
    };
    for begin in (0..rows).step_by(TILE) {
        for (column, &(n, first, at)) in columns.iter().zip(&found) {
            let from = first + begin * n..first + (begin + TILE).min(rows) * n;
            match column.values {
                Values::Ints(v) => spread(&v[from], n, &mut block.ints[begin * ints + at..], ints, |v| v as u64),
                Values::Floats(v) => spread(&v[from], n, &mut block.floats[begin * floats + at..], floats, |v| v),
            }
        }
    }
    Some(block)
}

/// Appends the values of a row that are kept (all of them with `all`); returns their number.
#[inline]
fn keep<T: Copy, U>(
    from: &[T],
    to: &mut Vec<U>,
    convert: impl Fn(T) -> U,
    all: bool,
    kept: impl Fn(T) -> bool,
) -> usize {
    let before = to.len();
    match from {
        [v] if all || kept(*v) => to.push(convert(*v)),
        [_] => {}
        _ if all => to.extend(from.iter().map(|&v| convert(v))),
        _ => from.iter().filter(|&&v| kept(v)).for_each(|&v| to.push(convert(v))),
    }
    to.len() - before
}

/// The rows as instances; `columns` has one for each used slot, and `first` is the number of the first row, for errors.
pub fn block(desc: &Desc, columns: &[Column], first: usize) -> Result<Block> {
    let slots: Vec<&Slot> = desc.used().collect();
    ensure!(slots.len() == columns.len(), InvalidArgument, "{} columns for {} slots", columns.len(), slots.len());
    let rows = columns.first().map_or(0, Column::rows);
    let (mut ints, mut floats) = (0, 0);
    for (slot, column) in slots.iter().zip(columns) {
        column.check(slot, rows)?;
        *(if slot.float { &mut floats } else { &mut ints }) += column.values.len();
    }
    ensure!(ints < MOST && floats < MOST, InvalidArgument, "{rows} rows with {} values are too many", ints + floats);
    if let Some(block) = even_block(desc, &slots, columns, rows) {
        return Ok(block);
    }
    let mut block = Block {
        ints: Vec::with_capacity(ints),
        floats: Vec::with_capacity(floats),
        counts: Vec::with_capacity(rows * slots.len()),
        ends: Vec::with_capacity(rows),
        ..Block::default()
    };
    for row in 0..rows {
        for (slot, column) in slots.iter().zip(columns) {
            let (from, to) = column.offsets.map_or((row, row + 1), |o| (o[row] as usize, o[row + 1] as usize));
            if from == to {
                bail!(InvalidArgument, "row {}: column '{}' has no value ({PADDED})", first + row + 1, slot.name);
            }
            let all = !desc.drop_zeros || slot.dense;
            let n = match column.values {
                Values::Ints(v) => keep(&v[from..to], &mut block.ints, |v| v as u64, all, |v| v != 0),
                Values::Floats(v) => keep(&v[from..to], &mut block.floats, |v| v, all, |v| !is_zero(v)),
            };
            if slot.each > 1 && n % slot.each != 0 {
                bail!(
                    InvalidArgument,
                    "row {}: column '{}' of shape {:?} takes a multiple of {} values, got {n}",
                    first + row + 1,
                    slot.name,
                    slot.shape,
                    slot.each
                );
            }
            block.counts.push(n as u32);
        }
        block.end_instance();
    }
    Ok(block)
}
