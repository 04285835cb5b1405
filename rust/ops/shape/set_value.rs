//! set_value: Out is Input with a slice replaced.

use oar_core::attrs;
use oar_core::base::shape::axis;
use oar_core::base::{DType, Result};
use oar_core::op::parts::region::{broadcast_to, span, Region};
use oar_core::op::{slot, Kernel, Op, Run, OP};
use oar_core::tensor::Tensor;
use oar_core::{bail, ensure};

attrs! {
    pub struct SetValueAttrs {
        dtype: i32 = 5, axes: Vec<i64>, starts: Vec<i64>, ends: Vec<i64>, bool_values: Vec<i32> = vec![],
        fp32_values: Vec<f32> = vec![], int32_values: Vec<i32> = vec![], int64_values: Vec<i64> = vec![],
        fp64_values: Vec<f64> = vec![], shape: Vec<i64> = vec![],
    }
}

fn set_value(cx: &mut Run) -> Result<()> {
    let a = cx.attrs::<SetValueAttrs>();
    let mut out = cx.take_out(0)?;
    let (n, rank) = (a.axes.len(), out.rank());
    let result = (|| {
        ensure!(
            a.starts.len() == n && a.ends.len() == n,
            InvalidArgument,
            "operator set_value: axes, starts and ends must be equally many, got {n}, {} and {}",
            a.starts.len(),
            a.ends.len()
        );
        let dtype = oar_core::op::parts::given::data_type(cx.op.name, a.dtype)?;
        ensure!(
            dtype == out.dtype(),
            InvalidArgument,
            "operator set_value: attribute dtype is {dtype}, but Input is {}",
            out.dtype()
        );
        let mut region = Region::whole(out.dims());
        for i in 0..n {
            let at = axis(cx.op.name, a.axes[i], rank)?;
            let (first, step, count) = span(a.starts[i], a.ends[i], 1, out.dims()[at]);
            ensure!(
                count > 0,
                InvalidArgument,
                "operator set_value: end should be greater than start, got start {} and end {} on an axis of size {}",
                a.starts[i],
                a.ends[i],
                out.dims()[at]
            );
            region.narrow(at, first, step, count);
        }
        let value = match cx.opt(1) {
            Some(t) => {
                ensure!(
                    t.dtype() == dtype,
                    InvalidArgument,
                    "operator set_value: ValueTensor is {}, but Input is {dtype}",
                    t.dtype()
                );
                t.clone()
            }
            None => value_of(a, dtype)?,
        };
        region.write(&broadcast_to(cx.op.name, &value, &region.dims)?, &mut out)
    })();
    cx.set(0, out); // also after an error: an input worked on in place must not be lost
    result
}

/// The value that the attributes hold.
fn value_of(a: &SetValueAttrs, dtype: DType) -> Result<Tensor> {
    match dtype {
        DType::Bool => {
            let values: Vec<bool> = a.bool_values.iter().map(|&v| v != 0).collect();
            Tensor::from_slice(&values, &a.shape)
        }
        DType::F32 => Tensor::from_slice(&a.fp32_values, &a.shape),
        DType::F64 => Tensor::from_slice(&a.fp64_values, &a.shape),
        DType::I32 => Tensor::from_slice(&a.int32_values, &a.shape),
        DType::I64 => Tensor::from_slice(&a.int64_values, &a.shape),
        other => bail!(Unimplemented, "operator set_value has no CPU kernel for data type {other}"),
    }
}

pub static SET_VALUE: Op = Op {
    name: "set_value",
    inputs: &[slot("Input"), slot("ValueTensor").opt()],
    outputs: &[slot("Out").aliases("Input")],
    attrs: SetValueAttrs::FIELDS,
    infer: |cx| {
        cx.like(0, 0)?;
        cx.share_lod(0, 0);
        Ok(())
    },
    cpu: Kernel::Pure(set_value),
    ..OP
};

pub static TABLE: &[&Op] = &[&SET_VALUE];
