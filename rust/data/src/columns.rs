//! Instances from columns: for each slot all values of the rows, and where each row's begin.

use super::block::{Block, MOST};
use super::desc::{Desc, Slot};
use super::parse::PADDED;
use oar_core::base::Result;
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
                Values::Floats(v) => keep(&v[from..to], &mut block.floats, |v| v, all, |v| v.abs() >= 1e-6),
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
