//! Converts instances to the values that are fed to a Program.

use super::block::Instance;
use super::desc::{Desc, Slot};
use oar_core::base::{DType, Result};
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, ensure};
use std::sync::Arc;

pub struct Batch {
    pub instances: usize,
    /// One value per used slot.
    pub values: Vec<Value>,
    /// Ids and contents of the instances, if the lines have them.
    pub ids: Vec<Box<str>>,
    pub contents: Vec<Box<str>>,
}

/// The source of a training thread's batches.
pub trait Batches: Send {
    fn next(&mut self) -> Result<Option<Batch>>;
}

enum Column {
    Ints(Vec<i64>),
    Floats(Vec<f32>),
}

/// Assembles instances to a batch.
pub fn assemble<'a>(desc: &Desc, instances: impl Iterator<Item = Instance<'a>>) -> Result<Batch> {
    let used: Vec<&Slot> = desc.used().collect();
    let instances: Vec<Instance> = instances.collect();
    let counts = instances.first().map_or(&[][..], |i| i.counts);
    let even = !counts.contains(&0) && instances.iter().all(|i| i.counts == counts);
    let values = if even { even_values(desc, &used, counts, &instances) } else { values(desc, &used, &instances) }?;
    let texts = |kept: bool, text: fn(&Instance<'a>) -> &'a str| -> Vec<Box<str>> {
        instances.iter().filter(|_| kept).map(|i| text(i).into()).collect()
    };
    let (ids, contents) = (texts(desc.ids, |i| i.id), texts(desc.contents, |i| i.content));
    Ok(Batch { instances: instances.len(), values, ids, contents })
}

/// The values of instances that have the same numbers of values, `counts`, slot by slot.
fn even_values(desc: &Desc, used: &[&Slot], counts: &[u32], instances: &[Instance]) -> Result<Vec<Value>> {
    fn copy<'a, T: Copy + 'a, U>(
        to: &mut [U],
        n: usize,
        rows: impl Iterator<Item = &'a [T]>,
        at: usize,
        convert: fn(T) -> U,
    ) {
        if n <= 1 {
            to.iter_mut().zip(rows).for_each(|(to, from)| *to = convert(from[at]));
            return;
        }
        for (to, from) in to.chunks_exact_mut(n).zip(rows) {
            to.iter_mut().zip(&from[at..at + n]).for_each(|(to, &v)| *to = convert(v));
        }
    }
    let (mut ints, mut floats) = (0, 0);
    let mut values = Vec::with_capacity(used.len());
    for (i, slot) in used.iter().enumerate() {
        // Without instances there are no counts.
        let n = counts.get(i).map_or(0, |&n| n as usize);
        let mut t = empty(slot, n * instances.len())?;
        if slot.float {
            copy(t.data_mut::<f32>()?, n, instances.iter().map(|i| i.floats), floats, |v| v);
            floats += n;
        } else {
            copy(t.data_mut::<i64>()?, n, instances.iter().map(|i| i.ints), ints, |v| v as i64);
            ints += n;
        }
        values.push(finished(desc, slot, t, (0..=instances.len()).map(|i| i * n).collect())?);
    }
    Ok(values)
}

fn values(desc: &Desc, used: &[&Slot], instances: &[Instance]) -> Result<Vec<Value>> {
    let mut totals = vec![0; used.len()];
    for instance in instances {
        for (total, &n) in totals.iter_mut().zip(instance.counts) {
            *total += n.max(1) as usize;
        }
    }
    let mut columns: Vec<Column> = used
        .iter()
        .zip(&totals)
        .map(|(slot, &n)| match slot.float {
            true => Column::Floats(Vec::with_capacity(n)),
            false => Column::Ints(Vec::with_capacity(n)),
        })
        .collect();
    let mut offsets: Vec<Vec<usize>> = used.iter().map(|_| vec![0]).collect();
    for instance in instances {
        let (mut ints, mut floats) = (instance.ints, instance.floats);
        for ((column, ends), &n) in columns.iter_mut().zip(&mut offsets).zip(instance.counts) {
            // A slot whose zeros were all dropped gets a single zero.
            let end = match column {
                Column::Ints(column) => {
                    let (own, rest) = ints.split_at(n as usize);
                    ints = rest;
                    column.extend(own.iter().map(|&v| v as i64));
                    if own.is_empty() {
                        column.push(0);
                    }
                    column.len()
                }
                Column::Floats(column) => {
                    let (own, rest) = floats.split_at(n as usize);
                    floats = rest;
                    column.extend_from_slice(own);
                    if own.is_empty() {
                        column.push(0.0);
                    }
                    column.len()
                }
            };
            ends.push(end);
        }
    }
    let all = used.iter().zip(columns).zip(offsets).map(|((slot, column), offsets)| {
        let mut t = empty(slot, offsets.last().map_or(0, |&n| n))?;
        match column {
            Column::Ints(v) => t.data_mut::<i64>()?.copy_from_slice(&v),
            Column::Floats(v) => t.data_mut::<f32>()?.copy_from_slice(&v),
        }
        finished(desc, slot, t, offsets)
    });
    all.collect()
}

/// A tensor for `total` values of a slot.
fn empty(slot: &Slot, total: usize) -> Result<Tensor> {
    let dims = if slot.dense { dense_dims(slot, total)? } else { vec![total as i64, 1] };
    Tensor::empty(if slot.float { DType::F32 } else { DType::I64 }, &dims)
}

/// The value of a slot: a sparse one has the offsets of its instances as LoD.
fn finished(desc: &Desc, slot: &Slot, t: Tensor, mut offsets: Vec<usize>) -> Result<Value> {
    if slot.dense {
        return Ok(Value::Dense(t));
    }
    if desc.whole_batches {
        ensure!(
            offsets.len() == 2,
            InvalidArgument,
            "slot '{}': where a line is a batch (input_type 1), the batch size of the data set is 1, got batches of {}",
            slot.name,
            offsets.len() - 1
        );
        offsets = (0..=t.numel()).collect();
    }
    Ok(Value::Dense(t.with_lod(Some(Arc::new(vec![offsets])))))
}

fn dense_dims(slot: &Slot, total: usize) -> Result<Vec<i64>> {
    let known: i64 = slot.shape.iter().filter(|&&d| d > 0).product();
    let open = slot.shape.contains(&-1);
    if known == 0 || total as i64 % known != 0 || (!open && total as i64 != known) {
        bail!(
            InvalidArgument,
            "slot '{}' is dense, of shape {:?}, and a batch has {total} values for it, which do not fit",
            slot.name,
            slot.shape
        );
    }
    Ok(slot.shape.iter().map(|&d| if d == -1 { total as i64 / known } else { d }).collect())
}
