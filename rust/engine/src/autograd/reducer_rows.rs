//! Averages SelectedRows gradients over the ranks.

use super::bucket::{average, Param};
use oar_comm as comm;
use oar_comm::rows::{gather, gather_rows};
use oar_core::base::{DType, Result};
use oar_core::tensor::{SelectedRows, Tensor, Value};
use oar_core::{bail, ensure, err};
use oar_net::Group;
use std::collections::BTreeMap;
use std::sync::Arc;

trait Averaged:
    oar_core::base::dtype::Element + Copy + Default + std::ops::AddAssign + std::ops::Div<Output = Self>
{
    fn from_count(n: usize) -> Self;
}
impl Averaged for f32 {
    fn from_count(n: usize) -> f32 {
        n as f32
    }
}
impl Averaged for f64 {
    fn from_count(n: usize) -> f64 {
        n as f64
    }
}

pub fn dense(r: &SelectedRows) -> Result<Tensor> {
    match r.value.dtype() {
        DType::F32 => dense_of::<f32>(r),
        DType::F64 => dense_of::<f64>(r),
        other => bail!(Unimplemented, "SelectedRows of {other} as a gradient between processes"),
    }
}

/// The whole matrix, with zeros in absent rows.
fn dense_of<T: Averaged>(r: &SelectedRows) -> Result<Tensor> {
    let mut dims = r.value.dims().to_vec();
    dims[0] = r.height;
    let mut whole = Tensor::zeros(r.value.dtype(), &dims)?;
    let width = r.value.numel() / r.rows.len().max(1);
    let (out, values) = (whole.data_mut::<T>()?, r.value.data::<T>());
    for (k, &row) in r.rows.iter().enumerate() {
        ensure!((0..r.height).contains(&row), InvalidArgument, "row {row} of SelectedRows with {} rows", r.height);
        let at = row as usize * width;
        out[at..at + width].iter_mut().zip(&values[k * width..(k + 1) * width]).for_each(|(o, v)| *o += *v);
    }
    Ok(whole)
}

/// The average of SelectedRows gradients; rows ascend, so that every rank has the same bits. If one rank has a dense
/// gradient, all get one. `None` if no rank has a gradient.
pub fn rows_average(group: &Group, param: &Param, mine: Option<Value>) -> Result<Option<Value>> {
    const ABSENT: i64 = -1;
    const DENSE: i64 = -2;
    let like = param.var.tensor()?;
    let mine = mine.unwrap_or_default();
    let state = match &mine {
        Value::None => ABSENT,
        Value::Rows(r) => r.rows.len() as i64,
        _ => DENSE,
    };
    let states = gather(group, Tensor::scalar(state)?)?.to_i64s()?;
    if states.iter().all(|s| *s == ABSENT) {
        return Ok(None);
    }
    if states.contains(&DENSE) {
        let sum = match mine {
            Value::None => Tensor::zeros(like.dtype(), like.dims())?,
            Value::Rows(r) => dense(&r)?,
            other => other.dense()?.deep_copy()?,
        };
        comm::run(group, average(&sum)?)?;
        return Ok(Some(sum.into()));
    }
    let width: usize = like.dims()[1..].iter().map(|d| *d as usize).product();
    let counts: Vec<usize> = states.iter().map(|n| (*n).max(0) as usize).collect();
    let mut none = like.dims().to_vec();
    none[0] = 0;
    let mine = match mine {
        Value::Rows(r) => *r,
        _ => SelectedRows { rows: Arc::default(), height: like.dims()[0], value: Tensor::empty(like.dtype(), &none)? },
    };
    ensure!(
        mine.value.dtype() == like.dtype() && mine.value.numel() == mine.rows.len() * width,
        InvalidArgument,
        "the gradient of parameter {} has rows {:?}, the parameter is {like:?}",
        param.name,
        mine.value
    );
    let all = gather_rows(group, &counts, &mine)?;
    // For every row its positions, by rank and then in the rank's order.
    let mut places: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (at, row) in all.rows.iter().enumerate() {
        places.entry(*row).or_default().push(at);
    }
    let mut dims = like.dims().to_vec();
    dims[0] = places.len() as i64;
    let value = match like.dtype() {
        DType::F32 => merged::<f32>(&places, &all.value, width, &dims, group.world())?,
        DType::F64 => merged::<f64>(&places, &all.value, width, &dims, group.world())?,
        other => return Err(err!(Unimplemented, "SelectedRows of {other} as a gradient between processes")),
    };
    let rows = Arc::new(places.into_keys().collect());
    Ok(Some(SelectedRows { rows, height: like.dims()[0], value }.into()))
}

fn merged<T: Averaged>(
    places: &BTreeMap<i64, Vec<usize>>,
    values: &Tensor,
    width: usize,
    dims: &[i64],
    world: usize,
) -> Result<Tensor> {
    let mut out = Tensor::zeros(T::DTYPE, dims)?;
    let (into, from) = (out.data_mut::<T>()?, values.data::<T>());
    for (k, at) in places.values().enumerate() {
        let row = &mut into[k * width..(k + 1) * width];
        for p in at {
            row.iter_mut().zip(&from[p * width..(p + 1) * width]).for_each(|(o, v)| *o += *v);
        }
        row.iter_mut().for_each(|o| *o = *o / T::from_count(world));
    }
    Ok(out)
}
