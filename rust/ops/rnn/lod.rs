//! Sequences of rows by LoD, for every family of this group.

use oar_core::base::Result;
use oar_core::tensor::Tensor;
use oar_core::{ensure, err};

/// The offsets of the sequences of the first level, counted in rows: they begin at 0, ascend, and end at the first size.
pub fn offsets(op: &str, name: &str, t: &Tensor) -> Result<Vec<usize>> {
    let wrong = || {
        err!(
            InvalidArgument,
            "operator {op}: {name} must have LoD that ascends from 0 to its first size, got {t:?} with LoD {:?}",
            t.lod
        )
    };
    let levels = t.lod.as_deref().filter(|levels| !levels.is_empty()).ok_or_else(|| {
        err!(InvalidArgument, "operator {op}: {name} must have LoD, which tells the sequences, got {t:?} without")
    })?;
    let mut at = levels[0].clone();
    for level in &levels[1..] {
        at = at.iter().map(|&i| level.get(i).copied().ok_or_else(wrong)).collect::<Result<_>>()?;
    }
    let rows = t.dims().first().copied().unwrap_or(0) as usize;
    ensure!(at.first() == Some(&0) && at.last() == Some(&rows) && at.is_sorted(), InvalidArgument, "{}", wrong());
    Ok(at)
}

/// The lengths of padded sequences: one for each of `count`, at most `most`.
pub fn lengths(op: &str, name: &str, t: &Tensor, count: usize, most: usize) -> Result<Vec<usize>> {
    let values = oar_core::op::parts::given::ints(op, t)?;
    let fits = |&n: &i64| n >= 0 && n <= most as i64;
    ensure!(
        values.len() == count && values.iter().all(fits),
        InvalidArgument,
        "operator {op}: {name} must have {count} lengths between 0 and {most}, got {:?}",
        &values[..values.len().min(16)]
    );
    Ok(values.into_iter().map(|n| n as usize).collect())
}
