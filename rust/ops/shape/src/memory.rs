//! Memory placement: memcpy between devices, coalesce_tensor into one block.

use oar_core::attrs;
use oar_core::base::{Dims, Result};
use oar_core::op::infer::like_first;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{ensure, slots};
use oar_ops_common::elements::share;
use oar_ops_common::fill::{set_all, Scalar};
use oar_ops_common::tensor_attr::data_type;

attrs! {
    pub struct MemcpyAttrs { dst_place_type: i32 }
    pub struct CoalesceAttrs {
        dtype: i32, copy_data: bool = false, set_constant: bool = false, persist_output: bool = false,
        constant: f32 = 0.0, check_name: bool = false, use_align: bool = true,
    }
}

slots! {
    mod memcpy { X "X" => OUT "Out".kernel_allocated() }
    // Outputs are in-place: persist_output reads their earlier values.
    mod coalesce { INPUT "Input".duplicable() => OUTPUT "Output".duplicable().in_place().kernel_allocated(), FUSED "FusedOutput".kernel_allocated() }
}

/// dst_place_type 1 is a device, 2 pinned host memory; without a device both are host memory.
pub static MEMCPY: Op = Op {
    name: "memcpy",
    inputs: memcpy::INS,
    outputs: memcpy::OUTS,
    attrs: MemcpyAttrs::FIELDS,
    infer: |cx| {
        let place = cx.attrs::<MemcpyAttrs>().dst_place_type;
        ensure!(place == 1 || place == 2, Unimplemented, "operator memcpy: dst_place_type must be 1 or 2, got {place}");
        like_first(cx)
    },
    cpu: Kernel::Pure(|cx| {
        let out = share(cx.input(memcpy::X)?)?;
        cx.set(memcpy::OUT, out);
        Ok(())
    }),
    ..OP
};

// coalesce_tensor

/// Alignment of the tensors with use_align: a page, as in Paddle on CPU.
const ALIGN: usize = 4096;

fn infer_coalesce(cx: &mut ShapeContext) -> Result<()> {
    let (op, n) = (cx.op.name, cx.count(coalesce::INPUT));
    ensure!(n > 0, InvalidArgument, "operator {op}: Input must hold a tensor");
    cx.set_outs(coalesce::OUTPUT, n)?;
    let dtype = data_type(op, cx.attrs::<CoalesceAttrs>().dtype)?;
    for i in 0..n {
        let m = cx.meta(coalesce::INPUT, i)?;
        ensure!(
            m.dtype == dtype && !m.dims.contains(&0),
            InvalidArgument,
            "operator {op}: Input[{i}] must have elements of {dtype}, got {} of shape {:?}",
            m.dtype,
            m.dims
        );
        cx.set_nth(coalesce::OUTPUT, i, &m.dims, dtype);
    }
    cx.set(coalesce::FUSED, &[-1], dtype);
    Ok(())
}

/// The outputs share the bytes of FusedOutput until one of them is written (copy-on-write).
fn run_coalesce(cx: &mut KernelContext) -> Result<()> {
    let (op, a, inputs) = (cx.op.name, cx.attrs::<CoalesceAttrs>(), cx.inputs(coalesce::INPUT)?);
    if a.check_name {
        let (ins, outs) = (cx.env.names("Input"), cx.env.names("Output"));
        ensure!(
            ins == outs,
            InvalidArgument,
            "operator {op}: Output must be the variables of Input {ins:?}, got {outs:?}"
        );
    }
    let dtype = data_type(op, a.dtype)?;
    let unit = if a.use_align { ALIGN / dtype.size() } else { 1 };
    let mut places = Vec::with_capacity(inputs.len());
    let mut end = 0;
    for t in &inputs {
        places.push(end);
        end += t.numel().next_multiple_of(unit);
    }
    let mut fused = Tensor::zeros(dtype, &[end as i64])?;
    let size = dtype.size();
    if a.copy_data || a.persist_output && !a.set_constant {
        for (i, (&at, input)) in places.iter().zip(&inputs).enumerate() {
            let previous = cx.outs.slot_mut(coalesce::OUTPUT.0).get(i).and_then(|o| o.value.as_dense());
            let from = if a.copy_data { Some(*input) } else { previous };
            if let Some(t) = from.filter(|t| t.numel() == input.numel() && t.dtype() == dtype) {
                let bytes = fused.bytes_mut()?;
                bytes[at * size..][..t.nbytes()].copy_from_slice(t.bytes());
            }
        }
    } else if a.set_constant {
        set_all(&mut fused, Scalar::from(a.constant as f64))?;
    }
    for (i, (&at, input)) in places.iter().zip(&inputs).enumerate() {
        let dims = Dims::from_slice(input.dims());
        cx.set_nth(coalesce::OUTPUT, i, fused.view(at, &dims));
    }
    cx.set(coalesce::FUSED, fused);
    Ok(())
}

pub static COALESCE_TENSOR: Op = Op {
    name: "coalesce_tensor",
    inputs: coalesce::INS,
    outputs: coalesce::OUTS,
    attrs: CoalesceAttrs::FIELDS,
    infer: infer_coalesce,
    cpu: Kernel::Pure(run_coalesce),
    ..OP
};

pub static TABLE: &[&Op] = &[&MEMCPY, &COALESCE_TENSOR];
