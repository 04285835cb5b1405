//! linspace: evenly spaced numbers.

use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::Result;
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::tensor::Tensor;
use oar_core::{dispatch, ensure, slots};
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

/// The first half counts from start, the second back from stop, in double precision: rounds as Paddle does.
fn line<T: Element + Number>(start: T, stop: T, n: i64) -> Result<Tensor> {
    let mut out = Tensor::empty(T::DTYPE, &[n])?;
    let step = Number::sub(stop, start).to_f64() / (n - 1).max(1) as f64;
    let (first, last) = (start.to_f64(), stop.to_f64());
    for (i, o) in (0..n).zip(out.data_mut::<T>()?) {
        let v = if i < n / 2 || n == 1 { first + step * i as f64 } else { last - step * (n - i - 1) as f64 };
        *o = T::from_f64(v);
    }
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
