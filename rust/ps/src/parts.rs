//! Splits values into the parts that servers hold, and concatenates parts.

use oar_core::base::{Dims, Result};
use oar_core::tensor::{SelectedRows, Tensor};
use oar_core::{bail, ensure};
use oar_ops_common::selected_rows::check_rows;
use std::sync::Arc;

/// The rows of `t` at `positions`, which must be in range.
pub fn take_rows(t: &Tensor, positions: &[usize]) -> Result<Tensor> {
    let mut dims = Dims::from_slice(t.dims());
    dims[0] = positions.len() as i64;
    let mut out = Tensor::empty(t.dtype(), &dims)?;
    let width = t.nbytes() / (t.dims()[0].max(1) as usize);
    if width > 0 {
        let from = t.bytes();
        for (row, &at) in out.bytes_mut()?.chunks_exact_mut(width).zip(positions) {
            row.copy_from_slice(&from[at * width..(at + 1) * width]);
        }
    }
    Ok(out)
}

/// Splits rows by the section that contains them; row numbers become relative to the section's start. Order is kept.
pub fn split_by_sections(op: &str, x: &SelectedRows, sections: &[i64]) -> Result<Vec<SelectedRows>> {
    check_rows(op, x)?;
    let mut ends = Vec::with_capacity(sections.len());
    let mut total = 0i64;
    for &s in sections {
        total = total.saturating_add(s);
        ends.push(total);
    }
    let mut positions: Vec<Vec<usize>> = vec![Vec::new(); sections.len()];
    for (at, &row) in x.rows.iter().enumerate() {
        let section = ends.partition_point(|&end| end <= row);
        let Some(list) = positions.get_mut(section) else {
            bail!(OutOfRange, "operator {op}: row {row} of 'X' lies beyond height_sections {sections:?}")
        };
        list.push(at);
    }
    let part = |(i, list): (usize, &Vec<usize>)| {
        let start = ends[i] - sections[i];
        let rows: Vec<i64> = list.iter().map(|&at| x.rows[at] - start).collect();
        Ok(SelectedRows { rows: Arc::new(rows), height: sections[i], value: take_rows(&x.value, list)? })
    };
    positions.iter().enumerate().map(part).collect()
}

/// Concatenates blocks of rows.
pub fn concat(op: &str, parts: &[&Tensor]) -> Result<Tensor> {
    let [first, ..] = parts else { bail!(InvalidArgument, "operator {op}: nothing to join") };
    let mut dims = Dims::from_slice(first.dims());
    ensure!(!dims.is_empty(), InvalidArgument, "operator {op}: a block has no rows");
    for t in &parts[1..] {
        ensure!(
            t.rank() == dims.len() && t.dims()[1..] == dims[1..] && t.dtype() == first.dtype(),
            InvalidArgument,
            "operator {op}: blocks {:?} and {:?} do not belong to one parameter",
            first.dims(),
            t.dims()
        );
        dims[0] += t.dims()[0];
    }
    let mut whole = Tensor::empty(first.dtype(), &dims)?;
    let mut at = 0;
    let bytes = whole.bytes_mut()?;
    for t in parts {
        bytes[at..at + t.nbytes()].copy_from_slice(t.bytes());
        at += t.nbytes();
    }
    Ok(whole)
}
