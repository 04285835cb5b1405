//! arg_max and arg_min: positions of extremes along an axis.

use super::along_axis::{axis_sizes, count, unary, REAL};
use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::shape::axis;
use oar_core::base::{DType, Dims, Result};
use oar_core::op::{Kernel, KernelContext, Op, ShapeContext, OP};
use oar_core::{bail, dispatch, ensure};
use oar_kernels::order;

attrs! {
    pub struct ArgAttrs { axis: i64, keepdims: bool = false, flatten: bool = false, dtype: i32 = 3 }
}

fn infer_arg(cx: &mut ShapeContext) -> Result<()> {
    let a = cx.attrs::<ArgAttrs>();
    let x = cx.dims(unary::X)?;
    let at = axis(cx.op.name, a.axis, x.len())?;
    let dtype = match a.dtype {
        2 => DType::I32,
        3 | i32::MIN..=-1 => DType::I64,
        other => bail!(InvalidArgument, "operator {}: dtype must be int32 (2) or int64 (3), got {other}", cx.op.name),
    };
    let n = if a.flatten { count(&x) } else { x[at] };
    ensure!(n != 0, InvalidArgument, "operator {}: X must have elements along the axis, got shape {x:?}", cx.op.name);
    ensure!(
        dtype == DType::I64 || n <= i32::MAX as i64,
        InvalidArgument,
        "operator {}: positions among {n} elements do not fit int32; set dtype to int64",
        cx.op.name
    );
    let mut dims = Dims::new();
    if !a.flatten {
        dims.extend_from_slice(&x);
        if a.keepdims {
            dims[at] = 1;
        } else {
            dims.remove(at);
        }
    }
    if dims.is_empty() {
        dims.push(1);
    }
    cx.set(unary::OUT, &dims, dtype);
    Ok(())
}

fn arg_extreme(cx: &mut KernelContext, greatest: bool) -> Result<()> {
    let a = cx.attrs::<ArgAttrs>();
    let x = cx.input(unary::X)?;
    let (n, inner) = if a.flatten {
        (x.numel(), 1)
    } else {
        let (_, n, inner) = axis_sizes(x.dims(), axis(cx.op.name, a.axis, x.rank())?);
        (n, inner)
    };
    let mut small = Vec::new();
    let name = cx.op.name;
    let out = cx.out(unary::OUT)?;
    let narrow = out.dtype() == DType::I32;
    let count = out.numel();
    {
        let positions = if narrow {
            small.resize(count, 0i64);
            &mut small[..]
        } else {
            out.data_mut::<i64>()?
        };
        dispatch!(x.dtype(), T in [f32, f64, i32, i64, i16, u8, i8, f16, bf16], {
            order::arg_extreme(greatest, x.data::<T>(), n, inner, positions);
        }, other => bail!(Unimplemented, "operator {name} has no CPU kernel for data type {other}"));
    }
    if narrow {
        out.data_mut::<i32>()?.iter_mut().zip(&small).for_each(|(o, &p)| *o = p as i32);
    }
    Ok(())
}

const fn arg(name: &'static str, kernel: fn(&mut KernelContext) -> Result<()>) -> Op {
    Op {
        name,
        inputs: unary::INS,
        outputs: unary::OUTS,
        attrs: ArgAttrs::FIELDS,
        dtypes: REAL,
        infer: infer_arg,
        cpu: Kernel::Pure(kernel),
        ..OP
    }
}

pub static ARG_MAX: Op = arg("arg_max", |cx| arg_extreme(cx, true));

pub static ARG_MIN: Op = arg("arg_min", |cx| arg_extreme(cx, false));

pub static TABLE: &[&Op] = &[&ARG_MAX, &ARG_MIN];
