//! linspace: evenly spaced numbers.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::Result;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
use oar_kernels::shape::progression;
use oar_kernels::types::Number;
use oar_ops_common::broadcast::cast;
use oar_ops_common::tensor_attr::data_type;

attrs! {
    pub struct LinspaceAttrs { dtype: i32 }
}

slots! {
    mod linspace { START "Start", STOP "Stop", NUM "Num" => OUT "Out".kernel_allocated() }
}

fn infer_linspace(cx: &mut ShapeContext) -> Result<()> {
    for slot in [linspace::START, linspace::STOP, linspace::NUM] {
        let dims = cx.dims(slot)?;
        if dims[..] != [1] && dims[..] != [-1] {
            return cx.wrong(slot, "of shape [1]");
        }
    }
    let dtype = data_type(cx.op.name, cx.attrs::<LinspaceAttrs>().dtype)?;
    cx.set(linspace::OUT, &[-1], dtype);
    Ok(())
}

fn line<T: Element + Number>(start: T, stop: T, n: i64) -> Result<Tensor> {
    let mut out = Tensor::empty(T::DTYPE, &[n])?;
    progression::linspace(start, stop, out.data_mut::<T>()?);
    Ok(out)
}

fn linspace(cx: &mut KernelContext) -> Result<()> {
    let op = cx.op.name;
    let dtype = data_type(op, cx.attrs::<LinspaceAttrs>().dtype)?;
    let one = |slot| -> Result<Tensor> {
        let t = cx.input(slot)?;
        ensure!(t.numel() == 1, InvalidArgument, "operator {op}: its inputs must hold one number each, got {t:?}");
        cast(t, dtype)
    };
    let (start, stop) = (one(linspace::START)?, one(linspace::STOP)?);
    let n = cx.input(linspace::NUM)?.to_i64s()?[0];
    ensure!(n > 0, InvalidArgument, "operator {op}: Num must be positive, got {n}");
    let out = dispatch!(dtype, T in [f32, f64, i32, i64], line(start.data::<T>()[0], stop.data::<T>()[0], n)?,
        other => return cx.unsupported(other));
    cx.set(linspace::OUT, out);
    Ok(())
}

pub static LINSPACE: Op = Op {
    name: "linspace",
    inputs: linspace::INS,
    outputs: linspace::OUTS,
    attrs: LinspaceAttrs::FIELDS,
    infer: infer_linspace,
    cpu: Kernel::Pure(linspace),
    ..OP
};

pub static TABLE: &[&Op] = &[&LINSPACE];
