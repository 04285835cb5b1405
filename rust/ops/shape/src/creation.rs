//! Operators that create a tensor from attributes: constants, ranges, shapes.

use half::{bf16, f16};
use oar_core::attrs;
use oar_core::base::dtype::Element;
use oar_core::base::{DType, DTypes, Dims, Result};
use oar_core::ir::desc::OpDesc;
use oar_core::ir::{Attr, BlockNode};
use oar_core::op::infer::{kind_of_first, like_first, VarKind};
use oar_core::op::{Grad, InSlot, Kernel, KernelContext, NoAttrs, Op, SparseKernel, OP};
use oar_core::tensor::{Tensor, Value};
use oar_core::{bail, dispatch, ensure, err, slots};
use oar_kernels::types::Number;
use oar_ops_common::elements::set_zero;
use oar_ops_common::fill::{batch_size_like, full, set_all, Scalar};
use oar_ops_common::tensor_attr::{data_type, shape, AttrSource};
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
    pub struct EmptyAttrs { shape: Vec<i64> = vec![], dtype: i32 = 5 }
    pub struct FillZerosLike2Attrs { dtype: i32 = 5 }
    pub struct FillAnyLikeAttrs { value: f32 = 0.0, dtype: i32 = -1 }
    pub struct AssignValueAttrs {
        shape: Vec<i32>, dtype: i32, bool_values: Vec<i32> = vec![], fp32_values: Vec<f32> = vec![],
        int32_values: Vec<i32> = vec![], int64_values: Vec<i64> = vec![],
    }
    pub struct IncrementAttrs { step: f32 = 1.0 }
}

slots! {
    mod fill_constant {
        VALUE "ValueTensor".dispensable(), SHAPE "ShapeTensor".dispensable(), SHAPE_LIST "ShapeTensorList".duplicable().dispensable()
        => OUT "Out".kernel_allocated()
    }
    mod empty { SHAPE "ShapeTensor".dispensable(), SHAPE_LIST "ShapeTensorList".duplicable().dispensable() => OUT "Out".kernel_allocated() }
    mod extent { X "X".meta_only() => OUT "Out" }
    mod batch_like { INPUT "Input".meta_only() => OUT "Out" }
    mod filled_like { X "X".meta_only() => OUT "Out" }
    mod assign_value { => OUT "Out".kernel_allocated() }
    mod shape_of { INPUT "Input".meta_only() => OUT "Out" }
    mod increment { X "X" => OUT "Out" }
    mod range { START "Start", END "End", STEP "Step" => OUT "Out".kernel_allocated() }
}

const SOURCES: [AttrSource; 2] = [AttrSource::One(fill_constant::SHAPE), AttrSource::List(fill_constant::SHAPE_LIST)];

fn fill_constant(cx: &mut KernelContext) -> Result<()> {
    let a = cx.attrs::<FillConstantAttrs>();
    let dtype = data_type(cx.op.name, a.dtype)?;
    let mut value = Scalar::from_attrs(cx.op.name, a.value, &a.str_value)?;
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
    let dims = shape(cx, &SOURCES, &a.shape)?;
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
        let dims = shape(cx, &SOURCES, &a.shape)?;
        cx.set(fill_constant::OUT, &dims, dtype);
        Ok(())
    },
    cpu: Kernel::Pure(fill_constant),
    ..OP
};

// empty: uninitialized elements. Memory is zeroed here, so that earlier contents do not leak.

const EMPTY_SOURCES: [AttrSource; 2] = [AttrSource::One(empty::SHAPE), AttrSource::List(empty::SHAPE_LIST)];

pub static EMPTY: Op = Op {
    name: "empty",
    inputs: empty::INS,
    outputs: empty::OUTS,
    attrs: EmptyAttrs::FIELDS,
    infer: |cx| {
        let a = cx.attrs::<EmptyAttrs>();
        if !cx.has(empty::SHAPE) && !cx.has(empty::SHAPE_LIST) {
            no_negative(cx.op.name, &a.shape)?;
        }
        let dtype = data_type(cx.op.name, a.dtype)?;
        // As in 2.0.2's rule, sizes from tensors are -1, whatever the attribute says.
        let dims = shape(cx, &EMPTY_SOURCES, &a.shape)?;
        cx.set(empty::OUT, &dims, dtype);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let a = cx.attrs::<EmptyAttrs>();
        let mut t = Tensor::empty(data_type(cx.op.name, a.dtype)?, &shape(cx, &EMPTY_SOURCES, &a.shape)?)?;
        set_zero(&mut t)?;
        cx.set(empty::OUT, t);
        Ok(())
    }),
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

// fill_constant_batch_size_like: one dimension has the size of another tensor's.

pub static FILL_CONSTANT_BATCH_SIZE_LIKE: Op = Op {
    name: "fill_constant_batch_size_like",
    inputs: batch_like::INS,
    outputs: batch_like::OUTS,
    attrs: FillLikeBatchAttrs::FIELDS,
    sparse_kernel: SparseKernel::Same,
    infer: |cx| {
        let a = cx.attrs::<FillLikeBatchAttrs>();
        let dims = batch_size_like(cx, &a.shape, a.input_dim_idx, a.output_dim_idx)?;
        let dtype = data_type(cx.op.name, a.dtype)?;
        cx.set(batch_like::OUT, &dims, dtype);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let a = cx.attrs::<FillLikeBatchAttrs>();
        let value = Scalar::from_attrs(cx.op.name, a.value, &a.str_value)?;
        set_all(cx.out(batch_like::OUT)?, value)
    }),
    ..OP
};

fn fill_any_like(cx: &mut KernelContext) -> Result<()> {
    let value = cx.attrs::<FillAnyLikeAttrs>().value;
    let out = cx.out(filled_like::OUT)?;
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
    set_all(out, Scalar::from(value as f64))
}

pub static FILL_ANY_LIKE: Op = Op {
    name: "fill_any_like",
    inputs: filled_like::INS,
    outputs: filled_like::OUTS,
    attrs: FillAnyLikeAttrs::FIELDS,
    sparse_kernel: SparseKernel::Same,
    infer: |cx| {
        let dtype = match cx.attrs::<FillAnyLikeAttrs>().dtype {
            n if n < 0 => cx.dtype(filled_like::X)?,
            n => data_type(cx.op.name, n)?,
        };
        let dims = cx.dims(filled_like::X)?;
        cx.set(filled_like::OUT, &dims, dtype);
        cx.share_lod(filled_like::OUT, filled_like::X);
        Ok(())
    },
    cpu: Kernel::Pure(fill_any_like),
    ..OP
};

pub static FILL_ZEROS_LIKE: Op = Op {
    name: "fill_zeros_like",
    layer: "zeros_like",
    inputs: filled_like::INS,
    outputs: filled_like::OUTS,
    attrs: NoAttrs::FIELDS,
    sparse_kernel: SparseKernel::Same,
    infer: |cx| match cx.meta(filled_like::X, 0)?.kind {
        VarKind::Array => kind_of_first(cx),
        _ => like_first(cx),
    },
    cpu: Kernel::Pure(|cx| {
        if matches!(cx.value(filled_like::X)?, Value::Array(_)) {
            // As a gradient, an element that is absent is zeros.
            cx.set(filled_like::OUT, Value::Array(Default::default()));
            return Ok(());
        }
        set_zero(cx.out(filled_like::OUT)?)
    }),
    ..OP
};

pub static FILL_ZEROS_LIKE2: Op = Op {
    name: "fill_zeros_like2",
    inputs: filled_like::INS,
    outputs: filled_like::OUTS,
    attrs: FillZerosLike2Attrs::FIELDS,
    sparse_kernel: SparseKernel::Same,
    infer: |cx| {
        let (x, dtype) = (cx.dims(filled_like::X)?, data_type(cx.op.name, cx.attrs::<FillZerosLike2Attrs>().dtype)?);
        cx.set(filled_like::OUT, &x, dtype);
        cx.share_lod(filled_like::OUT, filled_like::X);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| set_zero(cx.out(filled_like::OUT)?)),
    ..OP
};

// assign_value: the elements are attributes.

fn assign_value(cx: &mut KernelContext) -> Result<()> {
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
    cx.set(assign_value::OUT, t);
    Ok(())
}

pub static ASSIGN_VALUE: Op = Op {
    name: "assign_value",
    outputs: assign_value::OUTS,
    attrs: AssignValueAttrs::FIELDS,
    infer: |cx| {
        let a = cx.attrs::<AssignValueAttrs>();
        let dtype = data_type(cx.op.name, a.dtype)?;
        let shape: Dims = a.shape.iter().map(|&d| d as i64).collect();
        no_negative(cx.op.name, &shape)?;
        cx.set(assign_value::OUT, &shape, dtype);
        Ok(())
    },
    cpu: Kernel::Pure(assign_value),
    ..OP
};

pub static SHAPE: Op = Op {
    name: "shape",
    inputs: shape_of::INS,
    outputs: shape_of::OUTS,
    attrs: NoAttrs::FIELDS,
    sparse_kernel: SparseKernel::Same,
    infer: |cx| {
        let rank = cx.dims(shape_of::INPUT)?.len() as i64;
        cx.set(shape_of::OUT, &[rank], DType::I32);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let dims = match cx.value(shape_of::INPUT)? {
            Value::Dense(t) => t.dims(),
            Value::Rows(r) => r.value.dims(),
            other => bail!(InvalidArgument, "operator shape: its input cannot be {}", other.what()),
        };
        let out = cx.out_data::<i32>(shape_of::OUT)?;
        out.iter_mut().zip(dims).for_each(|(o, &d)| *o = d as i32);
        Ok(())
    }),
    ..OP
};

/// size: the number of elements. is_empty: whether it is 0.
pub static SIZE: Op = Op {
    name: "size",
    inputs: shape_of::INS,
    outputs: shape_of::OUTS,
    infer: |cx| {
        cx.set(shape_of::OUT, &[1], DType::I64);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let n = cx.input(shape_of::INPUT)?.numel();
        cx.out_data::<i64>(shape_of::OUT)?[0] = n as i64;
        Ok(())
    }),
    ..OP
};
pub static IS_EMPTY: Op = Op {
    name: "is_empty",
    inputs: extent::INS,
    outputs: extent::OUTS,
    infer: |cx| {
        cx.set(extent::OUT, &[1], DType::Bool);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let n = cx.input(extent::X)?.numel();
        cx.out_data::<bool>(extent::OUT)?[0] = n == 0;
        Ok(())
    }),
    ..OP
};

/// The gradient decrements: operators of the backward pass read the counter's values of the forward pass.
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
    inputs: increment::INS,
    outputs: increment::OUTS,
    attrs: IncrementAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::INDICES),
    infer: |cx| {
        let dims = cx.dims(increment::X)?;
        let n: i64 = dims.iter().product();
        ensure!(n == 1 || n < 0, InvalidArgument, "operator increment: X must have one element, got shape {dims:?}");
        oar_core::op::infer::like_first(cx)
    },
    cpu: Kernel::Pure(|cx| {
        let step = cx.attrs::<IncrementAttrs>().step;
        let x = cx.input(increment::X)?;
        dispatch!(x.dtype(), T in [f32, f64, i32, i64], {
            let v = <T as Number>::add(x.data::<T>()[0], step as T);
            cx.out_data::<T>(increment::OUT)?[0] = v;
        }, other => return cx.unsupported(other));
        Ok(())
    }),
    grad: Grad::Program(increment_grad),
    ..OP
};

// range: start, start + step, ... excluding end.

/// Element types of `range`.
trait Steps: Element + Number {
    /// Number of values; `None` if it is not finite.
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

fn steps<T: Steps>(cx: &KernelContext) -> Result<Tensor> {
    let get = |slot: InSlot| -> Result<T> {
        let t = cx.input(slot)?;
        ensure!(
            t.numel() == 1 && t.dtype() == T::DTYPE,
            InvalidArgument,
            "operator range: {} must hold one {}, got {t:?}",
            cx.op.inputs[slot.0].name,
            T::DTYPE
        );
        Ok(t.data::<T>()[0])
    };
    let (start, end, step) = (get(range::START)?, get(range::END)?, get(range::STEP)?);
    let zero = T::ZERO;
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
    let (bytes, to) = (out.nbytes(), out.data_mut::<T>()?);
    cx.release_gil(bytes, || oar_kernels::shape::progression::range(start, step, to));
    Ok(out)
}

pub static RANGE: Op = Op {
    name: "range",
    inputs: range::INS,
    outputs: range::OUTS,
    attrs: NoAttrs::FIELDS,
    dtypes: DTypes::FLOATS.union(DTypes::INDICES),
    infer: |cx| {
        for slot in [range::START, range::END, range::STEP] {
            let dims = cx.dims(slot)?;
            ensure!(
                dims[..] == [1] || dims[..] == [-1],
                InvalidArgument,
                "operator range: {} must have the shape [1], got {dims:?}",
                cx.op.inputs[slot.0].name
            );
        }
        let dtype = cx.dtype(range::START)?;
        cx.set(range::OUT, &[-1], dtype);
        Ok(())
    },
    cpu: Kernel::Pure(|cx| {
        let out = dispatch!(cx.input(range::START)?.dtype(), T in [f32, f64, i32, i64], steps::<T>(cx)?,
            other => return cx.unsupported(other));
        cx.set(range::OUT, out);
        Ok(())
    }),
    ..OP
};

pub static TABLE: &[&Op] = &[
    &FILL_CONSTANT,
    &EMPTY,
    &FILL_ZEROS_LIKE2,
    &SIZE,
    &IS_EMPTY,
    &FILL_CONSTANT_BATCH_SIZE_LIKE,
    &FILL_ANY_LIKE,
    &FILL_ZEROS_LIKE,
    &ASSIGN_VALUE,
    &SHAPE,
    &INCREMENT,
    &RANGE,
];
