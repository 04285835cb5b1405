//! Sums of values of any kind, for `sum`, gradients of arrays and loops.

use super::broadcast::binary;
use crate::index::out_of_range;
use half::{bf16, f16};
use oar_core::base::Result;
use oar_core::tensor::{SelectedRows, Tensor, Value};
use oar_core::{bail, dispatch, ensure};
use oar_kernels::elementwise::Binary;
use oar_kernels::shape::index::{scatter, Scatter};
use std::sync::Arc;

/// total += t.
pub fn accumulate(total: &mut Tensor, t: &Tensor) -> Result<()> {
    ensure!(
        total.dims() == t.dims() && total.dtype() == t.dtype(),
        InvalidArgument,
        "operator sum: cannot add {t:?} to {total:?}"
    );
    if t.dtype().is_complex() {
        *total = binary("sum", Binary::Add, total, t, -1)?.with_lod(total.lod.take());
        return Ok(());
    }
    let n = t.numel();
    dispatch!(t.dtype(), T in [f32, f64, i32, i64, f16, bf16, i16, i8, u8], {
        let a = total.data_mut::<T>()?;
        let _ = oar_kernels::elementwise::binary_inplace(Binary::Add, &[n], a, (t.data::<T>(), &[1]));
    }, other => bail!(Unimplemented, "operator sum has no CPU kernel for data type {other}"));
    Ok(())
}

/// total[rows[i]] += value[i].
pub fn add_rows(total: &mut Tensor, r: &SelectedRows) -> Result<()> {
    let width = r.value.numel() / r.rows.len().max(1);
    let height = total.dims().first().copied().unwrap_or(0);
    ensure!(
        total.numel() == height as usize * width || r.rows.is_empty(),
        InvalidArgument,
        "operator sum: SelectedRows of width {width} do not fit a tensor of shape {:?}",
        total.dims()
    );
    for &row in r.rows.iter() {
        ensure!(0 <= row && row < height, OutOfRange, "row {row} of SelectedRows is outside a tensor of {height} rows");
    }
    dispatch!(total.dtype(), T in [f32, f64], {
        let (values, out) = (r.value.data::<T>(), total.data_mut::<T>()?);
        scatter(Scatter::Add, &r.rows[..], values, width, out).map_err(|e| out_of_range("sum", e))?;
    }, other => bail!(Unimplemented, "SelectedRows of data type {other} cannot be added"));
    Ok(())
}

/// The sum of two dense tensors, arrays or SelectedRows; an empty value is zero.
pub fn add_values(a: Value, b: &Value) -> Result<Value> {
    Ok(match (a, b) {
        (Value::None, b) => b.clone(),
        (a, Value::None) => a,
        (Value::Dense(mut t), Value::Dense(b)) => {
            if t.numel() == 0 {
                return Ok(Value::Dense(b.clone()));
            }
            accumulate(&mut t, b)?;
            Value::Dense(t)
        }
        (Value::Array(mut a), Value::Array(b)) => {
            let items = Arc::make_mut(&mut a);
            if items.len() < b.len() {
                items.resize(b.len(), Value::None);
            }
            for (x, y) in items.iter_mut().zip(b.iter()) {
                *x = add_values(std::mem::take(x), y)?;
            }
            Value::Array(a)
        }
        (a, b) => {
            let op = oar_core::op::table::need("sum")?;
            let ins = vec![vec![a, b.clone()]];
            let mut outs = oar_core::op::call::call_simple(op, &Default::default(), ins)?;
            outs.swap_remove(0).swap_remove(0)
        }
    })
}
