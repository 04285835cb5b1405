//! Sums and differences of the values that trainers send.

use oar_core::base::{DType, Dims, Result};
use oar_core::tensor::{SelectedRows, Tensor, Value};
use oar_core::{bail, ensure};
use oar_ops_common::selected_rows::merged;
use std::sync::Arc;

/// `to[i] = f(to[i], from[i], factor)` for tensors of one type.
fn each(to: &mut Tensor, from: &Tensor, factor: f64, f: impl Fn(f64, f64, f64) -> f64) -> Result<()> {
    ensure!(
        to.dtype() == from.dtype() && to.numel() == from.numel(),
        InvalidArgument,
        "{} {:?} does not match {} {:?}",
        to.dtype(),
        to.dims(),
        from.dtype(),
        from.dims()
    );
    match to.dtype() {
        DType::F32 => {
            let from = from.data::<f32>();
            let it = to.data_mut::<f32>()?.iter_mut().zip(from);
            it.for_each(|(a, b)| *a = f((*a).into(), (*b).into(), factor) as f32);
        }
        DType::F64 => {
            let from = from.data::<f64>();
            to.data_mut::<f64>()?.iter_mut().zip(from).for_each(|(a, b)| *a = f(*a, *b, factor));
        }
        DType::I64 => {
            let from = from.data::<i64>();
            to.data_mut::<i64>()?.iter_mut().zip(from).for_each(|(a, b)| *a = a.wrapping_add(*b));
        }
        other => bail!(Unimplemented, "values of {other} are not merged"),
    }
    Ok(())
}

/// `to += factor * from`. Integers (counters of steps) are added without the factor.
pub fn add(to: &mut Tensor, from: &Tensor, factor: f64) -> Result<()> {
    if factor == 1.0 {
        return each(to, from, factor, |a, b, _| a + b);
    }
    each(to, from, factor, |a, b, k| a + k * b)
}

/// `factor * (a - b)`.
pub fn difference(a: &Tensor, b: &Tensor, factor: f64) -> Result<Tensor> {
    ensure!(!matches!(a.dtype(), DType::I64), Unimplemented, "parameters of int64 are not trained");
    let mut out = a.clone().with_lod(None);
    each(&mut out, b, factor, |a, b, k| k * (a - b))?;
    Ok(out)
}

fn scaled(mut t: Tensor, factor: f64) -> Result<Tensor> {
    let from = t.clone();
    each(&mut t, &from, factor, |_, b, k| k * b)?;
    Ok(t)
}

/// The sum of one variable's values over several steps, or with `mean` their mean. `once` merges duplicate rows.
pub fn merge_steps(name: &str, values: Vec<Value>, mean: bool, once: bool) -> Result<Value> {
    let factor = if mean { 1.0 / values.len() as f64 } else { 1.0 };
    let mut values = values.into_iter();
    let Some(first) = values.next() else { bail!(InvalidArgument, "nothing of '{name}' to merge") };
    match first {
        Value::Dense(mut t) => {
            let several = values.len() > 0;
            for v in values {
                add(&mut t, v.dense()?, 1.0)?;
            }
            Ok(Value::Dense(if mean && several { scaled(t, factor)? } else { t }))
        }
        Value::Rows(first) => {
            let mut all = vec![*first];
            for v in values {
                match v {
                    Value::Rows(r) => all.push(*r),
                    other => bail!(InvalidArgument, "'{name}' was SelectedRows and is {} now", other.what()),
                }
            }
            let mut whole = concat_rows(name, all)?;
            if once {
                whole = merged(name, &whole)?;
            }
            if mean && factor != 1.0 {
                whole.value = scaled(whole.value, factor)?;
            }
            Ok(whole.into())
        }
        other => bail!(InvalidArgument, "the variable '{name}' cannot be sent: it is {}", other.what()),
    }
}

/// Rows of one matrix, concatenated.
pub fn concat_rows(name: &str, mut all: Vec<SelectedRows>) -> Result<SelectedRows> {
    if all.len() == 1 {
        return Ok(all.remove(0));
    }
    let (dtype, height) = (all[0].value.dtype(), all[0].height);
    let mut dims = Dims::from_slice(all[0].value.dims());
    for r in &all[1..] {
        let fits = r.height == height && r.value.dtype() == dtype && r.value.dims().get(1..) == dims.get(1..);
        ensure!(fits, InvalidArgument, "the rows of '{name}' do not belong to one matrix");
    }
    let rows: Vec<i64> = all.iter().flat_map(|r| r.rows.iter().copied()).collect();
    if let Some(n) = dims.first_mut() {
        *n = rows.len() as i64;
    }
    let mut value = Tensor::empty(dtype, &dims)?;
    let (mut at, bytes) = (0, value.bytes_mut()?);
    for r in &all {
        let n = r.value.nbytes();
        let Some(to) = bytes.get_mut(at..at + n) else {
            bail!(InvalidArgument, "'{name}' has more elements than rows")
        };
        to.copy_from_slice(r.value.bytes());
        at += n;
    }
    Ok(SelectedRows { rows: Arc::new(rows), height, value })
}
