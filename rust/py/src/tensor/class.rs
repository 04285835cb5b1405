//! `paddle.Tensor` of eager mode: the class, its identity and attributes. Operators are in number.rs; the other
//! methods are Python functions over the operator builtins.

use crate::error::OrRaise;
use crate::ops::eager::{is_building, is_large, variable_of};
use crate::tensor::new as tensor_new;
use crate::tensor::number::{binary, scale, Bin};
use crate::tensor::numpy::{is_array, to_array};
use crate::tensor::object::{PyTensor, UNNAMED};
use oar_core::base::{DType, Result};
use oar_core::err;
use oar_core::ir::VarKind;
use oar_core::op::backend;
use oar_core::tensor::{Tensor, Value};
use oar_engine::autograd::leaf::{clear_grad, grad_of};
use oar_engine::autograd::{trace, EagerVar};
use pyo3::exceptions::{PyAssertionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyComplex, PyDict, PyList, PyTuple};
use std::sync::atomic::Ordering::Relaxed;

impl PyTensor {
    /// The tensor, with its elements readable on the host.
    pub fn tensor(&self) -> Result<Tensor> {
        let t = self.unfetched()?;
        t.fetch().map(|()| t)
    }

    /// The tensor, with its elements where they are.
    pub fn unfetched(&self) -> Result<Tensor> {
        match self.var.cell.get() {
            Value::Dense(t) => Ok(t),
            Value::Rows(_) => Err(err!(InvalidArgument, "expected a dense Tensor, got SelectedRows")),
            _ => Err(err!(PreconditionNotMet, "the Tensor holds no memory: it has not been initialised")),
        }
    }

    /// The tensor, which must have one element, for conversion to a Python number.
    fn only(&self, kind: &str) -> PyResult<Tensor> {
        let t = self.tensor().or_raise()?;
        if t.numel() != 1 {
            let text = format!("only one element variable can be converted to {kind}, got shape {:?}", t.dims());
            return Err(PyAssertionError::new_err(text));
        }
        Ok(t)
    }

    pub fn held(&self) -> Value {
        self.var.cell.get()
    }
}

#[pymethods]
impl PyTensor {
    #[new]
    #[pyo3(signature = (*args, **_kwargs))]
    fn new(args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<PyTensor> {
        tensor_new::make(args)
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __init__(&self, args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        tensor_new::fill(self, args, kwargs)
    }

    /// The sizes, as a list.
    #[getter]
    fn shape(&self) -> PyResult<Vec<i64>> {
        Ok(match self.held() {
            Value::Dense(t) => t.dims().to_vec(),
            Value::Rows(r) => {
                let mut dims = r.value.dims().to_vec();
                dims[0] = r.height;
                dims
            }
            _ => self.declared.as_ref().map(|d| d.1.clone()).unwrap_or_default(),
        })
    }

    /// The number of the data type (`VarType`).
    #[getter]
    fn _dtype(&self) -> i32 {
        match self.held() {
            Value::Dense(t) => t.dtype().proto(),
            Value::Rows(r) => r.value.dtype().proto(),
            _ => self.declared.as_ref().map_or(DType::F32, |d| d.0).proto(),
        }
    }

    /// The data type, a `VarType`.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        crate::program::desc::var_type(py, VarKind(self._dtype()))
    }

    /// The kind of the variable: LOD_TENSOR or SELECTED_ROWS.
    #[getter]
    fn r#type(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let kind = if self._is_sparse() { VarKind::SELECTED_ROWS } else { VarKind::LOD_TENSOR };
        crate::program::desc::var_type(py, kind)
    }

    #[getter]
    fn _dtype_name(&self) -> &'static str {
        DType::from_proto(self._dtype()).map_or("float32", DType::name)
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self) -> PyResult<usize> {
        Ok(self.shape()?.len())
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> PyResult<i64> {
        Ok(self.shape()?.iter().product())
    }

    /// The number of dimensions.
    fn dim(&self) -> PyResult<usize> {
        self.ndim()
    }

    /// The number of dimensions.
    fn ndimension(&self) -> PyResult<usize> {
        self.ndim()
    }

    /// True if backward stops here: the default for data; False for parameters. A result has True if all its inputs
    /// have.
    #[getter]
    fn stop_gradient(&self) -> bool {
        self.var.stop_gradient()
    }

    #[setter]
    fn set_stop_gradient(&self, stop: bool) {
        self.var.set_stop_gradient(Some(stop));
    }

    /// True if the Tensor is kept between runs of a Program and saved with it.
    #[getter]
    fn persistable(&self) -> bool {
        self.var.persistable.load(Relaxed)
    }

    #[setter]
    pub fn set_persistable(&self, persistable: bool) {
        self.var.persistable.store(persistable, Relaxed);
    }

    /// The name; generated for a Tensor without one.
    #[getter]
    pub fn name(&self) -> String {
        let mut name = self.name.lock();
        name.get_or_insert_with(|| format!("generated_tensor_{}", UNNAMED.fetch_add(1, Relaxed)).into()).to_string()
    }

    #[setter]
    pub fn set_name(&self, name: Option<String>) {
        *self.name.lock() = name.map(Into::into);
    }

    /// True if no recorded operator computed it, or no gradient flows through it: leaves keep their gradients.
    #[getter]
    fn is_leaf(&self) -> bool {
        self.var.stop_gradient() || self.var.is_leaf()
    }

    /// The number of changes in place: backward refuses a Tensor that was changed after an operator read it.
    #[getter]
    fn inplace_version(&self) -> u32 {
        self.var.cell.version()
    }

    #[getter]
    fn _inplace_version_value(&self) -> u32 {
        self.var.cell.version()
    }

    fn _bump_inplace_version(&self) {
        self.var.cell.bump();
    }

    fn _is_initialized(&self) -> bool {
        !self.held().is_none()
    }

    fn _is_sparse(&self) -> bool {
        matches!(self.held(), Value::Rows(_))
    }

    /// A numpy array with a copy of the elements.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let guard = self.var.cell.lock();
        match guard.elements() {
            // Neither Python (for a download) nor a long copy runs under the lock.
            Some(t) if t.on_device().is_some() || is_large(t) => {
                drop(guard);
                let value = self.var.cell.read();
                to_array(py, value.elements().ok_or_else(|| PyValueError::new_err("the Tensor has lost its elements"))?)
            }
            Some(t) => to_array(py, t),
            None => {
                drop(guard);
                let error = self.tensor().map(|_| ()).unwrap_err();
                Err(PyValueError::new_err(format!("the Tensor has no elements to give: {error}")))
            }
        }
    }

    /// The only element as a Python number.
    fn item(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let t = self.tensor().or_raise()?;
        if t.numel() != 1 {
            return Err(PyValueError::new_err(format!(
                "only one-element tensors can be converted to Python scalars, got shape {:?}",
                t.dims()
            )));
        }
        Ok(match t.dtype() {
            DType::Bool => (t.bytes()[0] != 0).into_pyobject(py)?.to_owned().into_any().unbind(),
            d if d.is_float() => t.to_f64s()[0].into_pyobject(py)?.into_any().unbind(),
            d if d.is_complex() => {
                let v = t.to_complexes()[0];
                PyComplex::from_doubles(py, v.re, v.im).into_any().unbind()
            }
            DType::U8 | DType::I8 => (t.to_f64s()[0] as i64).into_pyobject(py)?.into_any().unbind(),
            _ => t.to_i64s().or_raise()?[0].into_pyobject(py)?.into_any().unbind(),
        })
    }

    fn __float__(&self) -> PyResult<f64> {
        let t = self.only("float")?;
        Ok(match t.dtype() {
            DType::F32 => t.data::<f32>()[0] as f64,
            d if d.is_complex() => return Err(PyTypeError::new_err(format!("a {d} Tensor has no float value"))),
            _ => t.to_f64s()[0],
        })
    }

    fn __complex__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyComplex>> {
        let item = self.item(py)?;
        let item = item.bind(py);
        if let Ok(v) = item.cast::<PyComplex>() {
            return Ok(v.clone());
        }
        Ok(PyComplex::from_doubles(py, item.extract()?, 0.0))
    }

    fn __int__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let dtype = self.only("int")?.dtype();
        if dtype.is_complex() {
            return Err(PyTypeError::new_err(format!("a {dtype} Tensor has no int value")));
        }
        self.item(py)?.bind(py).call_method0("__int__").map(Bound::unbind)
    }

    fn __index__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let t = self.only("python index")?;
        if !(t.dtype().is_integer() || t.dtype() == DType::Bool) {
            return Err(PyTypeError::new_err(format!(
                "only one-element integer tensors can be an index, got {} of shape {:?}",
                t.dtype(),
                t.dims()
            )));
        }
        self.item(py)
    }

    fn __bool__(&self) -> PyResult<bool> {
        let t = self.tensor().or_raise()?;
        if t.numel() != 1 {
            return Err(PyAssertionError::new_err(format!(
                "When Variable is used as the condition of if/while, Variable can only contain one element, got shape {:?}",
                t.dims()
            )));
        }
        if t.dtype().is_complex() {
            let v = t.to_complexes()[0];
            return Ok(v.re > 0.0 || v.re == 0.0 && v.im > 0.0); // numpy's order
        }
        Ok(t.to_f64s()[0] > 0.0) // 2.0.2: true if the element is positive
    }

    fn __len__(&self) -> PyResult<usize> {
        match self.shape()?.first() {
            Some(&n) => Ok(n as usize),
            None => Err(PyTypeError::new_err("len() of a 0-d tensor")),
        }
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if is_building() {
            return variable_of(slf)?.get_item(index);
        }
        Ok(crate::tensor::indexing::get(slf, index)?.into_any())
    }

    fn __setitem__(slf: &Bound<'_, Self>, index: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        crate::tensor::assign::set(slf, index, value)
    }

    fn __add__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, Bin::Add, false)
    }

    fn __sub__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, Bin::Sub, false)
    }

    fn __mul__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, Bin::Mul, false)
    }

    fn __truediv__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, Bin::Div, false)
    }

    fn __floordiv__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, Bin::FloorDiv, false)
    }

    fn __mod__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, Bin::Mod, false)
    }

    fn __matmul__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, Bin::Matmul, false)
    }

    fn __radd__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, Bin::Add, true)
    }

    fn __rsub__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, Bin::Sub, true)
    }

    fn __rmul__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, Bin::Mul, true)
    }

    fn __rtruediv__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        binary(slf, other, Bin::Div, true)
    }

    fn __pow__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        _modulo: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        binary(slf, other, Bin::Pow, false)
    }

    fn __rpow__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        _modulo: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        binary(slf, other, Bin::Pow, true)
    }

    fn __neg__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        if is_building() {
            return variable_of(slf)?.neg();
        }
        Ok(PyTensor::wrap(slf.py(), scale(slf.py(), &slf.get().var, -1.0, 0.0)?)?.into_any())
    }

    fn __richcmp__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>, how: CompareOp) -> PyResult<Py<PyAny>> {
        let kind = match how {
            CompareOp::Eq => Bin::Eq,
            CompareOp::Ne => Bin::Ne,
            CompareOp::Lt => Bin::Lt,
            CompareOp::Le => Bin::Le,
            CompareOp::Gt => Bin::Gt,
            CompareOp::Ge => Bin::Ge,
        };
        let out = binary(slf, other, kind, false)?;
        // Without this Python would compare identities: a False where elements were meant.
        let many = || other.is_instance_of::<PyList>() || other.is_instance_of::<PyTuple>() || is_array(other);
        if matches!(kind, Bin::Eq | Bin::Ne) && out.is(slf.py().NotImplemented()) && many() {
            let text =
                format!("a Tensor is compared with Tensors and numbers, not with a {}", other.get_type().name()?);
            return Err(PyTypeError::new_err(text));
        }
        Ok(out)
    }

    fn __hash__(slf: &Bound<'_, Self>) -> isize {
        slf.as_ptr() as isize >> 4
    }

    /// numpy leaves operators with a Tensor on the right to the Tensor.
    #[classattr]
    fn __array_ufunc__() -> Option<i32> {
        None
    }

    /// A tensor that shares the memory and is not on the tape.
    fn detach<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTensor>> {
        self.unfetched().or_raise()?;
        let var = EagerVar::from_parts(self.var.cell.clone(), None, true);
        var.persistable.store(self.persistable(), Relaxed);
        let new = PyTensor::wrap(py, var)?;
        new.get().set_name(Some(format!("{}_detach", self.name())));
        Ok(new)
    }

    /// Sets the value: shares the memory of `src` until one of them is written.
    fn _share_value(&self, src: &Bound<'_, PyTensor>) -> PyResult<()> {
        self.var.cell.set(src.get().held().share().or_raise()?);
        trace::given(&self.var);
        Ok(())
    }

    /// Copies `src` (a Tensor, LoDTensor or numpy array) into this tensor, which stays on its device.
    fn _assign(&self, src: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = crate::tensor::lod_tensor::value_of(src)?.into();
        self.var.cell.set(backend::placed_like(&self.held(), &value).or_raise()?);
        trace::given(&self.var);
        Ok(())
    }

    /// The gradient variable of a leaf, or None.
    fn _grad_ivar<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTensor>>> {
        grad_of(&self.var)
            .map(|g| {
                trace::given(&g);
                let new = PyTensor::wrap(py, g)?;
                new.get().set_name(Some(format!("{}@GRAD", self.name())));
                Ok(new)
            })
            .transpose()
    }

    /// Replaces the gradient of a leaf (gradient clipping, all-reduce).
    fn _set_grad_ivar(&self, grad: Option<&Bound<'_, PyTensor>>) {
        let track = self.var.track();
        *track.grad.lock() = grad.map(|g| g.get().var.clone());
        track.cleared.store(false, Relaxed);
    }

    /// Drops the gradient.
    fn clear_gradient(&self) {
        clear_grad(&self.var)
    }

    /// Drops the gradient.
    fn clear_grad(&self) {
        clear_grad(&self.var)
    }

    /// The variable's LoDTensor (or SelectedRows), sharing the memory.
    fn value(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        crate::program::scope::variable(slf.py(), slf.get().var.cell.clone())
    }

    /// The address of the first element.
    fn data_ptr(&self) -> PyResult<usize> {
        Ok(self.tensor().or_raise()?.ptr() as usize)
    }
}

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyTensor>()?;
    crate::tensor::object::learn_layout(m.py())?;
    m.add("VarBase", m.py().get_type::<PyTensor>())
}
