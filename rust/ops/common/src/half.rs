//! Half precision for kernels that compute in f32: inputs are widened, outputs narrowed.

use half::{bf16, f16};
use oar_core::base::{DType, Result};
use oar_core::op::run::Out;
use oar_core::op::{InSlot, KernelContext};
use oar_core::tensor::{Tensor, Value};
use oar_kernels::types::Half;

pub fn is_half(d: DType) -> bool {
    matches!(d, DType::F16 | DType::BF16)
}

/// The half-precision tensor in f32.
pub fn widened(t: &Tensor) -> Result<Tensor> {
    let mut wide = Tensor::empty(DType::F32, t.dims())?;
    let to = wide.data_mut::<f32>()?;
    match t.dtype() {
        DType::F16 => Half::widen(t.data::<f16>(), to),
        _ => Half::widen(t.data::<bf16>(), to),
    }
    Ok(wide.with_lod(t.lod.clone()))
}

/// The f32 tensor in half precision.
pub fn narrowed(t: &Tensor, dtype: DType) -> Result<Tensor> {
    let mut half = Tensor::empty(dtype, t.dims())?;
    match dtype {
        DType::F16 => Half::narrow(t.data::<f32>(), half.data_mut::<f16>()?),
        _ => Half::narrow(t.data::<f32>(), half.data_mut::<bf16>()?),
    }
    Ok(half.with_lod(t.lod.clone()))
}

/// Runs a kernel; if the input in `slot` has half precision, with all half-precision inputs in f32.
pub fn in_f32(cx: &mut KernelContext, slot: InSlot, kernel: fn(&mut KernelContext) -> Result<()>) -> Result<()> {
    match cx.opt(slot) {
        Some(t) if is_half(t.dtype()) => by_way_of_f32(cx, t.dtype(), kernel),
        _ => kernel(cx),
    }
}

fn by_way_of_f32(cx: &mut KernelContext, dtype: DType, kernel: fn(&mut KernelContext) -> Result<()>) -> Result<()> {
    let mut ins = cx.ins.clone();
    for v in &mut ins.flat {
        match v {
            // Of a tensor without bytes only the shape is read.
            Value::Dense(t) if is_half(t.dtype()) && t.has_bytes() => *v = Value::Dense(widened(t)?),
            _ => {}
        }
    }
    let mut halves = Vec::with_capacity(cx.outs.flat.len());
    let mut outs = cx.outs.map(|o| Out::wanted(o.wanted));
    for (wide, out) in outs.flat.iter_mut().zip(&mut cx.outs.flat) {
        let half = matches!(&out.value, Value::Dense(t) if is_half(t.dtype()));
        halves.push(half || out.value.is_none());
        wide.value = match &out.value {
            Value::Dense(t) if half => Value::Dense(Tensor::empty(DType::F32, t.dims())?.with_lod(t.lod.clone())),
            _ => std::mem::take(&mut out.value),
        };
    }
    let done = kernel(&mut KernelContext { op: cx.op, attrs: cx.attrs, ins: &ins, outs: &mut outs, env: cx.env });
    for ((wide, out), half) in outs.flat.iter_mut().zip(&mut cx.outs.flat).zip(halves) {
        out.value = match std::mem::take(&mut wide.value) {
            Value::Dense(t) if half && t.dtype() == DType::F32 => Value::Dense(narrowed(&t, dtype)?),
            value => value,
        };
    }
    done
}
