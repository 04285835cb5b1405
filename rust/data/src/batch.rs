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
pub fn assemble<'a>(desc: &Desc, instances: impl Iterator<Item = Instance<'a>> + Clone) -> Result<Batch> {
    let used: Vec<&Slot> = desc.used().collect();
    let mut totals = vec![0; used.len()];
    for instance in instances.clone() {
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
    let (mut batch_size, mut ids, mut contents) = (0, Vec::new(), Vec::new());
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
        batch_size += 1;
        if desc.ids {
            ids.push(instance.id.into());
        }
        if desc.contents {
            contents.push(instance.content.into());
        }
    }
    let values = used
        .iter()
        .zip(columns)
        .zip(offsets)
        .map(|((slot, column), offsets)| Ok(Value::Dense(tensor(desc, slot, &column, offsets)?)))
        .collect::<Result<_>>()?;
    Ok(Batch { instances: batch_size, values, ids, contents })
}

fn tensor(desc: &Desc, slot: &Slot, column: &Column, mut offsets: Vec<usize>) -> Result<Tensor> {
    let total = match column {
        Column::Ints(v) => v.len(),
        Column::Floats(v) => v.len(),
    };
    let dims = if slot.dense { dense_dims(slot, total)? } else { vec![total as i64, 1] };
    let mut t = Tensor::empty(if slot.float { DType::F32 } else { DType::I64 }, &dims)?;
    match column {
        Column::Ints(v) => t.data_mut::<i64>()?.copy_from_slice(v),
        Column::Floats(v) => t.data_mut::<f32>()?.copy_from_slice(v),
    }
    if slot.dense {
        return Ok(t);
    }
    if desc.whole_batches {
        ensure!(
            offsets.len() == 2,
            InvalidArgument,
            "slot '{}': where a line is a batch (input_type 1), the batch size of the data set is 1, got batches of {}",
            slot.name,
            offsets.len() - 1
        );
        offsets = (0..=total).collect();
    }
    Ok(t.with_lod(Some(Arc::new(vec![offsets]))))
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
