//! LoD levels: offsets that ascend from 0 and divide all rows of a tensor into sequences.

use oar_core::base::Result;
use oar_core::ensure;
use oar_core::tensor::Tensor;
use std::sync::Arc;

/// Fails unless the level ascends from 0 and ends at `count`.
pub fn check(op: &str, name: &str, level: &[usize], count: usize) -> Result<()> {
    let fine = level.first() == Some(&0) && level.is_sorted() && level.last() == Some(&count);
    ensure!(
        fine,
        InvalidArgument,
        "operator {op}: the LoD level {level:?} of '{name}' must divide its {count} rows into sequences"
    );
    Ok(())
}

/// The number of levels of a tensor's LoD.
pub fn count(x: &Tensor) -> usize {
    x.lod.as_ref().map_or(0, |l| l.len())
}

fn nth<'a>(op: &str, name: &str, x: &'a Tensor, last: bool) -> Result<&'a [usize]> {
    let lod = x.lod.as_deref().map_or(&[][..], |l| &l[..]);
    let level = if last { lod.last() } else { lod.first() };
    ensure!(level.is_some(), InvalidArgument, "operator {op}: input '{name}' must have LoD, got none");
    ensure!(x.rank() > 0, InvalidArgument, "operator {op}: input '{name}' must have a dimension");
    let level = level.map_or(&[][..], |l| &l[..]);
    check(op, name, level, x.dims()[0] as usize)?;
    Ok(level)
}

/// The offsets of the first level, which must divide the rows.
pub fn first<'a>(op: &str, name: &str, x: &'a Tensor) -> Result<&'a [usize]> {
    nth(op, name, x, false)
}

/// The offsets of the last level, which must divide the rows.
pub fn last<'a>(op: &str, name: &str, x: &'a Tensor) -> Result<&'a [usize]> {
    nth(op, name, x, true)
}

/// The only level of a tensor's LoD.
pub fn only<'a>(op: &str, name: &str, x: &'a Tensor) -> Result<&'a [usize]> {
    let levels = count(x);
    ensure!(
        levels <= 1,
        InvalidArgument,
        "operator {op}: the LoD of input '{name}' must have one level, got {levels} levels"
    );
    first(op, name, x)
}

/// A LoD of one level.
pub fn one(level: Vec<usize>) -> Option<Arc<Vec<Vec<usize>>>> {
    Some(Arc::new(vec![level]))
}

/// Offsets from lengths.
pub fn offsets(lengths: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut at = 0;
    std::iter::once(0)
        .chain(lengths.into_iter().map(|n| {
            at += n;
            at
        }))
        .collect()
}

/// The lengths of a level's sequences.
pub fn lengths(level: &[usize]) -> impl Iterator<Item = usize> + '_ {
    level.windows(2).map(|w| w[1] - w[0])
}

/// Elements of one row.
pub fn width(x: &Tensor) -> usize {
    x.dims().iter().skip(1).product::<i64>() as usize
}
