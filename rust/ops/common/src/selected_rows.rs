//! SelectedRows: checks, and duplicate rows summed.

use half::{bf16, f16};
use oar_core::base::Result;
use oar_core::tensor::{SelectedRows, Tensor};
use oar_core::{bail, dispatch, ensure};
use oar_kernels::optimizer::{distinct, sum_rows};
use std::borrow::Cow;
use std::sync::Arc;

/// Fails unless every row number is within the height and has a row of the value.
pub fn check_rows(op: &str, r: &SelectedRows) -> Result<()> {
    let first = r.value.dims().first().copied().unwrap_or(0);
    ensure!(
        first == r.rows.len() as i64,
        InvalidArgument,
        "operator {op}: SelectedRows list {} rows, but the value has {first}",
        r.rows.len()
    );
    if let Some(row) = r.rows.iter().find(|&&row| row < 0 || row >= r.height) {
        bail!(OutOfRange, "operator {op}: row {row} of SelectedRows is not within the height {}", r.height);
    }
    Ok(())
}

/// Duplicate rows summed, rows in ascending order. Returns the input if its rows ascend already.
pub fn ascending<'a>(op: &str, r: &'a SelectedRows) -> Result<Cow<'a, SelectedRows>> {
    check_rows(op, r)?;
    if r.rows.is_sorted_by(|a, b| a < b) {
        return Ok(Cow::Borrowed(r));
    }
    let (rows, place) = distinct(&r.rows, r.height as usize);
    Ok(Cow::Owned(summed(op, r, rows, &place)?))
}

fn summed(op: &str, r: &SelectedRows, rows: Vec<i64>, place: &[u32]) -> Result<SelectedRows> {
    let mut dims = oar_core::base::Dims::from_slice(r.value.dims());
    dims[0] = rows.len() as i64;
    let width = r.value.numel() / r.rows.len().max(1);
    let mut value = Tensor::empty(r.value.dtype(), &dims)?;
    dispatch!(value.dtype(), T in [f32, f64, i32, i64, f16, bf16], {
        sum_rows(place, r.value.data::<T>(), width, value.data_mut::<T>()?);
    }, other => bail!(Unimplemented, "operator {op} cannot add rows of data type {other}"));
    Ok(SelectedRows { rows: Arc::new(rows), height: r.height, value })
}

/// Duplicate rows summed. Distinct rows keep their order, as in Paddle.
pub fn merged(op: &str, r: &SelectedRows) -> Result<SelectedRows> {
    check_rows(op, r)?;
    let (rows, place) = distinct(&r.rows, r.height.max(0) as usize);
    if rows.len() == r.rows.len() {
        return Ok(r.clone());
    }
    summed(op, r, rows, &place)
}
