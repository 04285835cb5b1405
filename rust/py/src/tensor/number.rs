//! Python's operators on Tensors, with 2.0.2's rules for scalars and mixed data types: a scalar becomes part of a
//! `scale` where it can, an int tensor and a float compute in float32, and the right operand is cast to the left one's
//! type.

use crate::error::{raise, OrRaise};
use crate::ops::eager::{is_building, is_large, plain_sized, run_sized, variable_of};
use crate::tensor::numpy::{from_array, is_array};
use crate::tensor::object::PyTensor;
use num_complex::Complex;
use oar_core::base::{DType, Result};
use oar_core::err;
use oar_core::ir::Attr;
use oar_core::op::attrs::unshared;
use oar_core::op::backend;
use oar_core::op::table;
use oar_core::op::{Args, Attrs, Op};
use oar_core::tensor::Tensor;
use oar_engine::autograd::eager::{call_quick, is_plain, Destination, Ins};
use oar_engine::autograd::{trace, EagerVar};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyComplexMethods, PyFloat, PyInt};
use std::sync::OnceLock;

/// The binary operators of Python.
#[derive(Clone, Copy, PartialEq)]
#[repr(usize)]
pub enum Bin {
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    FloorDiv,
    Mod,
    Matmul,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Bin {
    /// The operators for which a real and a complex tensor are promoted to a complex type (2.0.2's list).
    fn promotes(self) -> bool {
        matches!(self, Bin::Add | Bin::Sub | Bin::Mul | Bin::Div | Bin::Matmul)
    }
}

/// The methods of Variables, and those with swapped operands.
const METHODS: [(&str, &str); 14] = [
    ("__add__", "__radd__"),
    ("__sub__", "__rsub__"),
    ("__mul__", "__rmul__"),
    ("__truediv__", "__rtruediv__"),
    ("__pow__", "__rpow__"),
    ("__floordiv__", "__rfloordiv__"),
    ("__mod__", "__rmod__"),
    ("__matmul__", "__rmatmul__"),
    ("__eq__", "__eq__"),
    ("__ne__", "__ne__"),
    ("__lt__", "__gt__"),
    ("__le__", "__ge__"),
    ("__gt__", "__lt__"),
    ("__ge__", "__le__"),
];

const NAMES: [&str; 14] = [
    "elementwise_add",
    "elementwise_sub",
    "elementwise_mul",
    "elementwise_div",
    "elementwise_pow",
    "elementwise_floordiv",
    "elementwise_mod",
    "matmul_v2",
    "equal",
    "not_equal",
    "less_than",
    "less_equal",
    "greater_than",
    "greater_equal",
];

fn op_of(kind: Bin) -> Result<&'static Op> {
    static OPS: [OnceLock<Option<&'static Op>>; 14] = [const { OnceLock::new() }; 14];
    let name = NAMES[kind as usize];
    OPS[kind as usize]
        .get_or_init(|| table::lookup(name))
        .ok_or_else(|| err!(Unimplemented, "operator {name} is not there yet"))
}

/// An operator by name; an error if it is not in the table.
pub fn need(name: &str) -> Result<&'static Op> {
    table::lookup(name).ok_or_else(|| err!(Unimplemented, "operator {name} is not there yet"))
}

/// Attributes with some set by name.
pub fn attrs_with(op: &'static Op, set: &[(&str, Attr)]) -> Attrs {
    let mut attrs = (op.attrs.new)();
    let fields = unshared(&mut attrs);
    for (name, value) in set {
        if let Some(i) = op.attrs.field(name) {
            let _ = fields.set(i, value.clone());
        }
    }
    attrs
}

/// Runs an operator whose first output is its result.
pub fn call1(py: Python<'_>, op: &'static Op, attrs: &Attrs, ins: &[&EagerVar]) -> PyResult<EagerVar> {
    let large = ins.iter().any(|v| v.cell.lock().as_dense().is_none_or(is_large));
    call_sized(py, op, attrs, ins, large)
}

/// [`call1`] for callers that know whether the inputs are large.
fn call_sized(py: Python<'_>, op: &'static Op, attrs: &Attrs, ins: &[&EagerVar], large: bool) -> PyResult<EagerVar> {
    let mut args: Ins = Args::new();
    ins.iter().for_each(|v| args.push_one(Some(*v)));
    if is_plain(op) {
        let out = plain_sized(py, op, attrs, &args, large).or_raise()?;
        return out.ok_or_else(|| raise(err!(Fatal, "operator {} gave nothing", op.name)));
    }
    let mut targets = Args::new();
    op.outputs.iter().for_each(|_| targets.push_one(Destination::New));
    let mut outs = run_sized(py, op, attrs, &args, &targets, false, large).or_raise()?;
    outs.flat.iter_mut().find_map(Option::take).ok_or_else(|| raise(err!(Fatal, "operator {} gave nothing", op.name)))
}

pub fn scale(py: Python<'_>, x: &EagerVar, scale: f64, bias: f64) -> PyResult<EagerVar> {
    static SCALE: OnceLock<Option<&'static Op>> = OnceLock::new();
    let op = SCALE.get_or_init(|| table::lookup("scale"));
    let op = op.ok_or_else(|| err!(Unimplemented, "operator scale is not there yet")).or_raise()?;
    let attrs = attrs_with(op, &[("scale", Attr::Float(scale as f32)), ("bias", Attr::Float(bias as f32))]);
    call1(py, op, &attrs, &[x])
}

pub fn cast(py: Python<'_>, x: &EagerVar, to: DType) -> PyResult<EagerVar> {
    let from = x.tensor().or_raise()?.dtype();
    let op = need("cast").or_raise()?;
    let attrs = attrs_with(op, &[("in_dtype", Attr::Int(from.proto())), ("out_dtype", Attr::Int(to.proto()))]);
    call1(py, op, &attrs, &[x])
}

/// A tensor filled with a number; only complex types have its imaginary part.
fn full(dims: &[i64], dtype: DType, Complex { re: value, im }: Complex<f64>) -> Result<Tensor> {
    use half::{bf16, f16};
    let mut t = Tensor::empty(dtype, dims)?;
    match dtype {
        DType::F32 => t.data_mut::<f32>()?.fill(value as f32),
        DType::F64 => t.data_mut::<f64>()?.fill(value),
        DType::I32 => t.data_mut::<i32>()?.fill(value as i32),
        DType::I64 => t.data_mut::<i64>()?.fill(value as i64),
        DType::I16 => t.data_mut::<i16>()?.fill(value as i16),
        DType::I8 => t.data_mut::<i8>()?.fill(value as i8),
        DType::U8 => t.data_mut::<u8>()?.fill(value as u8),
        DType::Bool => t.data_mut::<bool>()?.fill(value != 0.0),
        DType::F16 => t.data_mut::<f16>()?.fill(f16::from_f64(value)),
        DType::BF16 => t.data_mut::<bf16>()?.fill(bf16::from_f64(value)),
        DType::C64 => t.data_mut()?.fill(Complex::new(value as f32, im as f32)),
        DType::C128 => t.data_mut()?.fill(Complex::new(value, im)),
    }
    Ok(t)
}

/// A Python number: its value, and whether it is a float. `None` for other types and arrays.
fn scalar(obj: &Bound<'_, PyAny>) -> Option<(f64, bool)> {
    if obj.is_instance_of::<PyFloat>() {
        return obj.extract().ok().map(|v| (v, true));
    }
    if obj.is_instance_of::<PyInt>() || obj.is_instance_of::<PyBool>() {
        return obj.extract().ok().map(|v| (v, false));
    }
    None
}

/// A complex number of Python or numpy.
fn complex_scalar(obj: &Bound<'_, PyAny>) -> Option<Complex<f64>> {
    let numpy = || obj.getattr("dtype").and_then(|d| d.getattr("kind")).is_ok_and(|k| k.to_string() == "c");
    let is_complex = obj.is_instance_of::<PyComplex>() || obj.hasattr("__complex__").unwrap_or(false) && numpy();
    if !is_complex {
        return None;
    }
    let v = obj.call_method0("__complex__").ok()?;
    let v = v.cast::<PyComplex>().ok()?;
    Some(Complex::new(v.real(), v.imag()))
}

pub fn binary<'py>(
    slf: &Bound<'py, PyTensor>,
    other: &Bound<'py, PyAny>,
    kind: Bin,
    reverse: bool,
) -> PyResult<Py<PyAny>> {
    let py = slf.py();
    if is_building() {
        let (plain, swapped) = METHODS[kind as usize];
        return Ok(variable_of(slf)?.call_method1(if reverse { swapped } else { plain }, (other,))?.unbind());
    }
    let left = &slf.get().var;
    let out = match other.cast::<PyTensor>() {
        Ok(right) => tensors(py, left, &right.get().var, kind, reverse)?,
        Err(_) => match with_scalar(py, left, other, kind, reverse)? {
            Some(out) => out,
            None => return Ok(py.NotImplemented()),
        },
    };
    Ok(PyTensor::wrap(py, out)?.into_any().unbind())
}

fn dtype_of(v: &EagerVar) -> Result<DType> {
    Ok(look(v)?.0)
}

/// The data type of a tensor, and whether it is large: one access to its storage.
fn look(v: &EagerVar) -> Result<(DType, bool)> {
    match &*v.cell.lock() {
        oar_core::tensor::Value::Dense(t) => Ok((t.dtype(), is_large(t))),
        other => Err(err!(InvalidArgument, "expected a dense Tensor, got {}", other.what())),
    }
}

fn tensors(py: Python<'_>, left: &EagerVar, right: &EagerVar, kind: Bin, reverse: bool) -> PyResult<EagerVar> {
    let op = op_of(kind).or_raise()?;
    let attrs = (op.attrs.shared)();
    let ins = if reverse { [right, left] } else { [left, right] };
    if let Some(out) = call_quick(op, attrs, &ins) {
        return Ok(out);
    }
    let ((l, large_l), (r, large_r)) = (look(left).or_raise()?, look(right).or_raise()?);
    if l == r {
        return call_sized(py, op, attrs, &ins, large_l || large_r);
    }
    if kind.promotes() && (l.is_complex() || r.is_complex()) {
        let to = l.meet(r).or_raise()?;
        let meet = |v: &EagerVar, from: DType| if from == to { Ok(v.clone()) } else { cast(py, v, to) };
        let (left, right) = (meet(left, l)?, meet(right, r)?);
        let ins = if reverse { [&right, &left] } else { [&left, &right] };
        return call1(py, op, attrs, &ins);
    }
    let text = format!(
        "The dtype of left and right variables are not the same, left dtype is {l}, but right dtype is {r}, \
         the right dtype will convert to {l}"
    );
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &std::ffi::CString::new(text)?, 2)?;
    let right = cast(py, right, l)?;
    let ins = if reverse { [&right, left] } else { [left, &right] };
    call1(py, op, attrs, &ins)
}

/// `None` if `other` is not a number; an array is not one: it counts as a Tensor.
fn with_scalar(
    py: Python<'_>,
    left: &EagerVar,
    other: &Bound<'_, PyAny>,
    kind: Bin,
    reverse: bool,
) -> PyResult<Option<EagerVar>> {
    let mut dtype = dtype_of(left).or_raise()?;
    let known = scalar(other);
    if let Some(value) = known.is_none().then(|| complex_scalar(other)).flatten() {
        // An addition to 2.0.2, which takes no complex numbers here: the scalar is as precise as the tensor.
        let right = full(&[1], if dtype.real() == DType::F64 { DType::C128 } else { DType::C64 }, value).or_raise()?;
        return tensors(py, left, &EagerVar::new(right, true), kind, reverse).map(Some);
    }
    if known.is_none() && is_array(other) && other.getattr("ndim")?.extract::<usize>()? > 0 {
        let right = EagerVar::new(from_array(other)?, true);
        trace::given(&right);
        return tensors(py, left, &right, kind, reverse).map(Some);
    }
    let value = match known {
        Some((value, _)) => value,
        // numpy scalars and the like count as their value, without the rules for Python numbers.
        None => match other.call_method0("__float__").and_then(|v| v.extract::<f64>()) {
            Ok(value) => value,
            Err(_) => return Ok(None),
        },
    };
    let converted;
    let mut left = left;
    if let Some((_, float)) = known {
        if dtype.is_integer() && (float || kind == Bin::Div) {
            dtype = DType::F32;
            converted = cast(py, left, dtype)?;
            left = &converted;
        }
        match (kind, reverse) {
            (Bin::Add, _) => return scale(py, left, 1.0, value).map(Some),
            (Bin::Sub, false) => return scale(py, left, 1.0, -value).map(Some),
            (Bin::Sub, true) => return scale(py, left, -1.0, value).map(Some),
            (Bin::Mul, _) => return scale(py, left, value, 0.0).map(Some),
            (Bin::Div, false) => {
                if value == 0.0 {
                    return Err(pyo3::exceptions::PyZeroDivisionError::new_err("float division by zero"));
                }
                return scale(py, left, 1.0 / value, 0.0).map(Some);
            }
            _ => {}
        }
    }
    let device = match backend::is_active() && !trace::is_on() {
        true => left.tensor().or_raise()?.on_device().map(|(memory, _)| memory.device()),
        false => None,
    };
    let right = if trace::is_on() || device.is_some() {
        // A Program gets an operator, and a shape that holds for inputs of all sizes. On a device a fill is one launch,
        // where an upload waits for host memory.
        let op = need("fill_constant").or_raise()?;
        let dims = vec![1; if reverse { left.tensor().or_raise()?.rank() } else { 1 }];
        let set = [
            ("shape", Attr::Longs(dims)),
            ("dtype", Attr::Int(dtype.proto())),
            ("value", Attr::Float(value as f32)),
            ("str_value", Attr::String(value.to_string())),
        ];
        let attrs = attrs_with(op, &set);
        match device {
            Some(_) => backend::on(device, || call1(py, op, &attrs, &[]))?,
            None => call1(py, op, &attrs, &[])?,
        }
    } else {
        let dims = if reverse { left.tensor().or_raise()?.dims().to_vec() } else { vec![1] };
        EagerVar::new(full(&dims, dtype, value.into()).or_raise()?, true)
    };
    tensors(py, left, &right, kind, reverse).map(Some)
}
