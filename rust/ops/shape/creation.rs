//! Operators that make a tensor from attributes: constants, ranges, shapes.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DType, Dims, Result};
use oar_core::ir::desc::OpDesc;
use oar_core::ir::{Attr, BlockNode};
use oar_core::op::parts::fill::{batch_size_like, full, Scalar};
use oar_core::op::parts::given::{data_type, shape, Way};
use oar_core::op::{slot, Grad, Kernel, NoAttrs, Op, Run, OP};
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, dispatch, ensure, err, slots};
use oar_kernels::types::Number;
use std::collections::HashSet;
use std::sync::Arc;

attrs! {
    pub struct FillConstantAttrs {
        dtype: i32 = 5, shape: Vec<i64> = vec![], value: f32 = 0.0, str_value: String = String::new(),
        force_cpu: bool = false, place_type: i32 = -1,
    }
    pub struct FillLikeBatchAttrs {
        shape: Vec<i32>, input_dim_idx: i32 = 0, output_dim_idx: i32 = 0, dtype: i32 = 5, value: f32 = 0.0,
        str_value: String = String::new(), force_cpu: bool = false,
    }
    pub struct FillAnyLikeAttrs { value: f32 = 0.0, dtype: i32 = -1 }
    pub struct AssignValueAttrs {
        shape: Vec<i32>, dtype: i32, bool_values: Vec<i32> = vec![], fp32_values: Vec<f32> = vec![],
        int32_values: Vec<i32> = vec![], int64_values: Vec<i64> = vec![],
    }
    pub struct IncrementAttrs { step: f32 = 1.0 }
}

slots! {
    mod fill_constant {
        VALUE "ValueTensor".opt(), SHAPE "ShapeTensor".opt(), SHAPE_LIST "ShapeTensorList".many().opt()
        => OUT "Out".made()
    }
}

const WAYS: [Way; 2] = [Way::One(fill_constant::SHAPE), Way::List(fill_constant::SHAPE_LIST)];

fn fill_constant(cx: &mut Run) -> Result<()> {
    let a = cx.attrs::<FillConstantAttrs>();
    let dtype = data_type(cx.op.name, a.dtype)?;
    let mut value = Scalar::of(cx.op.name, a.value, &a.str_value)?;
    if let Some(t) = cx.opt(fill_constant::VALUE) {
        ensure!(
            t.numel() == 1 && t.dtype() == dtype,
            InvalidArgument,
            "operator fill_constant: ValueTensor must hold one {dtype}, got {t:?}"
        );
        value = match dtype {
            DType::I64 => Scalar { float: 0.0, int: Some(t.data::<i64>()[0]) },
            _ => Scalar::from(t.to_f64s()[0]),
        };
    }
    let dims = shape(cx, &WAYS, &a.shape)?;
    cx.set(fill_constant::OUT, full(dtype, &dims, value)?);
    Ok(())
}

pub static FILL_CONSTANT: Op = Op {
    name: "fill_constant",
    inputs: fill_constant::INS,
    outputs: fill_constant::OUTS,
    attrs: FillConstantAttrs::FIELDS,
    infer: |cx| {
        let a = cx.attrs::<FillConstantAttrs>();
        if !cx.has(fill_constant::SHAPE) && !cx.has(fill_constant::SHAPE_LIST) {
            no_negative(cx.op.name, &a.shape)?;
        }
        let dtype = data_type(cx.op.name, a.dtype)?;
        let dims = shape(cx, &WAYS, &a.shape)?;
        cx.set(fill_constant::OUT, &dims, dtype);
        Ok(())
    },
    cpu: Kernel::Pure(fill_constant),
    ..OP
};

fn no_negative(op: &str, shape: &[i64]) -> Result<()> {
    ensure!(
        shape.iter().all(|&d| d >= 0),
        InvalidArgument,
        "operator {op}: the sizes of attribute 'shape' must not be negative, got {shape:?}"
    );
    Ok(())
}

// A constant whose size in one dimension is another tensor's.

pub static FILL_CONSTANT_BATCH_SIZE_LIKE: Op = Op {
    name: "fill_constant_batch_size_like",
    inputs: &[slot("Input").meta_only()],
    outputs: &[slot("Out")],
    attrs: FillLikeBatchAttrs::FIELDS,
    infer: |cx| {
        let a = cx.attrs::<FillLikeBatchAttrs>();
        let dims = batch_size_like(cx, &a.shape, a.input_dim_idx, a.output_dim_idx)?;
        let dtype = data_type(cx.op.name, a.dtype)?;
        cx.set(0, &dims, dtype);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let a = cx.attrs::<FillLikeBatchAttrs>();
        let value = Scalar::of(cx.op.name, a.value, &a.str_value)?;
        let out = cx.take_out(0)?;
        cx.set(0, full(out.dtype(), out.dims(), value)?);
        Ok(())
    }),
    ..OP
};

fn fill_any_like(cx: &mut Run) -> Result<()> {
    let value = cx.attrs::<FillAnyLikeAttrs>().value;
    let out = cx.take_out(0)?;
    let (low, high) = dispatch!(out.dtype(), T in [f32, f64, i32, i64, i16, i8, u8], {
        (<T as Number>::to_f64(T::MIN), <T as Number>::to_f64(T::MAX))
    }, other => match other {
        DType::Bool => (0.0, 1.0),
        DType::F16 => (f16::MIN.to_f64(), f16::MAX.to_f64()),
        DType::C64 => (f32::MIN as f64, f32::MAX as f64),
        DType::C128 => (f64::MIN, f64::MAX),
        _ => (bf16::MIN.to_f64(), bf16::MAX.to_f64()),
    });
    ensure!(
        low <= value as f64 && value as f64 <= high,
        InvalidArgument,
        "operator fill_any_like: the filled value is out of range for data type {}, got {value}",
        out.dtype()
    );
    cx.set(0, full(out.dtype(), out.dims(), Scalar::from(value as f64))?.with_lod(out.lod));
    Ok(())
}

pub static FILL_ANY_LIKE: Op = Op {
    name: "fill_any_like",
    inputs: &[slot("X").meta_only()],
    outputs: &[slot("Out")],
    attrs: FillAnyLikeAttrs::FIELDS,
    infer: |cx| {
        let dtype = match cx.attrs::<FillAnyLikeAttrs>().dtype {
            n if n < 0 => cx.dtype(0)?,
            n => data_type(cx.op.name, n)?,
        };
        let dims = cx.dims(0)?;
        cx.set(0, &dims, dtype);
        cx.share_lod(0, 0);
        Ok(())
    },
    cpu: Kernel::Pure(fill_any_like),
    ..OP
};

pub static FILL_ZEROS_LIKE: Op = Op {
    name: "fill_zeros_like",
    inputs: &[slot("X").meta_only()],
    outputs: &[slot("Out")],
    attrs: NoAttrs::FIELDS,
    infer: oar_core::op::infer::like_first,
    cpu: Kernel::Pure(|cx| {
        cx.out(0)?.bytes_mut()?.fill(0);
        Ok(())
    }),
    ..OP
};

// assign_value: the elements stand in the attributes.

fn assign_value(cx: &mut Run) -> Result<()> {
    let a = cx.attrs::<AssignValueAttrs>();
    let dims: Dims = a.shape.iter().map(|&d| d as i64).collect();
    let t = match data_type(cx.op.name, a.dtype)? {
        DType::Bool => {
            let values: Vec<bool> = a.bool_values.iter().map(|&v| v != 0).collect();
            Tensor::from_slice(&values, &dims)
        }
        DType::F32 => Tensor::from_slice(&a.fp32_values, &dims),
        DType::I32 => Tensor::from_slice(&a.int32_values, &dims),
        DType::I64 => Tensor::from_slice(&a.int64_values, &dims),
        other => return cx.unsupported(other),
    }?;
    cx.set(0, t);
    Ok(())
}

pub static ASSIGN_VALUE: Op = Op {
    name: "assign_value",
    outputs: &[slot("Out")],
    attrs: AssignValueAttrs::FIELDS,
    infer: |cx| {
        let a = cx.attrs::<AssignValueAttrs>();
        let dtype = data_type(cx.op.name, a.dtype)?;
        let shape: Dims = a.shape.iter().map(|&d| d as i64).collect();
        no_negative(cx.op.name, &shape)?;
        if !cx.is_run() {
            cx.set(0, &shape, dtype);
        }
        Ok(())
    },
    cpu: Kernel::Pure(assign_value),
    ..OP
};

pub static SHAPE: Op = Op {
    name: "shape",
    inputs: &[slot("Input").meta_only()],
    outputs: &[slot("Out")],
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        let rank = cx.dims(0)?.len() as i64;
        cx.set(0, &[rank], DType::I32);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let dims = match cx.value(0)? {
            Value::Dense(t) => t.dims(),
            Value::Rows(r) => r.value.dims(),
            other => bail!(InvalidArgument, "operator shape: its input cannot be {}", other.what()),
        };
        let out = cx.out_data::<i32>(0)?;
        out.iter_mut().zip(dims).for_each(|(o, &d)| *o = d as i32);
        Ok(())
    }),
    ..OP
};

/// Counting back: backward's operators read the counter's earlier values, as they were in the forward pass.
fn increment_grad(fwd: &OpDesc, _: &HashSet<String>, _: &[Arc<BlockNode>]) -> Result<Vec<OpDesc>> {
    let mut g = OpDesc::new("increment");
    g.set_input("X", fwd.output("Out").unwrap_or(&[]).to_vec());
    g.set_output("Out", fwd.input("X").unwrap_or(&[]).to_vec());
    let step = match fwd.attrs.get("step") {
        Some(Attr::Float(step)) => -step,
        _ => -1.0,
    };
    g.attrs.insert("step", Attr::Float(step));
    Ok(vec![g])
}

pub static INCREMENT: Op = Op {
    name: "increment",
    inputs: &[slot("X")],
    outputs: &[slot("Out")],
    attrs: IncrementAttrs::FIELDS,
    infer: |cx| {
        let dims = cx.dims(0)?;
        let n: i64 = dims.iter().product();
        ensure!(n == 1 || n < 0, InvalidArgument, "operator increment: X must have one element, got shape {dims:?}");
        oar_core::op::infer::like_first(cx)
    },
    cpu: Kernel::Pure(|cx| {
        let step = cx.attrs::<IncrementAttrs>().step;
        let x = cx.input(0)?;
        dispatch!(x.dtype(), T in [f32, f64, i32, i64], {
            let v = <T as Number>::add(x.data::<T>()[0], step as T);
            cx.out_data::<T>(0)?[0] = v;
        }, other => return cx.unsupported(other));
        Ok(())
    }),
    grad: Grad::Program(increment_grad),
    ..OP
};

// range: start, start + step, ... up to, but without, end.

/// A type of `range`'s kernels.
trait Steps: Element + Number {
    /// Number of values; None where it is not finite.
    fn count(start: Self, end: Self, step: Self) -> Option<i64>;
}
macro_rules! steps {
    ($($t:ty),* ; $($f:ty),*) => {
        $(impl Steps for $t {
            fn count(start: $t, end: $t, step: $t) -> Option<i64> {
                let gap = (end as i128 - start as i128).abs();
                let step = (step as i128).abs();
                i64::try_from((gap + step - 1) / step).ok()
            }
        })*
        $(impl Steps for $f {
            fn count(start: $f, end: $f, step: $f) -> Option<i64> {
                let n = ((end - start) / step).abs().ceil();
                (n.is_finite() && n < 9e15).then_some(n as i64)
            }
        })*
    };
}
steps!(i32, i64; f32, f64);

fn steps<T: Steps>(cx: &Run) -> Result<Tensor> {
    let get = |i: usize| -> Result<T> {
        let t = cx.input(i)?;
        ensure!(
            t.numel() == 1 && t.dtype() == T::DTYPE,
            InvalidArgument,
            "operator range: {} must hold one {}, got {t:?}",
            cx.op.inputs[i].name,
            T::DTYPE
        );
        Ok(t.data::<T>()[0])
    };
    let (start, end, step) = (get(0)?, get(1)?, get(2)?);
    let zero = T::zero();
    ensure!(step != zero, InvalidArgument, "operator range: the step must not be 0");
    ensure!(
        start >= end || start.is_nan() || end.is_nan() || step > zero,
        InvalidArgument,
        "operator range: the step must be positive to reach End"
    );
    ensure!(
        start <= end || start.is_nan() || end.is_nan() || step < zero,
        InvalidArgument,
        "operator range: the step must be negative to reach End"
    );
    let n = T::count(start, end, step)
        .ok_or_else(|| err!(InvalidArgument, "operator range: the number of values is not finite"))?;
    let mut out = Tensor::empty(T::DTYPE, &[n])?;
    let mut v = start;
    for o in out.data_mut::<T>()? {
        *o = v;
        v = v.add(step); // summed up, not multiplied: as Paddle rounds
    }
    Ok(out)
}

pub static RANGE: Op = Op {
    name: "range",
    inputs: &[slot("Start"), slot("End"), slot("Step")],
    outputs: &[slot("Out")],
    attrs: NoAttrs::FIELDS,
    infer: |cx| {
        for i in 0..3 {
            let dims = cx.dims(i)?;
            ensure!(
                dims[..] == [1] || dims[..] == [-1],
                InvalidArgument,
                "operator range: {} must have the shape [1], got {dims:?}",
                cx.op.inputs[i].name
            );
        }
        if !cx.is_run() {
            let dtype = cx.dtype(0)?;
            cx.set(0, &[-1], dtype);
        }
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let out = dispatch!(cx.input(0)?.dtype(), T in [f32, f64, i32, i64], steps::<T>(cx)?,
            other => return cx.unsupported(other));
        cx.set(0, out);
        Ok(())
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[
    &FILL_CONSTANT,
    &FILL_CONSTANT_BATCH_SIZE_LIKE,
    &FILL_ANY_LIKE,
    &FILL_ZEROS_LIKE,
    &ASSIGN_VALUE,
    &SHAPE,
    &INCREMENT,
    &RANGE,
];
