//! Conversion between values and messages. No bytes are copied: variables are received into the tensor they are for.

use crate::protocol::{Buffer, Incoming, Meta, Outgoing, ValueKind};
use oar_core::base::shape::checked_numel;
use oar_core::base::{DType, Dims, Result};
use oar_core::tensor::{SelectedRows, Tensor, Value};
use oar_core::{bail, err};
use std::any::Any;
use std::sync::Arc;

/// A tensor as the memory of a variable.
struct TensorBuffer(Tensor);

impl Buffer for TensorBuffer {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        // The tensor was allocated for this variable and is not shared, so writing cannot fail for lack of memory.
        self.0.bytes_mut().unwrap_or_default()
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

fn sizes(dims: &[i64]) -> Vec<u64> {
    dims.iter().map(|&d| d as u64).collect()
}

/// A value as a message, under the name that the other end knows.
pub fn outgoing(name: &str, value: Value) -> Result<Outgoing> {
    let (kind, rows, height, t) = match value {
        Value::Dense(t) => (ValueKind::Dense, Vec::new(), 0, t),
        Value::Rows(r) => {
            let r = *r;
            (ValueKind::Rows, r.rows.to_vec(), r.height as u64, r.value)
        }
        other => bail!(InvalidArgument, "the variable '{name}' cannot be sent: it is {}", other.what()),
    };
    if !t.has_bytes() {
        bail!(NoValue, "the variable '{name}' cannot be sent: it has a shape only");
    }
    let Ok(dtype) = u8::try_from(t.dtype().proto()) else {
        bail!(Unimplemented, "the variable '{name}' of {} cannot be sent", t.dtype())
    };
    let lod = t.lod.iter().flat_map(|l| l.iter());
    let lod = lod.map(|level| level.iter().map(|&o| o as u64).collect()).collect();
    let (dims, bytes, n) = (sizes(t.dims()), t.nbytes() as u64, rows.len() as u64);
    let meta = Meta { name: name.to_string(), kind, dtype, dims, lod, height, rows: n, bytes };
    Ok(Outgoing { meta, rows, data: Box::new(TensorBuffer(t)) })
}

/// The data type and shape that a message announces. Allocates nothing.
pub fn declared_type(meta: &Meta) -> std::result::Result<(DType, Dims), String> {
    let dtype = DType::from_proto(meta.dtype.into()).ok_or_else(|| format!("{}: an unknown data type", meta.name))?;
    let dims: Option<Dims> = meta.dims.iter().map(|&d| i64::try_from(d).ok()).collect();
    let dims = dims.ok_or_else(|| format!("{}: a size that is too large", meta.name))?;
    let numel = checked_numel(&dims).map_err(|e| format!("{}: {}", meta.name, e.message()))?;
    let first = dims.first().copied().unwrap_or(0) as u64;
    if numel.checked_mul(dtype.size()).map(|n| n as u64) != Some(meta.bytes) {
        return Err(format!("{}: {} bytes are not {dtype} {:?}", meta.name, meta.bytes, &dims[..]));
    }
    if meta.kind == ValueKind::Rows && first != meta.rows {
        return Err(format!("{}: {} rows, but {} row numbers", meta.name, first, meta.rows));
    }
    Ok((dtype, dims))
}

/// Allocates the memory of a variable.
pub fn allocate(meta: &Meta) -> std::result::Result<Box<dyn Buffer>, String> {
    let (dtype, dims) = declared_type(meta)?;
    let t = Tensor::empty(dtype, &dims).map_err(|e| e.message().to_string())?;
    Ok(Box::new(TensorBuffer(t)))
}

/// The value of a received variable, whose memory is from [`allocate`].
pub fn into_value(var: Incoming) -> Result<Value> {
    let name = var.meta.name;
    let found = var.data.into_any().downcast::<TensorBuffer>();
    let TensorBuffer(mut t) =
        *found.map_err(|_| err!(Fatal, "the variable '{name}' was received into other memory"))?;
    // Received bytes may be neither true nor false.
    t.normalise_bools()?;
    if var.meta.kind == ValueKind::Rows {
        let height = i64::try_from(var.meta.height).map_err(|_| err!(InvalidArgument, "'{name}' is too tall"))?;
        return Ok(SelectedRows { rows: Arc::new(var.rows), height, value: t }.into());
    }
    let rows = t.dims().first().copied().unwrap_or(0) as u64;
    let fits = |level: &Vec<u64>| level.is_sorted() && level.first() == Some(&0);
    let lod = var.meta.lod;
    if !lod.is_empty() && lod.iter().all(fits) && lod.last().and_then(|l| l.last()) == Some(&rows) {
        let levels = lod.into_iter().map(|l| l.into_iter().map(|o| o as usize).collect());
        t.lod = Some(Arc::new(levels.collect()));
    }
    Ok(Value::Dense(t))
}
