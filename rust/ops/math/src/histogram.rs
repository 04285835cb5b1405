//! histogram: counts of elements in equal intervals.

use oar_core::attrs;
use oar_core::base::{DType, DTypes, Result};
use oar_core::op::{Kernel, KernelContext, Op, OP};
use oar_core::{dispatch, ensure, err, slots};
use oar_kernels::reduce::histogram as kernel;

attrs! {
    pub struct HistogramAttrs { bins: i64 = 100, min: i32 = 0, max: i32 = 0 }
}

slots! {
    mod histogram { X "X" => OUT "Out" }
}

fn run(cx: &mut KernelContext) -> Result<()> {
    let (op, x, a) = (cx.op.name, cx.input(histogram::X)?, cx.attrs::<HistogramAttrs>());
    dispatch!(x.dtype(), T in [f32, f64, i32, i64], {
        kernel::histogram(x.data::<T>(), (a.min, a.max), cx.out_data::<i64>(histogram::OUT)?)
            .map_err(|_| err!(OutOfRange, "operator {op}: the range of X is not finite"))
    }, other => cx.unsupported(other))
}

pub static HISTOGRAM: Op = Op {
    name: "histogram",
    inputs: histogram::INS,
    outputs: histogram::OUTS,
    attrs: HistogramAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::INDICES),
    infer: |cx| {
        let a = cx.attrs::<HistogramAttrs>();
        ensure!(a.bins >= 1, OutOfRange, "operator histogram: bins must be positive, got {}", a.bins);
        ensure!(
            a.max >= a.min,
            InvalidArgument,
            "operator histogram: max must not be less than min, got {} and {}",
            a.max,
            a.min
        );
        cx.dtype(histogram::X)?;
        cx.set(histogram::OUT, &[a.bins], DType::I64);
        cx.share_lod(histogram::OUT, histogram::X);
        Ok(())
    },
    cpu: Kernel::Pure(run),
    ..OP
};

pub static TABLE: &[&Op] = &[&HISTOGRAM];
