//! Conversion between tensors and numpy arrays, through numpy's C interface.

use crate::error::{raise, OrRaise};
use ::numpy::npyffi::{self, NPY_TYPES, PY_ARRAY_API};
use oar_core::base::fork::ForkMutex;
use oar_core::base::{DType, Result};
use oar_core::op::run::LARGE;
use oar_core::tensor::{Buffer, Owner, Tensor};
use oar_core::{bail, ensure, err};
use pyo3::ffi::PyTypeObject;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use smallvec::SmallVec;
use std::ptr::NonNull;

fn type_num(dtype: DType) -> NPY_TYPES {
    match dtype {
        DType::Bool => NPY_TYPES::NPY_BOOL,
        DType::I16 => NPY_TYPES::NPY_SHORT,
        DType::I32 => NPY_TYPES::NPY_INT,
        DType::I64 => NPY_TYPES::NPY_LONG,
        DType::F16 => NPY_TYPES::NPY_HALF,
        DType::F32 => NPY_TYPES::NPY_FLOAT,
        DType::F64 => NPY_TYPES::NPY_DOUBLE,
        DType::U8 => NPY_TYPES::NPY_UBYTE,
        DType::I8 => NPY_TYPES::NPY_BYTE,
        // numpy has no bfloat16: as in Paddle the bits are uint16.
        DType::BF16 => NPY_TYPES::NPY_USHORT,
        DType::C64 => NPY_TYPES::NPY_CFLOAT,
        DType::C128 => NPY_TYPES::NPY_CDOUBLE,
    }
}

/// The dtype of a numpy type number, as Paddle reads it (uint16 holds bfloat16 bits).
fn dtype_of(num: i32) -> Option<DType> {
    use NPY_TYPES::*;
    const TABLE: &[(NPY_TYPES, DType)] = &[
        (NPY_FLOAT, DType::F32),
        (NPY_LONG, DType::I64),
        (NPY_DOUBLE, DType::F64),
        (NPY_INT, DType::I32),
        (NPY_BOOL, DType::Bool),
        (NPY_LONGLONG, DType::I64),
        (NPY_SHORT, DType::I16),
        (NPY_HALF, DType::F16),
        (NPY_UBYTE, DType::U8),
        (NPY_BYTE, DType::I8),
        (NPY_USHORT, DType::BF16),
        (NPY_CFLOAT, DType::C64),
        (NPY_CDOUBLE, DType::C128),
    ];
    TABLE.iter().find(|(n, _)| *n as i32 == num).map(|(_, d)| *d)
}

/// The class of arrays of one element and rank above 0: a subclass of ndarray where numpy itself does not convert them
/// to numbers. Created with the first such array, since numpy is imported no earlier.
fn one_element(py: Python<'_>) -> PyResult<*mut PyTypeObject> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.import(py, "paddle._basics.one_element", "CLASS")?;
    Ok(class.as_type_ptr())
}

/// The class of arrays of rank 2 and above whose last size is 1: its rows of one element are arrays of `one_element`.
fn columns(py: Python<'_>) -> PyResult<*mut PyTypeObject> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.import(py, "paddle._basics.one_element", "COLUMNS")?;
    Ok(class.as_type_ptr())
}

/// A new array with a copy of the tensor's elements.
pub fn to_array<'py>(py: Python<'py>, t: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    t.fetch().or_raise()?;
    let class = match t.numel() {
        1 if t.rank() > 0 => Some(one_element(py)?),
        _ if t.rank() > 1 && t.dims().last() == Some(&1) => Some(columns(py)?),
        _ => None,
    };
    let array = new_array(py, t.dtype(), t.dims(), class)?;
    // SAFETY: a new C-contiguous array of the same shape and element size.
    unsafe {
        let data = (*array.as_ptr().cast::<npyffi::PyArrayObject>()).fields.data.cast::<u8>();
        copy(py, t.bytes().as_ptr(), data, t.nbytes());
    }
    Ok(array)
}

/// Copies bytes; a long copy releases the GIL.
///
/// # Safety
/// As for `copy_nonoverlapping`, of objects that the caller keeps.
unsafe fn copy(py: Python<'_>, from: *const u8, to: *mut u8, n: usize) {
    if n == 0 {
        return;
    }
    // SAFETY: by the contract; the array is new, or written through an index that the caller chose.
    let (from, to) = unsafe { (std::slice::from_raw_parts(from, n), std::slice::from_raw_parts_mut(to, n)) };
    without_gil(py, n, || to.copy_from_slice(from));
}

/// Runs work on this number of bytes, without the GIL if they are many. The caller holds no lock that a thread with
/// the GIL may need.
pub fn without_gil<T: Send>(py: Python<'_>, bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    if bytes > LARGE {
        crate::gil::detached(py, work)
    } else {
        work()
    }
}

/// [`to_array`] with elements of the dtype that `__array__` was called with.
pub fn to_array_of<'py>(py: Python<'py>, t: &Tensor, dtype: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    let array = to_array(py, t)?;
    match dtype {
        Some(d) => array.call_method1("astype", (d,)),
        None => Ok(array),
    }
}

/// `class`: a subclass of ndarray, or ndarray itself.
fn new_array<'py>(
    py: Python<'py>,
    dtype: DType,
    dims: &[i64],
    class: Option<*mut PyTypeObject>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut shape: SmallVec<[npyffi::npy_intp; 8]> = dims.iter().map(|&d| d as npyffi::npy_intp).collect();
    // SAFETY: numpy copies the shape; a null result carries a Python exception.
    unsafe {
        let ptr = PY_ARRAY_API.PyArray_New(
            py,
            class.unwrap_or_else(|| npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type)),
            shape.len() as i32,
            shape.as_mut_ptr(),
            type_num(dtype) as i32,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            0,
            0,
            std::ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, ptr)
    }
}

pub fn is_array(obj: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a type check of a live object.
    unsafe { npyffi::PyArray_Check(obj.py(), obj.as_ptr()) != 0 }
}

fn to_c_order<'py>(obj: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static FUNC: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = obj.py();
    let f = FUNC.get_or_try_init(py, || py.import("numpy")?.getattr("ascontiguousarray").map(Bound::unbind))?;
    f.bind(py).call1((obj,))
}

/// The C fields of an array, read at one point in time. Attributes of subclasses are Python code that may change the array:
/// after a call into Python the facts must be taken again.
struct Facts {
    dims: SmallVec<[i64; 8]>,
    type_num: i32,
    big_endian: bool,
    data: *const u8,
    /// C-contiguous and aligned.
    is_plain: bool,
}

impl Facts {
    /// None for an object that is no ndarray.
    fn read(obj: &Bound<'_, PyAny>) -> Option<Facts> {
        const PLAIN: i32 = npyffi::NPY_ARRAY_C_CONTIGUOUS | npyffi::NPY_ARRAY_ALIGNED;
        if !is_array(obj) {
            return None;
        }
        // SAFETY: the type has been checked; the fields are read without a call into Python, and the descriptor of an
        // array is never null.
        unsafe {
            let f = &(*obj.as_ptr().cast::<npyffi::PyArrayObject>()).fields;
            let descr = &(*f.descr).fields;
            Some(Facts {
                dims: (0..f.nd as usize).map(|i| *f.dimensions.add(i) as i64).collect(),
                type_num: descr.type_num,
                big_endian: descr.byteorder as u8 == b'>',
                data: f.data.cast::<u8>(),
                is_plain: f.flags & PLAIN == PLAIN,
            })
        }
    }
}

/// Arrays whose elements are being read without the GIL, with the number of readers.
static READ: ForkMutex<Vec<(usize, u32)>> = ForkMutex::new(Vec::new());

/// While it lives, numpy refuses `resize` of the array that owns an array's elements: it has a flag less. Otherwise another
/// thread could free the elements while they are read without the GIL (`resize(refcheck=False)`).
struct Reading<'py>(Option<Bound<'py, PyAny>>);

fn flags_of(array: &Bound<'_, PyAny>) -> *mut i32 {
    // SAFETY: of an ndarray, as checked by the callers; the GIL is held.
    unsafe { &raw mut (*array.as_ptr().cast::<npyffi::PyArrayObject>()).fields.flags }
}

impl<'py> Reading<'py> {
    fn begin(array: &Bound<'py, PyAny>) -> Reading<'py> {
        let mut owner = array.clone();
        loop {
            // SAFETY: `owner` is an ndarray, and the GIL is held.
            let (flags, base) = unsafe {
                let fields = &(*owner.as_ptr().cast::<npyffi::PyArrayObject>()).fields;
                (fields.flags, Bound::from_borrowed_ptr_or_opt(owner.py(), fields.base))
            };
            let at = owner.as_ptr() as usize;
            let mut read = READ.lock();
            if let Some((_, readers)) = read.iter_mut().find(|(array, _)| *array == at) {
                *readers += 1;
                return Reading(Some(owner));
            }
            if flags & npyffi::NPY_ARRAY_OWNDATA != 0 {
                read.push((at, 1));
                // SAFETY: as above.
                unsafe { *flags_of(&owner) &= !npyffi::NPY_ARRAY_OWNDATA };
                return Reading(Some(owner));
            }
            match base.filter(is_array) {
                Some(base) => owner = base,
                None => return Reading(None),
            }
        }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let Some(owner) = &self.0 else { return };
        let mut read = READ.lock();
        let Some(i) = read.iter().position(|(array, _)| *array == owner.as_ptr() as usize) else { return };
        read[i].1 -= 1;
        if read[i].1 == 0 {
            read.swap_remove(i);
            // SAFETY: `Reading::begin` has cleared the flag of this array.
            unsafe { *flags_of(owner) |= npyffi::NPY_ARRAY_OWNDATA };
        }
    }
}

/// A tensor with a copy of the array's elements. A 0-d array gives a tensor of shape [] (the caller decides).
pub fn from_array(obj: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let no_array = || {
        let kind = obj.get_type().name().map(|n| n.to_string()).unwrap_or_default();
        pyo3::exceptions::PyTypeError::new_err(format!("expected a numpy.ndarray, got {kind}"))
    };
    let facts = Facts::read(obj).ok_or_else(no_array)?;
    if facts.is_plain {
        return copy_of(obj, facts).or_raise();
    }
    // ascontiguousarray makes 0-d arrays 1-d; those are contiguous and do not reach this.
    let copy = to_c_order(&obj.call_method0("copy")?)?;
    match Facts::read(&copy).filter(|f| f.is_plain) {
        Some(facts) => copy_of(&copy, facts).or_raise(),
        None => Err(no_array()),
    }
}

/// A tensor over the array's own memory, which it keeps; a copy where that memory does not fit (strided, bool, no elements).
/// The caller gives the array up: later writes to it would change the tensor's value, also where it is saved.
pub fn over_array(obj: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let facts = Facts::read(obj).filter(|f| f.is_plain && !f.big_endian && f.dims.iter().all(|&d| d > 0));
    let found = facts.and_then(|f| {
        let dtype = dtype_of(f.type_num).filter(|&dtype| dtype != DType::Bool)?;
        (!f.dims.is_empty()).then_some((NonNull::new(f.data.cast_mut())?, dtype, f.dims))
    });
    let Some((start, dtype, dims)) = found else { return from_array(obj) };
    // SAFETY: `Facts::read` has checked the type.
    let writable = unsafe { *flags_of(obj) } & npyffi::NPY_ARRAY_WRITEABLE != 0;
    let owner = if writable { Owner::Us } else { Owner::ReadOnly };
    let len = dims.iter().product::<i64>() as usize * dtype.size();
    // SAFETY: the array is C-contiguous and aligned, read-only ones are said to be, and its memory lives as long as it.
    let buffer = unsafe { Buffer::foreign(start, len, Box::new(obj.clone().unbind()), owner) };
    Tensor::from_buffer(buffer, dtype, &dims).or_raise()
}

/// `facts` are those of `obj`, taken without a call into Python in between.
fn copy_of(obj: &Bound<'_, PyAny>, facts: Facts) -> Result<Tensor> {
    let Some(dtype) = dtype_of(facts.type_num) else {
        let name = obj.getattr("dtype").map(|d| d.to_string()).unwrap_or_default();
        bail!(
            Type,
            "tensors of numpy dtype {name} are not supported: expected bool, uint8, int8, int16, int32, int64, \
             float16, float32, float64, complex64, complex128 or uint16 (bits of bfloat16)"
        );
    };
    if facts.big_endian {
        bail!(Type, "big-endian arrays are not supported");
    }
    let mut t = Tensor::empty(dtype, &facts.dims)?;
    let n = t.nbytes();
    ensure!(n == 0 || !facts.data.is_null(), Fatal, "a numpy array without data");
    let _reading = (n > LARGE).then(|| Reading::begin(obj));
    // SAFETY: the array is C-contiguous with these dimensions and element size, and `obj` keeps it; Python has not run
    // since the facts were taken, and what runs while the GIL is released does not free the elements.
    unsafe {
        if dtype == DType::Bool && n > 0 {
            // numpy allows a bool array to be a view of other bytes; here an element must be 0 or 1.
            let from = std::slice::from_raw_parts(facts.data, n);
            let to = t.bytes_mut()?;
            without_gil(obj.py(), n, || to.iter_mut().zip(from).for_each(|(to, &b)| *to = (b != 0) as u8));
        } else {
            copy(obj.py(), facts.data, t.bytes_mut()?.as_mut_ptr(), n);
        }
    }
    Ok(t)
}

/// The data type of a numpy dtype, type object or name.
pub fn dtype_from_py(obj: &Bound<'_, PyAny>) -> PyResult<DType> {
    if let Some(n) = crate::ops::attrs::int(obj) {
        return DType::from_proto(n as i32).ok_or_else(|| raise(err!(Type, "no data type has the number {n}")));
    }
    let name: String = match obj.extract::<String>() {
        Ok(name) => name,
        Err(_) => obj.py().import("numpy")?.getattr("dtype")?.call1((obj,))?.getattr("name")?.extract()?,
    };
    let name = if name == "uint16" { "bfloat16" } else { name.as_str() };
    DType::ALL
        .into_iter()
        .find(|d| d.name() == name)
        .ok_or_else(|| raise(err!(Type, "'{name}' is not a data type of tensors")))
}
